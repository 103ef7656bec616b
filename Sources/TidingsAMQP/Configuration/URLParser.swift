/// Takes a broker's URL apart. Errors name the part at fault, never its text: it may hold a password.
struct URLParser {
    /// What stands behind the scheme.
    struct Parts {
        var user: String?
        var password: String?
        var host = "localhost"
        var port: UInt16?
        var virtualHost = "/"
        var parameters: [(String, String)] = []
    }

    /// The parameters that there are.
    private static let parameters = [
        "heartbeat", "connection_timeout", "auth_mechanism", "cacertfile", "certfile", "keyfile", "password", "verify",
        "server_name_indication",
    ]

    private var rest: Substring

    init(_ url: String) { rest = url[...] }

    /// Takes the scheme. True where it is `amqps`.
    mutating func scheme() throws(AMQPError) -> Bool {
        for (scheme, isTLS) in [("amqp://", false), ("amqps://", true)]
        where rest.prefix(scheme.count).lowercased() == scheme {
            rest = rest.dropFirst(scheme.count)
            return isTLS
        }
        throw AMQPError(
            .invalid, "a broker URL begins with amqp:// or amqps://, such as amqp://user:password@host/vhost")
    }

    /// Takes all the rest.
    mutating func parts() throws(AMQPError) -> Parts {
        var parts = Parts()
        if Self.has("#", rest) { throw AMQPError(.invalid, "a broker URL has no part behind '#': write it as %23") }
        if let query = cut(from: "?") {
            // Here and below: what follows the mark may be the end of a password, which no error may show.
            guard !Self.has("@", query) else {
                throw AMQPError(
                    .invalid, "a '?' in the user or password of a broker URL is written %3F, an '@' behind it %40")
            }
            parts.parameters = try parameters(query)
        }
        if let path = cut(from: "/"), !path.isEmpty {
            guard !Self.has("@", path) else {
                throw AMQPError(
                    .invalid, "a '/' in the user or password of a broker URL is written %2F, an '@' behind it %40")
            }
            guard !Self.has("/", path) else {
                throw AMQPError(.invalid, "the virtual host in the broker URL holds a '/': write it as %2F")
            }
            parts.virtualHost = try decoded(path, "virtual host")
        }
        if let at = rest.unicodeScalars.lastIndex(of: "@") {
            let pair = Self.split(rest[..<at], ":")
            parts.user = try decoded(pair[0], "user")
            if pair.count == 2 { parts.password = try decoded(pair[1], "password") }
            rest = rest[rest.unicodeScalars.index(after: at)...]
        }
        try address(&parts)
        return parts
    }

    /// Cuts off what stands behind the first `mark`.
    private mutating func cut(from mark: Unicode.Scalar) -> Substring? {
        let sides = Self.split(rest, mark)
        rest = sides[0]
        return sides.count == 2 ? sides[1] : nil
    }

    // By scalars, not by characters: a mark and an accent behind it are one character, and no mark.

    private static func has(_ mark: Unicode.Scalar, _ text: Substring) -> Bool { text.unicodeScalars.contains(mark) }

    /// The text before and behind the first `mark`; the text alone where there is none.
    private static func split(_ text: Substring, _ mark: Unicode.Scalar) -> [Substring] {
        text.unicodeScalars.split(separator: mark, maxSplits: 1, omittingEmptySubsequences: false).map { Substring($0) }
    }

    private mutating func address(_ parts: inout Parts) throws(AMQPError) {
        var host = rest
        var port: Substring?
        if rest.first == "[" {
            guard let end = rest.firstIndex(of: "]") else {
                throw AMQPError(.invalid, "the IPv6 address in the broker URL has no ']'")
            }
            host = rest[rest.index(after: rest.startIndex)..<end]
            let behind = rest[rest.index(after: end)...]
            guard behind.isEmpty || behind.first == ":" else {
                throw AMQPError(.invalid, "what stands behind ']' in the broker URL is not a port")
            }
            port = behind.isEmpty ? nil : behind.dropFirst()
        } else {
            port = cut(from: ":")
            host = rest
        }
        if !host.isEmpty { parts.host = try decoded(host, "host") }
        guard let port, !port.isEmpty else { return }
        guard Self.isNumber(port), let number = UInt16(port), number > 0 else {
            throw AMQPError(.invalid, "the port in the broker URL is not a number from 1 to 65535")
        }
        parts.port = number
    }

    private static func isNumber(_ text: Substring) -> Bool {
        text.utf8.allSatisfy { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
    }

    private func parameters(_ query: Substring) throws(AMQPError) -> [(String, String)] {
        var all: [(String, String)] = []
        for pair in query.unicodeScalars.split(separator: "&") {
            let sides = Self.split(Substring(pair), "=")
            guard sides.count == 2 else {
                throw AMQPError(.invalid, "a parameter of the broker URL has no '=': write name=value")
            }
            let name = try decoded(sides[0], "name of a parameter")
            guard Self.parameters.contains(name) else {
                // What follows a passphrase may be the rest of it.
                let what =
                    all.contains { $0.0 == "password" } ? "behind 'password' (a '&' in it is written %26)" : "'\(name)'"
                let names = Self.parameters.joined(separator: ", ")
                throw AMQPError(.invalid, "unknown parameter \(what) in the broker URL: it takes \(names)")
            }
            all.append((name, try decoded(sides[1], "parameter '\(name)'")))
        }
        return all
    }

    private func decoded(_ text: Substring, _ part: String) throws(AMQPError) -> String {
        var bytes: [UInt8] = []
        var source = text.utf8.makeIterator()
        while let byte = source.next() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = source.next().flatMap(Self.hexadecimal), let low = source.next().flatMap(Self.hexadecimal)
            else { throw AMQPError(.invalid, "the \(part) in the broker URL has a '%' without two hexadecimal digits") }
            bytes.append(high << 4 | low)
        }
        // A NUL would cut the text short in C.
        guard let text = String(validating: bytes, as: UTF8.self), !bytes.contains(0) else {
            throw AMQPError(.invalid, "the \(part) in the broker URL is not UTF-8 text")
        }
        return text
    }

    private static func hexadecimal(_ byte: UInt8) -> UInt8? {
        Character(UnicodeScalar(byte)).hexDigitValue.map { UInt8($0) }
    }
}

extension Substring {
    /// Without spaces at either end.
    var trimmedSpaces: Substring {
        var text = self
        while text.first?.isWhitespace == true { text.removeFirst() }
        while text.last?.isWhitespace == true { text.removeLast() }
        return text
    }
}
