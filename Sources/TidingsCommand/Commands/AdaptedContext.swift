import PersistentHistory

/// A context that merges in another way than the one it stands for, and is that one in everything else.
struct AdaptedContext: MergeContext {
    private let context: any MergeContext
    private let mergeBatch: @Sendable (HistoryBatch) async throws -> Void

    init(_ context: any MergeContext, merge: @escaping @Sendable (HistoryBatch) async throws -> Void) {
        self.context = context
        mergeBatch = merge
    }

    var name: String { context.name }
    var origin: HistoryOrigin? { context.origin }
    var isDurable: Bool { context.isDurable }
    var canLoad: Bool { context.canLoad }
    func durableToken() async throws -> HistoryToken? { try await context.durableToken() }
    func load(_ snapshot: HistorySnapshot) async throws { try await context.load(snapshot) }
    func merge(_ batch: HistoryBatch) async throws { try await mergeBatch(batch) }
}
