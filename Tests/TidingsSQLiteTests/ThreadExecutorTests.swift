import Foundation
import Synchronization
import Testing
import TidingsSQLite

/// An actor on a thread of its own.
private actor Worker {
    private let executor: ThreadExecutor
    private var order: [Int] = []
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe executor.asUnownedSerialExecutor() }

    init(name: String = "worker") throws { executor = try ThreadExecutor(name: name) }

    func append(_ number: Int) { order.append(number) }
    func all() -> [Int] { order }

    /// The number of the thread, as the kernel knows it.
    func thread() throws -> String {
        try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/thread-self")
    }

    func threadName() throws -> String {
        try String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8).trimmingCharacters(in: .newlines)
    }

    /// Works in turns with others, so that the actor is left and entered again.
    func yieldOften() async throws -> Set<String> {
        var threads: Set<String> = []
        for _ in 0..<50 {
            threads.insert(try thread())
            await Task.yield()
        }
        return threads
    }

    /// Takes the actor over: the last reference may go on its own thread.
    func finish() {}

    nonisolated func isIsolated() { assumeIsolated { _ in } }
    func checks() { isIsolated() }
}

/// The threads of this process with a name.
private func threads(named name: String) throws -> Int {
    try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").count { task in
        // A thread may end between the two.
        let found = try? String(contentsOfFile: "/proc/self/task/\(task)/comm", encoding: .utf8)
        return found == name + "\n"
    }
}

/// Waits until no thread has the name any more: a thread that ends by itself is not waited for by anyone.
private func waitForEnd(of name: String) async throws {
    while try threads(named: name) > 0 { await Task.yield() }
}

@Suite("Threads of actors")
struct ThreadExecutorTests {
    @Test("what one task asks for runs in order", .timeLimit(.minutes(3)))
    func order() async throws {
        let worker = try Worker()
        for number in 0..<2000 { await worker.append(number) }
        #expect(await worker.all() == Array(0..<2000))
    }

    @Test("what many tasks ask for runs one at a time, each once", .timeLimit(.minutes(3)))
    func many() async throws {
        let worker = try Worker()
        await withTaskGroup(of: Void.self) { group in
            for task in 0..<20 {
                group.addTask { for number in 0..<100 { await worker.append(task * 100 + number) } }
            }
        }
        let all = await worker.all()
        #expect(all.sorted() == Array(0..<2000))
        // Of each task in its own order.
        for task in 0..<20 {
            let own = all.filter { $0 / 100 == task }
            #expect(own == own.sorted())
        }
    }

    @Test("everything runs on one thread, and two actors have two", .timeLimit(.minutes(3)))
    func oneThread() async throws {
        let first = try Worker()
        let second = try Worker()
        async let ofFirst = first.yieldOften()
        async let ofSecond = second.yieldOften()
        let (left, right) = try await (ofFirst, ofSecond)
        #expect(left.count == 1)
        #expect(right.count == 1)
        #expect(left != right)
        await first.checks()
    }

    @Test("a blocked actor holds up nobody else", .timeLimit(.minutes(3)))
    func blocking() async throws {
        let blocked = try BlockingWorker()
        async let held: Void = blocked.block()
        for worker in try (0..<8).map({ _ in try Worker() }) {
            await worker.append(1)
            #expect(await worker.all() == [1])
        }
        blocked.release()
        await held
    }

    @Test("the thread has the name, cut to what the kernel keeps", .timeLimit(.minutes(3)))
    func names() async throws {
        #expect(try await Worker(name: "short").threadName() == "short")
        #expect(try await Worker(name: "a name that is too long").threadName() == "a name that is ")
    }

    @Test("the thread ends when the actor goes", .timeLimit(.minutes(3)))
    func ends() async throws {
        let name = "ending"
        for _ in 0..<20 {
            let workers = try (0..<5).map { _ in try Worker(name: name) }
            for worker in workers { await worker.append(1) }
            #expect(try threads(named: name) == 5)
        }
        try await waitForEnd(of: name)
        #expect(try threads(named: name) == 0)
    }

    @Test("the thread ends when the last reference goes on the thread itself", .timeLimit(.minutes(3)))
    func endsOnItself() async throws {
        let name = "self-ending"
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<100 {
                let worker = try Worker(name: name)
                group.addTask { await worker.finish() }
            }
        }
        try await waitForEnd(of: name)
        #expect(try threads(named: name) == 0)
    }

    @Test("an actor that was never used leaves no thread behind", .timeLimit(.minutes(3)))
    func unused() async throws {
        let name = "unused"
        for _ in 0..<50 { _ = try Worker(name: name) }
        try await waitForEnd(of: name)
        #expect(try threads(named: name) == 0)
    }
}

/// An actor that blocks its thread until it is released.
private actor BlockingWorker {
    private let executor: ThreadExecutor
    private let semaphore = DispatchSemaphore(value: 0)
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe executor.asUnownedSerialExecutor() }

    init() throws { executor = try ThreadExecutor(name: "blocking") }

    func block() { semaphore.wait() }
    nonisolated func release() { semaphore.signal() }
}
