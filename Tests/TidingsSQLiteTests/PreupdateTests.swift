import Testing
import TidingsSQLite

/// Writes down what the hook is told.
private final class Recording: PreupdateObserver {
    /// The columns to read, in the hook's own numbers.
    var columns: [Int32] = [0, 1]
    var events: [String] = []

    func willChange(_ change: borrowing PreupdateChange) {
        let operation = unsafe change.operation
        let name = unsafe "\(String(cString: change.database)).\(String(cString: change.table))"
        var event = unsafe "\(operation) \(name) \(change.rowID)"
        if let column = unsafe change.blobColumn { event += " blob \(column)" }
        var old: [String] = []
        var new: [String] = []
        for column in columns {
            if operation != .insert { old.append(unsafe Self.text(change.old(at: column))) }
            if operation != .delete { new.append(unsafe Self.text(change.new(at: column))) }
        }
        if operation != .insert { event += " old " + old.joined(separator: ",") }
        if operation != .delete { event += " new " + new.joined(separator: ",") }
        events.append(event)
    }

    func take() -> [String] {
        defer { events = [] }
        return events
    }

    private static func text(_ value: BorrowedValue) -> String {
        if unsafe value.isAbsent { return "absent" }
        let bytes = unsafe UnsafeRawBufferPointer(start: value.bytes, count: value.count)
        return switch unsafe value.storageClass {
        case 1: unsafe "\(value.bits)"
        case 2: unsafe "\(Double(bitPattern: UInt64(bitPattern: value.bits)))"
        case 3: unsafe "'\(String(decoding: bytes, as: UTF8.self))'"
        case 4: unsafe "x\(Array(bytes))"
        default: "NULL"
        }
    }
}

@Suite("The preupdate hook")
struct PreupdateTests {
    private let recording = Recording()
    private let database: Database

