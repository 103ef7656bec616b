internal import CTidingsRabbitMQ

extension String {
    /// A copy of the library's bytes; what is not UTF-8 is replaced.
    @unsafe init(_ bytes: amqp_bytes_t) {
        self =
            unsafe bytes.bytes.map {
                unsafe String(decoding: UnsafeRawBufferPointer(start: $0, count: bytes.len), as: UTF8.self)
            } ?? ""
    }
}

extension AMQPTable {
    /// A copy of the library's table.
    @unsafe init(_ table: amqp_table_t, depth: Int = 1) {
        var entries: [Entry] = []
        entries.reserveCapacity(Int(unsafe table.num_entries))
        for index in 0..<Int(unsafe table.num_entries) {
            let entry = unsafe table.entries[index]
            entries.append(Entry(unsafe String(entry.key), unsafe AMQPValue(entry.value, depth: depth)))
        }
        self.init(entries)
    }
}

extension AMQPValue {
    /// A copy of the library's value. Below the greatest depth there is only ``unreadable``.
    @unsafe init(_ field: amqp_field_value_t, depth: Int) {
        switch UInt32(unsafe field.kind) {
        case AMQP_FIELD_KIND_VOID.rawValue: self = .null
        case AMQP_FIELD_KIND_BOOLEAN.rawValue: self = .bool(unsafe field.value.boolean != 0)
        case AMQP_FIELD_KIND_I8.rawValue: self = .integer(Int64(unsafe field.value.i8))
        case AMQP_FIELD_KIND_U8.rawValue: self = .integer(Int64(unsafe field.value.u8))
        case AMQP_FIELD_KIND_I16.rawValue: self = .integer(Int64(unsafe field.value.i16))
        case AMQP_FIELD_KIND_U16.rawValue: self = .integer(Int64(unsafe field.value.u16))
        case AMQP_FIELD_KIND_I32.rawValue: self = .integer(Int64(unsafe field.value.i32))
        case AMQP_FIELD_KIND_U32.rawValue: self = .integer(Int64(unsafe field.value.u32))
        case AMQP_FIELD_KIND_I64.rawValue: self = .integer(unsafe field.value.i64)
        case AMQP_FIELD_KIND_U64.rawValue:
            let value = unsafe field.value.u64
            self = Int64(exactly: value).map { .integer($0) } ?? .unsigned(value)
        case AMQP_FIELD_KIND_F32.rawValue: self = .double(Double(unsafe field.value.f32))
        case AMQP_FIELD_KIND_F64.rawValue: self = .double(unsafe field.value.f64)
        case AMQP_FIELD_KIND_DECIMAL.rawValue:
            self = .decimal(value: unsafe field.value.decimal.value, decimals: unsafe field.value.decimal.decimals)
        case AMQP_FIELD_KIND_TIMESTAMP.rawValue: self = .timestamp(unsafe field.value.u64)
        case AMQP_FIELD_KIND_UTF8.rawValue, AMQP_FIELD_KIND_BYTES.rawValue:
            let bytes = unsafe Array(
                UnsafeRawBufferPointer(start: field.value.bytes.bytes, count: field.value.bytes.len))
            self = String(validating: bytes, as: UTF8.self).map { .string($0) } ?? .bytes(bytes)
        case AMQP_FIELD_KIND_ARRAY.rawValue where depth < AMQPTable.maximumDepth:
            let array = unsafe field.value.array
            self = .array(
                (0..<Int(unsafe array.num_entries)).map { unsafe AMQPValue(array.entries[$0], depth: depth + 1) })
        case AMQP_FIELD_KIND_TABLE.rawValue where depth < AMQPTable.maximumDepth:
            self = .table(unsafe AMQPTable(field.value.table, depth: depth + 1))
        default: self = .unreadable
        }
    }
}

