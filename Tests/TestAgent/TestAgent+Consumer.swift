extension TestAgent {
    static func consumer(_ arguments: [String]) async throws { throw Usage() }
}
