import Foundation
import TidingsTestKit

/// A test run with a broker of its own, for tests of what is left of it: `TestBroker wait|suspend|return`.
///
/// It prints the broker's directory, the certificates' directory and the broker's process, then waits to be killed,
/// with the broker suspended where it is told so, or returns at once.
@main
struct TestBroker {
    static func main() async throws {
        let broker = try await PrivateBroker.shared()
        let certificates = broker.options.tls?.authority ?? ""
        if CommandLine.arguments.last == "suspend" { broker.suspend() }
        let line = "\(broker.directory) \(certificates) \(broker.processID)\n"
        try FileHandle.standardOutput.write(contentsOf: Data(line.utf8))
        if CommandLine.arguments.last != "return" { _ = readLine() }
    }
}
