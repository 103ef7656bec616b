import Foundation
import Testing
import TidingsTestKit

@Suite("tidings doctor", .timeLimit(.minutes(3)))
struct DoctorTests {
    private static let failure = "tidings doctor: a step failed: its line tells the fault and what helps\n"

    private let broker: PrivateBroker
    private let host: TestVirtualHost
    private let certificates: TestCertificates
    private let directory: TemporaryDirectory

    init() async throws {
        broker = try await PrivateBroker.shared()
        host = try await broker.makeVirtualHost()
        certificates = try #require(broker.options.tls)
        directory = try TemporaryDirectory()
    }

    /// A file that holds a URL.
    private func file(_ url: String) throws -> String {
        let path = directory.file(UUID().uuidString)
        try Data("\(url)\n".utf8).write(to: URL(filePath: path))
        return path
    }

    private func doctor(_ url: String, _ arguments: String...) async throws -> FinishedProcess {
        try await CommandLineFixture.run(["doctor", "--broker-file", try file(url)] + arguments)
    }

    /// Expects the steps before one to be well, and that one to have this fault.
    private func expectFault(
        _ url: String, _ address: String, _ steps: [String], _ fault: String,
        at location: SourceLocation = #_sourceLocation
    ) async throws {
        let run = try await doctor(url)
        let output = (["\(address)"] + (steps + [fault]).map { "  \($0)" }).map { "\($0)\n" }.joined()
        expect(run, output: output, error: Self.failure, code: 1, at: location)
    }

    private var address: String { "127.0.0.1:\(broker.port) (virtual host '\(host.name)')" }

    /// The lines of the steps before the permissions of a user count.
    private func opened(_ user: String) -> [String] { ["connect       ok", "authenticate  ok: user '\(user)'"] }

    private func lacks(_ permission: String, _ user: String) -> String {
        "FAULT: user '\(user)' lacks the \(permission) permission for names that begin with 'tidings.doctor.' in "
            + "virtual host '\(host.name)': give it (rabbitmqctl set_permissions)"
    }

    /// The names of what there is in the virtual host, but for the broker's own exchanges.
    private func left() async throws -> String {
        let name = PrivateBroker.binary(host.name)
        return try await broker.evaluate(
            """
            [element(4, element(2, Q)) || Q <- rabbit_amqqueue:list(\(name))]
                ++ [N || E <- rabbit_exchange:list(\(name)), <<"tidings", _/binary>> = N <- [element(4, element(2, E))]]
            """)
    }

    /// What a broker without a fault gets.
    private func allWell(_ address: String, publish: String = "confirmed") -> String {
        """
        \(address)
          connect       ok
          authenticate  ok: user '\(host.user)'
          declare       ok: a queue of its own
          publish       ok: \(publish)
          consume       ok: delivered and acknowledged
          delete        ok

        """
    }

    @Test("a broker without a fault: every step is ok, and nothing is left behind")
    func allIsWell() async throws {
        expect(try await doctor(host.url), output: allWell(address))
        #expect(try await left() == "[]")
    }

    @Test("over TLS, with the right authority")
    func overTLS() async throws {
        let port = try #require(broker.tlsPort)
        let url = try #require(host.tlsURL()) + "?cacertfile=\(certificates.authority)"
        expect(
            try await doctor(url), output: allWell("localhost:\(port) (virtual host '\(host.name)', TLS)"))
    }

    @Test("the URL by the environment, and as an argument")
    func otherWays() async throws {
        let environment = ["TIDINGS_AMQP_URL": host.url]
        let process = try ChildProcess(ChildProcess.built("tidings"), ["doctor"], environment: environment)
        let run = await process.output()
        #expect(run.lines.map { "\($0)\n" }.joined() == allWell(address))
        #expect(run.ending == .exited(0))
        expect(try await CommandLineFixture.run(["doctor", "--broker", host.url]), output: allWell(address))
    }

    @Test("--json is one object, of a broker without a fault and of one with")
    func json() async throws {
        func steps(_ run: FinishedProcess) throws -> (ok: Bool?, steps: [[String: Any]]) {
            let object = try JSONSerialization.jsonObject(with: Data(run.output.utf8)) as? [String: Any]
            return (object?["ok"] as? Bool, object?["steps"] as? [[String: Any]] ?? [])
        }
        let good = try await doctor(host.url, "--json")
        #expect(good.ending == .exited(0) && good.error == "" && good.lines.count == 1)
        let well = try steps(good)
        #expect(well.ok == true)
        #expect(
            well.steps.map { $0["step"] as? String }
                == ["connect", "authenticate", "declare", "publish", "consume", "delete"])
        #expect(well.steps.allSatisfy { $0["ok"] as? Bool == true && $0["code"] is NSNull })
        expect(
            try await doctor("amqp://127.0.0.1:1/v", "--json"),
            output:
                #"{"steps":[{"broker":"127.0.0.1:1 (virtual host 'v')","step":"connect","ok":false,"code":"refused","#
                + #""message":"nothing accepts connections at 127.0.0.1:1 (virtual host 'v'): check that the broker runs "#
                + #"there, and the port"}],"ok":false}"# + "\n", error: Self.failure, code: 1)
    }

