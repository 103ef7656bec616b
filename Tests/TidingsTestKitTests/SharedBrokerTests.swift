import Foundation
import Testing
import TidingsTestKit

@Suite("The shared broker", .timeLimit(.minutes(3)))
struct SharedBrokerTests {
    @Test("whoever asks for it, also at once, gets the same one")
    func shared() async throws {
        let brokers = try await withThrowingTaskGroup(of: PrivateBroker.self) { group in
            for _ in 0..<8 { group.addTask { try await PrivateBroker.shared() } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(brokers.count == 8)
        #expect(Set(brokers.map(ObjectIdentifier.init)).count == 1)
        #expect(brokers.allSatisfy { $0.processID > 0 })
    }

    @Test("its port speaks AMQP 0-9-1, and answers another protocol with the one it speaks")
    func speaks() async throws {
        let broker = try await PrivateBroker.shared()
        // connection.start: a method frame of channel 0, class 10, method 10, version 0-9.
        let start = try Knock.answer(to: Knock.protocolHeader, port: broker.port, count: 13)
        #expect(start.prefix(3) == [1, 0, 0])
        #expect(Array(start.dropFirst(7)) == [0, 10, 0, 10, 0, 9])
        let other = try Knock.answer(to: Array(Knock.otherProtocol.utf8), port: broker.port, count: 8)
        #expect(other == Knock.protocolHeader)
    }

    @Test("all that it and its port mapper listen on is loopback")
    func loopbackOnly() async throws {
        let broker = try await PrivateBroker.shared()
        let addresses = try Guarded.listening(by: Guarded.processes(of: broker.directory))
        #expect(addresses.contains("127.0.0.1:\(broker.port)"))
        #expect(addresses.contains("127.0.0.1:\(broker.tlsPort ?? 0)"))
        // AMQP with and without TLS, the node, the control node, and the port mapper, which takes IPv6 too.
        // Other tests may have opened more.
        #expect(addresses.count >= 6)
        #expect(addresses.filter { !$0.hasPrefix("127.0.0.1:") && !$0.hasPrefix("[::1]:") } == [])
        #expect(addresses.filter { $0.hasSuffix(":5672") || $0.hasSuffix(":4369") } == [])
    }

    @Test("virtual hosts and users are each test's own")
    func separate() async throws {
        let broker = try await PrivateBroker.shared()
        let first = try await broker.makeVirtualHost()
        let second = try await broker.makeVirtualHost()
        #expect(first.name != second.name)
        #expect(first.user != second.user)
        #expect(first.password != second.password)
        #expect(first.url == "amqp://\(first.user):\(first.password)@127.0.0.1:\(broker.port)/\(first.name)")
        let port = try #require(broker.tlsPort)
        #expect(first.tlsURL(host: "h") == "amqps://\(first.user):\(first.password)@h:\(port)/\(first.name)")
        #expect(try await Permissions.of(first.user, on: broker) == [[first.name, ".*", ".*", ".*"]])
        #expect(try await Permissions.of(second.user, on: broker) == [[second.name, ".*", ".*", ".*"]])
    }

    @Test("a further user may do what the patterns allow")
    func permissions() async throws {
        let broker = try await PrivateBroker.shared()
        let virtualHost = try await broker.makeVirtualHost()
        let login = try await virtualHost.addUser(configure: "^$", write: "orders", read: "^é\"q\\.")
        #expect(try await Permissions.of(login.user, on: broker) == [[virtualHost.name, "^$", "orders", "^é\"q\\."]])
        #expect(login.url.hasPrefix("amqp://\(login.user):\(login.password)@"))
        let named = try await virtualHost.addUser(named: "named-\(virtualHost.name)")
        #expect(named.user == "named-\(virtualHost.name)")
    }

    @Test("a user's password is taken, and no other")
    func passwords() async throws {
        let broker = try await PrivateBroker.shared()
        let virtualHost = try await broker.makeVirtualHost()
        func check(_ password: String) async throws -> String {
            try await broker.evaluate(
                """
                element(1, rabbit_access_control:check_user_pass_login(
                    \(PrivateBroker.binary(virtualHost.user)), \(PrivateBroker.binary(password))))
                """)
        }
        #expect(try await check(virtualHost.password) == "ok")
        #expect(try await check(virtualHost.password + "x") == "refused")
    }

    @Test("a deleted virtual host is gone with its users")
    func deleted() async throws {
        let broker = try await PrivateBroker.shared()
        let virtualHost = try await broker.makeVirtualHost()
        let other = try await virtualHost.addUser()
        try await virtualHost.delete()
        let name = PrivateBroker.binary(virtualHost.name)
        #expect(try await broker.evaluate("rabbit_vhost:exists(\(name))") == "false")
        for user in [virtualHost.user, other.user] {
            let found = "rabbit_auth_backend_internal:exists(\(PrivateBroker.binary(user)))"
            #expect(try await broker.evaluate(found) == "false")
        }
    }

    @Test("the connections to a virtual host are closed as an administrator does it, and no others")
    func closesConnections() async throws {
        let broker = try await PrivateBroker.shared()
        let first = try await broker.makeVirtualHost()
        let second = try await broker.makeVirtualHost()
        let closed = [try RawConnection.open(first), try RawConnection.open(first)]
        let kept = try RawConnection.open(second)
        #expect(try await broker.closeConnections(virtualHost: first.name) == 2)
        for connection in closed {
            let frame = connection.frame()
            // connection.close with 320, CONNECTION_FORCED.
            #expect(frame.prefix(6) == [0, 10, 0, 50, 1, 64])
            #expect(String(decoding: frame, as: UTF8.self).contains("closed by the test"))
        }
        try await second.delete()
        #expect(kept.frame().prefix(4) == [0, 10, 0, 50])
        #expect(try await broker.closeConnections(virtualHost: first.name) == 0)
    }

    @Test(
        "an expression is evaluated on the node and its value is one line",
        arguments: [
            ("1 + 1", "2"), ("X = 3,\nX * 2.", "6"), ("\"a\nb\"", #""a\nb""#), ("<<\"é\"/utf8>>", #"<<"é"/utf8>>"#),
            ("[X || X <- lists:seq(1, 3)]", "[1,2,3]"), ("(fun(X) -> {X} end)(ok)", "{ok}"),
        ])
    func evaluates(expression: String, value: String) async throws {
        let broker = try await PrivateBroker.shared()
        #expect(try await broker.evaluate(expression) == value)
        #expect(try await broker.evaluate("node()") == broker.nodeName)
        #expect(try await broker.evaluate("list_to_integer(os:getpid())") == "\(broker.processID)")
    }

    @Test("a long value comes whole, and many at once each to whom asked", arguments: [1, 100_000])
    func manyValues(length: Int) async throws {
        let broker = try await PrivateBroker.shared()
        let values = try await withThrowingTaskGroup(of: (Int, String).self) { group in
            for number in 0..<20 {
                group.addTask {
                    (number, try await broker.evaluate("list_to_binary(lists:duplicate(\(length), $a + \(number)))"))
                }
            }
            return try await group.reduce(into: [Int: String]()) { $0[$1.0] = $1.1 }
        }
        for number in 0..<20 {
            let letter = String(Unicode.Scalar(UInt8(97 + number)))
            #expect(values[number] == "<<\"\(String(repeating: letter, count: length))\">>")
        }
    }

    @Test(
        "what cannot be evaluated fails with Erlang's words",
        arguments: [("1 = 2", "{badmatch,2}"), ("foo bar", "syntax error"), ("no_module:f()", "undef")])
    func evaluationFails(expression: String, words: String) async throws {
        let broker = try await PrivateBroker.shared()
        let error = await #expect(throws: PrivateBrokerError.self) { try await broker.evaluate(expression) }
        #expect(error?.description.contains(words) == true, "\(String(describing: error))")
    }

    @Test("a value that does not come in time is an error")
    func evaluationIsBounded() async throws {
        let broker = try await PrivateBroker.shared()
        let error = await #expect(throws: PrivateBrokerError.self) {
            try await broker.evaluate("timer:sleep(600000)", atMost: .seconds(1))
        }
        #expect(error?.description == "Erlang: {badrpc,timeout}")
    }
}
