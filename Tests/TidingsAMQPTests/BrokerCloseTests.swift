import Testing

@testable import TidingsAMQP

/// With RabbitMQ 3.10's own words, of `rabbit_amqqueue`, `rabbit_channel`, `rabbit_access_control` and `rabbit_misc`.
struct BrokerCloseTests {
    struct Close: Sendable {
        var code: UInt16
        var text: String
        var kind: AMQPError.Code
        var subject: String?
        var argument: String?
        var remedy = ""
    }

    private static let permission = "; give the permission (rabbitmqctl set_permissions, set_topic_permissions)"
    private static let redeclare = "; delete it or take another name, or declare it as it is"

    private static let closes = [
        // 403
        Close(
            code: 403, text: "ACCESS_REFUSED - access to queue 'orders' in vhost '/' refused for user 'shop'",
            kind: .accessRefused, subject: "orders", remedy: permission),
        Close(
            code: 403, text: "ACCESS_REFUSED - access to exchange 'events' in vhost '/' refused for user 'shop'",
            kind: .accessRefused, subject: "events", remedy: permission),
        Close(
            code: 403,
            text:
                "ACCESS_REFUSED - access to topic 'a.b' in exchange exchange 'events' in vhost '/' refused for user 'shop'",
            kind: .accessRefused, subject: "events", remedy: permission),
        Close(
            code: 403, text: "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'",
            kind: .accessRefused, subject: "amq.mine"),
        Close(
            code: 403, text: "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
            kind: .accessRefused, subject: "amq.mine"),
        Close(
            code: 403, text: "ACCESS_REFUSED - operation not permitted on the default exchange", kind: .accessRefused),
        Close(
            code: 403, text: "ACCESS_REFUSED - queue 'orders' in vhost '/' in exclusive use", kind: .resourceLocked,
            subject: "orders", remedy: "; another consumer has it exclusively"),
        // 404
        Close(
            code: 404, text: "NOT_FOUND - no queue 'orders' in vhost '/'", kind: .notFound, subject: "orders",
            remedy: "; declare it first"),
        Close(
            code: 404, text: "NOT_FOUND - no exchange 'events' in vhost 'a b'", kind: .notFound, subject: "events",
            remedy: "; declare it first"),
        Close(
            code: 404, text: "NOT_FOUND - no queue 'it's' in vhost '/'", kind: .notFound, subject: "it's",
            remedy: "; declare it first"),
        Close(
            code: 404, text: "NOT_FOUND - no queue '' in vhost '/'", kind: .notFound, subject: "",
            remedy: "; declare it first"),
        Close(
            code: 404, text: "NOT_FOUND - no queue '\u{301}é' in vhost '/'", kind: .notFound, subject: "\u{301}é",
            remedy: "; declare it first"),
        Close(
            code: 404, text: "NOT_FOUND - no queue 'queue 'q' in vhost '/'", kind: .notFound, subject: "queue 'q",
            remedy: "; declare it first"),
        // 405
        Close(
            code: 405,
            text: "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'orders' in vhost '/'. It could be "
                + "originally declared on another connection or the exclusive property value does not match that of the "
                + "original declaration.",
            kind: .resourceLocked, subject: "orders", remedy: "; another connection has it exclusively"),
        // 406
        Close(
            code: 406,
            text:
                "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'orders' in vhost '/': received none but "
                + "current is the value 'quorum' of type 'longstr'",
            kind: .preconditionFailed, subject: "orders", argument: "x-queue-type", remedy: redeclare),
        Close(
            code: 406,
            text:
                "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'it's' in vhost '/': received 'true' but current "
                + "is 'false'",
            kind: .preconditionFailed, subject: "it's", argument: "durable", remedy: redeclare),
        Close(
            code: 406,
            text:
                "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'events' in vhost '/': received 'topic' but "
                + "current is 'direct'",
            kind: .preconditionFailed, subject: "events", argument: "type", remedy: redeclare),
        Close(
            code: 406,
            text:
                "PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-exchange' for queue 'orders' in vhost '/': received "
                + "the value 'queue 'x' of type 'longstr' but current is none",
            kind: .preconditionFailed, subject: "orders", argument: "x-dead-letter-exchange", remedy: redeclare),
        Close(
            code: 406,
            text: "PRECONDITION_FAILED - cannot declare queue 'orders': queue limit in vhost '/' (10) is reached",
            kind: .preconditionFailed, subject: "orders"),
        Close(code: 406, text: "PRECONDITION_FAILED - unknown delivery tag 5", kind: .preconditionFailed),
        Close(
            code: 406,
            text:
                "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1800000 ms. This "
                + "timeout value can be configured, see consumers doc guide to learn more",
            kind: .preconditionFailed),
        // The broker cuts its texts at 252 bytes.
        Close(
            code: 404, text: "NOT_FOUND - no queue '" + String(repeating: "q", count: 230) + "...", kind: .notFound,
            remedy: "; declare it first"),
        // Others.
        Close(
            code: 530, text: "NOT_ALLOWED - attempt to reuse consumer tag 'c'", kind: .closedByBroker),
        Close(code: 540, text: "NOT_IMPLEMENTED - prefetch_size!=0 (1)", kind: .closedByBroker),
        Close(code: 504, text: "CHANNEL_ERROR - expected 'channel.open'", kind: .protocolViolation),
        Close(code: 320, text: "", kind: .closedByBroker),
    ]

    @Test(
        "What the broker says becomes an error that names the queue or exchange, the argument and what helps",
        arguments: closes)
    func error(close: Close) {
        let error = BrokerClose(code: close.code, text: close.text, classID: 50, methodID: 10).error(while: "declaring")
        #expect(
            error
                == AMQPError(
                    close.kind, "declaring: \(close.text)\(close.remedy)", replyCode: close.code,
                    subject: close.subject,
                    argument: close.argument))
    }

    @Test("A queue that another consumer has for itself may be free later")
    func retriable() {
        let close = BrokerClose(
            code: 403, text: "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use", classID: 60, methodID: 20)
        #expect(close.error(while: "consuming").isRetriable)
    }
}
