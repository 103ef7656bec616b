/// What a key of the configuration takes.
public enum ConfigurationType: Sendable, Hashable {
    /// A text that is not empty.
    case text
    /// Who writes: at most 128 bytes without control characters.
    case author
    /// The path of a file or directory; a relative one starts at the working directory.
    case path
    /// A broker's URL, or several with commas between them. It holds a password: it is never shown.
    case brokerURL
    /// `true` or `false`.
    case bool
    /// A whole number.
    case integer(ClosedRange<Int>)
    /// A number of bytes with its unit, such as `256KiB`.
    case size(ClosedRange<Int>)
    /// A duration with its unit, such as `10s`.
    case duration(ClosedRange<Duration>)
    /// One of these words.
    case choice([String])
    /// A list of texts.
    case list
    /// A list of some of these words.
    case choices([String])
    /// One text for each of some names, or several.
    case pairs(several: Bool)

    /// What is allowed, in words.
    public var meaning: String {
        switch self {
        case .text: "text"
        case .author: "text of at most 128 bytes without control characters, other than tidings"
        case .path: "path"
        case .brokerURL: "URL amqp://user:password@host:port/vhost or amqps://…; several with commas between them"
        case .bool: "true or false"
        case .integer(let range): "whole number from \(range.lowerBound) to \(range.upperBound)"
        case .size(let range):
            "size in B, KiB or MiB, from \(ByteSize.text(range.lowerBound)) to \(ByteSize.text(range.upperBound))"
        case .duration(let range):
            "duration in ms, s, m, h or d, from \(DurationText.text(range.lowerBound)) to "
                + DurationText.text(range.upperBound)
        case .choice(let words): words.joined(separator: " or ")
        case .list: "list of texts"
        case .choices(let words): "list of some of " + words.joined(separator: ", ")
        case .pairs(several: false): "object with a text for each name"
        case .pairs(several: true): "object with a list of texts for each name"
        }
    }

    /// True where no value may be shown.
    public var isSecret: Bool { self == .brokerURL }
}

/// What a key of the configuration has been given.
public enum ConfigurationValue: Sendable, Hashable {
    /// A text, a path, a URL or a word.
    case text(String)
    /// `true` or `false`.
    case bool(Bool)
    /// A whole number.
    case integer(Int)
    /// A number of bytes.
    case size(Int)
    /// A duration.
    case duration(Duration)
    /// A list of texts or words.
    case list([String])
    /// The texts of each name.
    case pairs([String: [String]])

    /// The value, as an environment variable would give it. Not to be shown where the key is secret.
    public var text: String {
        switch self {
        case .text(let text): text
        case .bool(let value): String(value)
        case .integer(let number): String(number)
        case .size(let bytes): ByteSize.text(bytes)
        case .duration(let duration): DurationText.text(duration)
        case .list(let elements): elements.joined(separator: ",")
        case .pairs(let pairs):
            pairs.sorted { $0.key < $1.key }.flatMap { name, texts in texts.map { "\(name)=\($0)" } }
                .joined(separator: ",")
        }
    }
}