    init() throws {
        database = try Database.memory()
        try database.installPreupdateHook(recording)
        try database.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a UNIQUE)")
    }

    @Test("the library in use has the hook")
    func available() {
        #expect(Database.hasPreupdateHook)
        #expect(Database.libraryVersionNumber >= 3_040_000)
        #expect(Database.libraryVersion.hasPrefix("3."))
    }

    @Test("inserts, updates and deletes are told with their values, before they happen")
    func basics() throws {
        try database.execute("INSERT INTO t VALUES (7, 'x')")
        #expect(recording.take() == ["insert main.t 7 new 7,'x'"])
        try database.execute("UPDATE t SET a = 1.5 WHERE id = 7")
        #expect(recording.take() == ["update main.t 7 old 7,'x' new 7,1.5"])
        try database.execute("UPDATE t SET id = 8, a = x'00ff'")
        #expect(recording.take() == ["update main.t 7 old 7,1.5 new 8,x[0, 255]"])
        try database.execute("UPDATE t SET a = NULL")
        #expect(recording.take() == ["update main.t 8 old 8,x[0, 255] new 8,NULL"])
        try database.execute("DELETE FROM t WHERE id = 8")
        #expect(recording.take() == ["delete main.t 8 old 8,NULL"])
    }

    @Test("extreme values are told exactly")
    func extremes() throws {
        try database.execute("INSERT INTO t VALUES (?, ?)", Int64.min, Double.infinity)
        try database.execute("INSERT INTO t VALUES (?, ?)", Int64.max, SQLiteValue.text("a\u{0}b"))
        try database.execute("INSERT INTO t VALUES (?, ?)", 0, SQLiteValue.blob([]))
        #expect(
            recording.take() == [
                "insert main.t \(Int64.min) new \(Int64.min),inf",
                "insert main.t \(Int64.max) new \(Int64.max),'a\u{0}b'",
                "insert main.t 0 new 0,x[]",
            ])
    }

    // The observer must know the column's type to tell the two apart.
    @Test("a whole real is told as an integer where it is inserted, and as a real from then on")
    func compactReals() throws {
        try database.execute("CREATE TABLE r(id INTEGER PRIMARY KEY, a REAL)")
        try database.execute("INSERT INTO r VALUES (1, 5)")
        try database.execute("UPDATE r SET a = 6")
        try database.execute("DELETE FROM r")
        #expect(
            recording.take() == [
                "insert main.r 1 new 1,5", "update main.r 1 old 1,5.0 new 1,6.0", "delete main.r 1 old 1,6.0",
            ])
    }

    @Test("REPLACE tells the rows that it displaces, by the key and by another unique index")
    func replace() throws {
        try database.execute("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
        _ = recording.take()
        try database.execute("INSERT OR REPLACE INTO t VALUES (1, 'y')")
        #expect(
            recording.take().sorted() == [
                "delete main.t 1 old 1,'x'", "delete main.t 2 old 2,'y'", "insert main.t 1 new 1,'y'",
            ])
        try database.execute("INSERT INTO t VALUES (3, 'z')")
        _ = recording.take()
        try database.execute("UPDATE OR REPLACE t SET a = 'z' WHERE id = 1")
        #expect(recording.take() == ["delete main.t 3 old 3,'z'", "update main.t 1 old 1,'y' new 1,'z'"])
        #expect(try database.table("t") == [[1, "z"]])
    }

    @Test("UPSERT is an update")
    func upsert() throws {
        try database.execute("INSERT INTO t VALUES (1, 'x')")
        _ = recording.take()
        try database.execute("INSERT INTO t VALUES (1, 'y') ON CONFLICT(id) DO UPDATE SET a = excluded.a")
        #expect(recording.take() == ["update main.t 1 old 1,'x' new 1,'y'"])
        try database.execute("INSERT INTO t VALUES (1, 'q') ON CONFLICT(id) DO NOTHING")
        #expect(recording.take() == [])
    }

    @Test("a DELETE without WHERE tells every row")
    func truncate() throws {
        try database.execute("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
        _ = recording.take()
        try database.execute("DELETE FROM t")
        #expect(recording.take() == ["delete main.t 1 old 1,'x'", "delete main.t 2 old 2,'y'"])
    }

    @Test("cascades and triggers tell their rows too")
    func cascades() throws {
        try database.execute(
            """
            CREATE TABLE c(id INTEGER PRIMARY KEY, t REFERENCES t ON DELETE CASCADE);
            CREATE TABLE n(id INTEGER PRIMARY KEY, t REFERENCES t ON DELETE SET NULL);
            CREATE TRIGGER r AFTER DELETE ON c BEGIN INSERT INTO n VALUES (99, NULL); END;
            INSERT INTO t VALUES (1, 'x'); INSERT INTO c VALUES (5, 1); INSERT INTO n VALUES (6, 1)
            """)
        _ = recording.take()
        try database.execute("DELETE FROM t")
        #expect(
            recording.take().sorted() == [
                "delete main.c 5 old 5,1", "delete main.t 1 old 1,'x'", "insert main.n 99 new 99,NULL",
                "update main.n 6 old 6,1 new 6,NULL",
            ])
    }

    @Test("a column added since a row was stored is absent in it, a stored NULL is not")
    func absentColumns() throws {
        try database.execute("INSERT INTO t VALUES (1, NULL)")
        try database.execute("ALTER TABLE t ADD COLUMN b DEFAULT 'standard'")
        _ = recording.take()
        recording.columns = [1, 2]
        try database.execute("UPDATE t SET id = 2")
        #expect(recording.take() == ["update main.t 1 old NULL,absent new NULL,'standard'"])
        try database.execute("DELETE FROM t")
        #expect(recording.take() == ["delete main.t 2 old NULL,'standard'"])
        try database.execute("INSERT INTO t(id) VALUES (3)")
        #expect(recording.take() == ["insert main.t 3 new NULL,'standard'"])
    }

    @Test("a write through a blob tells the column and the old values")
    func blobs() throws {
        try database.execute("CREATE TABLE b(id INTEGER PRIMARY KEY, x); INSERT INTO b VALUES (4, x'0102')")
        _ = recording.take()
        try database.withBlob(table: "b", column: "x", rowID: 4, isWritable: true) { blob in
            try blob.write([9], at: 1)
            try blob.write([8])
        }
        #expect(
            recording.take() == ["delete main.b 4 blob 1 old 4,x[1, 2]", "delete main.b 4 blob 1 old 4,x[1, 9]"])
        try database.withBlob(table: "b", column: "x", rowID: 4) { _ = try $0.read(2) }
        #expect(recording.take() == [])
    }

    @Test("rows of TEMP tables and attached databases name their database")
    func databases() throws {
        try database.execute("CREATE TEMP TABLE s(a, b); ATTACH ':memory:' AS other; CREATE TABLE other.o(a, b)")
        _ = recording.take()
        try database.execute("INSERT INTO s VALUES (1, 2); INSERT INTO o VALUES (3, 4)")
        #expect(recording.take() == ["insert temp.s 1 new 1,2", "insert other.o 1 new 3,4"])
    }

    @Test("a table without rowid has rowid 0")
    func withoutRowID() throws {
        try database.execute("CREATE TABLE w(k PRIMARY KEY, v) WITHOUT ROWID")
        try database.execute("INSERT INTO w VALUES ('a', 1); UPDATE w SET k = 'b'; DELETE FROM w")
        #expect(
            Array(recording.take().suffix(3)) == [
                "insert main.w 0 new 'a',1", "update main.w 0 old 'a',1 new 'b',1", "delete main.w 0 old 'b',1",
            ])
    }

    @Test("two connections tell their own observers")
    func twoConnections() throws {
        let other = Recording()
        let second = try Database.memory()
        try second.installPreupdateHook(other)
        try second.execute("CREATE TABLE t(a, b); INSERT INTO t VALUES (1, 2)")
        #expect(other.take() == ["insert main.t 1 new 1,2"])
        #expect(recording.take() == [])
    }
}

