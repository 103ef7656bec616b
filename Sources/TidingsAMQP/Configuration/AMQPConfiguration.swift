/// How to reach a broker, and the bounds of every wait.
public struct AMQPConfiguration: Sendable {
    /// The brokers of one cluster, tried in turn from a random one on. Never empty.
    public var endpoints: [AMQPEndpoint]
    /// The connection's name in the broker's log and management.
    public var name: String
    /// How long the way to `open` may take for each endpoint: name, TCP, TLS and login together. An endpoint's own
    /// holds for it instead.
    public var connectTimeout: Duration = .seconds(10)
    /// After two intervals without a byte from the broker the connection counts as lost; at least one second, and below
    /// five there are false alarms. 0 turns heartbeats off: a peer that vanishes is then noticed only by writing. An endpoint's
    /// own holds for it instead.
    public var heartbeat: Duration = .seconds(10)
    /// How long the broker may take to answer a declaration or another request.
    public var replyTimeout: Duration = .seconds(20)
    /// How long writing one MiB may block before the connection is cut.
    public var sendTimeout: Duration = .seconds(15)
    /// How long the broker may leave published messages unanswered, alarms aside, before they are reported unknown.
    public var confirmTimeout: Duration = .seconds(60)
    /// The largest body in bytes that is sent, and that is taken from the broker. A larger one is not sent; a delivery with
    /// a larger one is rejected without requeueing, to the queue's dead-letter exchange where it has one, and counted
    /// (``ConsumeCounts/oversized``): nothing of its body is kept, and everything else goes on. A consumer may have a limit
    /// of its own: ``AMQPConsumeOptions/maximumMessageSize``.
    public var maximumMessageSize = 128 << 20
    /// What to do when the connection is lost.
    public var recovery: Recovery = .always(Backoff())

    /// How long the way to an endpoint may take.
    func connectTimeout(of endpoint: AMQPEndpoint) -> Duration { endpoint.connectTimeout ?? connectTimeout }

    /// How long one attempt at each endpoint may take, and the declarations after it.
    var timeToOpen: Duration {
        endpoints.map { connectTimeout(of: $0) }.reduce(.zero, +) + replyTimeout
    }

    /// What to do when the connection is lost, or cannot be made.
    public enum Recovery: Sendable, Hashable {
        /// `run()` throws.
        case never
        /// Try again for ever, with these delays.
        case always(Backoff)

        /// The delays between attempts of what recovers without the connection: a consumer whose channel was closed.
        var backoff: Backoff {
            if case .always(let backoff) = self { backoff } else { Backoff() }
        }
    }

    /// Configures connections to one endpoint, or to one of several.
    ///
    /// - Precondition: `endpoints` is not empty.
    public init(_ endpoints: [AMQPEndpoint], name: String) {
        precondition(!endpoints.isEmpty, "at least one endpoint")
        self.endpoints = endpoints
        self.name = name
    }

    /// Configures connections by URLs, separated by commas: `amqp://user:password@host:5672/vhost?heartbeat=10`.
    ///
    /// Throws `invalid`, naming the part at fault but no credential.
    public init(urls: String, name: String) throws(AMQPError) {
        var endpoints: [AMQPEndpoint] = []
        for url in urls.split(separator: ",") {
            endpoints.append(try AMQPEndpoint(url: String(url.trimmedSpaces)))
        }
        guard !endpoints.isEmpty else {
            throw AMQPError(.invalid, "no broker URL: give one, such as amqp://user:password@host:5672/vhost")
        }
        self.init(endpoints, name: name)
    }
}

/// Growing delays between attempts, with jitter so that clients do not return all at once.
public struct Backoff: Sendable, Hashable {
    /// The first delay, before jitter.
    public var first: Duration
    /// The longest.
    public var longest: Duration

    /// Makes a backoff that doubles from `first` to `longest`.
    public init(first: Duration = .milliseconds(500), longest: Duration = .seconds(30)) {
        self.first = first
        self.longest = longest
    }

    /// The delay before attempt `attempt` (from 1): between half of and the whole doubled delay.
    ///
    /// - Parameter random: from 0 up to 1.
    public func delay(attempt: Int, random: Double) -> Duration {
        var doubled = min(first, longest)
        // 2^100 times any delay is beyond every `longest`, but for no delay at all.
        for _ in 1..<min(max(attempt, 1), 100) where doubled < longest { doubled = min(doubled * 2, longest) }
        return doubled * (0.5 + 0.5 * random)
    }
}
