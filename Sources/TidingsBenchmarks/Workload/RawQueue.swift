import CTidingsRabbitMQ
import Glibc

/// A queue of its own for a slice.
enum RawQueue {
    /// Makes a queue, lends its name, and takes it away.
    static func with<Result>(
        _ type: QueueType, _ endpoint: BrokerEndpoint, _ body: (String) async throws -> Result
    ) async throws -> Result {
        let name = "tidings-benchmark-\(getpid())-\(UInt64.random(in: 0 ... .max))"
        try declare(name, type, RawBrokerConnection(endpoint))
        do {
            let result = try await body(name)
            try delete(name, RawBrokerConnection(endpoint))
            return result
        } catch {
            // What happened first tells more than that the queue could not be deleted either.
            try? delete(name, RawBrokerConnection(endpoint))
            throw error
        }
    }

    private static func declare(_ name: String, _ type: QueueType, _ connection: RawBrokerConnection) throws {
        let name = RawText(name)
        let key = RawText("x-queue-type")
        let value = RawText("quorum")
        var entry = amqp_table_entry_t()
        entry.key = key.bytes
        entry.value.kind = UInt8(AMQP_FIELD_KIND_UTF8.rawValue)
        entry.value.value.bytes = value.bytes
        withExtendedLifetime((name, key, value)) {
            withUnsafeMutablePointer(to: &entry) { entry in
                let arguments = amqp_table_t(num_entries: type == .quorum ? 1 : 0, entries: entry)
                _ = amqp_queue_declare(
                    connection.state, RawBrokerConnection.channel, name.bytes, 0, type == .transient ? 0 : 1, 0, 0,
                    arguments)
            }
        }
        try connection.checkReply("declaring a queue")
    }

    private static func delete(_ name: String, _ connection: RawBrokerConnection) throws {
        let name = RawText(name)
        _ = withExtendedLifetime(name) {
            amqp_queue_delete(connection.state, RawBrokerConnection.channel, name.bytes, 0, 0)
        }
        try connection.checkReply("deleting a queue")
    }
}
