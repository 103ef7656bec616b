import Foundation
import Testing
import TidingsTestKit

extension PrivateBrokerTests {
    /// Brokers that are killed, stopped and blocked; each has its own.
    @Suite("A broker of one's own", .serialized, .timeLimit(.minutes(5)))
    struct BrokerLifecycleTests {
        @Test("killed and started, stopped and started, it has its port, its definitions and its durable queues")
        func startsAgain() async throws {
            let broker = try await PrivateBroker.start()
            let port = broker.port
            let virtualHost = try await broker.makeVirtualHost()
            try await Queues.declare("orders", in: virtualHost)
            #expect(try await broker.queueLength("orders", virtualHost: virtualHost.name) == 0)

            try await broker.writeDownQueues()
            let first = broker.processID
            await broker.kill()
            #expect(kill(first, 0) == -1)
            #expect(throws: POSIXError.self) { try Knock.answer(to: Knock.protocolHeader, port: port, count: 1) }
            let down = await #expect(throws: PrivateBrokerError.self) { try await broker.evaluate("1") }
            #expect(down?.description == "Erlang: {badrpc,nodedown}")
            // Once more is not too much.
            await broker.kill()

            try await broker.start()
            #expect(broker.processID != first)
            #expect(broker.port == port)
            #expect(try Knock.answer(to: Knock.protocolHeader, port: port, count: 1) == [1])
            #expect(try await Permissions.of(virtualHost.user, on: broker) == [[virtualHost.name, ".*", ".*", ".*"]])
            #expect(try await broker.queueLength("orders", virtualHost: virtualHost.name) == 0)
            let running = await #expect(throws: PrivateBrokerError.self) { try await broker.start() }
            #expect(running?.description == "\(broker.nodeName) is running already")

            try await broker.restart()
            #expect(try Knock.answer(to: Knock.protocolHeader, port: port, count: 1) == [1])
            #expect(try await broker.leader(ofQueue: "orders", virtualHost: virtualHost.name) == broker.nodeName)
            try await broker.deleteQueue("orders", virtualHost: virtualHost.name)
            await #expect(throws: PrivateBrokerError.self) {
                try await broker.queueLength("orders", virtualHost: virtualHost.name)
            }

            let directory = broker.directory
            #expect(try Guarded.processes(of: directory).count >= 3)
            await broker.shutDown()
            #expect(try Guarded.processes(of: directory) == [])
            #expect(!FileManager.default.fileExists(atPath: directory))
        }

        @Test("suspended it is silent, resumed it answers; suspended it can be killed, stopped and ended")
        func suspends() async throws {
            let broker = try await PrivateBroker.start()
            broker.suspend()
            // The system still accepts the connection; nobody reads from it.
            #expect(try Knock.answer(to: Knock.protocolHeader, port: broker.port, count: 1, seconds: 1) == [])
            broker.resume()
            #expect(try Knock.answer(to: Knock.protocolHeader, port: broker.port, count: 1) == [1])
            #expect(try await broker.evaluate("1 + 1") == "2")

            broker.suspend()
            await broker.kill()
            try await broker.start()
            broker.suspend()
            try await broker.stop()
            try await broker.start()
            #expect(try await broker.evaluate("1 + 1") == "2")
            broker.suspend()
            let directory = broker.directory
            await broker.shutDown()
            #expect(try Guarded.processes(of: directory) == [])
        }

        @Test("its memory alarm is raised and ended, and is there when the call returns")
        func memoryAlarm() async throws {
            let broker = try await PrivateBroker.start()
            let alarm = "[{{resource_limit,memory,\(broker.nodeName)},[]}]"
            for _ in 0..<3 {
                #expect(try await broker.evaluate("rabbit_alarm:get_alarms()") == "[]")
                try await broker.setMemoryAlarm(true)
                #expect(try await broker.evaluate("rabbit_alarm:get_alarms()") == alarm)
                try await broker.setMemoryAlarm(false)
            }
            #expect(try await broker.evaluate("rabbit_alarm:get_alarms()") == "[]")
        }

        @Test("plugins and settings are those that were asked for; what it is not told it takes from nobody")
        func options() async throws {
            let broker = try await PrivateBroker.start(
                .init(
                    plugins: ["rabbitmq_consistent_hash_exchange"], settings: ["channel_max": "17", "heartbeat": "5"]))
            #expect(broker.tlsPort == nil)
            #expect(try await broker.makeVirtualHost().tlsURL() == nil)
            #expect(try await broker.evaluate("application:get_env(rabbit, channel_max)") == "{ok,17}")
            #expect(try await broker.evaluate("application:get_env(rabbit, heartbeat)") == "{ok,5}")
            #expect(try await broker.evaluate("rabbit_plugins:active()") == "[rabbitmq_consistent_hash_exchange]")
        }

        @Test("one that cannot start says why, with the end of its log, and leaves nothing")
        func cannotStart() async throws {
            let error = await #expect(throws: PrivateBrokerError.self) {
                try await PrivateBroker.start(.init(settings: ["no_such_setting": "1"]))
            }
            let description = try #require(error?.description)
            #expect(description.contains("did not start"))
            #expect(description.contains("no_such_setting"), "\(description)")
            let path = try #require(description.split(separator: " ").first { $0.hasPrefix("/") })
            try await Gone.wait(for: [String(path.prefix(while: { $0 != ":" }))])
        }

        @Test("one that nobody holds any more ends")
        func released() async throws {
            var broker: PrivateBroker? = try await PrivateBroker.start()
            let directory = try #require(broker?.directory)
            #expect(try Guarded.processes(of: directory).count >= 3)
            broker = nil
            try await Gone.wait(for: [directory])
        }
    }
}
