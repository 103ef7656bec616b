internal import CTidingsRabbitMQ

/// A method that this side sends, but for publishing.
///
/// [AMQP 0-9-1 reference](https://www.rabbitmq.com/amqp-0-9-1-reference.html)
enum Request {
    case openChannel
    case closeChannel
    case confirmChannelClosed
    case closeConnection
    case confirmConnectionClosed
    case selectConfirms
    case limitPrefetch(UInt16)
    case consume(queue: String, tag: String, isExclusive: Bool, arguments: AMQPTable)
    case cancelConsumer(tag: String)
    case declareExchange(AMQPExchange)
    case declareQueue(AMQPQueue)
    case inspectQueue(String)
    case bind(AMQPBinding)
    case unbind(AMQPBinding)
    case deleteQueue(String)
    case deleteExchange(String)
    case ack(tag: UInt64, isMultiple: Bool)
    case reject(tag: UInt64, requeue: Bool)

    /// True where a reply is to this request. Those without a reply are answered by none.
    func isAnswered(by reply: Reply) -> Bool {
        switch (self, reply) {
        case (.openChannel, .channelOpened), (.closeChannel, .channelClosed), (.closeConnection, .connectionClosed),
            (.selectConfirms, .confirmsSelected), (.limitPrefetch, .prefetchLimited), (.consume, .consuming),
            (.cancelConsumer, .consumerCancelled), (.declareExchange, .exchangeDeclared),
            (.deleteExchange, .exchangeDeleted), (.bind, .bound), (.unbind, .unbound),
            (.deleteQueue, .queueDeleted), (.declareQueue, .queue), (.inspectQueue, .queue):
            true
        default: false
        }
    }

    /// What it is called in errors.
    var name: String {
        switch self {
        case .openChannel: "opening a channel"
        case .closeChannel, .confirmChannelClosed: "closing a channel"
        case .closeConnection, .confirmConnectionClosed: "closing the connection"
        case .selectConfirms: "turning publisher confirms on"
        case .limitPrefetch: "setting the prefetch limit"
        case .consume(let queue, _, _, _): "consuming from queue '\(queue)'"
        case .cancelConsumer: "cancelling a consumer"
        case .declareExchange(let exchange): "declaring exchange '\(exchange.name)'"
        case .declareQueue(let queue): "declaring queue '\(queue.name)'"
        case .inspectQueue(let name): "inspecting queue '\(name)'"
        case .bind(let binding): "binding queue '\(binding.queue)' to exchange '\(binding.exchange)'"
        case .unbind(let binding): "unbinding queue '\(binding.queue)' from exchange '\(binding.exchange)'"
        case .deleteQueue(let name): "deleting queue '\(name)'"
        case .deleteExchange(let name): "deleting exchange '\(name)'"
        case .ack, .reject: "settling a delivery"
        }
    }
}

extension Request {
    /// Sends the method. Gives the library's status.
    ///
    /// Texts and tables live in the arena until the call returns; the library copies them into its frame.
    @unsafe func send(_ state: amqp_connection_state_t, channel: UInt16, arena: Arena) -> Int32 {
        arena.recycle()
        /// Sends a method with its fields.
        func send<Fields: BitwiseCopyable>(_ number: amqp_method_number_t, _ fields: Fields) -> Int32 {
            unsafe withUnsafeBytes(of: fields) {
                // The library only reads the fields.
                unsafe amqp_send_method(state, channel, number, UnsafeMutableRawPointer(mutating: $0.baseAddress))
            }
        }
        switch self {
        case .openChannel:
            return unsafe send(AMQP_CHANNEL_OPEN_METHOD, amqp_channel_open_t(out_of_band: amqp_empty_bytes))
        case .confirmChannelClosed: return send(AMQP_CHANNEL_CLOSE_OK_METHOD, amqp_channel_close_ok_t())
        case .confirmConnectionClosed: return send(AMQP_CONNECTION_CLOSE_OK_METHOD, amqp_connection_close_ok_t())
        case .selectConfirms: return send(AMQP_CONFIRM_SELECT_METHOD, amqp_confirm_select_t(nowait: 0))
        case .limitPrefetch(let count):
            return send(AMQP_BASIC_QOS_METHOD, amqp_basic_qos_t(prefetch_size: 0, prefetch_count: count, global: 0))
        case .ack(let tag, let isMultiple):
            return send(AMQP_BASIC_ACK_METHOD, amqp_basic_ack_t(delivery_tag: tag, multiple: isMultiple ? 1 : 0))
        case .reject(let tag, let requeue):
            return send(AMQP_BASIC_REJECT_METHOD, amqp_basic_reject_t(delivery_tag: tag, requeue: requeue ? 1 : 0))
        case .closeChannel:
            return unsafe send(
                AMQP_CHANNEL_CLOSE_METHOD,
                amqp_channel_close_t(reply_code: 200, reply_text: amqp_empty_bytes, class_id: 0, method_id: 0))
        case .closeConnection:
            return unsafe send(
                AMQP_CONNECTION_CLOSE_METHOD,
                amqp_connection_close_t(reply_code: 200, reply_text: amqp_empty_bytes, class_id: 0, method_id: 0))
        case .consume(let queue, let tag, let isExclusive, let arguments):
            return unsafe send(
                AMQP_BASIC_CONSUME_METHOD,
                amqp_basic_consume_t(
                    ticket: 0, queue: arena.bytes(queue), consumer_tag: arena.bytes(tag), no_local: 0, no_ack: 0,
                    exclusive: isExclusive ? 1 : 0, nowait: 0, arguments: arena.table(arguments)))
        case .cancelConsumer(let tag):
            return unsafe send(AMQP_BASIC_CANCEL_METHOD, amqp_basic_cancel_t(consumer_tag: arena.bytes(tag), nowait: 0))
        default: return unsafe sendTopology(state, channel: channel, arena: arena)
        }
    }

