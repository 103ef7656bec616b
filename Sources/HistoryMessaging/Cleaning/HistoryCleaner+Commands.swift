internal import FoundationEssentials
internal import PersistentHistory
internal import TidingsAMQP

extension HistoryCleaner {
    /// Carries out commands until nothing comes any more. Several at once, so that a registration waits for no cleaning;
    /// no more than the prefetch limit.
    func takeCommands(_ inbox: DeliveryInbox<AMQPDelivery>, _ flusher: LogFlusher?, over link: CleanerLink) async {
        await withDiscardingTaskGroup { group in
            while let deliveries = await inbox.take() {
                for delivery in deliveries { group.addTask { await self.take(delivery, flusher, over: link) } }
            }
        }
    }

    private func take(_ delivery: AMQPDelivery, _ flusher: LogFlusher?, over link: CleanerLink) async {
        let command: (request: ControlRequest, user: String)
        do throws(MessageRefusal) {
            command = try checks.command(delivery.message, delivery.address)
        } catch {
            return await refuse(delivery, error, over: link)
        }
        guard let id = delivery.message.properties.messageID else {
            let (reply, _) = await carryOut(command.request, command.user, flusher)
            return await answer([delivery], reply, over: link)
        }
        // The same command again gets the same reply, also while it is being carried out.
        let key = ReplyMemory.Key(user: command.user, messageID: id)
        if let reply = replies.reply(to: key) { return await answer([delivery], reply, over: link) }
        guard asking[key] == nil else {
            asking[key]?.append(delivery)
            return
        }
        asking[key] = [delivery]
        let (reply, isFinal) = await carryOut(command.request, command.user, flusher)
        if isFinal { replies.keep(reply, to: key) }
        await answer(asking.removeValue(forKey: key) ?? [], reply, over: link)
    }

    /// Refuses a command: among the dead ones, and answered where it came as commands do.
    private func refuse(_ delivery: AMQPDelivery, _ refusal: MessageRefusal, over link: CleanerLink) async {
        counted.commands += 1
        if refusal.reason != .foreignExchange {
            let reply = ControlReply(
                isOK: false, service: "cleaner", code: refusal.reason.rawValue, message: refusal.message)
            await publish(reply, to: delivery, over: link)
        }
        refuse(delivery, refusal, event: "refused-command")
    }

    /// Replies to whoever has asked, and lets the broker forget the command then.
    private func answer(_ deliveries: [AMQPDelivery], _ reply: ControlReply, over link: CleanerLink) async {
        for delivery in deliveries {
            counted.commands += 1
            await publish(reply, to: delivery, over: link)
            delivery.ack()
        }
    }

    private func publish(_ reply: ControlReply, to delivery: AMQPDelivery, over link: CleanerLink) async {
        guard let key = delivery.message.properties.replyTo else { return }
        var message = reply.message(answering: delivery.message)
        message.properties.userID = broker.user
        _ = await link.publish([
            AMQPPublication(message, to: AMQPAddress(exchange: names.replies, routingKey: key))
        ])
    }

    // MARK: Carrying out

    /// - Returns: the reply; not final where the same could succeed the next time, by itself.
    private func carryOut(
        _ request: ControlRequest, _ user: String, _ flusher: LogFlusher?
    ) async -> (reply: ControlReply, isFinal: Bool) {
        let reply: ControlReply
        do {
            reply = try await self.reply(to: request, of: user)
        } catch let error as HistoryError {
            return (failure(error.code.description, error.message), !error.isRetriable)
        } catch let error as MessagingError {
            return (failure(error.code.description, error.message), true)
        } catch {
            return (failure("failed", "\(error)"), false)
        }
        do {
            // Whoever is told that history is held for it relies on that, also after the system's power is lost.
            if request.command == "register" { try await flusher?.flush() }
            return (reply, true)
        } catch {
            return (failure(error.code.description, error.message), false)
        }
    }

    private func reply(to request: ControlRequest, of user: String) async throws -> ControlReply {
        switch request.command {
        case "register": return try await register(request.arguments, user)
        case "clean": return reply("cleaned", try await clean())
        case "dry-run": return reply("nothing was removed: this is what a cleaning would do", try await dryRun())
        case "status": return try await statusReply()
        default:
            return ControlReply(
                isOK: false, service: "cleaner", code: "unknownCommand",
                message: "the cleaner does not know the command \(request.command.prefix(40))",
                remedy: "use register, clean, dry-run or status")
        }
    }

    private func register(_ arguments: [String: ControlValue], _ user: String) async throws -> ControlReply {
        func text(_ name: String) throws(MessagingError) -> String {
            guard let text = arguments[name]?.text else {
                throw MessagingError(.invalid, "a registration needs the argument \(name)")
            }
            return text
        }
        var request = RegistrationRequest(consumer: try text("consumer"), author: try text("author"), user: user)
        request.role = arguments["role"]?.text ?? "required"
        request.requiredUser = options.users[request.consumer]
        if let text = arguments["token"]?.text {
            guard let token = HistoryToken(text) else {
                throw MessagingError(.invalid, "the argument token is no token: leave it out to begin with a snapshot")
            }
            request.token = token
        }
        let registration = try await store.register(request)
        let fields = [("consumer", request.consumer), ("user", user)]
        log.write(.info, "registered a consumer", nil, fields)
        if registration.isClaim {
            log.write(.warning, "a user of the broker's claimed a consumer of the store's", nil, fields)
        }
        return ControlReply(
            isOK: true, service: "cleaner", message: "registered",
            fields: [
                "floor": .string(registration.floor.description), "state": .string(registration.state.rawValue),
            ])
    }

    private func reply(_ message: String, _ report: CleaningReport) -> ControlReply {
        ControlReply(isOK: true, service: "cleaner", message: message, fields: fields(of: report))
    }

    private func fields(of report: CleaningReport) -> [String: ControlValue] {
        [
            "count": .integer(Int64(report.count)), "bound": report.bound.map { .string($0.description) } ?? .null,
            "holders": .string(report.holders.prefix(10).joined(separator: ",")),
            "heldByMirror": .bool(report.isHeldByMirror), "blocked": report.reason.map { .string($0) } ?? .null,
        ]
    }

    private func statusReply() async throws -> ControlReply {
        let plan = try await dryRun()
        let consumers = try await store.consumers()
        let head = try await store.currentToken()
        var fields = fields(of: plan)
        fields["store"] = .string(head.storeID.uuidString.lowercased())
        fields["epoch"] = .integer(head.epoch)
        fields["head"] = .integer(head.sequence)
        fields["consumers"] = .integer(Int64(consumers.count))
        fields["recorded"] = .integer(Int64(counted.recorded))
        fields["known"] = .integer(Int64(counted.known))
        fields["refused"] = .integer(Int64(counted.refused.values.reduce(0, +)))
        fields["oversized"] = .integer(Int64(counted.oversized))
        fields["cleanings"] = .integer(Int64(counted.cleanings))
        fields["removed"] = .integer(Int64(counted.removed))
        return ControlReply(isOK: true, service: "cleaner", message: "running", fields: fields)
    }

    private func failure(_ code: String, _ message: String) -> ControlReply {
        ControlReply(isOK: false, service: "cleaner", code: code, message: message)
    }
}
