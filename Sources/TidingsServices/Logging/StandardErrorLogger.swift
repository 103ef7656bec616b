public import PersistentHistory
internal import Synchronization
internal import TidingsAMQP

/// Writes entries to standard error, one in each line, as systemd, Docker and people read them.
///
///     time=2026-11-30T12:00:00.000000Z level=info service=consumer msg="caught up" consumer=orders-1 token=17
///
/// The form is logfmt: a value that is not one plain word stands in quotes, with `\n`, `\"` and the like escaped. A line is
/// at most 4,096 bytes; what is longer is cut, and ends in `…`.
///
/// Where nobody reads standard error, entries are dropped rather than waited for: the first for which there is no room
/// waits up to 100 ms, those behind it not at all, and how many were dropped is said as soon as there is room.
public final class StandardErrorLogger: HistoryLogger {
    private struct State {
        var output: LogOutput
        var dropped = 0
    }

    private let minimum: Atomic<Int>
    private let state: Locked<State>
    private let clock: any HistoryClock

    /// Makes a logger.
    ///
    /// - Parameters:
    ///   - level: the least important entries to be written.
    ///   - clock: where the times come from.
    public convenience init(level: HistoryLogLevel = .info, clock: any HistoryClock = SystemHistoryClock()) {
        self.init(level: level, clock: clock, descriptor: 2)
    }

    /// Makes a logger that writes to a descriptor, which must stay open.
    package init(level: HistoryLogLevel, clock: any HistoryClock, descriptor: Int32) {
        minimum = Atomic(level.rawValue)
        self.clock = clock
        state = Locked(State(output: LogOutput(descriptor)))
    }

    deinit { state.withLock { $0.output.close() } }

    /// The least important entries that are written.
    public var level: HistoryLogLevel { HistoryLogLevel(rawValue: minimum.load(ordering: .relaxed)) ?? .info }

    /// Changes which entries are written, from the next one on.
    public func setLevel(_ level: HistoryLogLevel) { minimum.store(level.rawValue, ordering: .relaxed) }

    /// Writes an entry, if its level is of interest.
    public func log(_ level: HistoryLogLevel, _ entry: () -> HistoryLogEntry) {
        guard level.rawValue >= minimum.load(ordering: .relaxed) else { return }
        let line = LogLine.bytes(level, entry(), microseconds: clock.microseconds)
        let time = clock.microseconds
        state.withLock { state in
            if state.dropped > 0 {
                let text = "entries were dropped: nobody read standard error"
                let note = HistoryLogEntry("log", text, [("count", "\(state.dropped)")])
                guard state.output.write(LogLine.bytes(.warning, note, microseconds: time), waits: false) else {
                    state.dropped += 1
                    return
                }
                state.dropped = 0
            }
            if !state.output.write(line, waits: true) { state.dropped += 1 }
        }
    }
}
