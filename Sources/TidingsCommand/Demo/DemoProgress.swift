import Foundation
import Glibc
import PersistentHistory

/// How far everybody is, as the store says.
struct DemoState: Sendable {
    let head: Int64
    let published: Int64
    let purged: Int64
    /// By consumer; 0 before the first acknowledgement.
    let acknowledged: [String: Int64]
    let consumers: [ConsumerRecord]

    /// Transactions of the imports: the first one began the tracking.
    var written: Int { Int(head) - 1 }

    static func read(_ store: HistoryStore) async throws -> DemoState {
        let consumers = try await store.consumers()
        return try await store.observe { database, state in
            DemoState(
                head: try state.head(database).sequence, published: state.publishedSequence ?? 0,
                purged: state.purgedSequence,
                acknowledged: Dictionary(
                    uniqueKeysWithValues: consumers.map { ($0.name, $0.acknowledged?.sequence ?? 0) }),
                consumers: consumers)
        }
    }
}

/// Live progress: one line that is written over on a terminal, elsewhere a line every two seconds.
struct DemoProgress {
    private let total: Int
    private let consumers: [String]
    private let started = ContinuousClock.now
    private var shownAt: ContinuousClock.Instant?
    private let isTerminal = isatty(STDOUT_FILENO) == 1

    init(total: Int, consumers: [String]) {
        self.total = total
        self.consumers = consumers
    }

    /// Shows how far everybody is.
    mutating func show(_ state: DemoState) {
        let now = ContinuousClock.now
        if let shownAt, now - shownAt < (isTerminal ? .milliseconds(100) : .seconds(2)) { return }
        shownAt = now
        write(text(state), isLasting: false)
    }

    /// Tells what has happened, for good.
    mutating func note(_ text: String) { write("— \(text)", isLasting: true) }

    /// Takes the line away.
    mutating func clear() { if isTerminal { put("\r\u{1B}[K") } }

    private func text(_ state: DemoState) -> String {
        let views = consumers.map { "\($0) \(state.acknowledged[$0] ?? 0)" }.joined(separator: " · ")
        return
            "written \(max(0, state.written))/\(total) · published \(state.published) · \(views) · cleaned \(state.purged)"
    }

    private func write(_ text: String, isLasting: Bool) {
        let seconds = (ContinuousClock.now - started).components.seconds
        let line = "\(seconds < 10 ? " " : "")\(seconds) s  \(text)"
        put(isTerminal ? "\r\u{1B}[K\(line)\(isLasting ? "\n" : "")" : "\(line)\n")
    }

    private func put(_ text: String) {
        Output.write(Array(text.utf8))
        Output.flush()
    }
}
