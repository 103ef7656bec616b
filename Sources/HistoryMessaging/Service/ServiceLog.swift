internal import PersistentHistory
internal import TidingsAMQP

/// What a service writes to a log.
struct ServiceLog: Sendable {
    let service: String
    let logger: any HistoryLogger

    /// Writes an entry, with an error where there is one.
    func write(
        _ level: HistoryLogLevel, _ message: String, _ error: (any Error)? = nil,
        _ fields: [(name: String, value: String)] = []
    ) {
        logger.log(level) {
            let reason = error.map { [("error", "\($0)")] } ?? []
            return HistoryLogEntry(service, message, fields + reason)
        }
    }

    /// Writes every change of a connection's state; returns at the connection's end.
    func follow(_ connection: AMQPConnection) async {
        for await state in connection.states() { write(Self.level(of: state), "broker: \(state)") }
    }

    /// How much a connection's state matters: that it was lost once, not each attempt to make it again.
    static func level(of state: AMQPConnectionState) -> HistoryLogLevel {
        switch state {
        case .idle, .connecting: .debug
        case .open, .closed(nil): .info
        case .recovering(let attempt, _, _): attempt == 1 ? .warning : .debug
        case .blocked, .closed: .warning
        }
    }
}
