public import PersistentHistory
internal import TidingsAMQP

extension HistoryConsumer {
    /// Calls a hook with each group of changes: once for each transaction in which the operation happened to the entity.
    ///
    /// Called after all contexts have merged; groups in order of first appearance, several hooks in the order in which
    /// they were added. At least once: after a crash, or where a later hook throws, the same group comes again, and
    /// ``HistoryChangeGroup/token`` tells it. What it throws leaves the token: the batch is tried again.
    @discardableResult
    public func observe(
        _ entity: String, _ operation: HistoryChange.Operation,
        _ hook: @escaping @Sendable (HistoryChangeGroup) async throws -> Void
    ) -> HookID {
        hooks.withLock { $0.observe(entity, operation, hook) }
    }

    /// Removes an observer hook; false where there is none of that name.
    @discardableResult
    public func removeObserver(_ id: HookID) -> Bool { hooks.withLock { $0.removeObservers { $0.id == id } } }

    /// Removes the observer hooks of an entity and operation; false where there were none.
    @discardableResult
    public func removeObservers(of entity: String, _ operation: HistoryChange.Operation) -> Bool {
        hooks.withLock { $0.removeObservers { $0.entity == entity && $0.operation == operation } }
    }

    /// Removes all observer hooks.
    public func removeAllObservers() { _ = hooks.withLock { $0.removeObservers { _ in true } } }

    /// Adds a hook that is called with each batch before it is merged into the contexts.
    ///
    /// - Parameter before: the hook that it is inserted before; it is appended where that is nil or there is none.
    /// - Returns: its name.
    @discardableResult
    public func addMergeHook(
        before: HookID? = nil, _ hook: @escaping @Sendable (MergeHookInput) async throws -> MergeHookResult
    ) -> HookID {
        hooks.withLock { $0.addMergeHook(before: before, hook) }
    }

    /// Removes a merge hook; false where there is none of that name.
    @discardableResult
    public func removeMergeHook(_ id: HookID) -> Bool { hooks.withLock { $0.removeMergeHooks { $0 == id } } }

    /// Removes all merge hooks.
    public func removeAllMergeHooks() { _ = hooks.withLock { $0.removeMergeHooks { _ in true } } }

    /// Adds a hook that is told whenever the consumer could not go on where it was.
    @discardableResult
    public func addResyncHook(_ hook: @escaping @Sendable (HistoryResync) async -> Void) -> HookID {
        hooks.withLock { $0.addResyncHook(hook) }
    }

    /// Removes such a hook; false where there is none of that name.
    @discardableResult
    public func removeResyncHook(_ id: HookID) -> Bool { hooks.withLock { $0.removeResyncHook(id) } }
}
