/// When the cleaner cleans by itself.
public enum CleaningStrategy: Sendable, Hashable {
    /// Never: only when it is told to.
    case none
    /// At most once in an interval, by the cleaner's clock; the first time at once.
    case byDuration(Duration)
    /// Every so many acknowledgements that say something new.
    case byAcknowledgements(Int)
}

/// Decides when a strategy allows a cleaning. Pure: told what happens, asked what is due.
struct CleaningSchedule: Sendable, Hashable {
    let strategy: CleaningStrategy
    /// When it was cleaned last, in microseconds since 1970.
    private var cleanedAt: Int64?
    /// Acknowledgements since the last cleaning.
    private(set) var acknowledgements = 0

    init(_ strategy: CleaningStrategy) { self.strategy = strategy }

    /// Acknowledgements came that say something new.
    mutating func acknowledged(_ count: Int) {
        guard case .byAcknowledgements = strategy else { return }
        acknowledgements += count
    }

    /// True where a cleaning is allowed now.
    func isDue(at time: Int64) -> Bool {
        switch strategy {
        case .none: return false
        case .byAcknowledgements(let count): return acknowledgements >= count
        case .byDuration(let interval):
            // A clock that was set back must not postpone cleaning for years.
            guard let cleanedAt, cleanedAt <= time else { return true }
            return Duration.microseconds(time - cleanedAt) >= interval
        }
    }

    /// A cleaning was carried out. One that was refused is not told: it uses up no slot.
    ///
    /// - Parameter known: ``acknowledgements`` when it began: those that came meanwhile count for the next one.
    mutating func cleaned(at time: Int64, known: Int) {
        cleanedAt = time
        guard case .byAcknowledgements(let count) = strategy else { return }
        acknowledgements -= known - known % count
    }
}
