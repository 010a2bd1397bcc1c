//! The time of a message on its path from one engine to another, and on a port.

use weft_sim::{CostProfile, Execution, NetworkProfile};
use weft_time::Duration;
use weft_wire::datagram;

/// Bytes of a frame beside its message: headers of Ethernet, IPv4, UDP and Weft's datagram.
const FRAME_OVERHEAD: usize = 14 + 20 + 8 + datagram::HEADER_BYTES + datagram::TRAILER_BYTES;

/// Further bytes on the wire until the last bit is sent: preamble and frame check sequence.
const WIRE_OVERHEAD: usize = 8 + 4;

/// A clock cycle of the engine's timers.
pub(super) const CYCLE: Duration = Duration::from_ns(4);

/// The shortest time, in whole cycles, from an engine's message of `bytes` bytes to its delivery at another engine of
/// the same profile, over an idle path.
pub(super) fn one_way(profile: &CostProfile, network: &NetworkProfile, bytes: usize) -> Duration {
    let stack = profile
        .receive
        .iter()
        .chain(profile.transmit)
        .fold(Duration::ZERO, |sum, part| sum + part.duration());
    let work = match profile.execution {
        // The cost of an event that sends a message.
        Execution::Pipeline { cycle, message_cycles, .. } => cycle.duration() * message_cycles.value,
        Execution::Cores { .. } | Execution::Verbs { .. } | Execution::Clocked { .. } => Duration::ZERO,
    };
    let on_wire = (FRAME_OVERHEAD + datagram::message_bytes(bytes)).max(60) + WIRE_OVERHEAD;
    // Serialization on both links, at 100 Gb/s.
    let wire = Duration::from_ps(80) * on_wire as u64 * 2;
    let all = stack + work + wire + network.least();
    CYCLE * (all.as_ps() / CYCLE.as_ps())
}

/// Cycles that a port of 100 Gb/s needs to send a message of `bytes` bytes to each of `peers` peers.
pub(super) fn port_cycles(peers: usize, bytes: usize) -> u64 {
    // The interpacket gap is 12 bytes.
    let on_wire = (FRAME_OVERHEAD + datagram::message_bytes(bytes)).max(60) + WIRE_OVERHEAD + 12;
    (Duration::from_ps(80) * (on_wire * peers) as u64).as_ps().div_ceil(CYCLE.as_ps())
}
