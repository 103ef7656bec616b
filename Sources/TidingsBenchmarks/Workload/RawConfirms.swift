import CTidingsRabbitMQ
import TidingsSQLite

/// Which messages the broker has confirmed, and how long each took.
struct RawConfirms {
    /// When each message was sent, by its number.
    private var sent: [UInt64]
    private var isConfirmed: [Bool]
    /// The first message that is not confirmed.
    private var first = 1
    private(set) var sentCount = 0
    private(set) var latencies: [UInt64] = []

    init(count: Int) {
        sent = [UInt64](repeating: 0, count: count + 1)
        isConfirmed = [Bool](repeating: false, count: count + 2)
        latencies.reserveCapacity(count)
    }

    @inline(__always)
    var confirmedCount: Int { latencies.count }

    @inline(__always)
    var pendingCount: Int { sentCount - latencies.count }

    /// When a message was sent.
    @inline(__always)
    func sent(_ number: Int) -> UInt64 { sent[number] }

    /// Takes the next number.
    @inline(__always)
    mutating func next() -> Int {
        sentCount += 1
        sent[sentCount] = MonotonicClock.nanoseconds
        return sentCount
    }

    /// Acks come in any order, and may be for all up to a tag.
    mutating func take(_ ack: amqp_basic_ack_t) throws {
        let tag = Int(ack.delivery_tag)
        guard tag <= sentCount else { throw BenchmarkError("the broker confirmed what was not sent") }
        let now = MonotonicClock.nanoseconds
        if ack.multiple != 0 {
            while first <= tag {
                confirm(first, now)
                first += 1
            }
        } else {
            confirm(tag, now)
            while isConfirmed[first] { first += 1 }
        }
    }

    @inline(__always)
    private mutating func confirm(_ number: Int, _ now: UInt64) {
        if isConfirmed[number] { return }
        isConfirmed[number] = true
        latencies.append(now - sent[number])
    }
}
