internal import Glibc
internal import TidingsSQLite

extension HistoryStore {
    /// Opens the store's files to a Unix group: the directory becomes 2770 (new files inherit the group), the database,
    /// its log and its shared memory 0660. Services that run under different users of the group can then share it.
    ///
    /// - Parameter group: the group's name.
    /// - Throws: ``HistoryError``: `invalidRequest` where there is no such group, `readOnly` where the caller may not
    ///   change owner or mode. What was changed before the error stays changed.
    public func share(withGroup group: String) throws {
        guard let entry = getgrnam(group) else {
            throw HistoryError(
                .invalidRequest, "there is no group \(group): create it with groupadd, or check the name")
        }
        let id = entry.pointee.gr_gid
        try Self.assign(Database.directory(of: path), group: id, name: group, mode: 0o2770)
        for file in [path] + Database.companions(of: path) where Database.exists(file) {
            try Self.assign(file, group: id, name: group, mode: 0o660)
        }
    }

    private static func assign(_ path: String, group: gid_t, name: String, mode: mode_t) throws {
        // The mode comes second: chown(2) may clear the set-group-ID bit.
        guard chown(path, uid_t.max, group) == 0, chmod(path, mode) == 0 else {
            let reason = String(cString: strerror(errno))
            throw HistoryError(
                .readOnly,
                "cannot give \(path) to group \(name): \(reason): run it as the owner, who must be in the group, or as root"
            )
        }
    }
}
