internal import CTidingsSQLite
internal import Glibc

extension Database {
    /// The names of the two files beside a database in write-ahead mode.
    package static func companions(of path: String) -> [String] { [path + "-wal", path + "-shm"] }

    /// Reports what SQLite would only call "unable to open database file", with the remedy.
    static func checkFiles(path: String, access: OpenOptions.Access) throws(SQLiteError) {
        guard path != ":memory:", !path.isEmpty else { return }
        let parent = directory(of: path)
        guard let directoryMode = mode(of: parent) else {
            throw SQLiteError(.cannotOpen, "cannot open \(path): there is no directory \(parent): create it first")
        }
        guard directoryMode & S_IFMT == S_IFDIR else {
            throw SQLiteError(.cannotOpen, "cannot open \(path): \(parent) is not a directory")
        }
        guard let fileMode = mode(of: path) else {
            guard unsafe Glibc.access(parent, X_OK) == 0 else {
                throw SQLiteError(.cannotOpen, "cannot open \(path): no permission to enter \(parent)")
            }
            guard access == .create else {
                throw SQLiteError(.cannotOpen, "there is no file \(path): check the path, or ask for it to be created")
            }
            guard unsafe Glibc.access(parent, W_OK) == 0 else {
                throw SQLiteError(.cannotOpen, "cannot create \(path): no permission to write in \(parent)")
            }
            return
        }
        guard fileMode & S_IFMT != S_IFDIR else {
            throw SQLiteError(.cannotOpen, "cannot open \(path): it is a directory: name a file in it")
        }
        guard unsafe Glibc.access(path, R_OK) == 0 else {
            throw SQLiteError(.cannotOpen, "cannot open \(path): no permission to read it")
        }
        guard unsafe access == .readOnly || Glibc.access(path, W_OK) == 0 else {
            throw SQLiteError(
                .readOnly, "cannot open \(path) for writing: the file or its file system is read-only for this user")
        }
    }

    /// Throws `unavailable` where reading the file would create its companions.
    ///
    /// SQLite makes them for a reader too, and they would be that user's, whom the writers then depend on.
    func checkCompanions() throws(SQLiteError) {
        guard usesWriteAheadLog, !Self.companions(of: path).allSatisfy(Self.exists) else { return }
        throw SQLiteError(.unavailable, "a writer must open it first: readers do not create its -wal and -shm files")
    }

    /// True where the file's header says that it is in write-ahead mode.
    ///
    /// Read through SQLite's own file: to open and close the file here would drop the locks of this process on it.
    /// [Read and write version numbers](https://www.sqlite.org/fileformat2.html#file_format_version_numbers),
    /// [POSIX advisory locks](https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_)
    private var usesWriteAheadLog: Bool {
        // Owned by the connection.
        var file: UnsafeMutablePointer<sqlite3_file>?
        unsafe sqlite3_file_control(handle, "main", SQLITE_FCNTL_FILE_POINTER, &file)
        var versions: (UInt8, UInt8) = (0, 0)
        let code = unsafe withUnsafeMutableBytes(of: &versions) { buffer in
            unsafe file?.pointee.pMethods?.pointee.xRead(file, buffer.baseAddress, 2, 18)
        }
        return code == SQLITE_OK && versions == (2, 2)
    }

    /// The directory part of a path; `.` where it has none.
    package static func directory(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// True where the file exists.
    package static func exists(_ path: String) -> Bool { mode(of: path) != nil }

    private static func mode(of path: String) -> mode_t? {
        var status = stat()
        return unsafe stat(path, &status) == 0 ? status.st_mode : nil
    }

    /// The name of the network file system on which the path lies; nil for a local one.
    ///
    /// Write-ahead logging needs memory shared between all who open the file, which no network offers.
    /// [WAL](https://www.sqlite.org/wal.html), numbers from statfs(2).
    package static func networkFilesystem(of path: String) -> String? {
        switch unsafe tidings_filesystem_type(exists(path) ? path : directory(of: path)) {
        case 0x6969: "NFS"
        case 0x517B: "SMB"
        case 0xFF53_4D42: "CIFS"
        case 0xFE53_4D42: "SMB2"
        case 0x0102_1997: "9P"
        case 0x5346_414F: "AFS"
        case 0x00C3_6400: "Ceph"
        case 0x0116_1970: "GFS2"
        case 0x7461_636F: "OCFS2"
        default: nil
        }
    }
}
