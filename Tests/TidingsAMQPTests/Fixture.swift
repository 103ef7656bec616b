import TidingsAMQP
import TidingsTestKit

/// A virtual host of the run's broker, and connections to it.
struct Fixture {
    let broker: PrivateBroker
    let host: TestVirtualHost

    init() async throws {
        broker = try await PrivateBroker.shared()
        host = try await broker.makeVirtualHost()
    }

    /// How tests connect: bounds short enough to see them pass.
    func configuration(_ name: String = "test") throws -> AMQPConfiguration {
        var configuration = try AMQPConfiguration(urls: host.url, name: name)
        configuration.recovery = .always(Backoff(first: .milliseconds(50), longest: .milliseconds(500)))
        return configuration
    }

    /// The processes of the virtual host's channels, as the broker names them.
    func channels() async throws -> String {
        try await broker.evaluate(
            """
            lists:sort([P || P <- rabbit_channel:list_local(),
                (catch rabbit_channel:info(P, [vhost])) =:= [{vhost, \(PrivateBroker.binary(host.name))}]])
            """)
    }

    /// Runs a closure with an open connection.
    func connected<Value: Sendable>(
        _ body: @Sendable (AMQPConnection) async throws -> Value
    ) async throws -> Value {
        try await AMQPConnection.withConnection(configuration(), body)
    }
}

/// Bodies that can be told apart.
func numbered(_ range: Range<Int>, to queue: String, size: Int = 16) -> [AMQPPublication] {
    range.map { number in
        var text = String(number)
        text += String(repeating: " ", count: max(0, size - text.utf8.count))
        return AMQPPublication(
            AMQPMessage(text, properties: AMQPProperties(messageID: String(number))), to: .queue(queue))
    }
}

extension AMQPMessage {
    /// The number in a body of ``numbered(_:to:size:)``.
    var number: Int? { Int(String(decoding: body.prefix { $0 != 0x20 }, as: UTF8.self)) }
}

extension AMQPConsumer {
    /// Reads and acks a number of deliveries.
    func take(_ count: Int) async throws -> [AMQPDelivery] {
        var deliveries: [AMQPDelivery] = []
        let iterator = makeAsyncIterator()
        while deliveries.count < count, let delivery = try await iterator.next() {
            delivery.ack()
            deliveries.append(delivery)
        }
        return deliveries
    }
}
