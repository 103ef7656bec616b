/// Why a private broker, or what belongs to it, could not do what a test asked for.
public struct PrivateBrokerError: Error, CustomStringConvertible, Sendable {
    /// What went wrong, with the end of the log of the program that failed.
    public let description: String
    /// Another process had taken one of the ports meanwhile: other ports will do.
    let isPortClash: Bool

    init(_ description: String, isPortClash: Bool = false) {
        self.description = description
        self.isPortClash = isPortClash
    }
}