extension AMQPProperties {
    /// A copy of the library's properties.
    @unsafe init(_ source: amqp_basic_properties_t) {
        self.init(isPersistent: false)
        let flags = unsafe source._flags
        func text(_ flag: Int32, _ bytes: amqp_bytes_t) -> String? {
            flags & UInt32(flag) == 0 ? nil : unsafe String(bytes)
        }
        unsafe contentType = text(AMQP_BASIC_CONTENT_TYPE_FLAG, source.content_type)
        unsafe contentEncoding = text(AMQP_BASIC_CONTENT_ENCODING_FLAG, source.content_encoding)
        if flags & UInt32(AMQP_BASIC_HEADERS_FLAG) != 0 { headers = unsafe AMQPTable(source.headers) }
        if flags & UInt32(AMQP_BASIC_DELIVERY_MODE_FLAG) != 0 { isPersistent = unsafe source.delivery_mode == 2 }
        if flags & UInt32(AMQP_BASIC_PRIORITY_FLAG) != 0 { priority = unsafe source.priority }
        unsafe correlationID = text(AMQP_BASIC_CORRELATION_ID_FLAG, source.correlation_id)
        unsafe replyTo = text(AMQP_BASIC_REPLY_TO_FLAG, source.reply_to)
        unsafe expiration = text(AMQP_BASIC_EXPIRATION_FLAG, source.expiration)
        unsafe messageID = text(AMQP_BASIC_MESSAGE_ID_FLAG, source.message_id)
        if flags & UInt32(AMQP_BASIC_TIMESTAMP_FLAG) != 0 { timestamp = unsafe source.timestamp }
        unsafe type = text(AMQP_BASIC_TYPE_FLAG, source.type)
        unsafe userID = text(AMQP_BASIC_USER_ID_FLAG, source.user_id)
        unsafe applicationID = text(AMQP_BASIC_APP_ID_FLAG, source.app_id)
    }
}

extension amqp_basic_properties_t {
    /// The library's form, in the arena's memory.
    @unsafe init(_ properties: AMQPProperties, in arena: Arena) {
        unsafe self.init()
        var flags: Int32 = AMQP_BASIC_DELIVERY_MODE_FLAG
        unsafe delivery_mode = properties.isPersistent ? 2 : 1
        func text(_ flag: Int32, _ text: String?) -> amqp_bytes_t {
            guard let text else { return unsafe amqp_empty_bytes }
            flags |= flag
            return unsafe arena.bytes(text)
        }
        unsafe content_type = text(AMQP_BASIC_CONTENT_TYPE_FLAG, properties.contentType)
        unsafe content_encoding = text(AMQP_BASIC_CONTENT_ENCODING_FLAG, properties.contentEncoding)
        if !properties.headers.isEmpty {
            flags |= AMQP_BASIC_HEADERS_FLAG
            unsafe headers = arena.table(properties.headers)
        }
        if let value = properties.priority {
            flags |= AMQP_BASIC_PRIORITY_FLAG
            unsafe priority = value
        }
        unsafe correlation_id = text(AMQP_BASIC_CORRELATION_ID_FLAG, properties.correlationID)
        unsafe reply_to = text(AMQP_BASIC_REPLY_TO_FLAG, properties.replyTo)
        unsafe expiration = text(AMQP_BASIC_EXPIRATION_FLAG, properties.expiration)
        unsafe message_id = text(AMQP_BASIC_MESSAGE_ID_FLAG, properties.messageID)
        if let value = properties.timestamp {
            flags |= AMQP_BASIC_TIMESTAMP_FLAG
            unsafe timestamp = value
        }
        unsafe type = text(AMQP_BASIC_TYPE_FLAG, properties.type)
        unsafe user_id = text(AMQP_BASIC_USER_ID_FLAG, properties.userID)
        unsafe app_id = text(AMQP_BASIC_APP_ID_FLAG, properties.applicationID)
        unsafe _flags = UInt32(bitPattern: flags)
    }
}
