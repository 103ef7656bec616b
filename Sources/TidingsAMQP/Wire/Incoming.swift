internal import CTidingsRabbitMQ

/// A frame from the broker, in this module's own terms.
@unsafe enum Incoming {
    /// A method on a channel.
    case method(channel: UInt16, IncomingMethod)
    /// The header of a message's content: good until the channel's memory is released.
    case header(channel: UInt16, bodySize: UInt64, UnsafePointer<amqp_basic_properties_t>)
    /// A piece of a body: good until the next frame is read.
    case body(channel: UInt16, UnsafeRawBufferPointer)
}

/// A method from the broker.
enum IncomingMethod {
    case ack(tag: UInt64, isMultiple: Bool)
    case nack(tag: UInt64, isMultiple: Bool)
    case delivery(tag: UInt64, isRedelivered: Bool, AMQPAddress)
    case returned(code: UInt16, text: String, AMQPAddress)
    case channelClosed(BrokerClose)
    case connectionClosed(BrokerClose)
    case consumerCancelled
    case blocked(reason: String)
    case unblocked
    case reply(Reply)
    /// One that needs no answer here.
    case ignored(number: UInt32)
}

/// Why the broker closed a channel or the connection.
struct BrokerClose: Hashable {
    var code: UInt16
    var text: String
    var classID: UInt16
    var methodID: UInt16
}

/// The answer to a request.
enum Reply: Hashable {
    case channelOpened
    case channelClosed
    case connectionClosed
    case confirmsSelected
    case prefetchLimited
    case consuming
    case consumerCancelled
    case exchangeDeclared
    case exchangeDeleted
    case bound
    case unbound
    case queueDeleted
    /// A queue is there, with this many messages ready and consumers.
    case queue(messages: UInt32, consumers: UInt32)
}

extension IncomingMethod {
    /// Copies a method out of the library's memory. Nil is one that the protocol knows no place for here.
    @unsafe init(_ method: amqp_method_t, _ recent: inout RecentTexts) {
        let decoded = unsafe method.decoded
        /// The method's fields.
        func fields<Fields>(_: Fields.Type) -> Fields { unsafe decoded!.load(as: Fields.self) }
        switch unsafe method.id {
        case AMQP_BASIC_ACK_METHOD:
            let ack = fields(amqp_basic_ack_t.self)
            self = .ack(tag: ack.delivery_tag, isMultiple: ack.multiple != 0)
        case AMQP_BASIC_NACK_METHOD:
            let nack = fields(amqp_basic_nack_t.self)
            self = .nack(tag: nack.delivery_tag, isMultiple: nack.multiple != 0)
        case AMQP_BASIC_DELIVER_METHOD:
            let delivery = unsafe fields(amqp_basic_deliver_t.self)
            self = .delivery(
                tag: unsafe delivery.delivery_tag, isRedelivered: unsafe delivery.redelivered != 0,
                unsafe AMQPAddress(
                    exchange: recent.exchange.text(delivery.exchange),
                    routingKey: recent.routingKey.text(delivery.routing_key)))
        case AMQP_BASIC_RETURN_METHOD:
            let returned = unsafe fields(amqp_basic_return_t.self)
            self = .returned(
                code: unsafe returned.reply_code, text: unsafe String(returned.reply_text),
                unsafe AMQPAddress(exchange: String(returned.exchange), routingKey: String(returned.routing_key)))
        case AMQP_CHANNEL_CLOSE_METHOD:
            let close = unsafe fields(amqp_channel_close_t.self)
            self = .channelClosed(
                unsafe BrokerClose(
                    code: close.reply_code, text: String(close.reply_text), classID: close.class_id,
                    methodID: close.method_id))
        case AMQP_CONNECTION_CLOSE_METHOD:
            let close = unsafe fields(amqp_connection_close_t.self)
            self = .connectionClosed(
                unsafe BrokerClose(
                    code: close.reply_code, text: String(close.reply_text), classID: close.class_id,
                    methodID: close.method_id))
        case AMQP_CONNECTION_BLOCKED_METHOD:
            self = .blocked(reason: unsafe String(fields(amqp_connection_blocked_t.self).reason))
        case AMQP_CONNECTION_UNBLOCKED_METHOD: self = .unblocked
        case AMQP_BASIC_CANCEL_METHOD: self = .consumerCancelled
        case AMQP_QUEUE_DECLARE_OK_METHOD:
            let queue = unsafe fields(amqp_queue_declare_ok_t.self)
            self = .reply(.queue(messages: unsafe queue.message_count, consumers: unsafe queue.consumer_count))
        case AMQP_CHANNEL_OPEN_OK_METHOD: self = .reply(.channelOpened)
        case AMQP_CHANNEL_CLOSE_OK_METHOD: self = .reply(.channelClosed)
        case AMQP_CONNECTION_CLOSE_OK_METHOD: self = .reply(.connectionClosed)
        case AMQP_CONFIRM_SELECT_OK_METHOD: self = .reply(.confirmsSelected)
        case AMQP_BASIC_QOS_OK_METHOD: self = .reply(.prefetchLimited)
        case AMQP_BASIC_CONSUME_OK_METHOD: self = .reply(.consuming)
        case AMQP_BASIC_CANCEL_OK_METHOD: self = .reply(.consumerCancelled)
        case AMQP_EXCHANGE_DECLARE_OK_METHOD: self = .reply(.exchangeDeclared)
        case AMQP_EXCHANGE_DELETE_OK_METHOD: self = .reply(.exchangeDeleted)
        case AMQP_QUEUE_BIND_OK_METHOD: self = .reply(.bound)
        case AMQP_QUEUE_UNBIND_OK_METHOD: self = .reply(.unbound)
        case AMQP_QUEUE_DELETE_OK_METHOD: self = .reply(.queueDeleted)
        default: self = .ignored(number: unsafe method.id)
        }
    }
}
