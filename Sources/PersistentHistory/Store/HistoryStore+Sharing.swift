internal import Glibc
internal import TidingsSQLite

extension HistoryStore {
    /// A Unix group whose members share a store.
    public struct Group: Sendable, Hashable {
        /// The name that was asked for.
        public let name: String
        let id: UInt32

        /// Looks a group up by name, or takes its number: in containers a group often has no name.
        ///
        /// - Throws: ``HistoryError``: `invalidRequest` where there is no such group.
        public init(named name: String) throws {
            guard let id = try Self.identifier(of: name) else {
                throw HistoryError(
                    .invalidRequest, "there is no group \(name): create it with groupadd, or check the name")
            }
            self.name = name
            self.id = id
        }

        private static func identifier(of name: String) throws(HistoryError) -> gid_t? {
            var buffer = [CChar](repeating: 0, count: 1 << 10)
            while true {
                var entry = group()
                // The entry refers to the buffer; only the number is taken from it.
                var found: UnsafeMutablePointer<group>?
                let code = getgrnam_r(name, &entry, &buffer, buffer.count, &found)
                if code == ERANGE, buffer.count < 1 << 24 {
                    buffer = [CChar](repeating: 0, count: buffer.count * 4)
                } else if found != nil {
                    return entry.gr_gid
                } else if code == 0 || code == ENOENT || code == ESRCH {
                    // The largest number means "no change" to chown(2).
                    return gid_t(name).flatMap { $0 == gid_t.max ? nil : $0 }
                } else {
                    throw HistoryError(.database, "cannot look up group \(name): \(String(cString: strerror(code)))")
                }
            }
        }
    }

    /// Opens the store's files to a Unix group, so that services under different users of the group can share it.
    ///
    /// The directory's mode becomes 2770 (new files inherit the group), that of the database, its log and its shared
    /// memory 0660. Nobody but the owner and the group can then enter the directory: give the store one of its own.
    ///
    /// - Throws: ``HistoryError``: `invalidRequest` where the directory is one that everybody shares, such as `/tmp`;
    ///   `notPermitted` where the caller may not change group or mode. What was changed before the error stays changed.
    public func share(with group: Group) throws {
        let directory = Database.directory(of: path)
        var status = stat()
        guard stat(directory, &status) == 0, status.st_mode & S_ISVTX == 0 else {
            throw HistoryError(
                .invalidRequest,
                "\(directory) is a directory that everybody shares, and would be closed to all but group \(group.name): "
                    + "put the store into a directory of its own")
        }
        try Self.assign(directory, to: group, mode: 0o2770)
        for file in [path] + serviceLockPaths + Database.companions(of: path) where Database.exists(file) {
            try Self.assign(file, to: group, mode: 0o660)
        }
    }

    private static func assign(_ path: String, to group: Group, mode: mode_t) throws(HistoryError) {
        // The mode comes second: chown(2) may clear the set-group-ID bit, and so does chmod(2), without an error, for
        // somebody who is not in the group.
        var status = stat()
        guard chown(path, uid_t.max, group.id) == 0, chmod(path, mode) == 0, stat(path, &status) == 0 else {
            throw notPermitted(path, group, String(cString: strerror(errno)))
        }
        guard status.st_mode & 0o7777 == mode else {
            throw notPermitted(path, group, "the mode could not be set")
        }
    }

    private static func notPermitted(_ path: String, _ group: Group, _ reason: String) -> HistoryError {
        HistoryError(
            .notPermitted,
            "cannot give \(path) to group \(group.name): \(reason): "
                + "run it as root, or as the owner, who must be a member of the group")
    }
}
