import Testing

@testable import TidingsAMQP

struct TableTests {
    @Test("A literal keeps its order")
    func literal() {
        let table: AMQPTable = ["b": 1, "a": "text", "c": true]
        #expect(table.entries == [.init("b", .integer(1)), .init("a", .string("text")), .init("c", .bool(true))])
        #expect(!table.isEmpty)
        #expect(AMQPTable().isEmpty)
        #expect(AMQPTable() == [:])
    }

    @Test("The value of a name is there, that of another is not")
    func get() {
        let table: AMQPTable = ["a": 1, "b": .null]
        #expect(table["a"] == 1)
        #expect(table["b"] == .some(.null))
        #expect(table["c"] == nil)
    }

    @Test("Setting replaces in place, or appends")
    func set() {
        var table: AMQPTable = ["a": 1, "b": 2]
        table["a"] = 3
        table["c"] = 4
        #expect(table == ["a": 3, "b": 2, "c": 4])
    }

    @Test("Setting nil removes a name, and leaves the rest in order")
    func remove() {
        var table: AMQPTable = ["a": 1, "b": 2, "c": 3]
        table["b"] = nil
        table["d"] = nil
        #expect(table == ["a": 1, "c": 3])
        #expect(table["b"] == nil)
    }

    @Test("Of a name that occurs twice the last counts, and is set")
    func twice() {
        var table = AMQPTable([.init("a", 1), .init("b", 2), .init("a", 3)])
        #expect(table["a"] == 3)
        table["a"] = 4
        #expect(table.entries == [.init("a", 1), .init("b", 2), .init("a", 4)])
    }

    @Test("A name that occurs twice is gone when it was set to nil")
    func removeTwice() {
        var table = AMQPTable([.init("a", 1), .init("b", 2), .init("a", 3)])
        table["a"] = nil
        #expect(table["a"] == nil)
        #expect(table == ["b": 2])
    }

    @Test("Literals are values of their kinds")
    func literals() {
        #expect(("text" as AMQPValue) == .string("text"))
        #expect((-1 as AMQPValue) == .integer(-1))
        #expect((false as AMQPValue) == .bool(false))
    }
}
