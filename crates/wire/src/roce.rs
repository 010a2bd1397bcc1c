//! RoCE v2: the InfiniBand transport headers in a UDP datagram (InfiniBand Architecture Specification
//! volume 1, chapter 9, and annex A17).
//!
//! A packet is `BTH [extended headers] payload [pad] ICRC`; which extended headers there are follows
//! from the opcode alone.

/// UDP destination port of RoCE v2 (annex A17.3.1).
pub const UDP_PORT: u16 = 4791;

/// Packet sequence numbers, queue-pair numbers and message sequence numbers have 24 bits.
pub const MASK_24: u32 = 0x00ff_ffff;

/// Operations of the reliable-connection service (table 38 of the specification; the service's three
/// leading bits are zero).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum Opcode {
    SendFirst = 0x00,
    SendMiddle = 0x01,
    SendLast = 0x02,
    SendLastWithImmediate = 0x03,
    SendOnly = 0x04,
    SendOnlyWithImmediate = 0x05,
    WriteFirst = 0x06,
    WriteMiddle = 0x07,
    WriteLast = 0x08,
    WriteLastWithImmediate = 0x09,
    WriteOnly = 0x0a,
    WriteOnlyWithImmediate = 0x0b,
    ReadRequest = 0x0c,
    ReadResponseFirst = 0x0d,
    ReadResponseMiddle = 0x0e,
    ReadResponseLast = 0x0f,
    ReadResponseOnly = 0x10,
    Acknowledge = 0x11,
    AtomicAcknowledge = 0x12,
    CompareSwap = 0x13,
    FetchAdd = 0x14,
}

/// Base transport header, 12 bytes (clause 9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    /// What the packet is.
    pub opcode: Opcode,
    /// The receiver should raise an event when the message completes.
    pub solicited: bool,
    /// Path migration state.
    pub migration: bool,
    /// Zero bytes, 0 to 3, that follow the payload so that it ends on a 4-byte boundary.
    pub pad: u8,
    /// Partition key; `0xffff` is the default partition with full membership.
    pub partition_key: u16,
    /// Forward and backward explicit congestion notification (annex A17.9.3).
    pub congestion: Congestion,
    /// Destination queue pair, 24 bits.
    pub destination: u32,
    /// The requester asks for an acknowledgement of this packet.
    pub acknowledge: bool,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
}

/// The two congestion bits of the base transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Congestion {
    /// This packet met congestion (FECN).
    pub forward: bool,
    /// A packet in the other direction met congestion (BECN).
    pub backward: bool,
}

/// RDMA extended transport header, 16 bytes (clause 9.3.3): of the first packet of a WRITE, and of a READ request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reth {
    /// Virtual address in the region.
    pub address: u64,
    /// Remote key of the region.
    pub rkey: u32,
    /// Bytes of the whole message.
    pub length: u32,
}

/// Atomic extended transport header, 28 bytes (clause 9.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicEth {
    /// Virtual address of the 8-byte word; a multiple of 8.
    pub address: u64,
    /// Remote key of the region.
    pub rkey: u32,
    /// The value to store (CMP_SWAP) or to add (FETCH_ADD).
    pub swap_or_add: u64,
    /// The value to compare with; zero and ignored for FETCH_ADD.
    pub compare: u64,
}

/// ACK extended transport header, 4 bytes (clause 9.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// What kind of acknowledgement.
    pub syndrome: Syndrome,
    /// Message sequence number, 24 bits: how many requests the responder has completed.
    pub msn: u32,
}

/// The syndrome of an acknowledgement (clause 9.7.5.2.2, tables 44 to 46).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// Positive; the 5-bit end-to-end credit count code (31: credits are not used).
    Ack {
        /// Credit count code, 0 to 31.
        credits: u8,
    },
    /// Receiver not ready: try again after the time that the 5-bit code stands for (table 45).
    RnrNak {
        /// Timer code, 0 to 31.
        timer: u8,
    },
    /// Negative.
    Nak(NakCode),
}

/// Why a request was refused (table 46).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NakCode {
    /// A packet sequence number is missing.
    PsnSequenceError = 0,
    /// The request is malformed or of a kind that the responder does not serve.
    InvalidRequest = 1,
    /// Key, bounds, domain or permission of the region forbid the access.
    RemoteAccessError = 2,
    /// The responder failed at something that is not the requester's fault.
    RemoteOperationalError = 3,
    /// Reliable datagram only; never sent on a reliable connection, parsed so that it can be counted.
    InvalidRdRequest = 4,
}

/// One packet of the reliable-connection service, without its ICRC.
///
/// Exactly the extended headers that the opcode calls for are `Some`; [`Packet::parse`] returns
/// nothing else and [`Packet::emit`] requires it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Base transport header.
    pub bth: Bth,
    /// Of WRITE FIRST and ONLY and of READ REQUEST.
    pub reth: Option<Reth>,
    /// Of CMP_SWAP and FETCH_ADD.
    pub atomic: Option<AtomicEth>,
    /// Of acknowledgements and of READ RESPONSE FIRST, LAST and ONLY.
    pub aeth: Option<Aeth>,
    /// The word's value before the operation: of ATOMIC ACKNOWLEDGE.
    pub atomic_ack: Option<u64>,
    /// Of the opcodes with immediate.
    pub immediate: Option<u32>,
    /// Payload without pad bytes.
    pub payload: &'a [u8],
}
