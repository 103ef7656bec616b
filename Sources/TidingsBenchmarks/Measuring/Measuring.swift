import TidingsSQLite

/// Microseconds that `body` takes.
func microseconds(_ body: () throws -> Void) rethrows -> Double {
    let start = MonotonicClock.nanoseconds
    try body()
    return Double(MonotonicClock.nanoseconds - start) / 1000
}

/// Microseconds that `body` takes, its waiting included.
func awaitedMicroseconds(_ body: () async throws -> Void) async rethrows -> Double {
    let start = MonotonicClock.nanoseconds
    try await body()
    return Double(MonotonicClock.nanoseconds - start) / 1000
}
