internal import CTidingsRabbitMQ

/// Memory for the texts and tables of one call, in one block that is used again for the next.
///
/// What it gives is good until ``recycle()``, and no longer than the arena.
@safe final class Arena {
    private let pool: UnsafeMutablePointer<amqp_pool_t>

    init() {
        unsafe pool = .allocate(capacity: 1)
        unsafe init_amqp_pool(pool, 4096)
    }

    deinit {
        unsafe empty_amqp_pool(pool)
        unsafe pool.deallocate()
    }

    func recycle() { unsafe recycle_amqp_pool(pool) }

    /// A copy of a text.
    @unsafe func bytes(_ text: String) -> amqp_bytes_t {
        var text = text
        return text.withUTF8 { unsafe copy(UnsafeRawBufferPointer($0)) }
    }

    /// A copy of bytes.
    @unsafe func bytes(_ bytes: [UInt8]) -> amqp_bytes_t { unsafe bytes.withUnsafeBytes { unsafe copy($0) } }

    private func copy(_ source: UnsafeRawBufferPointer) -> amqp_bytes_t {
        guard unsafe !source.isEmpty else { return unsafe amqp_empty_bytes }
        let memory = unsafe allocate(source.count)
        unsafe memory.copyMemory(from: source.baseAddress!, byteCount: source.count)
        return unsafe amqp_bytes_t(len: source.count, bytes: memory)
    }

    /// A copy of a table. Its depth has been checked.
    @unsafe func table(_ table: AMQPTable) -> amqp_table_t {
        guard !table.isEmpty else { return unsafe amqp_empty_table }
        let stride = unsafe MemoryLayout<amqp_table_entry_t>.stride
        let entries = unsafe allocate(stride * table.entries.count)
            .bindMemory(to: amqp_table_entry_t.self, capacity: table.entries.count)
        for (index, entry) in table.entries.enumerated() {
            unsafe (entries + index).initialize(
                to: amqp_table_entry_t(key: bytes(entry.name), value: field(entry.value)))
        }
        return unsafe amqp_table_t(num_entries: Int32(table.entries.count), entries: entries)
    }

    private func array(_ values: [AMQPValue]) -> amqp_array_t {
        guard !values.isEmpty else { return unsafe amqp_array_t(num_entries: 0, entries: nil) }
        let stride = unsafe MemoryLayout<amqp_field_value_t>.stride
        let entries = unsafe allocate(stride * values.count)
            .bindMemory(to: amqp_field_value_t.self, capacity: values.count)
        for (index, value) in values.enumerated() { unsafe (entries + index).initialize(to: field(value)) }
        return unsafe amqp_array_t(num_entries: Int32(values.count), entries: entries)
    }

    private func field(_ value: AMQPValue) -> amqp_field_value_t {
        var field = unsafe amqp_field_value_t()
        switch value {
        case .null, .unreadable: unsafe field.kind = UInt8(AMQP_FIELD_KIND_VOID.rawValue)
        case .bool(let value):
            unsafe field.kind = UInt8(AMQP_FIELD_KIND_BOOLEAN.rawValue)
            unsafe field.value.boolean = value ? 1 : 0
        case .integer(let value):
            unsafe field.kind = UInt8(AMQP_FIELD_KIND_I64.rawValue)
            unsafe field.value.i64 = value
        case .unsigned(let value):
            // RabbitMQ reads 'l' as signed; the library writes it as unsigned.
            unsafe field.kind = UInt8(AMQP_FIELD_KIND_U64.rawValue)
            unsafe field.value.u64 = value
        case .double(let value):
            unsafe field.kind = UInt8(AMQP_FIELD_KIND_F64.rawValue)
            unsafe field.value.f64 = value
        case .decimal(let value, let decimals):
            unsafe field.kind = UInt8(AMQP_FIELD_KIND_DECIMAL.rawValue)
            unsafe field.value.decimal = amqp_decimal_t(decimals: decimals, value: value)
        case .string(let text):
            unsafe field.kind = UInt8(AMQP_FIELD_KIND_UTF8.rawValue)
            unsafe field.value.bytes = bytes(text)
        case .bytes(let bytes):
            unsafe field.kind = UInt8(AMQP_FIELD_KIND_BYTES.rawValue)
            unsafe field.value.bytes = self.bytes(bytes)
        case .timestamp(let value):
            unsafe field.kind = UInt8(AMQP_FIELD_KIND_TIMESTAMP.rawValue)
            unsafe field.value.u64 = value
        case .array(let values):
            unsafe field.kind = UInt8(AMQP_FIELD_KIND_ARRAY.rawValue)
            unsafe field.value.array = array(values)
        case .table(let table):
            unsafe field.kind = UInt8(AMQP_FIELD_KIND_TABLE.rawValue)
            unsafe field.value.table = self.table(table)
        }
        return unsafe field
    }

    private func allocate(_ size: Int) -> UnsafeMutableRawPointer {
        // Nil only where there is no memory left, which ends Swift programs anyhow.
        unsafe amqp_pool_alloc(pool, size)!
    }
}
