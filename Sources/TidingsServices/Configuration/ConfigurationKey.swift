/// A key of the configuration: where it stands, what it takes, and what it means.
public struct ConfigurationKey: Sendable, Hashable {
    /// Its place, such as `consumer.pollInterval`.
    public let path: String
    /// What it takes.
    public let type: ConfigurationType
    /// What holds where nothing is given; nil is nothing.
    public let defaultValue: ConfigurationValue?
    /// What it means, in one line.
    public let meaning: String
    /// The environment variable that sets it, such as `TIDINGS_CONSUMER_POLL_INTERVAL`.
    public let variable: String

    init(
        _ path: String, _ type: ConfigurationType, _ defaultValue: ConfigurationValue?, _ meaning: String,
        variable: String? = nil
    ) {
        self.path = path
        self.type = type
        self.defaultValue = defaultValue
        self.meaning = meaning
        self.variable = variable ?? Self.variable(of: path)
    }

    /// The default, as the sample and the documentation have it.
    public var defaultText: String { defaultValue.map(type.json) ?? "null" }

    private static func variable(of path: String) -> String {
        var name = "TIDINGS_"
        for character in path {
            if character.isUppercase { name.append("_") }
            name.append(contentsOf: character == "." ? "_" : character.uppercased())
        }
        return name
    }
}

extension ConfigurationType {
    /// A value of this type as JSON.
    public func json(_ value: ConfigurationValue) -> String {
        switch value {
        case .text, .size, .duration: JSONText.quoted(value.text)
        case .bool, .integer: value.text
        case .list(let elements): JSONText.list(elements)
        case .pairs(let pairs):
            "{"
                + pairs.sorted { $0.key < $1.key }.map { name, texts in
                    let text = self == .pairs(several: true) ? JSONText.list(texts) : JSONText.quoted(texts.first ?? "")
                    return "\(JSONText.quoted(name)): \(text)"
                }.joined(separator: ", ") + "}"
        }
    }
}
