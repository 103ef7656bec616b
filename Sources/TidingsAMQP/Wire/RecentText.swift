internal import CTidingsRabbitMQ
internal import Glibc

/// The last text that came in one place: what comes again and again, such as a routing key, is kept once.
///
/// Deliveries are made on one thread and released on others; each text that is not made anew spares both of them the
/// allocator's lock.
struct RecentText {
    private var last = ""

    /// A copy of the library's bytes, or the last text where they are the same; what is not UTF-8 is replaced.
    @unsafe mutating func text(_ bytes: amqp_bytes_t) -> String {
        // Such a text needs no memory besides its value.
        guard unsafe bytes.len > 15 else { return unsafe String(bytes) }
        let isSame = unsafe last.utf8.withContiguousStorageIfAvailable { last in
            unsafe last.count == bytes.len && memcmp(last.baseAddress!, bytes.bytes, last.count) == 0
        }
        if isSame != true { last = unsafe String(bytes) }
        return last
    }
}

/// The recent texts of those places where they are the same for many messages.
struct RecentTexts {
    var exchange = RecentText()
    var routingKey = RecentText()
    var contentType = RecentText()
    var contentEncoding = RecentText()
    var replyTo = RecentText()
    var type = RecentText()
    var userID = RecentText()
    var applicationID = RecentText()
}
