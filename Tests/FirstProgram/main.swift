import Tidings

let path = CommandLine.arguments.dropFirst().first ?? "main.db"
let store = try await HistoryStore.open(path, author: "orders", create: true)
try await store.migrate { db in
    try db.execute("CREATE TABLE IF NOT EXISTS article(id INTEGER PRIMARY KEY, title TEXT)")
}
try await store.track(.all)

let broker = try Broker.environment()
let view = try ProjectionContext("\(path)-view")
let consumer = HistoryConsumer(store, name: "orders-1", contexts: [view], broker: broker)
await consumer.observe("article", .insert) { inserted in
    print("new:", try await inserted.all().map(\.objectID))
}

try await withRunning(HistoryPublisher(store, broker: broker), consumer) {
    try await consumer.waitUntilCaughtUp(to: store.currentToken())  // the view is loaded
    let token = try await store.write(context: "import") { db in
        try db.execute("INSERT INTO article(title) VALUES (?)", "Hello")
    }.token
    if let token { try await consumer.waitUntilCaughtUp(to: token) }
}
