internal import Glibc

/// A value behind a lock of POSIX, as `Mutex` of the standard library is one behind a futex.
///
/// The thread sanitizer knows POSIX's locks. It does not see into `Mutex`, whose lock lies in a library that is not
/// instrumented, and takes every access for a race: a proof that there is none needs this one.
///
/// Unchecked: the value is read and written with `mutex` locked, and leaves only as a copy.
@safe package final class Locked<Value>: @unchecked Sendable {
    private var value: Value
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)

    /// Guards a value.
    package init(_ value: sending Value) {
        self.value = value
        unsafe pthread_mutex_init(mutex, nil)
    }

    deinit {
        unsafe pthread_mutex_destroy(mutex)
        unsafe mutex.deallocate()
    }

    /// Lends the value to a closure while the lock is held. Not recursive; never to be held across a callback.
    package func withLock<Result, Failure>(
        _ body: (inout sending Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe pthread_mutex_unlock(mutex) }
        return try body(&value)
    }
}
