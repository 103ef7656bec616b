import Glibc

/// One line on standard error that tells how far long work has come, where that is a terminal; nothing elsewhere.
struct Progress: Sendable {
    /// Whether anybody would see it.
    static var isShown: Bool { isatty(STDERR_FILENO) == 1 }

    private var shownAt: ContinuousClock.Instant?
    private var isLineOpen = false

    /// Shows a text in the place of the one before, at most five times a second.
    mutating func show(_ text: @autoclosure () -> String) {
        guard Self.isShown else { return }
        let now = ContinuousClock.now
        if let shownAt, now - shownAt < .milliseconds(200) { return }
        shownAt = now
        isLineOpen = true
        Output.raw("\r\u{1B}[K" + text())
    }

    /// Takes the line away.
    mutating func clear() {
        guard isLineOpen else { return }
        isLineOpen = false
        Output.raw("\r\u{1B}[K")
    }

    /// Shows a text, asked for anew five times a second, for as long as something is done. Where nobody would see it, nothing
    /// is asked.
    static func shown<Result: Sendable>(
        _ text: @escaping @Sendable () async -> String?, while body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        guard isShown else { return try await body() }
        return try await withThrowingTaskGroup(of: Result?.self) { tasks in
            tasks.addTask { try await body() }
            tasks.addTask {
                var progress = Progress()
                while !Task.isCancelled {
                    if let text = await text() { progress.show(text) }
                    try? await Task.sleep(for: .milliseconds(200))
                }
                progress.clear()
                return nil
            }
            defer { tasks.cancelAll() }
            while let next = try await tasks.next() {
                if let next { return next }
            }
            throw CancellationError()
        }
    }
}
