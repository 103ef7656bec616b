import Testing
import TidingsAMQP

struct ErrorTests {
    @Test("An error tells its kind, its reply code and its message on one line")
    func description() {
        let error = AMQPError(.notFound, "no queue 'q'", replyCode: 404, subject: "q")
        #expect(error.description == "AMQP error (notFound, 404): no queue 'q'")
        #expect(AMQPError(.refused, "nothing listens").description == "AMQP error (refused): nothing listens")
    }

    @Test("What the network does is retriable, what the configuration does is fatal")
    func retriable() {
        #expect(AMQPError(.connectionLost, "").isRetriable)
        #expect(!AMQPError(.connectionLost, "").isFatal)
        #expect(AMQPError(.authentication, "").isFatal)
        #expect(!AMQPError(.closed, "").isFatal)
    }
}
