internal import FoundationEssentials

/// Which entities a projection keeps: those of a list, or all.
struct ProjectionScope: Sendable, Hashable {
    /// In lower case; nil is all.
    private let names: Set<String>?

    /// The entities asked for, whatever the case of their names; nil is all.
    init(_ entities: Set<String>?) { names = entities.map { Set($0.map { $0.lowercased() }) } }

    /// Reads the form that ``text()`` writes; nil for anything else.
    init?(text: String) {
        if text == "*" {
            names = nil
        } else if let list = try? JSONDecoder().decode([String].self, from: Data(text.utf8)) {
            names = Set(list)
        } else {
            return nil
        }
    }

    /// How it stands in the file: an asterisk for all, else a JSON list of names.
    func text() throws -> String {
        guard let names else { return "*" }
        return String(decoding: try JSONEncoder().encode(names.sorted()), as: UTF8.self)
    }

    /// True where an entity of this name is kept.
    func contains(_ entity: String) -> Bool { names?.contains(entity.lowercased()) ?? true }

    /// True where everything that another scope keeps is kept.
    func covers(_ other: ProjectionScope) -> Bool {
        guard let names else { return true }
        return other.names?.isSubset(of: names) ?? false
    }
}
