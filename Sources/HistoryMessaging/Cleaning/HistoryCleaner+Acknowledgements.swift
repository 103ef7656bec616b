internal import PersistentHistory
internal import TidingsAMQP

/// What the cleaner is to send by itself.
enum Outgoing: Sendable {
    /// A delivery that counts for nothing: to the dead ones, then acked.
    case refused(AMQPDelivery, MessageRefusal, event: String)
    /// What others may want to know.
    case announcement(AMQPPublication)
}

extension HistoryCleaner {
    /// Takes acknowledgements until nothing comes any more: all that have come meanwhile are one write transaction.
    func takeAcknowledgements(_ inbox: DeliveryInbox<AMQPDelivery>, _ flusher: LogFlusher?) async throws {
        while let deliveries = await inbox.take() {
            let (valid, malformed) = check(deliveries)
            var committed: AcknowledgementOutcome?
            // It comes again where it is not acked: several at once are no more than the prefetch limit.
            try await surviving(.acknowledgements) {
                if !valid.isEmpty {
                    // Once: where only the sync is tried again, nothing of it would be new.
                    if committed == nil { committed = try await commit(valid) }
                    // What the broker forgets must not be lost with the system's power.
                    try await flusher?.flush()
                    options.onStep?(.cleanerAfterAcknowledgement)
                }
                var refused = malformed
                for ((delivery, acknowledgement), verdict) in zip(valid, committed?.verdicts ?? []) {
                    settle(delivery, acknowledgement, verdict, &refused)
                }
                for (delivery, refusal) in refused { refuse(delivery, refusal, event: "refused-acknowledgement") }
            }
        }
    }

    private typealias Delivered = (delivery: AMQPDelivery, acknowledgement: Acknowledgement)

    private func check(_ deliveries: [AMQPDelivery]) -> (valid: [Delivered], refused: [(AMQPDelivery, MessageRefusal)])
    {
        var valid: [Delivered] = []
        var refused: [(AMQPDelivery, MessageRefusal)] = []
        for delivery in deliveries {
            do throws(MessageRefusal) {
                valid.append((delivery, try checks.acknowledgement(delivery.message, delivery.address)))
            } catch {
                refused.append((delivery, error))
            }
        }
        return (valid, refused)
    }

    private func commit(_ valid: [Delivered]) async throws -> AcknowledgementOutcome {
        let outcome = try await store.acknowledge(
            valid.map(\.acknowledgement), users: options.users, startsEpoch: true)
        let count = outcome.verdicts.count { $0 == .recorded }
        if count > 0 {
            schedule.acknowledged(count)
            due.signal()
        }
        if let epoch = outcome.newEpoch {
            announce(epoch: epoch, "a consumer has merged history that the store does not have")
        }
        return outcome
    }

    private func settle(
        _ delivery: AMQPDelivery, _ acknowledgement: Acknowledgement, _ verdict: AcknowledgementVerdict,
        _ refused: inout [(AMQPDelivery, MessageRefusal)]
    ) {
        switch verdict {
        case .recorded:
            counted.recorded += 1
            seen.acknowledged = max(seen.acknowledged ?? acknowledgement.token, acknowledgement.token)
            delivery.ack()
        case .known:
            counted.known += 1
            delivery.ack()
        case .refused(let refusal):
            let message = refusal.error(for: acknowledgement).message
            refused.append(
                (delivery, MessageRefusal(.init(refusal), message, consumer: acknowledgement.consumer)))
        }
    }

    /// Counts a message that counts for nothing, and hands it on to where it is kept.
    func refuse(_ delivery: AMQPDelivery, _ refusal: MessageRefusal, event: String) {
        counted.refused[refusal.reason.rawValue, default: 0] += 1
        log.write(
            .warning, "a message was refused", nil,
            [
                ("reason", refusal.reason.rawValue), ("detail", refusal.message),
                ("user", delivery.message.properties.userID ?? ""),
            ])
        outgoing.add(.refused(delivery, refusal, event: event))
    }

    /// Counts messages that the connection has rejected unread: larger than any that it reads. The broker keeps none.
    func countOversized(_ count: Int, in queue: String) {
        counted.oversized += count
        log.write(
            .warning, "messages were rejected unread: they are larger than \(CleanerLink.largestMessage) bytes", nil,
            [("count", String(count)), ("queue", queue)])
        outgoing.add(.announcement(messages.announcement(ofOversized: count, in: queue)))
    }

    /// Sends what is to be sent until nothing comes any more. A refused message is acked once the broker has it among
    /// the dead ones; until then it comes again.
    func send(_ inbox: DeliveryInbox<Outgoing>, over link: CleanerLink) async {
        while let elements = await inbox.take() {
            for element in elements {
                switch element {
                case .announcement(let publication): _ = await link.publish([publication])
                case .refused(let delivery, let refusal, let event):
                    let publications = [
                        messages.dead(delivery.message, delivery.address, refusal),
                        messages.announcement(of: refusal, event, delivery.message),
                    ]
                    guard await link.publish(publications).first == true else {
                        delivery.reject(requeue: true)
                        continue
                    }
                    counted.dead += 1
                    delivery.ack()
                }
            }
        }
    }
}
