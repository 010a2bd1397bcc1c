//! Counters of the soft NIC: what it handled, and what it dropped for which reason.

weft_counters::counters! {
    /// Counters of engines, independent of their host.
    pub(crate) struct EngineCounters {
        /// Datagrams that held messages for an engine.
        datagrams_received,
        /// Messages delivered to engines.
        messages_delivered,
        /// Datagrams that were malformed or failed their CRC.
        datagrams_malformed,
        /// Messages for a slot that has no engine.
        messages_without_engine,
        /// Messages of an engine that are too long for a datagram.
        messages_too_large,
        /// Messages to a node that has no address.
        messages_without_peer,
        /// Queue pair effects of engines that were refused: the queue pair is not the engine's, or its state
        /// does not allow the effect.
        queue_pair_effects_refused,
    }
}

weft_counters::counters! {
    /// Counters of the transport, and of what is sent.
    pub(crate) struct CardCounters {
        /// Datagrams sent.
        datagrams_sent,
        /// RoCE packets whose ICRC is wrong.
        icrc_errors,
        /// RoCE packets that are malformed, or of another service than the reliable connection.
        roce_malformed,
        /// RoCE packets received with a correct ICRC.
        roce_received,
        /// RoCE packets sent.
        roce_sent,
        /// WRITEs into RPC regions without a word that names the operation.
        rpc_malformed,
        /// Replies over a queue pair that were dropped: no buffer was free, or the reply was too long for
        /// one.
        replies_without_buffer,
        /// Replies whose SEND was refused.
        replies_refused,
        /// Changes of queue pairs by the host that were refused.
        modifications_refused,
        /// Changes of security associations that were refused because the card does not encrypt frames.
        associations_refused,
        /// Replies of the host to clients that are too long for a datagram.
        responses_too_large,
    }
}

weft_counters::counters! {
    /// Counters of the frame port.
    pub(crate) struct PortCounters {
        /// Frames received.
        frames_received,
        /// Frames sent.
        frames_sent,
        /// Frames passed to the host.
        frames_to_host,
        /// Frames that are malformed, or whose header checksum is wrong.
        frames_malformed,
        /// Frames to another hardware address.
        frames_for_others,
        /// ARP requests answered.
        arp_replies,
        /// ICMP echo requests answered.
        echo_replies,
        /// Packets dropped because their neighbour's hardware address could not be resolved, or because too
        /// many packets waited for an address.
        neighbour_unresolved,
    }
}
