import Glibc
import Synchronization

/// As much of a broker as a publisher needs, which ends the first channel or the first connection in the same piece with
/// the reply that makes the channel ready: a moment that no real one can be brought to choose.
final class ScriptedBroker: Sendable {
    enum End: Sendable, CaseIterable {
        case connection
        case channel
    }

    private let socket: LocalSocket
    private let received = Mutex<[[String]]>([])

    var port: UInt16 { socket.port }

    /// What each connection has asked for after its login, in order, with the channel.
    var methods: [[String]] { received.withLock { $0 } }

    init(endingFirst end: End) throws {
        socket = try LocalSocket()
        socket.serve { [weak self] in self?.serve($0, end) }
    }

    private func serve(_ socket: Int32, _ end: End) {
        guard read(8, from: socket) != nil else { return }
        let number = received.withLock { received in
            received.append([])
            return received.count - 1
        }
        write(Self.start, to: socket)
        var hasEnded = number > 0
        var published: UInt64 = 0
        while let frame = readFrame(from: socket) {
            // The content of a publication needs no answer, nor does a heartbeat.
            guard frame.type == 1 else { continue }
            let method = Method(frame.payload)
            if !method.isLogin { received.withLock { $0[number].append("\(method.name) \(frame.channel)") } }
            switch method.name {
            case "connection.start-ok": write(Self.tune, to: socket)
            case "connection.open": write(Self.frame(0, 10, 41, [0]), to: socket)
            case "connection.close": write(Self.frame(0, 10, 51), to: socket)
            case "channel.open": write(Self.frame(frame.channel, 20, 11, [0, 0, 0, 0]), to: socket)
            case "channel.close": write(Self.frame(frame.channel, 20, 41), to: socket)
            case "confirm.select":
                let last = hasEnded ? [] : Self.ending(end, channel: frame.channel)
                hasEnded = true
                write(Self.frame(frame.channel, 85, 11) + last, to: socket)
            case "basic.publish":
                published += 1
                write(Self.frame(frame.channel, 60, 80, Self.bytes(published) + [0]), to: socket)
            default: break
            }
        }
    }

    // MARK: Frames

    private struct Method {
        var name: String

        init(_ payload: [UInt8]) {
            let numbers = (Int(payload[0]) << 8 | Int(payload[1]), Int(payload[2]) << 8 | Int(payload[3]))
            name =
                switch numbers {
                case (10, 11): "connection.start-ok"
                case (10, 31): "connection.tune-ok"
                case (10, 40): "connection.open"
                case (10, 50): "connection.close"
                case (10, 51): "connection.close-ok"
                case (20, 10): "channel.open"
                case (20, 40): "channel.close"
                case (20, 41): "channel.close-ok"
                case (60, 40): "basic.publish"
                case (85, 10): "confirm.select"
                default: "\(numbers)"
                }
        }

        var isLogin: Bool { ["connection.start-ok", "connection.tune-ok", "connection.open"].contains(name) }
    }

    private static let start = frame(
        0, 10, 10, [0, 9] + bytes(UInt32(0)) + long("PLAIN") + long("en_US"))
    private static let tune = frame(0, 10, 30, bytes(UInt16(2047)) + bytes(UInt32(131_072)) + bytes(UInt16(0)))

    private static func ending(_ end: End, channel: UInt16) -> [UInt8] {
        let reason = bytes(UInt16(320)) + [4] + Array("over".utf8) + [0, 0, 0, 0]
        return end == .connection ? frame(0, 10, 50, reason) : frame(channel, 20, 40, reason)
    }

    private static func frame(
        _ channel: UInt16, _ classID: UInt16, _ methodID: UInt16, _ arguments: [UInt8] = []
    ) -> [UInt8] {
        let payload = bytes(classID) + bytes(methodID) + arguments
        return [1] + bytes(channel) + bytes(UInt32(payload.count)) + payload + [0xCE]
    }

    private static func bytes(_ number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    private static func long(_ text: String) -> [UInt8] { bytes(UInt32(text.utf8.count)) + Array(text.utf8) }

    private func readFrame(from socket: Int32) -> (type: UInt8, channel: UInt16, payload: [UInt8])? {
        guard let head = read(7, from: socket) else { return nil }
        let size = head[3...6].reduce(0) { $0 << 8 | Int($1) }
        guard let rest = read(size + 1, from: socket) else { return nil }
        return (head[0], UInt16(head[1]) << 8 | UInt16(head[2]), Array(rest.dropLast()))
    }

    private func read(_ count: Int, from socket: Int32) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        return recv(socket, &bytes, count, Int32(MSG_WAITALL)) == count ? bytes : nil
    }

    private func write(_ bytes: [UInt8], to socket: Int32) {
        _ = send(socket, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }
}
