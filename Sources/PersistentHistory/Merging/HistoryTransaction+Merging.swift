/// What a consumer looks at before it decodes anything.
extension HistoryTransaction {
    /// True where the transaction holds a record about a tracked table itself.
    package var touchesSchema: Bool { summary.contains { $0.operations.contains(.schema) } }
}

/// Which transactions may hold changes of some entities and operations, told from what each says of itself.
package struct HistoryEntityMatcher {
    private let wanted: [(entity: String, operation: HistoryChange.Operation)]
    private var table: LayoutTable?
    private var operations: [Int64: RecordFormat.Operations] = [:]

    /// Looks for these changes; an entity goes by every name that it has or had.
    package init(_ wanted: some Sequence<(entity: String, operation: HistoryChange.Operation)>) {
        self.wanted = Array(wanted)
    }

    /// True where the transaction may hold such a change.
    package mutating func mayMatch(_ transaction: HistoryTransaction) -> Bool {
        guard !wanted.isEmpty else { return false }
        let layouts = transaction.page.context.layouts
        if table !== layouts { look(at: layouts) }
        return transaction.summary.contains { entry in
            operations[entry.entityID].map { !$0.isDisjoint(with: entry.operations) } ?? false
        }
    }

    private mutating func look(at layouts: LayoutTable) {
        table = layouts
        operations = [:]
        for (entity, operation) in wanted {
            for id in layouts.entityIDs(named: entity) {
                operations[id, default: []].insert(RecordFormat.Operations(operation))
            }
        }
    }
}

extension HistoryChange {
    /// True where the change is of this entity and operation; cheaper than to ask for both.
    package func matches(_ entity: String, _ operation: Operation) -> Bool {
        self.operation == operation && layout.entity == entity
    }
}

/// Transactions without what an entity's reload has brought already.
package struct HistoryExclusion: Sendable, Hashable {
    /// By entity, the sequence up to which its changes are left out.
    package var through: [String: Int64] = [:]

    /// Leaves out nothing.
    package init() {}

    /// The transactions, without those changes. Transactions stay, even where nothing is left of them.
    package func apply(to transactions: [HistoryTransaction]) -> [HistoryTransaction] {
        guard let last = through.values.max(), let first = transactions.first, first.token.sequence <= last else {
            return transactions
        }
        var pages = ExclusionPages()
        return transactions.map { transaction in
            let sequence = transaction.record.sequence
            let names = through.filter { $0.value >= sequence }.keys
            return names.isEmpty ? transaction : pages.transaction(transaction, without: Set(names))
        }
    }
}

/// Pages whose changes pass a filter, made once for all transactions of a page.
private struct ExclusionPages {
    private var source: PageTable?
    private var names: Set<String> = []
    private var page: PageTable?

    mutating func transaction(_ transaction: HistoryTransaction, without names: Set<String>) -> HistoryTransaction {
        if source !== transaction.page || self.names != names || page == nil {
            source = transaction.page
            self.names = names
            page = transaction.page.excluding(names)
        }
        return HistoryTransaction(page: page ?? transaction.page, record: transaction.record)
    }
}

extension PageTable {
    /// The same page without the changes of some entities.
    fileprivate func excluding(_ names: Set<String>) -> PageTable {
        var filter =
            context.filter ?? ChangeFilter(entityIDs: nil, operations: nil, objects: nil, changedColumns: nil)
        for name in names { filter.excludedEntityIDs.formUnion(context.layouts.entityIDs(named: name)) }
        let context = ChangeContext(
            bytes: context.bytes, storeID: context.storeID, layouts: context.layouts, filter: filter,
            source: context.source)
        return PageTable(context: context, holdsChanges: holdsChanges, epoch: epoch, texts: texts, entries: entries)
    }
}