    @Test("of several brokers each is tried")
    func several() async throws {
        let run = try await doctor("amqp://127.0.0.1:1/v,\(host.url)")
        expect(
            run,
            output: """
                127.0.0.1:1 (virtual host 'v')
                  connect       FAULT: nothing accepts connections at 127.0.0.1:1 (virtual host 'v'): check that the \
                broker runs there, and the port
                \(allWell(address))
                """, error: Self.failure, code: 1)
    }

    @Test("an unknown host is named")
    func unknownHost() async throws {
        let run = try await doctor("amqp://no-such-host.invalid")
        #expect(run.lines.count == 2 && run.error == Self.failure && run.ending == .exited(1))
        #expect(run.lines[0] == "no-such-host.invalid:5672 (virtual host '/')")
        #expect(run.lines[1].hasPrefix("  connect       FAULT: the host 'no-such-host.invalid' has no address ("))
        #expect(run.lines[1].hasSuffix("): check the name in the broker URL"))
    }

    @Test("a wrong authority, another host's certificate, an expired one")
    func certificateFaults() async throws {
        func url(_ port: Int, _ authority: String) -> String {
            "amqps://\(host.user):\(host.password)@localhost:\(port)/\(host.name)?cacertfile=\(authority)"
        }
        func address(_ port: Int) -> String { "localhost:\(port) (virtual host '\(host.name)', TLS)" }
        let port = try #require(broker.tlsPort)
        try await expectFault(
            url(port, certificates.otherAuthority), address(port), [],
            "connect       FAULT: the certificate of \(address(port)) was not issued by a trusted authority: "
                + "self-signed certificate in certificate chain: name its CA (cacertfile)")
        let other = try await broker.openTLSPort(certificates.otherHost, of: certificates)
        try await expectFault(
            url(other, certificates.authority), address(other), [],
            "connect       FAULT: the certificate of \(address(other)) is for another host: "
                + "connect by a name that it holds, or renew it with this one")
        let expired = try await broker.openTLSPort(certificates.expired, of: certificates)
        try await expectFault(
            url(expired, certificates.authority), address(expired), [],
            "connect       FAULT: the certificate of \(address(expired)) is not valid today: "
                + "certificate has expired: renew it, or set the clock")
    }

    @Test("an encrypted key without its passphrase is a fault at once, and nobody is asked at the terminal")
    func encryptedKey() async throws {
        let port = try #require(broker.tlsPort)
        let key = certificates.encryptedClientKey
        let url =
            try #require(host.tlsURL())
            + "?cacertfile=\(certificates.authority)&certfile=\(certificates.client.certificate)&keyfile=\(key)"
        // On a terminal of its own, at which nobody ever types: a prompt would wait for ever.
        let command = "\(ChildProcess.built("tidings")) doctor --broker-file \(try file(url))"
        let process = try ChildProcess("/usr/bin/script", ["--quiet", "--return", "--command", command, "/dev/null"])
        let run = await process.output()
        // A terminal ends lines with a carriage return too.
        let lines = run.lines.map { $0.replacing("\r", with: "") }
        let fault =
            "  connect       FAULT: the certificate \(certificates.client.certificate) and the key \(key) cannot be used "
            + "together: both must be in PEM form and belong to each other, and an encrypted key needs its passphrase"
        #expect(lines.count == 3)
        #expect(lines.first == "localhost:\(port) (virtual host '\(host.name)', TLS)")
        #expect(lines.dropFirst().first == fault)
        #expect(lines.last.map { "\($0)\n" } == Self.failure)
        #expect(run.ending == .exited(1))
    }

    @Test("a wrong password")
    func wrongPassword() async throws {
        try await expectFault(
            "amqp://\(host.user):wrong@127.0.0.1:\(broker.port)/\(host.name)", address, ["connect       ok"],
            "authenticate  FAULT: \(address) refuses user '\(host.user)': check name and password "
                + "(guest may connect from the broker's own host only)")
    }

    @Test("a virtual host that does not exist, and one that is closed to the user")
    func virtualHosts() async throws {
        let start = "amqp://\(host.user):\(host.password)@127.0.0.1:\(broker.port)"
        try await expectFault(
            "\(start)/nowhere", "127.0.0.1:\(broker.port) (virtual host 'nowhere')", ["connect       ok"],
            "authenticate  FAULT: the virtual host 'nowhere' at 127.0.0.1:\(broker.port) does not exist: create it "
                + "(rabbitmqctl add_vhost), or correct the URL")
        let other = try await broker.makeVirtualHost().name
        try await expectFault(
            "\(start)/\(other)", "127.0.0.1:\(broker.port) (virtual host '\(other)')", ["connect       ok"],
            "authenticate  FAULT: the virtual host '\(other)' at 127.0.0.1:\(broker.port) is closed to user "
                + "'\(host.user)': give permissions (rabbitmqctl set_permissions -p), or correct the URL")
    }

