import Foundation

/// `TidingsBenchmarks <benchmark>`: measurements beside their physical floors.
@main
struct BenchmarkCommand {
    static func main() async {
        let words = Array(CommandLine.arguments.dropFirst())
        do {
            if words.first == MemoryProbe.command { return try await MemoryProbe.run(Array(words.dropFirst())) }
            guard let options = try BenchmarkOptions(words) else { return print(BenchmarkOptions.help) }
            let measurements = try await measurements(options)
            print(options.printsJSON ? try Report.json(measurements) : Report.table(measurements))
        } catch let error as BenchmarkError {
            fail("TidingsBenchmarks: \(error)\n\n\(BenchmarkOptions.help)", code: 2)
        } catch {
            fail("TidingsBenchmarks: \(error)", code: 1)
        }
    }

    private static func measurements(_ options: BenchmarkOptions) async throws -> [Measurement] {
        switch options.benchmark {
        case "capture": try await CaptureBenchmark(options: options).run()
        case "batch": try await BatchBenchmark(options: options).run()
        case "fetch": try await FetchBenchmark(options: options).run()
        case "purge": try await PurgeBenchmark(options: options).run()
        case "publish": try await BrokerBenchmark(work: .publish, options: options).run()
        case "consume": try await BrokerBenchmark(work: .consume, options: options).run()
        case "roundtrip": try await BrokerBenchmark(work: .roundTrip, options: options).run()
        case "catchup": try await CatchUpBenchmark(options: options).run()
        case "latency": try await PipelineBenchmark(work: .latency, options: options).run()
        case "pipeline": try await PipelineBenchmark(work: .flatOut, options: options).run()
        case "": throw BenchmarkError("name a benchmark")
        default: throw BenchmarkError("there is no benchmark \(options.benchmark)")
        }
    }

    private static func fail(_ message: String, code: Int32) -> Never {
        FileHandle.standardError.write(Data((message + "\n").utf8))
        exit(code)
    }
}