    @unsafe private func sendTopology(_ state: amqp_connection_state_t, channel: UInt16, arena: Arena) -> Int32 {
        func send<Fields: BitwiseCopyable>(_ number: amqp_method_number_t, _ fields: Fields) -> Int32 {
            unsafe withUnsafeBytes(of: fields) {
                // The library only reads the fields.
                unsafe amqp_send_method(state, channel, number, UnsafeMutableRawPointer(mutating: $0.baseAddress))
            }
        }
        switch self {
        case .declareExchange(let exchange):
            return unsafe send(
                AMQP_EXCHANGE_DECLARE_METHOD,
                amqp_exchange_declare_t(
                    ticket: 0, exchange: arena.bytes(exchange.name), type: arena.bytes(exchange.type.rawValue),
                    passive: 0, durable: exchange.isDurable ? 1 : 0, auto_delete: exchange.isAutoDelete ? 1 : 0,
                    internal: 0, nowait: 0, arguments: arena.table(exchange.arguments)))
        case .declareQueue(let queue):
            return unsafe send(
                AMQP_QUEUE_DECLARE_METHOD,
                amqp_queue_declare_t(
                    ticket: 0, queue: arena.bytes(queue.name), passive: 0, durable: queue.isDurable ? 1 : 0,
                    exclusive: queue.isExclusive ? 1 : 0, auto_delete: queue.isAutoDelete ? 1 : 0, nowait: 0,
                    arguments: arena.table(queue.arguments)))
        case .inspectQueue(let name):
            return unsafe send(
                AMQP_QUEUE_DECLARE_METHOD,
                amqp_queue_declare_t(
                    ticket: 0, queue: arena.bytes(name), passive: 1, durable: 0, exclusive: 0, auto_delete: 0,
                    nowait: 0, arguments: amqp_empty_table))
        case .bind(let binding):
            return unsafe send(
                AMQP_QUEUE_BIND_METHOD,
                amqp_queue_bind_t(
                    ticket: 0, queue: arena.bytes(binding.queue), exchange: arena.bytes(binding.exchange),
                    routing_key: arena.bytes(binding.key), nowait: 0, arguments: arena.table(binding.arguments)))
        case .unbind(let binding):
            return unsafe send(
                AMQP_QUEUE_UNBIND_METHOD,
                amqp_queue_unbind_t(
                    ticket: 0, queue: arena.bytes(binding.queue), exchange: arena.bytes(binding.exchange),
                    routing_key: arena.bytes(binding.key), arguments: arena.table(binding.arguments)))
        case .deleteQueue(let name):
            return unsafe send(
                AMQP_QUEUE_DELETE_METHOD,
                amqp_queue_delete_t(ticket: 0, queue: arena.bytes(name), if_unused: 0, if_empty: 0, nowait: 0))
        case .deleteExchange(let name):
            return unsafe send(
                AMQP_EXCHANGE_DELETE_METHOD,
                amqp_exchange_delete_t(ticket: 0, exchange: arena.bytes(name), if_unused: 0, nowait: 0))
        default: preconditionFailure("a method without a case: \(name)")
        }
    }
}
