import Testing

@testable import TidingsAMQP

struct URLTests {
    private static func endpoint(
        _ host: String = "localhost", port: UInt16? = nil, virtualHost: String = "/", user: String = "guest",
        password: String = "guest", tls: TLSOptions? = nil
    ) -> AMQPEndpoint {
        AMQPEndpoint(
            host: host, port: port, virtualHost: virtualHost, credentials: .plain(user: user, password: password),
            tls: tls)
    }

    private static let goodURLs: [(String, AMQPEndpoint)] = [
        ("amqp://", endpoint()),
        ("AMQP://", endpoint()),
        ("amqp://h", endpoint("h")),
        ("amqp://h:", endpoint("h")),
        ("amqp://:1234", endpoint(port: 1234)),
        ("amqp://h:65535/", endpoint("h", port: 65_535)),
        ("amqp://u@h", endpoint("h", user: "u")),
        ("amqp://u:@h", endpoint("h", user: "u", password: "")),
        ("amqp://u:p@h:1/v", endpoint("h", port: 1, virtualHost: "v", user: "u", password: "p")),
        ("amqp://u:p:q@h", endpoint("h", user: "u", password: "p:q")),
        ("amqp://u:p@q@h", endpoint("h", user: "u", password: "p@q")),
        // A colon within one character with the mark behind it.
        ("amqp://u:\u{301}p@h", endpoint("h", user: "u", password: "\u{301}p")),
        ("amqp://@:/", endpoint(user: "")),
        // Virtual hosts.
        ("amqp://h/", endpoint("h")),
        ("amqp://h/%2F", endpoint("h")),
        ("amqp://h/%2f", endpoint("h")),
        ("amqp://h/%2Fv%2F", endpoint("h", virtualHost: "/v/")),
        ("amqp://h/a%20b:c", endpoint("h", virtualHost: "a b:c")),
        // IPv6.
        ("amqp://[::1]", endpoint("::1")),
        ("amqp://u:p@[::1]:5673/v", endpoint("::1", port: 5673, virtualHost: "v", user: "u", password: "p")),
        ("amqp://[fe80::1%25eth0]:1", endpoint("fe80::1%eth0", port: 1)),
        // Percent-encoding.
        ("amqp://a%3ab:%2F%3F%40%23%25@h", endpoint("h", user: "a:b", password: "/?@#%")),
        ("amqp://us%C3%A9r:p%e2%82%ac@h%6Fst/%C3%A9", endpoint("host", virtualHost: "é", user: "usér", password: "p€")),
        ("amqp://us+er:p+p@h/v+v", endpoint("h", virtualHost: "v+v", user: "us+er", password: "p+p")),
        // TLS.
        ("amqps://", endpoint(tls: TLSOptions())),
        ("AmqpS://h:5672", endpoint("h", port: 5672, tls: TLSOptions())),
    ]

    @Test("What a URL says, with its defaults", arguments: goodURLs)
    func good(url: String, expected: AMQPEndpoint) throws {
        #expect(try AMQPEndpoint(url: url) == expected)
    }

    @Test("The ports of AMQP, without and with TLS")
    func ports() throws {
        #expect(try AMQPEndpoint(url: "amqp://h").port == 5672)
        #expect(try AMQPEndpoint(url: "amqps://h").port == 5671)
    }

    @Test("Heartbeat and connection timeout, in seconds")
    func timeouts() throws {
        let endpoint = try AMQPEndpoint(url: "amqp://h?heartbeat=7&connection_timeout=3")
        #expect(endpoint.heartbeat == .seconds(7))
        #expect(endpoint.connectTimeout == .seconds(3))
        #expect(try AMQPEndpoint(url: "amqp://h/?heartbeat=0").heartbeat == .zero)
        #expect(try AMQPEndpoint(url: "amqp://h?").heartbeat == nil)
        #expect(try AMQPEndpoint(url: "amqp://h?&heartbeat=1&&heartbeat=2&").heartbeat == .seconds(2))
    }

