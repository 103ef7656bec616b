/// Bytes as text of 64 characters, with padding.
///
/// [RFC 4648, section 4](https://www.rfc-editor.org/rfc/rfc4648#section-4)
enum Base64 {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    static func append(_ data: UnsafeRawBufferPointer, to bytes: inout [UInt8]) {
        for start in stride(from: 0, to: data.count, by: 3) {
            let rest = data.count - start
            let second = rest > 1 ? data[start + 1] : 0
            let third = rest > 2 ? data[start + 2] : 0
            bytes.append(alphabet[Int(data[start] >> 2)])
            bytes.append(alphabet[Int((data[start] & 3) << 4 | second >> 4)])
            bytes.append(rest > 1 ? alphabet[Int((second & 15) << 2 | third >> 6)] : 0x3D)
            bytes.append(rest > 2 ? alphabet[Int(third & 63)] : 0x3D)
        }
    }
}
