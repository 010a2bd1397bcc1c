//! Limits of the wire: number of bytes per message, and time per packet.

use weft_service::psp::OVERHEAD_BYTES;
use weft_sim::{LinkConfig, SwitchConfig};
use weft_time::Duration;
use weft_wire::ethernet::{self, Ethernet};
use weft_wire::icrc;
use weft_wire::ipv4::Ipv4;
use weft_wire::roce::Opcode;
use weft_wire::udp::Udp;

use super::Limit;
use super::census::FRAMING_BYTES;
use super::load::{Load, RdmaOperation};

/// The opcodes of an operation's packets in the direction in which more bytes go (for READ, that of the
/// response): of the first packet of a message, of a middle packet, of the last packet, and of the only
/// packet.
pub(super) const fn opcodes_of(operation: RdmaOperation) -> [Opcode; 4] {
    use Opcode::{
        CompareSwap, FetchAdd, ReadResponseFirst, ReadResponseLast, ReadResponseMiddle, ReadResponseOnly,
        SendFirst, SendLast, SendLastWithImmediate, SendMiddle, SendOnly, SendOnlyWithImmediate, WriteFirst,
        WriteLast, WriteLastWithImmediate, WriteMiddle, WriteOnly, WriteOnlyWithImmediate,
    };
    match operation {
        RdmaOperation::Write => [WriteFirst, WriteMiddle, WriteLast, WriteOnly],
        RdmaOperation::WriteImm => [WriteFirst, WriteMiddle, WriteLastWithImmediate, WriteOnlyWithImmediate],
        RdmaOperation::Send => [SendFirst, SendMiddle, SendLast, SendOnly],
        RdmaOperation::SendImm => [SendFirst, SendMiddle, SendLastWithImmediate, SendOnlyWithImmediate],
        RdmaOperation::Read => [ReadResponseFirst, ReadResponseMiddle, ReadResponseLast, ReadResponseOnly],
        RdmaOperation::FetchAdd => [FetchAdd; 4],
        RdmaOperation::CmpSwap => [CompareSwap; 4],
    }
}

/// Number of bytes that a message of `size` bytes takes on the wire, with headers, ICRC and framing, and
/// number of its packets.
fn on_wire(load: &Load, size: u32) -> (u64, u64) {
    let [first, middle, last, only] = opcodes_of(load.operation);
    let packets = size.div_ceil(load.mtu);
    let frame = |opcode: Opcode, payload: u32| {
        let payload = if opcode.has_payload() { payload } else { 0 };
        let roce = opcode.header_bytes() + payload.next_multiple_of(4) as usize + icrc::BYTES;
        let frame = Ethernet::BYTES + Ipv4::BYTES + Udp::BYTES + roce;
        frame.max(ethernet::FRAME_BYTES_MIN) as u64 + FRAMING_BYTES
    };
    let bytes = match packets {
        1 => frame(only, size),
        _ => {
            let rest = size - (packets - 1) * load.mtu;
            frame(first, load.mtu) + u64::from(packets - 2) * frame(middle, load.mtu) + frame(last, rest)
        }
    };
    (bytes, packets.into())
}

/// The average message of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MeanMessage {
    /// Number of payload bytes.
    pub(super) bytes: f64,
    /// Number of bytes on the wire, with headers, ICRC and framing.
    pub(super) wire_bytes: f64,
    pub(super) packets: f64,
}

impl MeanMessage {
    pub(super) fn of(load: &Load) -> Self {
        let sizes = if load.random_sizes { 1..=load.size } else { load.size..=load.size };
        let count = f64::from(sizes.end() - sizes.start() + 1);
        let mut sums = (0, 0, 0);
        for size in sizes {
            let (bytes, packets) = on_wire(load, size);
            sums = (sums.0 + u64::from(size), sums.1 + bytes, sums.2 + packets);
        }
        let [bytes, wire_bytes, packets] = [sums.0, sums.1, sums.2].map(|sum| sum as f64 / count);
        Self { bytes, wire_bytes, packets }
    }
}

/// The most that one direction of a link can carry if it carries only packets of the operation, with headers,
/// ICRC and framing, and, for each message, `other_bytes` of packets that belong to messages in the other
/// direction.
pub(super) fn limit(load: &Load, other_bytes: f64) -> Limit {
    let mean = MeanMessage::of(load);
    let others = match other_bytes {
        0.0 => String::new(),
        bytes if load.operation == RdmaOperation::Read => {
            format!("; {bytes:.1} more are requests for the other direction, as counted")
        }
        bytes => format!("; {bytes:.1} more are acknowledgements for the other direction, as counted"),
    };
    let all = format!("{} bytes a message with {ALL_HEADERS}{others}", mean.wire_bytes);
    wire(&mean, mean.wire_bytes + other_bytes, &all)
}

/// As [`limit`], if PSP makes each frame longer.
pub(super) fn sealed(load: &Load) -> Limit {
    let mean = MeanMessage::of(load);
    let bytes = mean.wire_bytes + mean.packets * OVERHEAD_BYTES as f64;
    wire(
        &mean,
        bytes,
        &format!("{bytes} bytes a message with {OVERHEAD_BYTES} of PSP in each frame, {ALL_HEADERS}"),
    )
}

/// What a message takes besides its payload.
const ALL_HEADERS: &str = "all headers, ICRC, frame check sequence, preamble and gap";

/// The limit of the wire if each message takes this many bytes on it.
fn wire(mean: &MeanMessage, wire_bytes: f64, what: &str) -> Limit {
    let LinkConfig { bits_per_s, .. } = LinkConfig::default();
    let messages_per_s = bits_per_s as f64 / (8.0 * wire_bytes);
    Limit {
        goodput_bits_per_s: messages_per_s * mean.bytes * 8.0,
        messages_per_s,
        what: format!("the wire: {} Gb/s, {what}", bits_per_s / 1_000_000_000),
    }
}

/// The shortest time between the first bit of a packet and the last bit of its acknowledgement at the sender:
/// the time on links and in the switch, with a NIC that takes no time. `wire_bytes`: bytes of the packet on
/// the wire.
pub(super) fn round_trip(wire_bytes: f64) -> Duration {
    let LinkConfig { bits_per_s, propagation, .. } = LinkConfig::default();
    let acknowledgement =
        (Ethernet::BYTES + Ipv4::BYTES + Udp::BYTES + Opcode::Acknowledge.header_bytes() + icrc::BYTES)
            as u64;
    let bytes = wire_bytes + (acknowledgement + FRAMING_BYTES) as f64;
    // The switch stores and forwards, so each packet is sent twice.
    let sending = Duration::from_ps((2.0 * bytes * 8e12 / bits_per_s as f64) as u64);
    sending + propagation * 4 + SwitchConfig::default().forwarding_latency * 2
}
