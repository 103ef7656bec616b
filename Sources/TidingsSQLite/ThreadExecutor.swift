internal import CTidingsSQLite
internal import Glibc

/// A serial executor over one thread of its own, on which work may block without holding up anyone else.
package final class ThreadExecutor: SerialExecutor {
    private let state: ThreadState

    /// Starts the thread. `name` shows in debuggers and `ps`; its first 15 bytes count.
    ///
    /// Throws `cannotOpen` where the system starts no more threads.
    package init(name: String) throws(SQLiteError) {
        // Assigned only when it runs: `deinit` waits for its end.
        let started = ThreadState()
        try started.start(name: name)
        state = started
    }

    deinit { state.stop() }

    /// Puts a job at the end of the thread's queue.
    package func enqueue(_ job: consuming ExecutorJob) {
        unsafe state.enqueue(UnownedJob(job), for: asUnownedSerialExecutor())
    }

    /// Stops the process where the caller is not on the thread.
    package func checkIsolated() {
        precondition(state.isCurrent, "not on the executor's thread")
    }
}

/// The queue and its thread. The thread retains it, so that it may outlive the executor by one job.
///
/// Unchecked: every field is read and written with `mutex` locked, but for `thread`, which is written once before
/// the thread can be joined.
@safe private final class ThreadState: @unchecked Sendable {
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var jobs: [(UnownedJob, UnownedSerialExecutor)] = unsafe []
    private var isStopping = false
    private var isWaiting = false
    private var thread = pthread_t()
    private var name = ""

    init() {
        unsafe pthread_mutex_init(mutex, nil)
        unsafe pthread_cond_init(condition, nil)
    }

    deinit {
        unsafe pthread_cond_destroy(condition)
        unsafe pthread_mutex_destroy(mutex)
        unsafe condition.deallocate()
        unsafe mutex.deallocate()
    }

    var isCurrent: Bool { pthread_equal(pthread_self(), thread) != 0 }

    func start(name: String) throws(SQLiteError) {
        self.name = name
        // Retained here, released at the end of the thread's own function.
        let context = unsafe Unmanaged.passRetained(self).toOpaque()
        unsafe pthread_mutex_lock(mutex)
        let code = unsafe pthread_create(
            &thread, nil,
            { context in
                guard let context = unsafe context else { return nil }
                let state = unsafe Unmanaged<ThreadState>.fromOpaque(context).takeRetainedValue()
                state.run()
                return nil
            }, context)
        unsafe pthread_mutex_unlock(mutex)
        guard code == 0 else {
            unsafe Unmanaged<ThreadState>.fromOpaque(context).release()
            throw SQLiteError(
                .cannotOpen, "cannot start a thread (error \(code)): raise the limit of threads, or close other stores")
        }
    }

    func enqueue(_ job: UnownedJob, for executor: UnownedSerialExecutor) {
        unsafe pthread_mutex_lock(mutex)
        unsafe jobs.append((job, executor))
        let mustWake = isWaiting
        unsafe pthread_mutex_unlock(mutex)
        if mustWake { unsafe pthread_cond_signal(condition) }
    }

    /// Lets the thread finish its queue and end; waits for it, except on the thread itself.
    func stop() {
        unsafe pthread_mutex_lock(mutex)
        isStopping = true
        unsafe pthread_mutex_unlock(mutex)
        unsafe pthread_cond_signal(condition)
        if isCurrent {
            pthread_detach(thread)
        } else {
            pthread_join(thread, nil)
        }
    }

    private func run() {
        unsafe tidings_name_thread(name)
        while let batch = unsafe next() {
            for unsafe(job, executor) in unsafe batch {
                unsafe job.runSynchronously(on: executor)
            }
        }
    }

    /// The waiting jobs; nil at the end.
    private func next() -> [(UnownedJob, UnownedSerialExecutor)]? {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe pthread_mutex_unlock(mutex) }
        while unsafe jobs.isEmpty {
            guard !isStopping else { return nil }
            isWaiting = true
            unsafe pthread_cond_wait(condition, mutex)
            isWaiting = false
        }
        let batch = unsafe jobs
        unsafe jobs = []
        return unsafe batch
    }
}
