extension HistoryBatch {
    /// The batch with nothing but changes of some entities: transactions without any are left out, the others have only
    /// these changes. It reaches as far as before.
    public func restricted(to entities: Set<String>) -> HistoryBatch {
        var page: (original: PageTable, restricted: PageTable, ids: Set<Int64>)?
        var kept: [HistoryTransaction] = []
        for transaction in transactions {
            if page?.original !== transaction.page {
                let ids = transaction.page.entityIDs(named: entities)
                page = (transaction.page, transaction.page.restricted(to: ids), ids)
            }
            guard let page, transaction.summary.contains(where: { page.ids.contains($0.entityID) }) else { continue }
            kept.append(HistoryTransaction(page: page.restricted, record: transaction.record))
        }
        return HistoryBatch(kept, through: token)
    }
}

extension PageTable {
    fileprivate func entityIDs(named names: Set<String>) -> Set<Int64> {
        names.reduce(into: []) { $0.formUnion(context.layouts.entityIDs(named: $1)) }
    }

    /// The same transactions, of whose changes only those of some entities are seen.
    fileprivate func restricted(to entityIDs: Set<Int64>) -> PageTable {
        let before = context.filter
        let filter = ChangeFilter(
            entityIDs: before?.entityIDs?.intersection(entityIDs) ?? entityIDs, operations: before?.operations,
            objects: before?.objects, changedColumns: before?.changedColumns)
        let context = ChangeContext(
            bytes: context.bytes, storeID: context.storeID, layouts: context.layouts, filter: filter,
            source: context.source)
        return PageTable(context: context, holdsChanges: holdsChanges, epoch: epoch, texts: texts, entries: entries)
    }
}
