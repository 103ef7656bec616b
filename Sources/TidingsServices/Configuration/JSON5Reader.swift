/// Reads JSON5 as configurations use it. [The specification](https://spec.json5.org)
///
/// FoundationEssentials reads JSON5 too, but tells of a mistake only that there is one, without the line, and takes the
/// last of two members with the same name: whoever edits a configuration by hand needs both.
struct JSON5Reader {
    /// Deeper ones are refused: reading them takes the stack.
    static let deepest = 32

    private let scalars: [Unicode.Scalar]
    /// Where the lines begin.
    private let lines: [Int]
    private var index = 0

    private init(_ text: String) {
        scalars = Array(text.unicodeScalars)
        lines = [0] + scalars.indices.filter { [scalars] in scalars[$0] == "\n" }.map { $0 + 1 }
    }

    /// Reads the one value of a text.
    static func read(_ text: String) throws(JSON5Error) -> JSON5Value {
        var reader = JSON5Reader(text)
        try reader.skipSpace()
        let value = try reader.value(depth: 0)
        try reader.skipSpace()
        guard reader.next == nil else { throw reader.error("something follows the end of the configuration") }
        return value
    }

    // MARK: Values

    private mutating func value(depth: Int) throws(JSON5Error) -> JSON5Value {
        guard depth < Self.deepest else { throw error("nested deeper than \(Self.deepest) levels") }
        switch next {
        case "{": return try object(depth: depth)
        case "[": return try array(depth: depth)
        case "\"", "'": return .text(try string())
        case let scalar? where Self.beginsNumber(scalar): return try number()
        case nil: throw error("the text ends where a value is expected")
        default: return try word()
        }
    }

    private mutating func object(depth: Int) throws(JSON5Error) -> JSON5Value {
        var members: [JSON5Value.Member] = []
        index += 1
        while true {
            try skipSpace()
            if take("}") { return .object(members) }
            let line = position.line
            let name = next == "\"" || next == "'" ? try string() : try identifier()
            try skipSpace()
            guard take(":") else { throw error("expected ':' behind a key") }
            try skipSpace()
            members.append(JSON5Value.Member(name: name, line: line, value: try value(depth: depth + 1)))
            try endElement("}")
        }
    }

    private mutating func array(depth: Int) throws(JSON5Error) -> JSON5Value {
        var elements: [JSON5Value] = []
        index += 1
        while true {
            try skipSpace()
            if take("]") { return .array(elements) }
            elements.append(try value(depth: depth + 1))
            try endElement("]")
        }
    }

    /// A comma, or the end of the object or array, which is left for the loop.
    private mutating func endElement(_ end: Unicode.Scalar) throws(JSON5Error) {
        try skipSpace()
        guard !take(","), next != end else { return }
        throw error("expected ',' or '\(end)'")
    }

    private mutating func word() throws(JSON5Error) -> JSON5Value {
        let start = index
        while let scalar = next, Self.isNamePart(scalar) { index += 1 }
        switch text(from: start) {
        case "null": return .null
        case "true": return .bool(true)
        case "false": return .bool(false)
        case "Infinity", "NaN": throw error("a configuration has no such number", at: start)
        default: throw error("expected a value: texts stand in quotes", at: start)
        }
    }

    private mutating func number() throws(JSON5Error) -> JSON5Value {
        let start = index
        let isNegative = next == "-"
        if isNegative || next == "+" { index += 1 }
        let digits = index
        while let scalar = next, Self.isNumberPart(scalar, behind: scalars[index - (index > digits ? 1 : 0)]) {
            index += 1
        }
        let written = text(from: digits)
        let sign = isNegative ? "-" : ""
        if written.hasPrefix("0x") || written.hasPrefix("0X") {
            guard let number = Int64(sign + written.dropFirst(2), radix: 16), written.utf8.count > 2 else {
                throw error("not a hexadecimal number", at: start)
            }
            return .integer(number)
        }
        return try decimal(written, sign, at: start)
    }

    private func decimal(_ written: String, _ sign: String, at start: Int) throws(JSON5Error) -> JSON5Value {
        let bytes = written.utf8
        // As in C, where a number that begins with 0 is octal.
        let isOctal = bytes.first == 0x30 && bytes.dropFirst().first.map { 0x30...0x39 ~= $0 } == true
        guard !isOctal else { throw error("a number does not begin with zeros", at: start) }
        if bytes.allSatisfy({ 0x30...0x39 ~= $0 }), let number = Int64(sign + written) { return .integer(number) }
        let isDecimal = bytes.contains { 0x30...0x39 ~= $0 }
        guard isDecimal, let number = Self.real(sign + written), number.isFinite else {
            throw error("not a number", at: start)
        }
        return .real(number)
    }

    /// Swift wants digits on both sides of the point, JSON5 on one of them.
    private static func real(_ text: String) -> Double? {
        guard let point = text.firstIndex(of: ".") else { return Double(text) }
        let before = text[..<point]
        let after = text[text.index(after: point)...]
        let whole = before.last?.isNumber == true ? String(before) : before + "0"
        return Double(whole + "." + (after.first?.isNumber == true ? "" : "0") + after)
    }

