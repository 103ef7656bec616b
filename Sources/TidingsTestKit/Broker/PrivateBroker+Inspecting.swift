extension PrivateBroker {
    /// Evaluates Erlang expressions on the node and returns the value of the last, as Erlang writes it on one line.
    ///
    /// ```swift
    /// try await broker.evaluate("rabbit_alarm:get_alarms()")
    /// ```
    ///
    /// - Parameter limit: how long to wait for the value; full seconds.
    /// - Throws: ``PrivateBrokerError`` where evaluating fails, or the node is down or does not answer.
    public func evaluate(_ expressions: String, atMost limit: Duration = .seconds(30)) async throws -> String {
        try await site.control.evaluate(expressions, on: nodeName, atMost: limit)
    }

    /// A text as an Erlang binary, for ``evaluate(_:atMost:)``: names of queues, users and virtual hosts.
    public static func binary(_ text: String) -> String {
        "<<" + text.utf8.map(String.init).joined(separator: ",") + ">>"
    }

    /// Raises the memory alarm, which blocks whoever publishes, or ends it; returns when it is so.
    ///
    /// A restarted broker has no alarm.
    public func setMemoryAlarm(_ isOn: Bool) async throws {
        let value = try await evaluate(
            """
            vm_memory_monitor:set_vm_memory_high_watermark(\(isOn ? "0.00001" : "0.4")),
            Await = fun Await(0) -> late;
                Await(N) ->
                    Alarms = rabbit_alarm:get_alarms(),
                    case lists:keymember({resource_limit, memory, node()}, 1, Alarms) of
                        \(isOn) -> done;
                        _ -> timer:sleep(10), Await(N - 1)
                    end
            end,
            Await(1000)
            """)
        guard value == "done" else { throw PrivateBrokerError("the memory alarm of \(nodeName) did not change") }
    }

    /// Lets the node write down which queues it has, so that it may be killed.
    ///
    /// RabbitMQ writes the list of quorum queues half a second after it has changed. Killed before, it finds what the
    /// messages are in no more: the queue comes back without a leader, or empty, confirmed messages and all. What else was
    /// declared is handed to its database's log, which is written soon, and not at once.
    public func writeDownQueues() async throws {
        let value = try await evaluate("lists:usort([mnesia:sync_log() | [dets:sync(Table) || Table <- dets:all()]])")
        guard value == "[ok]" else { throw PrivateBrokerError("\(nodeName) did not write down its queues: \(value)") }
    }

    /// The number of a queue's messages that are ready, that is, not delivered to a consumer.
    public func queueLength(_ name: String, virtualHost: String) async throws -> Int {
        let value = try await evaluate("\(queue(name, virtualHost)), {ok, Ready, _} = rabbit_amqqueue:stat(Q), Ready")
        guard let length = Int(value) else { throw PrivateBrokerError("not a queue's length: \(value)") }
        return length
    }

    /// Deletes a queue with all that is in it, under the eyes of its consumers.
    public func deleteQueue(_ name: String, virtualHost: String) async throws {
        _ = try await evaluate("\(queue(name, virtualHost)), {ok, _} = rabbit_amqqueue:delete(Q, false, false, <<>>)")
    }

    /// The name of the node that leads a queue: of a quorum queue its leader, of another one the node that it is on.
    public func leader(ofQueue name: String, virtualHost: String) async throws -> String {
        try await evaluate(
            """
            \(queue(name, virtualHost)),
            case amqqueue:get_pid(Q) of
                {Name, Node} ->
                    case ra_leaderboard:lookup_leader(Name) of {_, Leader} -> Leader; undefined -> Node end;
                Pid -> node(Pid)
            end
            """)
    }

    /// Closes the connections to a virtual host as an administrator does (320, CONNECTION_FORCED), on this node.
    ///
    /// - Returns: how many there were.
    @discardableResult
    public func closeConnections(virtualHost: String) async throws -> Int {
        let value = try await evaluate(
            """
            IsOpen = fun(Pid) ->
                case catch rabbit_networking:connection_info(Pid, [vhost, state]) of
                    [{vhost, \(Self.binary(virtualHost))}, {state, State}] -> State =/= closing andalso State =/= closed;
                    _ -> false
                end
            end,
            Open = lists:filter(IsOpen, rabbit_networking:connections_local()),
            ok = rabbit_networking:close_connections(Open, "closed by the test"),
            length(Open)
            """)
        guard let count = Int(value) else { throw PrivateBrokerError("not a number of connections: \(value)") }
        return count
    }

    /// Expressions that bind `Q` to a queue.
    private func queue(_ name: String, _ virtualHost: String) -> String {
        "{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(\(Self.binary(virtualHost)), queue, \(Self.binary(name))))"
    }
}
