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

    /// The bytes that there is room for until more memory is needed.
    package var capacity: Int { bytes.capacity }

    /// Forgets what was written, and keeps the memory.
    package mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        needsComma = false
    }

    /// A place in what was written, to go back to.
    package struct Mark {
        fileprivate let count: Int
        fileprivate let needsComma: Bool
    }

    /// The place where the next byte goes.
    package var mark: Mark { Mark(count: bytes.count, needsComma: needsComma) }

    /// Forgets what was written behind a place.
    package mutating func rewind(to mark: Mark) {
        bytes.removeSubrange(mark.count...)
        needsComma = mark.needsComma
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
        var text = text
        text.withUTF8 { string(utf8: UnsafeRawBufferPointer($0)) }
    }

    /// Writes a string of bytes that are known to be UTF-8.
    mutating func string(utf8 text: UnsafeRawBufferPointer) {
        separate()
        bytes.append(0x22)
        append(escaping: text)
        bytes.append(0x22)
        needsComma = true
    }

    /// Writes bytes as a string in base64.
    package mutating func base64(_ data: [UInt8]) { data.withUnsafeBytes { base64($0) } }

    /// Writes bytes as a string in base64.
    mutating func base64(_ data: UnsafeRawBufferPointer) {
        separate()
        bytes.append(0x22)
        Base64.append(data, to: &bytes)
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

    /// Appends the stretches between characters that must be escaped, each at once.
    private mutating func append(escaping text: UnsafeRawBufferPointer) {
        var start = 0
        for (index, byte) in text.enumerated() where byte < 0x20 || byte == 0x22 || byte == 0x5C {
            bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: text[start..<index]))
            append(escaped: byte)
            start = index + 1
        }
        bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: text[start...]))
    }

    private mutating func append(escaped byte: UInt8) {
        bytes.append(0x5C)
        switch byte {
        case 0x22, 0x5C: bytes.append(byte)
        case 0x0A: bytes.append(0x6E)
        case 0x0D: bytes.append(0x72)
        case 0x09: bytes.append(0x74)
        default:
            let low = byte & 0xF
            bytes.append(contentsOf: [0x75, 0x30, 0x30, 0x30 + (byte >> 4), low < 10 ? 0x30 + low : 0x57 + low])
        }
    }
}
