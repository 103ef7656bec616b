public import PersistentHistory

/// All changes of one entity and one operation in one transaction: what an observer hook is called with.
///
/// A sequence that decodes as it is read, so that a group of any size takes bounded memory; it may be read several
/// times.
public struct HistoryChangeGroup: AsyncSequence, Sendable {
    /// A change.
    public typealias Element = HistoryChange

    private let transaction: HistoryTransaction
    /// The entity.
    public let entity: String
    /// The operation.
    public let operation: HistoryChange.Operation
    /// The number of changes, at least 1.
    public let count: Int

    init(_ transaction: HistoryTransaction, _ entity: String, _ operation: HistoryChange.Operation, count: Int) {
        self.transaction = transaction
        self.entity = entity
        self.operation = operation
        self.count = count
    }

    /// The transaction's token: a hook that is called again after a crash knows it by this.
    public var token: HistoryToken { transaction.token }
    /// Who wrote.
    public var author: String { transaction.author }

    /// All changes at once, in order of execution. Of a very large group that is a lot of memory: prefer iterating.
    public func all() async throws -> [HistoryChange] {
        var changes: [HistoryChange] = []
        changes.reserveCapacity(Swift.min(count, 10_000))
        for try await change in self { changes.append(change) }
        return changes
    }

    /// A reader of the changes.
    public func makeAsyncIterator() -> Iterator { Iterator(self) }

    /// Reads the changes one by one, in order of execution.
    public struct Iterator: AsyncIteratorProtocol {
        private let group: HistoryChangeGroup
        private var changes: HistoryChanges.Iterator
        private var remaining: Int

        init(_ group: HistoryChangeGroup) {
            self.group = group
            changes = group.transaction.changes.makeAsyncIterator()
            remaining = group.count
        }

        /// The next change; nil at the end. Throws as ``HistoryChanges`` does.
        public mutating func next() async throws -> HistoryChange? {
            guard remaining > 0 else { return nil }
            while let change = try await changes.next() {
                guard change.matches(group.entity, group.operation) else { continue }
                remaining -= 1
                return change
            }
            return nil
        }
    }
}

/// Which groups of changes a transaction holds, in order of first appearance: found in one pass, keeping no changes.
struct ChangeGrouping {
    private var found: [(entity: String, operation: HistoryChange.Operation, count: Int)] = []
    private var last = 0

    private mutating func add(_ change: HistoryChange) {
        if last < found.count, change.matches(found[last].entity, found[last].operation) {
            found[last].count += 1
            return
        }
        if let index = found.firstIndex(where: { change.matches($0.entity, $0.operation) }) {
            found[index].count += 1
            last = index
        } else {
            last = found.count
            found.append((change.entity, change.operation, 1))
        }
    }

    /// The groups of a transaction.
    static func groups(of transaction: HistoryTransaction) async throws -> [HistoryChangeGroup] {
        var grouping = ChangeGrouping()
        let changes = transaction.changes
        if changes.isInMemory {
            try changes.decode { grouping.add($0) }
        } else {
            for try await change in changes { grouping.add(change) }
        }
        return grouping.found.map { HistoryChangeGroup(transaction, $0.entity, $0.operation, count: $0.count) }
    }
}
