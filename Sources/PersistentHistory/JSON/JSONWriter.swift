internal import TidingsSQLite

/// Writes JSON to bytes: no Foundation, no intermediate values.
///
/// [RFC 8259](https://www.rfc-editor.org/rfc/rfc8259)
package struct JSONWriter {
    /// What was written.
    package private(set) var bytes: [UInt8] = []
    /// True where the next element of the open object or array needs a comma before it.
    private var needsComma = false

    package init() {}

    /// Forgets what was written, and keeps the memory.
    package mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        needsComma = false
    }

    /// Writes an object, whose members `body` writes.
    package mutating func object(_ body: (inout JSONWriter) throws -> Void) rethrows {
        beginObject()
        try body(&self)
        endObject()
    }

    /// Writes an array, whose elements `body` writes.
    package mutating func array(_ body: (inout JSONWriter) throws -> Void) rethrows {
        beginArray()
        try body(&self)
        endArray()
    }

    /// Gives what was written so far to the caller, in the middle of a document.
    package mutating func takeBytes() -> [UInt8] {
        defer { bytes.removeAll(keepingCapacity: true) }
        return bytes
    }

    /// Opens an object whose members come one by one, until ``endObject()``.
    package mutating func beginObject() {
        separate()
        bytes.append(0x7B)
        needsComma = false
    }

    /// Closes an object.
    package mutating func endObject() {
        bytes.append(0x7D)
        needsComma = true
    }

    /// Opens an array whose elements come one by one, until ``endArray()``.
    package mutating func beginArray() {
        separate()
        bytes.append(0x5B)
        needsComma = false
    }

    /// Closes an array.
    package mutating func endArray() {
        bytes.append(0x5D)
        needsComma = true
    }

    /// Writes the name of a member; its value comes next.
    package mutating func key(_ name: String) {
        string(name)
        bytes.append(0x3A)
        needsComma = false
    }

    /// Writes a string.
    package mutating func string(_ text: String) {
        separate()
        bytes.append(0x22)
        var text = text
        text.withUTF8 { for byte in $0 { append(escaping: byte) } }
        bytes.append(0x22)
        needsComma = true
    }

    /// Writes an integer as a number, whatever its size.
    package mutating func integer(_ value: Int64) { literal(String(value)) }

    /// Writes `true` or `false`.
    package mutating func bool(_ value: Bool) { literal(value ? "true" : "false") }

    /// Writes `null`.
    package mutating func null() { literal("null") }

    /// Writes a string, or `null`.
    package mutating func string(_ text: String?) {
        if let text { string(text) } else { null() }
    }

    /// Writes what is JSON already.
    package mutating func literal(_ text: String) {
        separate()
        bytes.append(contentsOf: text.utf8)
        needsComma = true
    }

    /// Ends a line; what follows is a document of its own.
    package mutating func newline() {
        bytes.append(0x0A)
        needsComma = false
    }

    private mutating func separate() { if needsComma { bytes.append(0x2C) } }

    private mutating func append(escaping byte: UInt8) {
        switch byte {
        case 0x22, 0x5C:
            bytes.append(0x5C)
            bytes.append(byte)
        case 0x0A: bytes.append(contentsOf: "\\n".utf8)
        case 0x0D: bytes.append(contentsOf: "\\r".utf8)
        case 0x09: bytes.append(contentsOf: "\\t".utf8)
        case ..<0x20:
            bytes.append(contentsOf: (byte < 0x10 ? "\\u000" : "\\u00").utf8)
            bytes.append(contentsOf: String(byte, radix: 16).utf8)
        default: bytes.append(byte)
        }
    }
}
