/// What the demo has shown, and whether that is a proof.
struct DemoVerdict: Sendable {
    /// How long the demo may take once it is built.
    static let longest: Duration = .seconds(120)

    /// What came of each view, by its name, in order.
    let proofs: [(view: String, proof: DemoProof)]
    /// The newest transaction.
    let head: Int64
    /// Up to where everything is published.
    let published: Int64
    /// What the consumer that is furthest behind has acknowledged.
    let acknowledged: Int64
    /// Up to where the history was cleaned.
    let purged: Int64
    /// How long it took.
    let time: Duration

    /// Throws what is not as it must be.
    func check() throws(CommandError) {
        let differing = proofs.flatMap { view, proof in proof.differing.map { "\(view): \($0)" } }
        guard differing.isEmpty else {
            let shown = differing.prefix(3).joined(separator: "; ")
            let more = differing.count > 3 ? "; and \(differing.count - 3) more" : ""
            throw CommandError(
                "\(differing.count == 1 ? "1 difference" : "\(differing.count) differences") from the store: \(shown)\(more)"
            )
        }
        guard published == head else {
            throw CommandError("not everything was published: \(published) of \(head) transactions")
        }
        guard acknowledged == head else {
            throw CommandError("not everything was acknowledged: \(acknowledged) of \(head) transactions")
        }
        guard purged == acknowledged - 1 else {
            throw CommandError(
                "history was not cleaned up to the oldest acknowledgement: up to \(purged), not \(acknowledged - 1)")
        }
        guard time <= Self.longest else {
            throw CommandError("it took \(Self.seconds(time)) s, and may take \(Self.seconds(Self.longest)) s")
        }
    }

    /// A duration in seconds, to a tenth.
    static func seconds(_ duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        return "\(seconds).\(attoseconds / 100_000_000_000_000_000)"
    }
}
