public import PersistentHistory
internal import TidingsAMQP

/// Names a hook, to remove it or to insert another one before it.
public struct HookID: Sendable, Hashable {
    let number: Int
}

/// What a merge hook works on.
public struct MergeHookInput: Sendable {
    /// The transactions, and how far they reach.
    public let batch: HistoryBatch
    /// All contexts of the consumer, in its order.
    public let contexts: [any MergeContext]
}

/// What follows a merge hook.
public enum MergeHookResult: Sendable, Hashable {
    /// The next hook; after the last one, the consumer merges into the contexts.
    case `continue`
    /// Neither: the hook has done what was to be done. The token advances; durable contexts are told how far.
    case finish
}

/// That a consumer could not go on where it was.
public struct HistoryResync: Sendable, Hashable {
    /// Why.
    public let reason: String
    /// The token that could not be used; nil where it was damaged.
    public let lost: HistoryToken?
    /// Where it goes on.
    public let token: HistoryToken
    /// The contexts that were loaded anew.
    public let reloaded: [String]
    /// The contexts that cannot be loaded, and have missed what was lost. Hooks have missed it too.
    public let missed: [String]
}

typealias ObserverHook = @Sendable (HistoryChangeGroup) async throws -> Void
typealias MergeHook = @Sendable (MergeHookInput) async throws -> MergeHookResult
typealias ResyncHook = @Sendable (HistoryResync) async -> Void

/// The hooks of a consumer. They come and go while it runs: whoever calls them looks anew each time.
struct HookRegistry: Sendable {
    struct Observer: Sendable {
        let id: HookID
        let entity: String
        let operation: HistoryChange.Operation
        let call: ObserverHook
    }

    private(set) var observers: [Observer] = []
    private(set) var merging: [(id: HookID, call: MergeHook)] = []
    private(set) var resyncing: [(id: HookID, call: ResyncHook)] = []
    /// Another number than before: another set of observers.
    private(set) var version = 0
    private var last = 0

    private mutating func nextID() -> HookID {
        last += 1
        return HookID(number: last)
    }

    mutating func observe(
        _ entity: String, _ operation: HistoryChange.Operation, _ hook: @escaping ObserverHook
    ) -> HookID {
        let id = nextID()
        observers.append(Observer(id: id, entity: entity, operation: operation, call: hook))
        version += 1
        return id
    }

    /// True where an observer was removed.
    mutating func removeObservers(where condition: (Observer) -> Bool) -> Bool {
        let count = observers.count
        observers.removeAll(where: condition)
        version += 1
        return observers.count < count
    }

    mutating func addMergeHook(before: HookID?, _ hook: @escaping MergeHook) -> HookID {
        let id = nextID()
        let index = before.flatMap { before in merging.firstIndex { $0.id == before } } ?? merging.count
        merging.insert((id, hook), at: index)
        return id
    }

    /// True where a hook was removed.
    mutating func removeMergeHooks(where condition: (HookID) -> Bool) -> Bool {
        let count = merging.count
        merging.removeAll { condition($0.id) }
        return merging.count < count
    }

    mutating func addResyncHook(_ hook: @escaping ResyncHook) -> HookID {
        let id = nextID()
        resyncing.append((id, hook))
        return id
    }

    mutating func removeResyncHook(_ id: HookID) -> Bool {
        let count = resyncing.count
        resyncing.removeAll { $0.id == id }
        return resyncing.count < count
    }
}
