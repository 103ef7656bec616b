internal import Dispatch

/// Threads that may block, for tasks that prefer them: there are others as soon as one does.
///
/// A task that prefers an executor suspends at each of its awaits, also at those that others pass without.
public final class QueueExecutor: TaskExecutor {
    private let queue = DispatchQueue(label: "tasks", attributes: .concurrent)

    /// Makes an executor with threads of its own.
    public init() {}

    /// Runs a job, on any of the threads.
    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
