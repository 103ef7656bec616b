import Foundation
import Glibc
import TidingsAMQP

/// A client of a broker in a process of its own: what it takes of memory and descriptors is its alone.
///
/// `TestClient memory URL COUNT` · `TestClient endure URL`; results on standard output, a line each.
@main
struct TestClient {
    static func main() async throws {
        let arguments = CommandLine.arguments
        switch arguments[1] {
        case "memory": try await MemoryRun(url: arguments[2], count: Int(arguments[3])!).run()
        case "endure": try await EnduranceRun(url: arguments[2]).run()
        default: exit(2)
        }
    }

    /// Prints a line at once.
    static func report(_ line: String) {
        // Not by print: flushing all streams waits for standard input, which another thread is reading.
        FileHandle.standardOutput.write(Data((line + "\n").utf8))
    }

    /// The process's resident memory, in KiB.
    static func residentKiB() throws -> Int {
        let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
        return line.flatMap { Int($0.split(whereSeparator: \.isWhitespace)[1]) } ?? 0
    }

    /// How many descriptors are open.
    static func descriptors() throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
    }
}

/// Large messages and very many small ones, and what memory they leave behind.
struct MemoryRun {
    let url: String
    let count: Int

    func run() async throws {
        let configuration = try AMQPConfiguration(urls: url, name: "memory")
        try await AMQPConnection.withConnection(configuration) { publishing in
            try await AMQPConnection.withConnection(configuration) { consuming in
                try await publishing.declare(AMQPTopology(queues: [AMQPQueue("memory", isDurable: false)]))
                let publisher = await publishing.publisher()
                let consumer = try await consuming.consume("memory")
                try await pass(20_000, publisher, consumer)
                TestClient.report("baseline \(try TestClient.residentKiB())")
                for _ in 0..<6 {
                    try await large(publisher, consumer)
                    TestClient.report("large \(try TestClient.residentKiB())")
                }
                for _ in 0..<4 {
                    try await pass(count / 4, publisher, consumer)
                    TestClient.report("small \(try TestClient.residentKiB())")
                }
            }
        }
    }

    private func large(_ publisher: AMQPPublisher, _ consumer: AMQPConsumer) async throws {
        let body = [UInt8](repeating: 7, count: 16 << 20)
        guard try await publisher.publish(AMQPMessage(body), to: .queue("memory")) == .confirmed,
            let delivery = try await consumer.makeAsyncIterator().next(), delivery.message.body == body
        else { return TestClient.report("wrong") }
        delivery.ack()
    }

    private func pass(_ count: Int, _ publisher: AMQPPublisher, _ consumer: AMQPConsumer) async throws {
        let reading = Task {
            let iterator = consumer.makeAsyncIterator()
            for _ in 0..<count { try await iterator.next()?.ack() }
        }
        let batch = [AMQPPublication](
            repeating: AMQPPublication(AMQPMessage([UInt8](repeating: 1, count: 200)), to: .queue("memory")), count: 500
        )
        for _ in 0..<count / 500 {
            let results = try await publisher.publish(batch)
            guard results.allSatisfy({ $0 == .confirmed }) else { return TestClient.report("wrong \(results)") }
        }
        try await reading.value
    }
}

/// Publishes numbers until its standard input ends, sends again what is unknown, and consumes them all.
struct EnduranceRun {
    let url: String

    func run() async throws {
        let configuration = try configuration()
        let isEnding = Ending()
        Thread.detachNewThread(isEnding.wait)
        try await AMQPConnection.withConnection(configuration) { publishing in
            try await AMQPConnection.withConnection(configuration) { consuming in
                try await publishing.declare(AMQPTopology(queues: [AMQPQueue("endure")]))
                let consumer = try await consuming.consume("endure")
                let seen = Seen()
                let reading = Task { try await read(consumer, seen) }
                let (count, unknown, longest) = try await publish(await publishing.publisher(), isEnding)
                await seen.wait(for: count)
                reading.cancel()
                TestClient.report("published \(count) unknown \(unknown) distinct \(seen.distinct) all \(seen.all)")
                TestClient.report("longest \(longest)")
                TestClient.report("epochs \(publishing.epoch) \(consuming.epoch)")
            }
        }
    }

    private func configuration() throws -> AMQPConfiguration {
        var configuration = try AMQPConfiguration(urls: url, name: "endure")
        configuration.recovery = .always(Backoff(first: .milliseconds(50), longest: .milliseconds(500)))
        configuration.connectTimeout = .seconds(5)
        return configuration
    }

    private func read(_ consumer: AMQPConsumer, _ seen: Seen) async throws {
        for try await delivery in consumer {
            guard let number = Int(String(decoding: delivery.message.body, as: UTF8.self)) else { continue }
            seen.add(number)
            delivery.ack()
        }
    }

    /// Gives how many were published, how many results were unknown, and the longest wait for a batch in milliseconds.
    private func publish(_ publisher: AMQPPublisher, _ isEnding: Ending) async throws -> (Int, Int, Int) {
        var count = 0
        var unknown = 0
        var longest = 0
        while !isEnding.value {
            var rest = Array(count..<count + 200)
            count += 200
            let begin = ContinuousClock.now
            while !rest.isEmpty {
                let results = try await publisher.publish(
                    rest.map { AMQPPublication(AMQPMessage(String($0)), to: .queue("endure")) })
                rest = zip(rest, results).filter { $1 != .confirmed }.map(\.0)
                unknown += rest.count
            }
            longest = max(longest, Int((ContinuousClock.now - begin) / .milliseconds(1)))
            if isEnding.takeTick() {
                TestClient.report("tick \(try TestClient.residentKiB()) \(try TestClient.descriptors())")
            }
        }
        return (count, unknown, longest)
    }
}

/// The lines of standard input: each asks for a report, its end for the end.
private final class Ending: Sendable {
    private let state = Locked((isEnding: false, ticks: 0))

    var value: Bool { state.withLock { $0.isEnding } }

    func takeTick() -> Bool {
        state.withLock { state in
            guard state.ticks > 0 else { return false }
            state.ticks -= 1
            return true
        }
    }

    @Sendable func wait() {
        while let line = readLine() {
            state.withLock { state in
                if line == "end" { state.isEnding = true } else { state.ticks += 1 }
            }
        }
        // The test is gone without a word.
        if !value { exit(1) }
    }
}

/// The numbers that were consumed.
private final class Seen: Sendable {
    private struct State {
        var flags: [Bool] = []
        var distinct = 0
        var all = 0
        var waiter: (count: Int, continuation: CheckedContinuation<Void, Never>)?

        /// Whoever waits, where there are as many as it waits for.
        mutating func takeWaiter() -> CheckedContinuation<Void, Never>? {
            guard let waiter, distinct >= waiter.count else { return nil }
            self.waiter = nil
            return waiter.continuation
        }
    }

    private let state = Locked(State())

    var distinct: Int { state.withLock { $0.distinct } }
    var all: Int { state.withLock { $0.all } }

    /// Waits until so many different numbers were consumed. For one at a time.
    func wait(for count: Int) async {
        await withCheckedContinuation { continuation in
            let done = state.withLock { state in
                state.waiter = (count, continuation)
                return state.takeWaiter()
            }
            done?.resume()
        }
    }

    func add(_ number: Int) {
        let done = state.withLock { state in
            while state.flags.count <= number { state.flags.append(contentsOf: repeatElement(false, count: 100_000)) }
            state.all += 1
            if !state.flags[number] {
                state.flags[number] = true
                state.distinct += 1
            }
            return state.takeWaiter()
        }
        done?.resume()
    }
}
