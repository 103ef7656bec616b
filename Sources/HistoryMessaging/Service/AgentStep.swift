/// Places between two steps of an agent: what a crash there must not break is tested by ending the process there.
package enum AgentStep: String, CaseIterable, Sendable {
    case publisherBeforeFlush, publisherAfterFlush, publisherAfterPublish, publisherAfterConfirm
    case publisherAfterConfirmedThrough
    case relayBeforeFlush, relayAfterFlush, relayAfterPublish, relayAfterConfirm, relayAfterPublishedThrough
    case consumerBeforeMerge, consumerAfterMerge, consumerAfterToken, consumerAfterBrokerAck
    case consumerAfterAcknowledgement
    case cleanerBeforeChunk, cleanerBetweenChunks, cleanerBeforeMark, cleanerAfterMark, cleanerAfterAcknowledgement
}

/// Called at each step where a test has asked for it.
package typealias StepObserver = @Sendable (AgentStep) -> Void
