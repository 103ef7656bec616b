import Glibc
import Synchronization

/// As much of a broker as one publisher, consumer or declaration needs, with answers that no real one can be brought to
/// give at a chosen moment.
final class ScriptedBroker: Sendable {
    /// What a client asks for after its login.
    struct Question: Sendable {
        /// The connection's number, from 0 on.
        var connection: Int
        var channel: UInt16
        var method: String
        /// The queue that it names, where it names one.
        var queue: String?
        /// How often it was asked before, on any connection.
        var repetition: Int
    }

    /// What it gets.
    enum Answer: Sendable {
        case usual
        case nothing
        /// As usual, and the end of something in the same piece.
        case ending(End)
        /// The channel is closed with a code.
        case refusal(UInt16)
        /// For a publication: nothing is read for a while, but the broker gives signs of life.
        case slow
    }

    /// What ends.
    enum End: Sendable, CaseIterable {
        case connection
        case channel
    }

    private let socket: LocalSocket
    private let answer: @Sendable (Question) -> Answer
    private let received = Mutex<[[Question]]>([])

    var port: UInt16 { socket.port }

    /// What each connection has asked for, in order, with the channel.
    var methods: [[String]] {
        received.withLock { $0.map { $0.map { "\($0.method) \($0.channel)" } } }
    }

    /// What all connections have asked for.
    var questions: [Question] { received.withLock { Array($0.joined()) } }

    /// Begins to serve.
    ///
    /// - Parameter answer: is asked on the broker's thread, and may wait there.
    init(
        at socket: LocalSocket? = nil, _ answer: @escaping @Sendable (Question) -> Answer = { _ in .usual }
    ) throws {
        self.answer = answer
        self.socket = try socket ?? LocalSocket()
        self.socket.serve { [weak self] in self?.serve($0) }
    }

    private func serve(_ socket: Int32) {
        guard read(8, from: socket) != nil else { return }
        let number = received.withLock { received in
            received.append([])
            return received.count - 1
        }
        write(Self.start, to: socket)
        var published: UInt64 = 0
        // Of the body that comes, where it is waited for.
        var bodyLeft: Int?
        while let frame = readFrame(from: socket) {
            guard frame.type == 1 else {
                guard let left = bodyLeft else { continue }
                let rest = frame.type == 2 ? Self.number(frame.payload[4..<12]) : left - frame.payload.count
                bodyLeft = rest > 0 ? rest : nil
                if rest == 0 { write(Self.ack(published, frame.channel), to: socket) }
                continue
            }
            let method = Self.name(of: frame.payload)
            if let reply = Self.loginReply(to: method) {
                write(reply, to: socket)
                continue
            }
            let question = remember(
                method, frame.payload,
                Question(
                    connection: number, channel: frame.channel, method: method, repetition: 0))
            if method == "basic.publish" { published += 1 }
            switch answer(question) {
            case .usual: write(Self.reply(to: question, published), to: socket)
            case .nothing: break
            case .ending(let end): write(Self.reply(to: question, published) + Self.end(end, frame.channel), to: socket)
            case .refusal(let code): write(Self.close(20, frame.channel, code), to: socket)
            case .slow:
                for _ in 0..<12 {
                    write([8, 0, 0, 0, 0, 0, 0, 0xCE], to: socket)
                    usleep(300_000)
                }
                bodyLeft = .max
            }
        }
    }

    private func remember(_ method: String, _ payload: [UInt8], _ question: Question) -> Question {
        var question = question
        if method.hasPrefix("queue.") || method == "basic.consume" {
            question.queue = String(decoding: payload[7..<7 + Int(payload[6])], as: UTF8.self)
        }
        return received.withLock { [question] received in
            var question = question
            question.repetition = received.joined()
                .count { $0.method == question.method && $0.queue == question.queue }
            received[question.connection].append(question)
            return question
        }
    }

    // MARK: Methods

