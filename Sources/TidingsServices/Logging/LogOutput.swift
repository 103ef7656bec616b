internal import Glibc

/// A descriptor that lines go to, and that nobody waits for longer than a moment.
///
/// A pipe or terminal is opened anew, without blocking: to set that on the given descriptor would set it for every process
/// that shares it. Where that is refused, and for a file, the descriptor itself is used, after `poll`; a socket is told so
/// with each line. [open(2)](https://man7.org/linux/man-pages/man2/open.2.html), [pipe(7)](https://man7.org/linux/man-pages/man7/pipe.7.html)
struct LogOutput {
    /// How long the first line for which there is no room waits, in milliseconds.
    private static let patience: Int32 = 100

    private let descriptor: Int32
    private let isOwn: Bool
    private let isSocket: Bool
    /// The end of a line that a socket or terminal has taken the beginning of.
    private var rest: ArraySlice<UInt8> = []
    /// Whether the last line found no room.
    private var isFull = false

    init(_ descriptor: Int32) {
        var status = stat()
        let kind = fstat(descriptor, &status) == 0 ? status.st_mode & S_IFMT : S_IFREG
        isSocket = kind == S_IFSOCK
        var own: Int32 = -1
        if kind == S_IFIFO || kind == S_IFCHR {
            own = open("/proc/self/fd/\(descriptor)", O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)
        }
        isOwn = own >= 0
        self.descriptor = isOwn ? own : descriptor
    }

    /// Closes what this one has opened.
    func close() { if isOwn { Glibc.close(descriptor) } }

    /// Writes a line; false where there was no room for it, and nothing of it was written.
    mutating func write(_ line: [UInt8], waits: Bool) -> Bool {
        // Not until there is room for a whole line: short ones would go on filling up what is left.
        if isFull, !hasRoom(within: 0) { return false }
        let mayWait = waits && !isFull
        while !rest.isEmpty {
            let count = writeSome(rest, mayWait)
            guard count > 0 else {
                isFull = true
                return false
            }
            rest = rest.dropFirst(count)
        }
        let count = writeSome(line[...], mayWait)
        isFull = count == 0
        guard count > 0 else { return false }
        rest = line[count...]
        return true
    }

    /// How many bytes were taken; 0 where there is no room, or nobody to read.
    private func writeSome(_ bytes: ArraySlice<UInt8>, _ waits: Bool) -> Int {
        var mayWait = waits
        while true {
            if !isOwn, !isSocket, !hasRoom(within: mayWait ? Self.patience : 0) { return 0 }
            let count = bytes.withUnsafeBytes { bytes in
                isSocket
                    ? send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL))
                    : withoutBrokenPipe { Glibc.write(descriptor, bytes.baseAddress, bytes.count) }
            }
            if count >= 0 { return count }
            if errno == EINTR { continue }
            guard errno == EAGAIN, mayWait, hasRoom(within: Self.patience) else { return 0 }
            mayWait = false
        }
    }

    private func hasRoom(within milliseconds: Int32) -> Bool {
        var request = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return poll(&request, 1, milliseconds) == 1 && request.revents & Int16(POLLOUT) != 0
    }

    /// Writes without the signal that would end the process where the reader is gone: held back for this thread, and taken
    /// off its list if the write has raised it. [sigtimedwait(2)](https://man7.org/linux/man-pages/man2/sigtimedwait.2.html)
    private func withoutBrokenPipe(_ write: () -> Int) -> Int {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        var pending = sigset_t()
        sigpending(&pending)
        let wasPending = sigismember(&pending, SIGPIPE) == 1
        var mask = sigset_t()
        pthread_sigmask(SIG_BLOCK, &signals, &mask)
        let count = write()
        let code = errno
        if count < 0, code == EPIPE, !wasPending {
            var now = timespec()
            while sigtimedwait(&signals, nil, &now) < 0, errno == EINTR {}
        }
        pthread_sigmask(SIG_SETMASK, &mask, nil)
        errno = code
        return count
    }
}
