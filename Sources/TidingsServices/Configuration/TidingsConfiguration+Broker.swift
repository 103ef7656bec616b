public import HistoryMessaging
internal import TidingsAMQP

extension TidingsConfiguration {
    /// The broker that is configured, or ``Broker/none`` under the configured names. A URL's file is read anew by each call:
    /// its password may have changed.
    ///
    /// - Parameter name: what its connections are called in the broker's log and management.
    /// - Throws: ``MessagingError`` `invalid` where the URL's file has become unreadable, or its URL wrong; or where the hosts
    ///   would see different users.
    public func broker(name: String = "tidings") throws(MessagingError) -> Broker {
        let prefix = text("prefix") ?? "tidings"
        guard let urls = try brokerURLs() else { return Broker(nil, prefix: prefix, storeName: text("storeName")) }
        do throws(AMQPError) {
            var broker = try Broker(
                urls: urls, name: name, prefix: prefix, storeName: text("storeName"), user: text("broker.user"))
            if var configuration = broker.configuration {
                apply(to: &configuration)
                broker.configuration = configuration
            }
            return broker
        } catch {
            throw MessagingError(.invalid, error.message)
        }
    }

    private func brokerURLs() throws(MessagingError) -> String? {
        guard let file = text("broker.urlFile") else { return text("broker.url") }
        do throws(FileError) {
            return try BrokerURLFile.read(file)
        } catch {
            throw MessagingError(.invalid, "\(Shown.path(file)), named by broker.urlFile: \(error.message)")
        }
    }

    private func apply(to configuration: inout AMQPConfiguration) {
        configuration.connectTimeout = duration("broker.connectTimeout") ?? configuration.connectTimeout
        configuration.heartbeat = duration("broker.heartbeat") ?? configuration.heartbeat
        configuration.replyTimeout = duration("broker.replyTimeout") ?? configuration.replyTimeout
        configuration.confirmTimeout = duration("broker.confirmTimeout") ?? configuration.confirmTimeout
        configuration.recovery = .always(backoff("broker"))
    }

    /// The delays of a section.
    func backoff(_ section: String) -> Backoff {
        let usual = Backoff()
        return Backoff(
            first: duration("\(section).firstRetry") ?? usual.first,
            longest: duration("\(section).longestRetry") ?? usual.longest)
    }
}

/// The file that holds a broker's URL.
enum BrokerURLFile {
    /// The first line that is not empty.
    static func read(_ path: String) throws(FileError) -> String {
        let text = try BoundedFile.text(path, limit: 64 << 10)
        guard let line = text.split(whereSeparator: \.isNewline).map(\.trimmed).first(where: { !$0.isEmpty }) else {
            throw FileError(message: "empty: write the broker's URL into it")
        }
        return String(line)
    }
}
