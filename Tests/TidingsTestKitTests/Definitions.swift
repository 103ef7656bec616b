import Foundation
import TidingsTestKit

/// What a user may do.
enum Permissions {
    /// The virtual host, and the patterns to configure, write and read, for each of a user's permissions.
    static func of(_ user: String, on broker: PrivateBroker) async throws -> [[String]] {
        let text = try await broker.evaluate(
            """
            Keys = [vhost, configure, write, read],
            [base64:encode(iolist_to_binary(lists:join(0, [proplists:get_value(K, P) || K <- Keys])))
                || P <- rabbit_auth_backend_internal:list_user_permissions(\(PrivateBroker.binary(user)))]
            """)
        return text.split(separator: "\"").compactMap { Data(base64Encoded: String($0)) }.map { data in
            data.split(separator: 0, omittingEmptySubsequences: false).map { String(decoding: $0, as: UTF8.self) }
        }
    }
}

/// A durable queue without a client.
enum Queues {
    static func declare(_ name: String, kind: String = "classic", in virtualHost: TestVirtualHost) async throws {
        let queue = PrivateBroker.binary(name)
        _ = try await virtualHost.broker.evaluate(
            """
            {new, _} = rabbit_amqqueue:declare(
                rabbit_misc:r(\(PrivateBroker.binary(virtualHost.name)), queue, \(queue)), true, false,
                [{<<"x-queue-type">>, longstr, <<"\(kind)">>}], none, <<"tests">>)
            """)
    }
}
