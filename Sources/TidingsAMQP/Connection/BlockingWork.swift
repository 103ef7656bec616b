internal import CTidingsRabbitMQ
internal import Glibc

/// Work that blocks, on a thread of its own that ends with it.
///
/// Not on a queue of Dispatch: its threads are few, and one that blocks for another would wait for ever.
enum BlockingWork {
    /// The library decodes nested tables by recursion without a limit (before 0.14): a frame of 128 KiB can hold 26,000
    /// levels. Pages of a stack that are never touched cost nothing.
    static let stackSize = 64 << 20

    private final class Body: Sendable {
        let run: @Sendable () -> Void

        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    /// Starts the work. Throws `resources` where the system has no thread for it.
    static func start(_ body: @escaping @Sendable () -> Void) throws(AMQPError) {
        var attributes = pthread_attr_t()
        unsafe pthread_attr_init(&attributes)
        defer { unsafe pthread_attr_destroy(&attributes) }
        unsafe pthread_attr_setstacksize(&attributes, stackSize)
        unsafe pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        // Retained here, released by the thread.
        let context = unsafe Unmanaged.passRetained(Body(body)).toOpaque()
        var thread = pthread_t()
        let code = unsafe pthread_create(
            &thread, &attributes,
            { context in
                guard let context = unsafe context else { return nil }
                unsafe tidings_amqp_name_thread("amqp-opening")
                unsafe Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run()
                return nil
            }, context)
        guard code == 0 else {
            unsafe Unmanaged<Body>.fromOpaque(context).release()
            throw AMQPError(.resources, "no thread to reach a broker by (error \(code)): raise the limit of threads")
        }
    }
}