    @Test("each missing permission is named")
    func permissions() async throws {
        let configure = try await host.addUser(configure: "^$")
        try await expectFault(
            configure.url, address, opened(configure.user), "declare       \(lacks("configure", configure.user))")
        let declared = "declare       ok: a queue of its own"
        for pattern in ["^$", "^amq\\.gen"] {
            let write = try await host.addUser(write: pattern)
            try await expectFault(
                write.url, address, opened(write.user) + [declared], "publish       \(lacks("write", write.user))")
        }
        let read = try await host.addUser(read: "^$")
        try await expectFault(
            read.url, address, opened(read.user) + [declared, "publish       ok: confirmed"],
            "consume       \(lacks("read", read.user))")
        let readOnlyDefault = try await host.addUser(write: "^tidings\\.", read: "^$")
        try await expectFault(
            readOnlyDefault.url, address, opened(readOnlyDefault.user) + [declared],
            "publish       \(lacks("read", readOnlyDefault.user))")
    }

    @Test("a user who may not write to the default exchange is well, and told so")
    func noDefaultExchange() async throws {
        let user = try await host.addUser(configure: "^tidings\\.", write: "^tidings\\.", read: "^tidings\\.")
        let publish =
            "confirmed, by an exchange of its own: user '\(user.user)' may not write to the default exchange, "
            + "which services do not need"
        let expected = allWell(address, publish: publish).split(separator: "\n").map { line in
            line.hasPrefix("  authenticate") ? "  authenticate  ok: user '\(user.user)'" : String(line)
        }
        let run = try await doctor(user.url)
        #expect(run.lines == expected)
        #expect(run.error == "" && run.ending == .exited(0))
        #expect(try await left() == "[]")
    }

    @Test("an alarm is named, and does not hold the tool up")
    func alarm() async throws {
        let own = try await PrivateBroker.start()
        let host = try await own.makeVirtualHost()
        try await own.setMemoryAlarm(true)
        let steps = opened(host.user) + ["declare       ok: a queue of its own"]
        try await expectFault(
            host.url, "127.0.0.1:\(own.port) (virtual host '\(host.name)')", steps,
            "publish       FAULT: blocked by an alarm: memory: free memory, or raise vm_memory_high_watermark "
                + "(rabbitmq-diagnostics alarms names the node)")
        try await own.setMemoryAlarm(false)
        #expect(try await doctor(host.url).ending == .exited(0))
    }

    @Test("a broker that does not answer is late within the bound")
    func silent() async throws {
        let own = try await PrivateBroker.start()
        own.suspend()
        try await expectFault(
            "amqp://127.0.0.1:\(own.port)?connection_timeout=1", "127.0.0.1:\(own.port) (virtual host '/')", [],
            "connect       FAULT: 127.0.0.1:\(own.port) (virtual host '/') accepted the connection and did not answer: "
                + "check that it is a broker, and its health")
    }

    @Test("without a broker, or with two, it is a usage error")
    func usage() async throws {
        func expectUsage(_ arguments: [String], _ message: String) async throws {
            expect(
                try await CommandLineFixture.run(["doctor"] + arguments),
                error: "tidings doctor: \(message)\nSee `tidings doctor --help`.\n", code: 2)
        }
        try await expectUsage([], "name the broker: by --broker-file FILE, or by TIDINGS_AMQP_URL in the environment")
        try await expectUsage(
            ["--broker", "amqp://h", "--broker-file", "f"], "--broker-file and --broker exclude each other")
        let path = try file("amqp://u:hidden@h:x")
        try await expectUsage(
            ["--broker-file", path], "\(path): the port in the broker URL is not a number from 1 to 65535")
        expect(
            try await CommandLineFixture.run(["doctor", "--broker-file", directory.file("none")]),
            error:
                "tidings doctor: \(directory.file("none")) cannot be read: check the path, and this user's permission\n",
            code: 1)
    }

    @Test(
        "a URL in the wrong place is not shown: it holds a password",
        arguments: [["doctor", "URL"], ["doctor", "--broker-file", "URL"], ["URL"], ["doctor", "--broker=URL x"]])
    func nothingShown(arguments: [String]) async throws {
        let words = arguments.map { $0.replacing("URL", with: "amqp://user:hidden@127.0.0.1:1:1/v") }
        let run = try await CommandLineFixture.run(words)
        #expect(run.ending == .exited(2))
        #expect(!run.error.contains("hidden") && run.output == "" && !run.error.isEmpty, "\(run.error)")
    }
}