    @Test("The parameters of amqps")
    func tls() throws {
        let url =
            "amqps://u:p@h/v?cacertfile=/etc/ca%20s.pem&certfile=%2Fc.pem&keyfile=k.pem&password=a%26b%3Dc&verify=verify_none"
            + "&server_name_indication=h&auth_mechanism=PLAIN"
        let endpoint = try AMQPEndpoint(url: url)
        #expect(endpoint.virtualHost == "v")
        #expect(endpoint.credentials == .plain(user: "u", password: "p"))
        #expect(
            endpoint.tls
                == TLSOptions(
                    authorityFile: "/etc/ca s.pem", certificateFile: "/c.pem", keyFile: "k.pem", keyPassphrase: "a&b=c",
                    verifiesPeer: false))
        #expect(try AMQPEndpoint(url: "amqps://h?verify=verify_peer").tls == TLSOptions())
    }

    @Test("The mechanism EXTERNAL takes the certificate for the user")
    func external() throws {
        let endpoint = try AMQPEndpoint(url: "amqps://h?auth_mechanism=external&certfile=c&keyfile=k")
        #expect(endpoint.credentials == .external)
        #expect(endpoint.tls == TLSOptions(certificateFile: "c", keyFile: "k"))
        #expect(
            try AMQPEndpoint(url: "amqps://h?certfile=c&keyfile=k&auth_mechanism=External").credentials == .external)
        #expect(
            try AMQPEndpoint(url: "amqp://h?auth_mechanism=plain").credentials
                == .plain(user: "guest", password: "guest"))
    }

    private static let names =
        "heartbeat, connection_timeout, auth_mechanism, cacertfile, certfile, keyfile, password, verify, server_name_indication"

    private static let badURLs: [(String, String)] = [
        ("", "a broker URL begins with amqp:// or amqps://, such as amqp://user:password@host/vhost"),
        ("amqp:/h", "a broker URL begins with amqp:// or amqps://, such as amqp://user:password@host/vhost"),
        ("http://h", "a broker URL begins with amqp:// or amqps://, such as amqp://user:password@host/vhost"),
        ("amqp://h#f", "a broker URL has no part behind '#': write it as %23"),
        ("amqp://h:0", "the port in the broker URL is not a number from 1 to 65535"),
        ("amqp://h:65536", "the port in the broker URL is not a number from 1 to 65535"),
        ("amqp://h:+1", "the port in the broker URL is not a number from 1 to 65535"),
        ("amqp://h:x", "the port in the broker URL is not a number from 1 to 65535"),
        ("amqp://::1", "the port in the broker URL is not a number from 1 to 65535"),
        ("amqp://[::1", "the IPv6 address in the broker URL has no ']'"),
        ("amqp://[::1]5672", "what stands behind ']' in the broker URL is not a port"),
        ("amqp://h//", "the virtual host in the broker URL holds a '/': write it as %2F"),
        ("amqp://h/a/b", "the virtual host in the broker URL holds a '/': write it as %2F"),
        ("amqp://h/v@w", "a '/' in the user or password of a broker URL is written %2F, an '@' behind it %40"),
        ("amqp://h?a@b=c", "a '?' in the user or password of a broker URL is written %3F, an '@' behind it %40"),
        ("amqp://h/%", "the virtual host in the broker URL has a '%' without two hexadecimal digits"),
        ("amqp://h/%4", "the virtual host in the broker URL has a '%' without two hexadecimal digits"),
        ("amqp://h/%4g", "the virtual host in the broker URL has a '%' without two hexadecimal digits"),
        ("amqp://%zz", "the host in the broker URL has a '%' without two hexadecimal digits"),
        ("amqp://%zz@h", "the user in the broker URL has a '%' without two hexadecimal digits"),
        ("amqp://u:%@h", "the password in the broker URL has a '%' without two hexadecimal digits"),
        ("amqp://u:%FF@h", "the password in the broker URL is not UTF-8 text"),
        ("amqp://u:%00@h", "the password in the broker URL is not UTF-8 text"),
        ("amqp://h/%C3", "the virtual host in the broker URL is not UTF-8 text"),
        ("amqp://h?heartbeat", "a parameter of the broker URL has no '=': write name=value"),
        (
            "amqp://h?heartbeat=%",
            "the parameter 'heartbeat' in the broker URL has a '%' without two hexadecimal digits"
        ),
        ("amqp://h?%=1", "the name of a parameter in the broker URL has a '%' without two hexadecimal digits"),
        ("amqp://h?heartbeat=", "'heartbeat' in the broker URL takes a number of seconds from 0 to 3600"),
        ("amqp://h?heartbeat=-1", "'heartbeat' in the broker URL takes a number of seconds from 0 to 3600"),
        ("amqp://h?heartbeat=3601", "'heartbeat' in the broker URL takes a number of seconds from 0 to 3600"),
        (
            "amqp://h?connection_timeout=0",
            "'connection_timeout' in the broker URL takes a number of seconds from 1 to 3600"
        ),
        ("amqp://h?auth_mechanism=amqplain", "'auth_mechanism' in the broker URL takes plain or external"),
        ("amqp://h?auth_mechanism=external", "auth_mechanism=external needs amqps:// with certfile and keyfile"),
        ("amqps://h?auth_mechanism=external", "auth_mechanism=external needs amqps:// with certfile and keyfile"),
        ("amqp://h?channel_max=1", "unknown parameter 'channel_max' in the broker URL: it takes \(names)"),
        ("amqps://h?=1", "unknown parameter '' in the broker URL: it takes \(names)"),
        (
            "amqps://h?password=a&b=c",
            "unknown parameter behind 'password' (a '&' in it is written %26) in the broker URL: it takes \(names)"
        ),
        ("amqp://h?verify=verify_none", "'verify' in the broker URL is about TLS: use amqps://, or take it out"),
        ("amqps://h?verify=none", "'verify' in the broker URL takes verify_peer or verify_none"),
        ("amqps://h?certfile=c", "certfile and keyfile belong together: the broker URL has only one of them"),
        ("amqps://h?keyfile=k", "certfile and keyfile belong together: the broker URL has only one of them"),
        (
            "amqps://h?server_name_indication=other",
            "server_name_indication must be the host of the broker URL: connect by the certificate's name"
        ),
    ]

    @Test("A URL that cannot be used, and the part at fault", arguments: badURLs)
    func bad(url: String, message: String) {
        #expect(throws: AMQPError(.invalid, message)) { try AMQPEndpoint(url: url) }
    }

    @Test(
        "No error shows a password that was not percent-encoded",
        arguments: [
            "sec/ret", "/secret", "sec?ret", "?secret", "sec@ret", "sec#ret", "sec%ret", "sec%FFret", "secret%",
            "sec/r?et",
            "sec?r/et", "sec@r/et", "s/e@cret", "sec?ret=1&s", "s?secret=%&x=y", "?heartbeat=secret", "sec,ret",
            "[secret",
            "5672/secret?a", "?\u{301}secret=1", "s\u{301}/ecret", "sec:ret", "/?#@%secret",
        ])
    func secret(password: String) throws {
        for url in [
            "amqp://u:\(password)@h/v", "amqps://u:\(password)@h:1?heartbeat=1", "amqp://\(password):\(password)@%/v",
        ] {
            do throws(AMQPError) {
                let configuration = try AMQPConfiguration(urls: url, name: "n")
                #expect(configuration.endpoints[0].credentials == .plain(user: "u", password: password))
            } catch {
                #expect(error.code == .invalid)
                for piece in ["secret", "sec", "ecret", "ret"] {
                    #expect(!error.message.contains(piece), "\(url): \(error.message)")
                }
            }
        }
    }

    @Test(
        "No error shows a key's passphrase that was not percent-encoded",
        arguments: [
            "&secret", "&secret=1", "s&secret=%", "%secret", "&heartbeat=secret", "&secret%=1", "?secret", "@secret",
        ])
    func passphrase(text: String) {
        for url in ["amqps://h?password=\(text)", "amqp://h?verify=verify_peer&password=\(text)&x=1"] {
            guard let error = #expect(throws: AMQPError.self, performing: { try AMQPEndpoint(url: url + "&verify=") })
            else {
                continue
            }
            #expect(error.code == .invalid)
            #expect(!error.message.contains("secret"), "\(url): \(error.message)")
        }
    }

    @Test("Several URLs are separated by commas, with spaces where wished")
    func several() throws {
        let configuration = try AMQPConfiguration(
            urls: " amqp://a?heartbeat=5&connection_timeout=2 ,amqp://b:1,\tamqps://c\n", name: "n")
        #expect(configuration.endpoints.map(\.host) == ["a", "b", "c"])
        #expect(configuration.endpoints.map(\.port) == [5672, 1, 5671])
        #expect(configuration.name == "n")
        #expect(configuration.endpoints.map(\.heartbeat) == [.seconds(5), nil, nil])
        #expect(configuration.endpoints.map(\.connectTimeout) == [.seconds(2), nil, nil])
    }

    @Test("No URL at all is an error", arguments: ["", ",", ",,"])
    func none(urls: String) {
        let expected = AMQPError(.invalid, "no broker URL: give one, such as amqp://user:password@host:5672/vhost")
        #expect(throws: expected) { try AMQPConfiguration(urls: urls, name: "n") }
    }

    @Test("Without parameters the configuration's own bounds hold")
    func defaults() throws {
        let configuration = try AMQPConfiguration(urls: "amqp://h", name: "n")
        #expect(configuration.heartbeat == .seconds(10))
        #expect(configuration.connectTimeout == .seconds(10))
        #expect(configuration.recovery == .always(Backoff()))
    }
}
