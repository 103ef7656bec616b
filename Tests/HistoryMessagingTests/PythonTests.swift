import Foundation
import PersistentHistory
import Testing
import TidingsAMQP
import TidingsSQLite
import TidingsTestKit

@testable import HistoryMessaging

/// What other languages see, read by a program in Python that shares no code with the encoder.
@Suite("Python", .timeLimit(.minutes(10)))
struct PythonTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    private static func path(_ name: String) -> String { root.appending(path: name).path(percentEncoded: false) }

    /// The interpreter with the packages that the programs need: TIDINGS_PYTHON, or a new environment under .build.
    private func interpreter() async throws -> String {
        if let path = ProcessInfo.processInfo.environment["TIDINGS_PYTHON"], !path.isEmpty { return path }
        let made = try await FinishedProcess.run(
            Self.path("Config/python/environment"), [Self.path(".build/python")])
        try #require(made.ending == .exited(0), "\(made.error)")
        return made.output.trimmingCharacters(in: .newlines)
    }

    private func run(_ arguments: [String]) async throws -> FinishedProcess {
        try await FinishedProcess.run(try await interpreter(), [Self.path("Config/python/rebuild.py")] + arguments)
    }

    private static func schema(_ name: String) -> String { path("Config/schema/\(name).json") }

    @Test("the golden messages follow their JSON schemas")
    func golden() async throws {
        let files = GoldenMessage.transactions.map { GoldenMessage(name: $0).path }
        let checked = try await run(["--schema", Self.schema("history-message"), "--check"] + files)
        #expect(checked.output.split(separator: "\n").map(String.init) == files, "\(checked.error)")
        for name in GoldenMessage.others {
            let path = GoldenMessage(name: name).path
            let checked = try await run(["--schema", Self.schema(name), "--check", path])
            #expect(checked.output == "\(path)\n", "\(checked.error)")
            let wrong = try await run(["--schema", Self.schema(name), "--check", files[0]])
            #expect(wrong.ending == .exited(1))
        }
        let announcements = GoldenMessage.announcements.map { GoldenMessage(name: "announcement-\($0)").path }
        let announced = try await run(["--schema", Self.schema("announcement"), "--check"] + announcements)
        #expect(announced.output.split(separator: "\n").map(String.init) == announcements, "\(announced.error)")
        let reply = GoldenMessage(name: "control-reply").path
        let wrong = try await run(["--schema", Self.schema("announcement"), "--check", reply])
        #expect(wrong.ending == .exited(1))
    }

    @Test("every table is rebuilt from messages alone, sent twice and out of order", arguments: RandomRows.tables)
    func rebuild(table: RandomRows.Table) async throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        let temporary = try await RandomRows.makeStore()
        var rows = RandomRows(random: SeededGenerator(seed: seed))
        var written = 0
        while written < 300 { written += try await rows.write(to: temporary.store) ? 1 : 0 }
        let transactions = try await temporary.transactions()

        let host = try await PrivateBroker.shared().makeVirtualHost()
        let names = BrokerNames(prefix: "tidings", store: "main")
        let messages = try await encode(transactions, names, user: host.user)
        let sent = Self.disturbed(messages)
        try await publish(sent, names, to: host)

        let counts = try await rebuild(table, temporary, seed, from: "rebuild", of: host)
        #expect(counts["messages"] == sent.count)
        #expect(counts["duplicates"] == sent.count - transactions.count)
    }

    @Test("tables are rebuilt from what publishers of two authors, and a relay for a third one, have sent")
    func published() async throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        let temporary = try await RandomRows.makeStore()
        let second = try await HistoryStore.open(temporary.path, author: "second")
        let third = try await HistoryStore.open(temporary.path, author: "third")
        let host = try await PrivateBroker.shared().makeVirtualHost()
        let broker = try Broker(urls: host.url)
        let tables = RandomRows.tables.prefix(2)
        let queues = tables.indices.map { "rebuild \($0)" }
        try await bind(queues, broker.names(for: temporary.store), of: host)
        var options = HistoryRelay.Options()
        options.pollInterval = .milliseconds(20)
        let relay = HistoryRelay(third, broker: broker, options: options)
        let publishers = [temporary.store, second].map { HistoryPublisher($0, broker: broker) }
        try await withServices(publishers[0], publishers[1], relay) {
            var rows = RandomRows(random: SeededGenerator(seed: seed))
            for turn in 0..<90 {
                let author = [temporary.store, second, third][turn % 3]
                while try await !rows.write(to: author) {}
            }
            let head = try await temporary.store.currentToken().sequence
            try await until { try await temporary.store.info().publishedSequence == head }
        }
        // Each of the three has sent a part; what two have sent is a repetition.
        for publisher in publishers { #expect(await publisher.status().confirmed >= 30) }
        #expect(await relay.status().confirmed >= 30)
        for (table, queue) in zip(tables, queues) {
            _ = try await rebuild(table, temporary, seed, from: queue, of: host)
        }
        for store in [second, third] { await store.close() }
    }

    /// Rebuilds a table from a queue alone, and compares it with the store. Gives what the program has counted.
    private func rebuild(
        _ table: RandomRows.Table, _ temporary: TemporaryStore, _ seed: UInt64, from queue: String,
        of host: TestVirtualHost
    ) async throws -> [String: Int] {
        let file = temporary.directory.file("rebuilt \(queue).db")
        let head = try await temporary.store.currentToken().sequence
        let rebuilt = try await run([
            "--schema", Self.schema("history-message"), "--url", host.url, "--queue", queue, "--entity", table.name,
            "--database", file, "--through", "\(head)",
        ])
        try #require(rebuilt.ending == .exited(0), "seed \(seed): \(rebuilt.error)")
        let changes = try await temporary.store.changes().reduce(0) { $0 + ($1.entity == table.name ? 1 : 0) }
        let counts = try JSONDecoder().decode([String: Int].self, from: Data(rebuilt.output.utf8))
        #expect(counts["transactions"] == Int(head))
        #expect(counts["changes"] == changes)

        let columns = table.columns.filter { !table.options.redactedColumns.contains($0) }
        let expected = try await temporary.store.read { db in try Self.contents(table.name, columns, db) }
        let database = try Database(path: file, options: OpenOptions(access: .readOnly))
        defer { database.close() }
        #expect(try Self.contents(table.name, columns, database) == expected, "seed \(seed)")
        #expect(expected.count > 5)
        return counts
    }

    @Test(
        "what messages alone do not tell ends the rebuilding, and says so",
        arguments: [
            (
                "a broken chain", 3,
                "rebuild: transaction 3 does not follow the one before: load the table from the store"
            ),
            ("an omission", 3, "rebuild: the changes of transaction 3 were omitted: load the table from the store"),
            ("a new column", 3, "rebuild: the table t had a schema record 'alter': load the table from the store"),
            ("a broken schema", 1, "rebuild: a message breaks the schema at $"),
        ])
    func insufficient(what: String, code: Int32, message: String) async throws {
        let temporary = try await TemporaryStore(schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        try await temporary.write("INSERT INTO t VALUES (1, 'a')")
        try await temporary.write(
            what == "a new column" ? "ALTER TABLE t ADD COLUMN w" : "UPDATE t SET v = printf('%.5000c', 'b')")
        let host = try await PrivateBroker.shared().makeVirtualHost()
        let names = BrokerNames(prefix: "tidings", store: "main")
        var encoder = HistoryMessageEncoder(
            names: names, user: nil, limit: what == "an omission" ? 4096 : 256 << 10)
        let transactions = try await temporary.transactions()
        var previous = transactions.map { UInt64?.some($0.token.nonce) }
        if what == "a broken chain" { previous[1] = 1 }
        var messages: [AMQPMessage] = []
        for (transaction, previous) in zip(transactions, [nil] + previous) {
            messages.append(try await encoder.encode(transaction, previousNonce: previous).message)
        }
        if what == "a broken schema" { messages[2].body = Array("{}".utf8) }
        try await publish(messages, names, to: host)
        let rebuilt = try await run([
            "--schema", Self.schema("history-message"), "--url", host.url, "--queue", "rebuild", "--entity", "t",
            "--database", temporary.directory.file("rebuilt.db"), "--through", "3",
        ])
        #expect(rebuilt.ending == .exited(code))
        #expect(rebuilt.error == message + "\n")
    }

    /// The rows, in an order that both databases share.
    private static func contents(_ table: String, _ columns: [String], _ db: Database) throws -> [[SQLiteValue]] {
        func quoted(_ name: String) -> String { "\"" + name.replacing("\"", with: "\"\"") + "\"" }
        let list = columns.map(quoted).joined(separator: ", ")
        return try db.rows("SELECT \(list) FROM \(quoted(table))").sorted { "\($0)" < "\($1)" }
    }

    private func encode(
        _ transactions: [HistoryTransaction], _ names: BrokerNames, user: String
    ) async throws -> [AMQPMessage] {
        var encoder = HistoryMessageEncoder(names: names, user: user)
        var previous: UInt64?
        var messages: [AMQPMessage] = []
        for transaction in transactions {
            messages.append(try await encoder.encode(transaction, previousNonce: previous).message)
            previous = transaction.token.nonce
        }
        return messages
    }

    /// Pairs swapped, and every fifth message again, some ten later.
    private static func disturbed(_ messages: [AMQPMessage]) -> [AMQPMessage] {
        var sent: [AMQPMessage] = []
        for index in messages.indices.dropLast(messages.count % 2) {
            sent.append(messages[index ^ 1])
            if index % 5 == 0, index >= 10 { sent.append(messages[index - 10]) }
        }
        return sent + messages.suffix(messages.count % 2)
    }

    /// Makes queues that get all history.
    private func bind(_ queues: [String], _ names: BrokerNames, of host: TestVirtualHost) async throws {
        let configuration = try AMQPConfiguration(urls: host.url, name: "python test")
        try await AMQPConnection.withConnection(configuration) { connection in
            var topology = names.publishing
            topology.queues = queues.map { AMQPQueue($0) }
            topology.bindings = queues.map { AMQPBinding(queue: $0, exchange: names.history, key: names.allHistory) }
            try await connection.declare(topology)
        }
    }

    private func publish(_ messages: [AMQPMessage], _ names: BrokerNames, to host: TestVirtualHost) async throws {
        try await bind(["rebuild"], names, of: host)
        let configuration = try AMQPConfiguration(urls: host.url, name: "python test")
        try await AMQPConnection.withConnection(configuration) { connection in
            let publisher = await connection.publisher()
            let address = AMQPAddress(exchange: names.history, routingKey: names.historyKey(author: "orders"))
            let results = try await publisher.publish(messages.map { AMQPPublication($0, to: address) })
            #expect(results == Array(repeating: .confirmed, count: messages.count))
        }
    }
}
