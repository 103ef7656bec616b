// swift-tools-version: 6.2
import PackageDescription

/// One set of settings for every target: the Swift 6 language mode comes with the tools version.
let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

let package = Package(
    name: "tidings",
    products: [
        .library(name: "TidingsSQLite", targets: ["TidingsSQLite"]),
        .library(name: "TidingsAMQP", targets: ["TidingsAMQP"]),
        .library(name: "PersistentHistory", targets: ["PersistentHistory"]),
        .library(name: "LocalContexts", targets: ["LocalContexts"]),
        .library(name: "HistoryMessaging", targets: ["HistoryMessaging"]),
        .library(name: "TidingsServices", targets: ["TidingsServices"]),
        .library(name: "Tidings", targets: ["Tidings"]),
        .library(name: "TidingsTestKit", targets: ["TidingsTestKit"]),
        .executable(name: "tidings", targets: ["TidingsCommand"]),
        .executable(name: "TidingsBenchmarks", targets: ["TidingsBenchmarks"]),
    ],
    targets: [
        .systemLibrary(
            name: "CTidingsSQLite",
            pkgConfig: "sqlite3",
            providers: [.apt(["libsqlite3-dev"])]
        ),
        .target(
            name: "TidingsSQLite",
            dependencies: ["CTidingsSQLite"],
            swiftSettings: settings + [.strictMemorySafety()]
        ),
        .systemLibrary(
            name: "CTidingsRabbitMQ",
            pkgConfig: "librabbitmq",
            providers: [.apt(["librabbitmq-dev"])]
        ),
        .target(
            name: "TidingsAMQP",
            dependencies: ["CTidingsRabbitMQ"],
            swiftSettings: settings + [.strictMemorySafety()]
        ),
        .target(
            name: "PersistentHistory",
            dependencies: ["TidingsSQLite"],
            swiftSettings: settings
        ),
        .target(
            name: "LocalContexts",
            dependencies: ["PersistentHistory", "TidingsSQLite"],
            swiftSettings: settings
        ),
        .target(
            name: "HistoryMessaging",
            dependencies: ["PersistentHistory", "TidingsAMQP", "TidingsSQLite"],
            swiftSettings: settings
        ),
        .target(
            name: "TidingsServices",
            dependencies: ["HistoryMessaging", "PersistentHistory", "TidingsAMQP"],
            swiftSettings: settings
        ),
        .target(
            name: "Tidings",
            dependencies: [
                "HistoryMessaging", "LocalContexts", "PersistentHistory", "TidingsAMQP", "TidingsSQLite",
                "TidingsServices",
            ],
            swiftSettings: settings
        ),
        .target(
            name: "TidingsTestKit",
            dependencies: ["TidingsAMQP", "TidingsSQLite", "PersistentHistory"],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "TidingsCommand",
            dependencies: [
                "HistoryMessaging", "LocalContexts", "PersistentHistory", "TidingsAMQP", "TidingsSQLite",
                "TidingsServices",
            ],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "TidingsBenchmarks",
            dependencies: [
                "HistoryMessaging", "LocalContexts", "PersistentHistory", "TidingsAMQP", "TidingsSQLite",
                "TidingsTestKit", "CTidingsRabbitMQ", "CTidingsSQLite",
            ],
            swiftSettings: settings
        ),
        // The other process in tests that need one: crashed, contended with, measured.
        .executableTarget(
            name: "TestWriter",
            dependencies: ["PersistentHistory", "TidingsSQLite"],
            path: "Tests/TestWriter",
            swiftSettings: settings
        ),
        // The test run that crashes while its broker runs.
        .executableTarget(
            name: "TestBroker",
            dependencies: ["TidingsTestKit"],
            path: "Tests/TestBroker",
            swiftSettings: settings
        ),
        .testTarget(
            name: "TidingsTestKitTests",
            dependencies: ["TidingsTestKit", "TestBroker"],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "TestClient",
            dependencies: ["TidingsAMQP"],
            path: "Tests/TestClient",
            swiftSettings: settings
        ),
        .testTarget(
            name: "TidingsSQLiteTests",
            dependencies: ["TidingsSQLite", "TidingsTestKit"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "TidingsAMQPTests",
            dependencies: ["TidingsAMQP", "TidingsTestKit", "TestClient"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "PersistentHistoryTests",
            dependencies: ["PersistentHistory", "TidingsSQLite", "TidingsTestKit", "TestWriter"],
            exclude: ["Golden"],
            swiftSettings: settings
        ),
        // An agent in a process of its own, ended at a step of its work.
        .executableTarget(
            name: "TestAgent",
            dependencies: ["HistoryMessaging", "LocalContexts", "PersistentHistory", "TidingsAMQP", "TidingsSQLite"],
            path: "Tests/TestAgent",
            swiftSettings: settings
        ),
        // The process whose durable context is killed at any instant.
        .executableTarget(
            name: "TestContext",
            dependencies: ["LocalContexts", "PersistentHistory"],
            path: "Tests/TestContext",
            swiftSettings: settings
        ),
        .testTarget(
            name: "LocalContextsTests",
            dependencies: ["LocalContexts", "PersistentHistory", "TidingsSQLite", "TidingsTestKit", "TestContext"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "HistoryMessagingTests",
            dependencies: [
                "HistoryMessaging", "LocalContexts", "PersistentHistory", "TidingsAMQP", "TidingsSQLite",
                "TidingsTestKit", "TestAgent",
            ],
            exclude: ["Golden"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "TidingsServicesTests",
            dependencies: ["TidingsServices", "HistoryMessaging", "PersistentHistory", "TidingsTestKit"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "TidingsCommandTests",
            dependencies: [
                "TidingsCommand", "HistoryMessaging", "PersistentHistory", "TidingsSQLite", "TidingsTestKit",
            ],
            swiftSettings: settings
        ),
    ]
)
