extension ThrowingTaskGroup where Failure == any Error {
    /// Waits for all children, or for the first that fails; its error, thrown on by the group, cancels the others.
    ///
    /// `waitForAll()` would wait for the others before it throws: where they wait for the one that has failed, for ever.
    mutating func finishOrFail() async throws {
        while try await next() != nil {}
    }
}
