extension TestAgent {
    static func cleaner(_ arguments: [String]) async throws { throw Usage() }
}
