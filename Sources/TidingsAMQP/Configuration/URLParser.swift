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
        if rest.contains("#") { throw AMQPError(.invalid, "a broker URL has no part behind '#': write it as %23") }
        if let query = cut(from: "?") {
            // Here and below: what follows the mark may be the end of a password, which no error may show.
            guard !query.contains("@") else {
                throw AMQPError(
                    .invalid, "a '?' in the user or password of a broker URL is written %3F, an '@' behind it %40")
            }
            parts.parameters = try parameters(query)
        }
        if let path = cut(from: "/"), !path.isEmpty {
            guard !path.contains("@") else {
                throw AMQPError(
                    .invalid, "a '/' in the user or password of a broker URL is written %2F, an '@' behind it %40")
            }
            guard !path.contains("/") else {
                throw AMQPError(.invalid, "the virtual host in the broker URL holds a '/': write it as %2F")
            }
            parts.virtualHost = try decoded(path, "virtual host")
        }
        if let at = rest.lastIndex(of: "@") {
            let pair = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            parts.user = try decoded(pair[0], "user")
            if pair.count == 2 { parts.password = try decoded(pair[1], "password") }
            rest = rest[rest.index(after: at)...]
        }
        try address(&parts)
        return parts
    }

    /// Cuts off what stands behind the first `mark`.
    private mutating func cut(from mark: Character) -> Substring? {
        guard let index = rest.firstIndex(of: mark) else { return nil }
        defer { rest = rest[..<index] }
        return rest[rest.index(after: index)...]
    }

    private func address(_ parts: inout Parts) throws(AMQPError) {
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
        } else if let colon = rest.firstIndex(of: ":") {
            host = rest[..<colon]
            port = rest[rest.index(after: colon)...]
        }
        if !host.isEmpty { parts.host = try decoded(host, "host") }
        guard let port, !port.isEmpty else { return }
        guard let number = UInt16(port), number > 0 else {
            throw AMQPError(.invalid, "the port in the broker URL is not a number from 1 to 65535")
        }
        parts.port = number
    }

    private func parameters(_ query: Substring) throws(AMQPError) -> [(String, String)] {
        var all: [(String, String)] = []
        for pair in query.split(separator: "&") {
            let sides = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard sides.count == 2 else {
                throw AMQPError(.invalid, "a parameter of the broker URL has no '=': write name=value")
            }
            let name = try decoded(sides[0], "parameter")
            all.append((name, try decoded(sides[1], name)))
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
