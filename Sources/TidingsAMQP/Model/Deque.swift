/// A queue in a ring: both ends in constant time, and an index from the front.
struct Deque<Element> {
    private var slots: [Element?]
    private var head = 0
    private(set) var count = 0

    init() { slots = Array(repeating: nil, count: 8) }

    var isEmpty: Bool { count == 0 }

    var first: Element? { count == 0 ? nil : slots[head] }

    /// The element at a distance from the front.
    subscript(index: Int) -> Element {
        // In place: a copy costs more than the look, where elements hold references.
        _read {
            precondition(index >= 0 && index < count, "index beyond the ends")
            yield slots[position(index)]!
        }
        _modify {
            precondition(index >= 0 && index < count, "index beyond the ends")
            yield &slots[position(index)]!
        }
    }

    mutating func append(_ element: consuming Element) {
        if count == slots.count { grow() }
        slots[position(count)] = element
        count += 1
    }

    mutating func removeFirst() -> Element? {
        guard count > 0 else { return nil }
        let element = slots[head].take()
        head = (head + 1) & (slots.count - 1)
        count -= 1
        return element
    }

    /// Empties the queue; gives what was in it, in order.
    mutating func removeAll() -> [Element] {
        var all: [Element] = []
        all.reserveCapacity(count)
        while let element = removeFirst() { all.append(element) }
        slots = Array(repeating: nil, count: 8)
        head = 0
        return all
    }

    /// Removes the elements that a condition names, keeping the order of the rest.
    mutating func removeAll(where condition: (Element) -> Bool) {
        for element in removeAll() where !condition(element) { append(element) }
    }

    // The number of slots is a power of two.
    private func position(_ index: Int) -> Int { (head + index) & (slots.count - 1) }

    private mutating func grow() {
        var larger: [Element?] = []
        larger.reserveCapacity(slots.count * 2)
        for index in 0..<count { larger.append(slots[position(index)].take()) }
        larger.append(contentsOf: repeatElement(nil, count: slots.count * 2 - count))
        slots = larger
        head = 0
    }
}