    private static func beginsNumber(_ scalar: Unicode.Scalar) -> Bool {
        scalar == "+" || scalar == "-" || scalar == "." || "0"..."9" ~= scalar
    }

    private static func isNumberPart(_ scalar: Unicode.Scalar, behind last: Unicode.Scalar) -> Bool {
        switch scalar {
        case "0"..."9", "a"..."z", "A"..."Z", ".": true
        case "+", "-": last == "e" || last == "E"
        default: false
        }
    }

    // MARK: Texts and names

    private mutating func string() throws(JSON5Error) -> String {
        let start = index
        let quote = scalars[index]
        index += 1
        var units: [UInt16] = []
        while let scalar = next {
            index += 1
            switch scalar {
            case quote:
                // By units, since two escapes can be one character; half of one is none.
                guard let text = String(validating: units, as: UTF16.self), !units.contains(0) else {
                    throw error("a text holds a NUL or half a character", at: start)
                }
                return text
            case "\\": try escape(into: &units)
            case "\n", "\r": throw error("a text ends with its line: close the quotes, or write \\n", at: start)
            default: units.append(contentsOf: UTF16.encode(scalar)!)
            }
        }
        throw error("a text is not closed", at: start)
    }

    private mutating func escape(into units: inout [UInt16]) throws(JSON5Error) {
        guard let scalar = next else { throw error("the text ends behind '\\'") }
        index += 1
        switch scalar {
        case "b": units.append(0x08)
        case "f": units.append(0x0C)
        case "n": units.append(0x0A)
        case "r": units.append(0x0D)
        case "t": units.append(0x09)
        case "v": units.append(0x0B)
        case "x": units.append(try hexadecimal(2))
        case "u": units.append(try hexadecimal(4))
        case "\n", "\u{2028}", "\u{2029}": break
        case "\r": _ = take("\n")
        case "0"..."9": throw error("no escape has that digit", at: index - 1)
        default: units.append(contentsOf: UTF16.encode(scalar)!)
        }
    }

    private mutating func hexadecimal(_ count: Int) throws(JSON5Error) -> UInt16 {
        let start = index
        while index - start < count, next?.properties.isASCIIHexDigit == true { index += 1 }
        guard index - start == count, let unit = UInt16(text(from: start), radix: 16) else {
            throw error("an escape needs \(count) hexadecimal digits", at: start)
        }
        return unit
    }

    private mutating func identifier() throws(JSON5Error) -> String {
        let start = index
        guard let first = next else { throw error("the text ends where a key or '}' is expected") }
        guard Self.isNamePart(first), !("0"..."9" ~= first) else { throw error("expected a key or '}'") }
        while let scalar = next, Self.isNamePart(scalar) { index += 1 }
        return text(from: start)
    }

    private static func isNamePart(_ scalar: Unicode.Scalar) -> Bool {
        scalar == "$" || scalar == "_" || scalar.properties.isIDContinue
    }

    // MARK: Space and places

    private mutating func skipSpace() throws(JSON5Error) {
        while let scalar = next {
            if scalar.properties.isWhitespace || scalar == "\u{FEFF}" {
                index += 1
            } else if scalar == "/" {
                try comment()
            } else {
                return
            }
        }
    }

    private mutating func comment() throws(JSON5Error) {
        let start = index
        index += 1
        if take("/") {
            while let scalar = next, !Self.endsLine(scalar) { index += 1 }
        } else if take("*") {
            while let scalar = next {
                index += 1
                if scalar == "*", take("/") { return }
            }
            throw error("a comment is not closed", at: start)
        } else {
            throw error("expected a comment behind '/'", at: start)
        }
    }

    private static func endsLine(_ scalar: Unicode.Scalar) -> Bool {
        scalar == "\n" || scalar == "\r" || scalar == "\u{2028}" || scalar == "\u{2029}"
    }

    private var next: Unicode.Scalar? { index < scalars.count ? scalars[index] : nil }

    private mutating func take(_ scalar: Unicode.Scalar) -> Bool {
        guard next == scalar else { return false }
        index += 1
        return true
    }

    private func text(from start: Int) -> String {
        var view = String.UnicodeScalarView()
        view.append(contentsOf: scalars[start..<index])
        return String(view)
    }

    private var position: (line: Int, column: Int) { position(of: index) }

    private func position(of index: Int) -> (line: Int, column: Int) {
        var (low, high) = (0, lines.count)
        while high - low > 1 {
            let middle = (low + high) / 2
            if lines[middle] <= index { low = middle } else { high = middle }
        }
        return (low + 1, index - lines[low] + 1)
    }

    private func error(_ message: String, at index: Int? = nil) -> JSON5Error {
        let (line, column) = position(of: index ?? self.index)
        return JSON5Error(line: line, column: column, message: message)
    }
}
