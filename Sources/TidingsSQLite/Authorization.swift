internal import CTidingsSQLite

/// Something that a statement would do, as SQLite sees it when the statement is prepared.
///
/// [sqlite3_set_authorizer](https://www.sqlite.org/c3ref/set_authorizer.html)
package struct AuthorizedAction {
    package enum Kind {
        case insert, update, delete
        /// A schema change: CREATE, DROP or ALTER, but CREATE and DROP not of a TEMP object.
        case schemaChange
        /// BEGIN, COMMIT or ROLLBACK.
        case transaction
        /// A schema change of a TEMP object.
        case temporarySchemaChange
        case attach, detach, pragma
        case other
    }

    package let kind: Kind
    /// The table, the name of the pragma, the file to attach, or the operation of a transaction.
    package let first: String?
    /// The column, the value of the pragma.
    package let second: String?
    /// The name of the database, such as `main`.
    package let database: String?

    init(code: Int32, first: String?, second: String?, database: String?) {
        // ALTER TABLE alone has the database's name first, and the table's second.
        let isAlter = code == SQLITE_ALTER_TABLE
        self.first = isAlter ? second : first
        self.second = isAlter ? nil : second
        self.database = isAlter ? first : database
        kind =
            switch code {
            case SQLITE_INSERT: .insert
            case SQLITE_UPDATE: .update
            case SQLITE_DELETE: .delete
            case SQLITE_TRANSACTION: .transaction
            case SQLITE_ATTACH: .attach
            case SQLITE_DETACH: .detach
            case SQLITE_PRAGMA: .pragma
            case SQLITE_CREATE_INDEX, SQLITE_CREATE_TABLE, SQLITE_CREATE_TRIGGER, SQLITE_CREATE_VIEW,
                SQLITE_DROP_INDEX, SQLITE_DROP_TABLE, SQLITE_DROP_TRIGGER, SQLITE_DROP_VIEW, SQLITE_ALTER_TABLE,
                SQLITE_CREATE_VTABLE, SQLITE_DROP_VTABLE:
                .schemaChange
            case SQLITE_CREATE_TEMP_TABLE, SQLITE_CREATE_TEMP_VIEW, SQLITE_CREATE_TEMP_TRIGGER,
                SQLITE_CREATE_TEMP_INDEX:
                .temporarySchemaChange
            default: .other
            }
    }
}

/// What a policy decides.
package enum AuthorizationDecision {
    case allow
    /// The statement is not prepared; the reason becomes the message of the error.
    case deny(reason: String)
}

/// Connects the authorizer callback of one connection to a policy, and remembers what it saw.
final class Authorizer {
    /// Decides on statements of the connection's users; nil allows everything.
    var policy: ((AuthorizedAction) -> AuthorizationDecision)?
    /// Off while the library prepares statements of its own.
    var isEnforcing = true
    /// Whether the statement being prepared may change the schema.
    var sawSchemaChange = false
    /// Whether any statement so far attaches a database.
    var sawAttach = false
    /// Why the statement being prepared was refused.
    var denial: String?

    func decide(_ action: AuthorizedAction) -> Int32 {
        if action.kind == .schemaChange { sawSchemaChange = true }
        if action.kind == .attach { sawAttach = true }
        guard isEnforcing, let policy, case .deny(let reason) = policy(action) else { return SQLITE_OK }
        denial = reason
        return SQLITE_DENY
    }

    /// Installs the callback once, at open: setting it later would expire every prepared statement.
    func install(on handle: OpaquePointer) {
        let context = unsafe Unmanaged.passUnretained(self).toOpaque()
        unsafe sqlite3_set_authorizer(
            handle,
            { context, code, first, second, database, _ in
                // Column reads are by far the most frequent and never of interest.
                guard code != SQLITE_READ, code != SQLITE_SELECT, let context = unsafe context else {
                    return SQLITE_OK
                }
                let action = AuthorizedAction(
                    code: code, first: unsafe first.map { unsafe String(cString: $0) },
                    second: unsafe second.map { unsafe String(cString: $0) },
                    database: unsafe database.map { unsafe String(cString: $0) })
                return unsafe Unmanaged<Authorizer>.fromOpaque(context).takeUnretainedValue().decide(action)
            }, context)
    }
}
