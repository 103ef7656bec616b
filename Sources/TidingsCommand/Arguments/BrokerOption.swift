import FoundationEssentials
import TidingsAMQP

/// Where a subcommand learns how to reach the broker. No error shows what may be a URL: it holds a password.
enum BrokerOption {
    /// The environment variable that holds the URL where no option tells it.
    static let variable = "TIDINGS_AMQP_URL"

    static let options: [Option] = [
        .value("--broker-file", "FILE", "a file that holds the broker's URL"),
        .value(
            "--broker", "URL", "the broker's URL, which everybody on the machine then sees in the list of processes"),
    ]

    /// For the help of a subcommand with these options.
    static let details = """
        The broker's URL is amqp://user:password@host:5672/vhost, or amqps:// with cacertfile, certfile and keyfile as \
        its parameters; several are separated by commas. It holds a password: keep it in a file that only this user may \
        read and name that with --broker-file, or set it in the environment as \(variable); --broker is for experiments.
        """

    /// Reads the URL, from wherever it is. Its connections have the name given.
    static func configuration(_ arguments: Arguments, name: String) throws -> AMQPConfiguration {
        let (urls, place) = try urls(arguments)
        do {
            return try AMQPConfiguration(urls: urls, name: name)
        } catch {
            throw UsageError("\(place): \(error.message)")
        }
    }

    private static func urls(_ arguments: Arguments) throws -> (String, place: String) {
        switch (arguments.string("--broker-file"), arguments.string("--broker")) {
        case (nil, nil):
            guard let urls = ProcessInfo.processInfo.environment[variable], !urls.isEmpty else {
                throw UsageError("name the broker: by --broker-file FILE, or by \(variable) in the environment")
            }
            return (urls, variable)
        case (let file?, nil): return (try contents(file), file)
        case (nil, let urls?): return (urls, "--broker")
        default: throw UsageError("--broker-file and --broker exclude each other")
        }
    }

    private static func contents(_ path: String) throws -> String {
        guard !path.contains("://") else {
            throw UsageError("--broker-file expects a file that holds the URL, not the URL")
        }
        guard let data = FileManager.default.contents(atPath: path) else {
            throw CommandError("\(path) cannot be read: check the path, and this user's permission")
        }
        guard let text = String(validating: data, as: UTF8.self) else {
            throw CommandError("\(path) is not UTF-8 text: write the broker's URL into it")
        }
        return text
    }
}
