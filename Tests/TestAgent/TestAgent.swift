/// An agent in a process of its own. The first argument names it, the others are its own; see the file of each.
@main
enum TestAgent {
    static func main() async throws {
        var arguments = Array(CommandLine.arguments.dropFirst())
        guard !arguments.isEmpty else { throw Usage() }
        switch arguments.removeFirst() {
        case "publisher": try await publisher(arguments)
        case "consumer": try await consumer(arguments)
        case "cleaner": try await cleaner(arguments)
        case "service": try await service(arguments)
        case "resources": try await resources(arguments)
        default: throw Usage()
        }
    }

    struct Usage: Error {}
}
