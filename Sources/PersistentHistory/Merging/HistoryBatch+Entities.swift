extension HistoryBatch {
    /// The batch with nothing but changes of some entities, and records about these tables themselves: transactions
    /// without any are left out, the others have only these. It reaches as far as before.
    ///
    /// - Parameter entities: every name that an entity has or had; the case of ASCII letters does not count.
    public func restricted(to entities: Set<String>) -> HistoryBatch {
        var page: (original: PageTable, restricted: PageTable, ids: Set<Int64>)?
        var kept: [HistoryTransaction] = []
        for transaction in transactions {
            if page?.original !== transaction.page {
                let restricted = transaction.page.restricted(to: transaction.page.entityIDs(named: entities))
                page = (transaction.page, restricted, restricted.context.filter?.entityIDs ?? [])
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
        var filter = ChangeFilter(
            entityIDs: before?.entityIDs?.intersection(entityIDs) ?? entityIDs, operations: before?.operations,
            objects: before?.objects, changedColumns: before?.changedColumns)
        // What a reload has brought already stays out.
        filter.excludedEntityIDs = before?.excludedEntityIDs ?? []
        filter.appliesToSchema = true
        let context = ChangeContext(
            bytes: context.bytes, storeID: context.storeID, layouts: context.layouts, filter: filter,
            source: context.source)
        return PageTable(context: context, holdsChanges: holdsChanges, epoch: epoch, texts: texts, entries: entries)
    }
}
