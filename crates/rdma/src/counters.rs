//! What happened, and what was dropped and why.

weft_counters::counters! {
    /// Counters of one NIC, since it began. Names that Linux's soft RoCE (`rxe`) has mean the same here.
    pub struct Counters {
        /// Packets made.
        sent_pkts,
        /// Packets taken in, before any check.
        rcvd_pkts,
        /// Requests that had been carried out before.
        duplicate_request,
        /// Requests from behind a gap; the first of each gap is answered with a sequence-error NAK.
        out_of_seq_request,
        /// Receiver-not-ready NAKs that arrived.
        rcvd_rnr_err,
        /// Receiver-not-ready NAKs that were sent.
        send_rnr_err,
        /// Sequence-error NAKs that arrived.
        rcvd_seq_err,
        /// Acknowledgements that were merged into a later one or into a response.
        ack_deferred,
        /// Queue pairs that gave up after `retry_cnt` attempts.
        retry_exceeded_err,
        /// Queue pairs that gave up after `rnr_retry` attempts.
        retry_rnr_exceeded_err,
        /// Times that a requester went back to an earlier packet.
        completer_retry_err,
        /// Queue pairs whose own requests could not be made for a local reason.
        send_err,
        /// SEND requests posted.
        rdma_sends,
        /// SEND messages received.
        rdma_recvs,

        /// Acknowledgement time-outs.
        ack_timeout,
        /// Responses whose place was taken by a later one: an implied NAK.
        implied_nak_seq_err,
        /// Refusals sent: invalid request.
        sent_invalid_request,
        /// Refusals sent: remote access error.
        sent_access_error,
        /// Refusals sent: remote operational error.
        sent_operational_error,
        /// Refusals that arrived: invalid request.
        rcvd_invalid_request,
        /// Refusals that arrived: remote access error.
        rcvd_access_error,
        /// Refusals that arrived: remote operational error.
        rcvd_operational_error,
        /// Accesses refused because no region has the key.
        violation_key,
        /// Accesses refused because the region belongs to another protection domain.
        violation_domain,
        /// Accesses refused because they leave the region.
        violation_bounds,
        /// Accesses refused because the region's flags do not allow them.
        violation_permission,
        /// WRITEs that called an engine.
        rpc_calls,
        /// Packets that met congestion on their way, by the congestion field of their IP headers, and notifications
        /// of the peer.
        congestion_marks,
        /// Congestion notifications sent.
        np_cnp_sent,

        /// Dropped: no such queue pair.
        drop_unknown_queue_pair,
        /// Dropped: not from the address to which the queue pair is connected.
        drop_wrong_source,
        /// Dropped: the state of the queue pair does not allow the packet.
        drop_wrong_state,
        /// Dropped: another partition.
        drop_partition_key,
        /// Dropped: the headers contradict the opcode.
        drop_malformed,
        /// Dropped: further requests behind a gap that has been reported.
        drop_out_of_sequence,
        /// Dropped: a duplicate READ or atomic whose saved state is gone, or is not what the request says.
        drop_unknown_duplicate,
        /// Dropped: a response or acknowledgement of something that was never sent.
        drop_ghost_response,
        /// Dropped: a response or acknowledgement of something that is already acknowledged.
        drop_stale_response,
        /// Dropped: a syndrome that a reliable connection does not know.
        drop_reserved_syndrome,
        /// Dropped without NAK: the host-facing path has no credit for the payload.
        drop_no_credit,
        /// Dropped without NAK: the queue of calls to engines is full.
        drop_rpc_queue_full,
    }
}