@Suite("How the hook numbers columns")
struct PreupdateIndexingTests {
    /// Reads every column of a row by the numbers that were found out.
    private final class Reader: PreupdateObserver {
        let storage: [Int32]
        let isKeyed: Bool
        let indexing: PreupdateIndexing
        var read: [String] = []

        init(storage: [Int32], isKeyed: Bool, indexing: PreupdateIndexing) {
            self.storage = storage
            self.isKeyed = isKeyed
            self.indexing = indexing
        }

        private func bits(_ order: PreupdateIndexing.Order, _ value: (Int32) -> Int64) -> String {
            // Virtual columns (storage −1) have no value where order is by storage.
            let numbers = storage.indices.filter { storage[$0] >= 0 }
                .map { order == .declaration ? Int32($0) : storage[$0] }
            return numbers.map { "\(value($0))" }.joined(separator: ",")
        }

        func willChange(_ change: borrowing PreupdateChange) {
            let operation = unsafe change.operation
            let ordinary = isKeyed ? indexing.keyedTable : indexing.rowidTable
            var old: [Int64] = []
            var new: [Int64] = []
            for number in Int32(0)..<8 {
                if operation != .insert { old.append(unsafe change.old(at: number).bits) }
                if operation != .delete { new.append(unsafe change.new(at: number).bits) }
            }
            if operation != .insert { read.append("old " + bits(ordinary) { old[Int($0)] }) }
            let order = isKeyed && operation == .update ? indexing.keyedTableUpdate : ordinary
            if operation != .delete { read.append("new " + bits(order) { new[Int($0)] }) }
        }
    }

    @Test(
        "the numbers found out read every kind of table",
        arguments: [
            ("k INTEGER PRIMARY KEY, a, g AS (a + 1), s AS (a + 2) STORED, b", [0, 1, -1, 2, 3], false),
            ("a, g AS (a + 1), k PRIMARY KEY, s AS (a + 2) STORED, b", [0, -1, 1, 2, 3], true),
            ("b, g AS (a + 1), a, s AS (a + 2) STORED, k, PRIMARY KEY (k, b)", [0, -1, 1, 2, 3], true),
            ("k INTEGER PRIMARY KEY, a, b", [0, 1, 2], false),
        ] as [(String, [Int32], Bool)])
    func readsAll(columns: String, storage: [Int32], isKeyed: Bool) throws {
        let reader = Reader(storage: storage, isKeyed: isKeyed, indexing: try PreupdateIndexing.current.get())
        let database = try Database.memory()
        try database.installPreupdateHook(reader)
        try database.execute("CREATE TABLE t(\(columns))\(isKeyed ? " WITHOUT ROWID" : "")")
        reader.read = []
        let names = columns.split(separator: ", ").filter {
            !$0.contains("g AS") && !$0.hasPrefix("PRIMARY") && !$0.hasPrefix("b)")
        }
        .map { String($0.prefix(1)) }
        func row() throws -> String {
            let values = try database.rows("SELECT \(names.joined(separator: ", ")) FROM t")[0]
            return try values.map { value in
                guard case .integer(let number) = value else { throw Stop() }
                return "\(number)"
            }.joined(separator: ",")
        }
        try database.execute("INSERT INTO t(k, a, b) VALUES (101, 201, 301)")
        let first = try row()
        #expect(reader.read == ["new \(first)"])
        reader.read = []
        try database.execute("UPDATE t SET a = 202")
        let second = try row()
        #expect(second != first)
        #expect(reader.read == ["old \(first)", "new \(second)"])
        reader.read = []
        try database.execute("DELETE FROM t")
        #expect(reader.read == ["old \(second)"])
    }

    @Test("numbers are found out once, and are those of this library")
    func current() throws {
        let found = try PreupdateIndexing.current.get()
        #expect(found == (try PreupdateIndexing.current.get()))
        if Database.libraryVersion.hasPrefix("3.40.") {
            #expect(
                (found.rowidTable, found.keyedTable, found.keyedTableUpdate) == (.storage, .declaration, .storage))
        }
    }
}
