internal import PersistentHistory

/// What happens at a break: an entity is loaded anew, since history tells it only from there on.
extension HistoryMerger {
    /// Loads entities anew into one context, whose position stays; their changes up to the snapshot's token are left
    /// out from then on, since the rows hold them.
    ///
    /// A durable context that crashes on the way there cannot know what it holds: the token's file remembers, and the
    /// context is loaded as a whole then. The same where an entity is not there any more.
    func reload(_ entities: Set<String>, in index: Int) async throws {
        let (context, position) = (members[index].context, members[index].position)
        guard let position else { return }
        let through = try await store.withSnapshot(of: entities) { snapshot -> Int64? in
            guard snapshot.entities.count == entities.count else { return nil }
            if context.isDurable { try await self.noteReload(through: snapshot.token.sequence) }
            try await context.load(snapshot.standing(at: position))
            return snapshot.token.sequence
        }
        if let through {
            for entity in entities { members[index].exclusion.through[entity] = through }
        } else {
            let token = try await store.withSnapshot { snapshot in
                try await context.load(snapshot)
                return snapshot.token
            }
            members[index].position = token
            members[index].exclusion = HistoryExclusion()
        }
        board.count { $0.reloads += 1 }
        options.log(
            .info, "loaded anew after a break",
            [("context", context.name), ("entities", entities.sorted().joined(separator: ","))])
    }

    private func noteReload(through sequence: Int64) async throws {
        reloadedThrough = max(reloadedThrough, sequence)
        try await remember(StoredToken(token: shared, reloadedThrough: reloadedThrough))
    }
}
