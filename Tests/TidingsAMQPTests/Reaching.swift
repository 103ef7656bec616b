import Testing
import TidingsAMQP
import TidingsTestKit

extension AMQPConfiguration {
    /// One attempt to reach an endpoint.
    static func once(_ endpoint: AMQPEndpoint) -> AMQPConfiguration {
        var configuration = AMQPConfiguration([endpoint], name: "test")
        configuration.recovery = .never
        return configuration
    }
}

/// Connects, publishes one message and consumes it.
func roundTrip(_ endpoint: AMQPEndpoint) async throws {
    try await AMQPConnection.withConnection(.once(endpoint)) { connection in
        try await connection.declare(AMQPTopology(queues: [AMQPQueue("q", isDurable: false, isExclusive: true)]))
        let publisher = await connection.publisher()
        #expect(try await publisher.publish(AMQPMessage("through"), to: .queue("q")) == .confirmed)
        #expect(try await connection.consume("q").take(1).map(\.message.body) == [Array("through".utf8)])
    }
}

/// The error with which the one attempt to connect fails; nil where it does not.
func refusal(_ endpoint: AMQPEndpoint) async throws -> AMQPError? {
    let connection = try AMQPConnection(.once(endpoint))
    async let closed: Void = {
        for await state in connection.states() where state == .open { await connection.close() }
    }()
    do {
        try await connection.run()
    } catch let error as AMQPError {
        await closed
        return error
    }
    await closed
    return nil
}

/// Expects the one attempt to connect to fail with exactly this, and without a word of the credentials.
func expectRefusal(
    _ endpoint: AMQPEndpoint, _ code: AMQPError.Code, _ message: String, replyCode: UInt16? = nil,
    at location: SourceLocation = #_sourceLocation
) async throws {
    let error = try #require(try await refusal(endpoint), sourceLocation: location)
    #expect(error.code == code, "\(error)", sourceLocation: location)
    #expect(error.message == message, sourceLocation: location)
    #expect(error.replyCode == replyCode, sourceLocation: location)
    var shown = "\(error)"
    dump(error, to: &shown)
    if case .plain(_, let password) = endpoint.credentials {
        #expect(!shown.contains(password), sourceLocation: location)
    }
    if let passphrase = endpoint.tls?.keyPassphrase, !passphrase.isEmpty {
        #expect(!shown.contains(passphrase), sourceLocation: location)
    }
}