    private static func name(of payload: [UInt8]) -> String {
        let numbers = (number(payload[0..<2]), number(payload[2..<4]))
        return switch numbers {
        case (10, 11): "connection.start-ok"
        case (10, 31): "connection.tune-ok"
        case (10, 40): "connection.open"
        case (10, 50): "connection.close"
        case (10, 51): "connection.close-ok"
        case (20, 10): "channel.open"
        case (20, 40): "channel.close"
        case (20, 41): "channel.close-ok"
        case (50, 10): "queue.declare"
        case (50, 20): "queue.bind"
        case (50, 40): "queue.delete"
        case (60, 10): "basic.qos"
        case (60, 20): "basic.consume"
        case (60, 40): "basic.publish"
        case (85, 10): "confirm.select"
        default: "\(numbers)"
        }
    }

    private static func loginReply(to method: String) -> [UInt8]? {
        switch method {
        case "connection.start-ok":
            frame(0, 10, 30, bytes(UInt16(2047)) + bytes(UInt32(131_072)) + bytes(UInt16(0)))
        case "connection.tune-ok": []
        case "connection.open": frame(0, 10, 41, [0])
        default: nil
        }
    }

    private static func reply(to question: Question, _ published: UInt64) -> [UInt8] {
        let channel = question.channel
        let nobody = bytes(UInt64(0))
        return switch question.method {
        case "connection.close": frame(0, 10, 51)
        case "channel.open": frame(channel, 20, 11, [0, 0, 0, 0])
        case "channel.close": frame(channel, 20, 41)
        case "queue.declare": frame(channel, 50, 11, short(question.queue ?? "") + nobody)
        case "queue.bind": frame(channel, 50, 21)
        case "queue.delete": frame(channel, 50, 41, [0, 0, 0, 0])
        case "basic.qos": frame(channel, 60, 11)
        case "basic.consume": frame(channel, 60, 21, short("tag"))
        case "basic.publish": ack(published, channel)
        case "confirm.select": frame(channel, 85, 11)
        default: []
        }
    }

    private static func ack(_ tag: UInt64, _ channel: UInt16) -> [UInt8] { frame(channel, 60, 80, bytes(tag) + [0]) }

    private static func end(_ end: End, _ channel: UInt16) -> [UInt8] {
        end == .connection ? close(10, 0, 320) : close(20, channel, 320)
    }

    private static func close(_ classID: UInt16, _ channel: UInt16, _ code: UInt16) -> [UInt8] {
        frame(channel, classID, classID == 10 ? 50 : 40, bytes(code) + short("over") + [0, 0, 0, 0])
    }

    // MARK: Frames

    private static let start = frame(0, 10, 10, [0, 9] + bytes(UInt32(0)) + long("PLAIN") + long("en_US"))

    private static func frame(
        _ channel: UInt16, _ classID: UInt16, _ methodID: UInt16, _ arguments: [UInt8] = []
    ) -> [UInt8] {
        let payload = bytes(classID) + bytes(methodID) + arguments
        return [1] + bytes(channel) + bytes(UInt32(payload.count)) + payload + [0xCE]
    }

    private static func bytes(_ number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    private static func number(_ bytes: some Sequence<UInt8>) -> Int { bytes.reduce(0) { $0 << 8 | Int($1) } }

    private static func short(_ text: String) -> [UInt8] { [UInt8(text.utf8.count)] + Array(text.utf8) }

    private static func long(_ text: String) -> [UInt8] { bytes(UInt32(text.utf8.count)) + Array(text.utf8) }

    private func readFrame(from socket: Int32) -> (type: UInt8, channel: UInt16, payload: [UInt8])? {
        guard let head = read(7, from: socket), let rest = read(Self.number(head[3...6]) + 1, from: socket) else {
            return nil
        }
        return (head[0], UInt16(Self.number(head[1...2])), Array(rest.dropLast()))
    }

    private func read(_ count: Int, from socket: Int32) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        return recv(socket, &bytes, count, Int32(MSG_WAITALL)) == count ? bytes : nil
    }

    private func write(_ bytes: [UInt8], to socket: Int32) {
        _ = send(socket, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }
}
