internal import TidingsAMQP

extension ConfigurationValue {
    /// What was found and what is allowed.
    struct Mistake: Error {
        let message: String
    }
}

extension ConfigurationType {
    /// Reads the value of a file.
    func value(of json: JSON5Value) throws(ConfigurationValue.Mistake) -> ConfigurationValue {
        switch (self, json) {
        case (.bool, .bool(let value)): return .bool(value)
        case (.integer(let range), .integer(let number)):
            guard let number = Int(exactly: number), range.contains(number) else { throw mistake("\(number)") }
            return .integer(number)
        case (.list, .array(let elements)), (.choices, .array(let elements)):
            var texts: [String] = []
            for (index, element) in elements.enumerated() {
                guard case .text(let text) = element else { throw mistake("\(element.kind) as element \(index + 1)") }
                texts.append(text)
            }
            return try list(texts)
        case (.pairs(let several), .object(let members)): return try pairs(members, several)
        case (.bool, .text), (.integer, .text), (.list, .text), (.choices, .text), (.pairs, .text):
            throw mistake("a text")
        case (_, .text(let text)): return try value(of: text)
        case (.size, .integer), (.duration, .integer): throw mistake("a number without a unit, in no quotes")
        default: throw mistake(json.kind)
        }
    }

    /// Reads the text of a variable or a flag.
    func value(of text: String) throws(ConfigurationValue.Mistake) -> ConfigurationValue {
        switch self {
        case .list, .choices:
            let elements = text.split(separator: ",", omittingEmptySubsequences: false)
            return try list(text.isEmpty ? [] : elements.map { String($0.trimmed) })
        case .pairs(let several): return try pairs(text, several)
        case .text, .author, .path, .brokerURL: return .text(try plain(text))
        case .choice(let words):
            guard words.contains(text) else { throw mistake(Shown.found(text), Nearest.word(to: text, among: words)) }
            return .text(text)
        case .bool:
            guard let value = Bool(text) else { throw mistake(Shown.found(text)) }
            return .bool(value)
        case .integer(let range):
            guard let number = Int(text), range.contains(number) else { throw mistake(Shown.found(text)) }
            return .integer(number)
        case .size(let range):
            guard let size = ByteSize.parse(text), range.contains(size) else { throw mistake(Shown.found(text)) }
            return .size(size)
        case .duration(let range):
            guard let duration = DurationText.parse(text), range.contains(duration) else {
                throw mistake(Shown.found(text))
            }
            return .duration(duration)
        }
    }

    private func plain(_ text: String) throws(ConfigurationValue.Mistake) -> String {
        guard text.contains(where: { !$0.isWhitespace }) else { throw mistake("an empty text") }
        guard !text.utf8.contains(0) else { throw mistake("a text with a NUL") }
        switch self {
        case .author:
            let isPrintable = text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
            let isReserved = text == "tidings" || text.hasPrefix("tidings/")
            guard text.utf8.count <= 128, isPrintable, !isReserved else { throw mistake(Shown.found(text)) }
        case .path where text.contains("://"): throw mistake("a URL")
        case .brokerURL:
            do throws(AMQPError) {
                _ = try AMQPConfiguration(urls: text, name: "")
            } catch {
                // Its message names the part at fault, and no credential.
                throw ConfigurationValue.Mistake(message: error.message)
            }
        default: break
        }
        return text
    }

    private func list(_ texts: [String]) throws(ConfigurationValue.Mistake) -> ConfigurationValue {
        for text in texts {
            guard text.contains(where: { !$0.isWhitespace }) else { throw mistake("an empty text in the list") }
            guard case .choices(let words) = self, !words.contains(text) else { continue }
            throw mistake(Shown.found(text), Nearest.word(to: text, among: words))
        }
        return .list(texts)
    }

    private func pairs(
        _ members: [JSON5Value.Member], _ several: Bool
    ) throws(ConfigurationValue.Mistake) -> ConfigurationValue {
        var pairs: [String: [String]] = [:]
        for member in members {
            guard pairs[member.name] == nil else { throw mistake("\(Shown.found(member.name)) twice") }
            let name = Shown.found(member.name)
            switch member.value {
            case .text(let text) where !several: pairs[member.name] = [text]
            case .array(let elements) where several:
                pairs[member.name] = elements.compactMap { if case .text(let text) = $0 { text } else { nil } }
                guard pairs[member.name]?.count == elements.count else {
                    throw mistake("no text in the list of \(name)")
                }
            default: throw mistake("\(member.value.kind) for \(name)")
            }
        }
        return try checked(pairs)
    }

    /// Reads `name=text,name=text`.
    private func pairs(_ text: String, _ several: Bool) throws(ConfigurationValue.Mistake) -> ConfigurationValue {
        var pairs: [String: [String]] = [:]
        for pair in text.split(separator: ",") {
            let sides = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard sides.count == 2 else { throw mistake("a name without '='") }
            let name = String(sides[0].trimmed)
            guard several || pairs[name] == nil else { throw mistake("\(Shown.found(name)) twice") }
            pairs[name, default: []].append(String(sides[1].trimmed))
        }
        return try checked(pairs)
    }

    private func checked(_ pairs: [String: [String]]) throws(ConfigurationValue.Mistake) -> ConfigurationValue {
        let texts = Array(pairs.keys) + pairs.values.joined()
        guard texts.allSatisfy({ $0.contains { !$0.isWhitespace } }) else { throw mistake("an empty text") }
        return .pairs(pairs)
    }

    private func mistake(_ found: String, _ near: String? = nil) -> ConfigurationValue.Mistake {
        let question = near.map { ": did you mean \($0)?" } ?? ""
        return ConfigurationValue.Mistake(message: "found \(found), expected \(meaning)\(question)")
    }
}

extension Substring {
    /// Without white space at either end.
    var trimmed: Substring {
        var text = self
        while text.first?.isWhitespace == true { text.removeFirst() }
        while text.last?.isWhitespace == true { text.removeLast() }
        return text
    }
}
