//! What went through the soft NIC, and what was dropped and why.

weft_counters::counters! {
    /// Counters of engines, whoever hosts them.
    pub(crate) struct EngineCounters {
        /// Datagrams that held messages for an engine.
        datagrams_received,
        /// Messages handed to engines.
        messages_delivered,
        /// Datagrams that were malformed or failed their CRC.
        datagrams_malformed,
        /// Messages for a slot that has no engine.
        messages_without_engine,
        /// Messages of an engine that no datagram can hold.
        messages_too_large,
        /// Messages to a node that has no address.
        messages_without_peer,
        /// What engines wanted of queue pairs that are not theirs, or that these were in no state for.
        queue_pair_effects_refused,
    }
}

weft_counters::counters! {
    /// Counters of the transport door, and of what leaves.
    pub(crate) struct CardCounters {
        /// Datagrams sent.
        datagrams_sent,
        /// RoCE packets whose ICRC is wrong.
        icrc_errors,
        /// RoCE packets that are malformed or of another service than the reliable connection.
        roce_malformed,
        /// RoCE packets received with a right ICRC.
        roce_received,
        /// RoCE packets sent.
        roce_sent,
        /// RPC-region writes without a word that names the operation.
        rpc_malformed,
        /// Answers over a queue pair that found no free buffer or were too long for one.
        replies_without_buffer,
        /// Answers that their queue pair refused.
        replies_refused,
        /// Changes of queue pairs that the host wanted and these did not allow.
        modifications_refused,
        /// Changes of security associations that a card was asked for which seals nothing.
        associations_refused,
        /// Answers of the host to clients that no datagram can hold.
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
        /// Frames that are malformed or whose header checksum is wrong.
        frames_malformed,
        /// Frames for another station.
        frames_for_others,
        /// ARP requests answered.
        arp_replies,
        /// ICMP echo requests answered.
        echo_replies,
        /// Packets dropped because their neighbour never told its hardware address, or because too many waited for
        /// theirs.
        neighbour_unresolved,
    }
}
