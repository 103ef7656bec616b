extension TestAgent {
    static func publisher(_ arguments: [String]) async throws { throw Usage() }
}
