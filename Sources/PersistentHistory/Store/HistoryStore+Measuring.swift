package import TidingsSQLite

extension HistoryStore {
    /// Runs many tracked transactions one after the other, without leaving the writing thread in between: for
    /// measurements, which would else measure the way there.
    ///
    /// - Parameters:
    ///   - state: what the transactions work on, handed from one to the next.
    ///   - body: called once in each transaction.
    /// - Returns: the state behind the last one.
    package func writeRepeatedly<State: Sendable>(
        _ count: Int, from state: State, _ body: @Sendable (Database, inout State) throws -> Void
    ) async throws -> State {
        let identity = HistoryRecorder.Writer(author: author, contextName: nil, origin: origin)
        return try await writable().writeRepeatedly(count, identity, from: state, body)
    }

    /// Virtual-machine steps of all statements of the writing connection since the last call.
    package func takeVirtualMachineSteps() async throws -> Int { try await writable().takeVirtualMachineSteps() }
}

extension HistoryWriter {
    fileprivate func writeRepeatedly<State: Sendable>(
        _ count: Int, _ writer: HistoryRecorder.Writer, from state: State,
        _ body: (Database, inout State) throws -> Void
    ) throws -> State {
        var state = state
        for _ in 0..<count { _ = try write(writer) { database in try body(database, &state) } }
        return state
    }

    fileprivate func takeVirtualMachineSteps() throws -> Int { try parts().0.takeVirtualMachineSteps() }
}
