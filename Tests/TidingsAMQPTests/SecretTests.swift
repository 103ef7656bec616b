import Testing

@testable import TidingsAMQP

/// Passwords and passphrases stay out of whatever is printed.
struct SecretTests {
    private static let password = "hunter2"
    private static let passphrase = "opensesame"

    /// All the ways of printing a value.
    private static func texts(_ value: Any) -> [String] {
        var dumped = ""
        dump(value, to: &dumped)
        var printed = ""
        print(value, to: &printed)
        var debugPrinted = ""
        debugPrint(value, to: &debugPrinted)
        return [
            "\(value)", String(describing: value), String(reflecting: value), "\([value])", "\(["k": value])",
            "\(Optional.some(value) as Any)", dumped, printed, debugPrinted,
        ]
    }

    private static let endpoint = AMQPEndpoint(
        host: "broker", credentials: .plain(user: "shop", password: password),
        tls: TLSOptions(certificateFile: "c", keyFile: "k", keyPassphrase: passphrase))

    private static let values: [(String, any Sendable)] = [
        ("AMQPConfiguration", AMQPConfiguration([endpoint], name: "n")),
        ("AMQPEndpoint", endpoint),
        ("AMQPCredentials", endpoint.credentials),
        ("TLSOptions", endpoint.tls!),
    ]

    @Test("No way of printing shows a password or a passphrase", arguments: values)
    func hidden(type: String, value: any Sendable) {
        #expect(String(describing: Swift.type(of: value)) == type)
        for text in Self.texts(value) {
            #expect(!text.contains(Self.password))
            #expect(!text.contains(Self.passphrase))
        }
    }

    @Test("An interpolated configuration shows where it leads, and no secret")
    func configuration() {
        let configuration = AMQPConfiguration([Self.endpoint], name: "orders")
        let text = "\(configuration)"
        #expect(text.contains("broker:5671 (virtual host '/', TLS)"))
        #expect(text.contains("orders"))
        #expect(!text.contains(Self.password))
        #expect(!text.contains(Self.passphrase))
    }

    @Test("An endpoint shows host, port, virtual host and TLS")
    func endpoint() {
        #expect("\(Self.endpoint)" == "broker:5671 (virtual host '/', TLS)")
        #expect("\(AMQPEndpoint(host: "::1", port: 1, virtualHost: "v"))" == "[::1]:1 (virtual host 'v')")
    }

    @Test("Credentials show the user")
    func credentials() {
        #expect("\(Self.endpoint.credentials)" == "user 'shop'")
        #expect(String(reflecting: Self.endpoint.credentials) == "user 'shop'")
        #expect("\(AMQPCredentials.external)" == "the certificate's user")
    }

    @Test("No mirror leads to a secret, however deep")
    func mirrors() {
        func leaves(_ value: Any, _ depth: Int = 0) -> [String] {
            let children = Mirror(reflecting: value).children
            guard depth < 12, !children.isEmpty else { return ["\(value)"] }
            return children.flatMap { leaves($0.value, depth + 1) }
        }
        let all = leaves(AMQPConfiguration([Self.endpoint], name: "orders"))
        #expect(all.contains("orders"))
        #expect(!all.contains { $0.contains(Self.password) || $0.contains(Self.passphrase) })
    }
}
