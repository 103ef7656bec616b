import TidingsSQLite

extension ArticleWorkload {
    /// Writes the prepared row through the library.
    func write(_ operation: RowOperation, _ database: Database) throws {
        switch operation {
        case .insert: try database.withStatement(Self.insert) { try insert($0) }
        case .update:
            try database.withStatement(Self.update) { statement in
                try statement.bind(text: updatedAt, at: 1)
                try statement.bind(id, at: 2)
                try statement.step()
            }
        case .delete:
            try database.withStatement(Self.delete) { statement in
                try statement.bind(id, at: 1)
                try statement.step()
            }
        }
    }

    /// Inserts the prepared row.
    func insert(_ statement: Statement) throws {
        try statement.bind(id, at: 1)
        try statement.bind(text: uuid, at: 2)
        try statement.bind(text: title, at: 3)
        try statement.bind(text: body, at: 4)
        try statement.bind(views, at: 5)
        try statement.bind(score, at: 6)
        try statement.bind(text: updatedAt, at: 7)
        try statement.step()
    }
}
