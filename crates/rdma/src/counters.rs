//! Counters of the transport: packets handled, and packets dropped by cause.

weft_counters::counters! {
    /// Counters of one NIC since its start. Those whose names Linux's soft RoCE (`rxe`) also has count the
    /// same events.
    pub struct Counters {
        /// Packets sent.
        sent_pkts,
        /// Packets received, counted before any check.
        rcvd_pkts,
        /// Duplicate requests: the responder had executed them before.
        duplicate_request,
        /// Requests that arrived beyond a gap in the PSNs. The first beyond each gap is answered with a
        /// sequence-error NAK.
        out_of_seq_request,
        /// Receiver-not-ready NAKs that arrived.
        rcvd_rnr_err,
        /// Receiver-not-ready NAKs that were sent.
        send_rnr_err,
        /// Sequence-error NAKs that arrived.
        rcvd_seq_err,
        /// Acknowledgements that were coalesced with a later one or with a response.
        ack_deferred,
        /// Queue pairs that entered the ERROR state after `retry_cnt` retries.
        retry_exceeded_err,
        /// Queue pairs that entered the ERROR state after `rnr_retry` retries.
        retry_rnr_exceeded_err,
        /// Times that a requester went back to an earlier packet.
        completer_retry_err,
        /// Requests that failed for a local reason before they were sent.
        send_err,
        /// SEND requests posted.
        rdma_sends,
        /// SEND messages received.
        rdma_recvs,

        /// Acknowledgement time-outs.
        ack_timeout,
        /// Implied NAKs: a later response arrived in place of the expected one.
        implied_nak_seq_err,
        /// NAKs sent: invalid request.
        sent_invalid_request,
        /// NAKs sent: remote access error.
        sent_access_error,
        /// NAKs sent: remote operational error.
        sent_operational_error,
        /// NAKs received: invalid request.
        rcvd_invalid_request,
        /// NAKs received: remote access error.
        rcvd_access_error,
        /// NAKs received: remote operational error.
        rcvd_operational_error,
        /// Accesses refused because no region has the key.
        violation_key,
        /// Accesses refused because the region belongs to another protection domain.
        violation_domain,
        /// Accesses refused because they exceed the region.
        violation_bounds,
        /// Accesses refused because the region's flags do not allow them.
        violation_permission,
        /// WRITEs into RPC regions, each of which called an engine.
        rpc_calls,
        /// Packets that a switch has marked as having met congestion, and congestion notifications received.
        congestion_marks,
        /// Congestion notifications sent.
        np_cnp_sent,

        /// Dropped: the queue pair does not exist.
        drop_unknown_queue_pair,
        /// Dropped: the source is not the address to which the queue pair is connected.
        drop_wrong_source,
        /// Dropped: the state of the queue pair does not allow the packet.
        drop_wrong_state,
        /// Dropped: the partition is another one.
        drop_partition_key,
        /// Dropped: the headers do not match the opcode.
        drop_malformed,
        /// Dropped: further requests beyond a gap that was reported already.
        drop_out_of_sequence,
        /// Dropped: a duplicate READ or atomic that the responder no longer has, or that differs from the
        /// original request.
        drop_unknown_duplicate,
        /// Dropped: a response or acknowledgement to a request that was never sent.
        drop_ghost_response,
        /// Dropped: a response or acknowledgement to a request that is acknowledged already.
        drop_stale_response,
        /// Dropped: a syndrome that is reserved for reliable connections.
        drop_reserved_syndrome,
        /// Dropped without a NAK: the path to the host has no credit for the payload.
        drop_no_credit,
        /// Dropped without a NAK: the queue of calls to engines is full.
        drop_rpc_queue_full,
    }
}
