internal import Foundation
internal import Glibc
internal import TidingsAMQP

/// An Erlang node beside the brokers that evaluates expressions on them: a thousand times faster than `rabbitmqctl`,
/// which starts such a node for each call.
///
/// A request is a line `<id> <node> <milliseconds> <expressions in Base64>`, an answer `<id> ok|error <text in
/// Base64>`. The connection to a broker is made by the first request, and again after the broker was killed.
final class ControlNode: Sendable {
    private struct State {
        var lastID = 0
        var waiting: [Int: CheckedContinuation<String, any Error>] = [:]
        var isOver = false
    }

    private let process: SpawnedProcess
    private let socket: Descriptor
    private let log: String
    private let state = Locked(State())

    private static let program = #"""
        Evaluate = fun(Node, Timeout, Text) ->
            {ok, Tokens, _} = erl_scan:string(Text),
            {ok, Expressions} = erl_parse:parse_exprs(Tokens),
            case rpc:call(Node, erl_eval, exprs, [Expressions, []], Timeout) of
                {value, Value, _} -> {"ok", Value};
                Other -> {"error", Other}
            end
        end,
        Answer = fun(Line) ->
            [ID, Node, Timeout, Code] = string:lexemes(Line, " \n"),
            {Kind, Term} =
                try
                    Text = unicode:characters_to_list(base64:decode(Code)),
                    Evaluate(list_to_atom(Node), list_to_integer(Timeout), Text)
                catch _:Reason -> {"error", Reason} end,
            Result = unicode:characters_to_binary(io_lib:format("~0tp", [Term])),
            io:put_chars([ID, " ", Kind, " ", base64:encode_to_string(Result), "\n"])
        end,
        Serve = fun Serve() ->
            case io:get_line("") of
                Line when is_list(Line) -> spawn(fun() -> Answer(Line) end), Serve();
                _ -> halt()
            end
        end,
        Serve().
        """#

    /// Starts the node; it answers as soon as it is up.
    ///
    /// - Parameter environment: where the brokers' port mapper and cookie are.
    init(environment: [String: String], log: String) throws {
        let (ours, theirs) = try Descriptor.pair()
        let arguments = [
            "+S", "1", "+sbwt", "none", "-noshell", "-hidden", "-sname", "control@localhost", "-start_epmd", "false",
            "-kernel", "inet_dist_use_interface", "{127,0,0,1}", "-eval", Self.program,
        ]
        process = try withExtendedLifetime(theirs) {
            try SpawnedProcess(
                "/usr/bin/erl", arguments, environment: environment, input: theirs.number, output: theirs.number,
                log: log)
        }
        socket = ours
        self.log = log
        // A thread of its own: reading blocks. It holds the node weakly, and ends with the process.
        Thread.detachNewThread { [weak self] in
            var rest = Data()
            var buffer = [UInt8](repeating: 0, count: 65_536)
            while case let count = read(ours.number, &buffer, buffer.count), count > 0 || (count < 0 && errno == EINTR)
            {
                rest.append(contentsOf: buffer.prefix(max(count, 0)))
                while let newline = rest.firstIndex(of: 0x0A) {
                    self?.take(String(decoding: rest[rest.startIndex..<newline], as: UTF8.self))
                    rest = Data(rest[rest.index(after: newline)...])
                }
            }
            self?.finish()
        }
    }

    // The process ends with its input, and the thread that reads from it.
    deinit { shutdown(socket.number, Int32(SHUT_RDWR)) }

    /// Evaluates expressions on a node and returns the value of the last one as Erlang writes it.
    func evaluate(_ expressions: String, on node: String, atMost limit: Duration) async throws -> String {
        let text = expressions.trimmingCharacters(in: .whitespacesAndNewlines)
        let code = Data((text.hasSuffix(".") ? text : text + ".").utf8).base64EncodedString()
        let milliseconds = limit.components.seconds * 1000
        return try await withCheckedThrowingContinuation { continuation in
            let isSent = state.withLock { state in
                guard !state.isOver else { return false }
                state.lastID += 1
                guard send("\(state.lastID) \(node) \(milliseconds) \(code)\n") else { return false }
                state.waiting[state.lastID] = continuation
                return true
            }
            if !isSent { continuation.resume(throwing: ended) }
        }
    }

    private var ended: PrivateBrokerError {
        PrivateBrokerError("the control node has ended\n\(LogTail.of(log))")
    }

    /// Whole, or false. To be called in the lock: lines must not mix.
    private func send(_ line: String) -> Bool {
        var rest = Array(line.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { bytes in
                Glibc.send(socket.number, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
            }
            if count < 0 {
                guard errno == EINTR else { return false }
            } else {
                rest = rest.dropFirst(count)
            }
        }
        return true
    }

    private func take(_ line: String) {
        let parts = line.split(separator: " ", omittingEmptySubsequences: false)
        guard parts.count == 3, let id = Int(parts[0]), let data = Data(base64Encoded: String(parts[2])) else { return }
        let text = String(decoding: data, as: UTF8.self)
        guard let continuation = state.withLock({ $0.waiting.removeValue(forKey: id) }) else { return }
        if parts[1] == "ok" {
            continuation.resume(returning: text)
        } else {
            continuation.resume(throwing: PrivateBrokerError("Erlang: \(text)"))
        }
    }

    private func finish() {
        let waiting = state.withLock { state in
            state.isOver = true
            defer { state.waiting = [:] }
            return state.waiting.values
        }
        for continuation in waiting { continuation.resume(throwing: ended) }
    }
}
