import Testing

/// What starts brokers of its own: one after the other, since each start wants the machine.
@Suite("Private brokers", .serialized)
struct PrivateBrokerTests {}
