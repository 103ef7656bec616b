internal import CTidingsRabbitMQ
internal import Glibc

/// A thread of the system's own, on which work may block without holding up anyone else.
///
/// Not one of Dispatch: its threads are few, and one that blocks for another would wait for ever.
package struct SystemThread: Sendable {
    /// The library decodes nested tables by recursion without a limit (before 0.14): a frame of 128 KiB can hold 26,000
    /// levels. Pages of a stack that are never touched cost nothing.
    private static let stackSize = 64 << 20

    private final class Body: Sendable {
        let name: String
        let run: @Sendable () -> Void

        init(_ name: String, _ run: @escaping @Sendable () -> Void) {
            self.name = name
            self.run = run
        }
    }

    private let thread: pthread_t

    /// Starts a thread, to be joined or detached. `name` shows in debuggers and `ps`; its first 15 bytes count.
    ///
    /// Throws `resources` where the system has no thread for it.
    package init(_ name: String, _ body: @escaping @Sendable () -> Void) throws(AMQPError) {
        var attributes = pthread_attr_t()
        unsafe pthread_attr_init(&attributes)
        defer { unsafe pthread_attr_destroy(&attributes) }
        unsafe pthread_attr_setstacksize(&attributes, Self.stackSize)
        // Retained here, released by the thread.
        let context = unsafe Unmanaged.passRetained(Body(name, body)).toOpaque()
        var thread = pthread_t()
        let code = unsafe pthread_create(
            &thread, &attributes,
            { context in
                guard let context = unsafe context else { return nil }
                let body = unsafe Unmanaged<Body>.fromOpaque(context).takeRetainedValue()
                unsafe tidings_amqp_name_thread(body.name)
                body.run()
                return nil
            }, context)
        guard code == 0 else {
            unsafe Unmanaged<Body>.fromOpaque(context).release()
            throw AMQPError(.resources, "no thread for '\(name)' (error \(code)): raise the limit of threads")
        }
        self.thread = thread
    }

    /// True where the caller is on the thread.
    package var isCurrent: Bool { pthread_equal(pthread_self(), thread) != 0 }

    /// Waits for the end of the thread, except on the thread itself. Once, and not after ``detach()``.
    package func join() {
        if isCurrent { pthread_detach(thread) } else { pthread_join(thread, nil) }
    }

    /// Lets the thread end by itself.
    package func detach() { pthread_detach(thread) }
}
