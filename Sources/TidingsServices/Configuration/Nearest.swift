/// Finds what somebody may have meant.
enum Nearest {
    /// Longer words are not compared: the work grows with their product.
    private static let longest = 100

    /// The word that differs least from another, by few enough letters; nil where none does.
    static func word(to text: String, among words: [String]) -> String? {
        guard text.utf8.count <= longest else { return nil }
        let folded = fold(text)
        let ranked = words.map { ($0, distance(folded, fold($0))) }
        guard let best = ranked.min(by: { $0.1 < $1.1 }), best.1 <= max(1, min(folded.count, best.0.count) / 3) else {
            return nil
        }
        return best.0
    }

    /// Case and separators are what one gets wrong most easily.
    private static func fold(_ text: String) -> [UInt8] {
        text.lowercased().utf8.filter { $0 != UInt8(ascii: "_") && $0 != UInt8(ascii: "-") }
    }

    /// How many bytes must be put in, taken out, replaced or exchanged with their neighbours.
    /// [Optimal string alignment](https://en.wikipedia.org/wiki/Damerau–Levenshtein_distance)
    static func distance(_ left: [UInt8], _ right: [UInt8]) -> Int {
        var before: [Int] = []
        var last = Array(0...right.count)
        for i in left.indices {
            var row = [i + 1]
            for j in right.indices {
                let replaced = last[j] + (left[i] == right[j] ? 0 : 1)
                var best = min(replaced, last[j + 1] + 1, row[j] + 1)
                if i > 0, j > 0, left[i] == right[j - 1], left[i - 1] == right[j] {
                    best = min(best, before[j - 1] + 1)
                }
                row.append(best)
            }
            (before, last) = (last, row)
        }
        return last[right.count]
    }
}

/// The names of keys, for messages about others.
enum KeyNames {
    /// The keys of a section, without its name.
    static func inside(_ section: String) -> [String] {
        ConfigurationKey.all.filter { $0.section == section }.map { String($0.path.dropFirst(section.count + 1)) }
    }

    /// The keys and sections beside a key that there is not.
    static func around(_ path: String) -> [String] {
        for section in ConfigurationKey.sections where path.hasPrefix("\(section.name).") {
            return inside(section.name)
        }
        return ConfigurationKey.all.filter { $0.section == nil }.map(\.path) + ConfigurationKey.sections.map(\.name)
    }

    /// What somebody may have meant: a key that is written alike, or those of the same name in sections.
    static func nearest(to path: String) -> String? {
        let paths = ConfigurationKey.all.map(\.path)
        let name = path.split(separator: ".").last.map(String.init) ?? path
        let others = paths.filter { $0.hasSuffix(".\(name)") || $0 == name }
        if 1...3 ~= others.count { return others.joined(separator: " or ") }
        return Nearest.word(to: path, among: paths + ConfigurationKey.sections.map(\.name))
    }
}
