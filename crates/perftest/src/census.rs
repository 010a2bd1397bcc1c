//! Counts packets on the wire: those that carry the operation under test, and all others.

use weft_sim::{Direction, MachineId, Tap};
use weft_time::Instant;
use weft_wire::ethernet::{self, Ethernet};
use weft_wire::ipv4::Ipv4;
use weft_wire::roce::Opcode;
use weft_wire::udp::Udp;

/// Number of bytes that a frame takes on the wire in addition to the frame itself: preamble, frame check
/// sequence and gap.
pub(super) const FRAMING_BYTES: u64 = 8 + 4 + 12;

/// Offset of the opcode in a RoCE frame.
pub(super) const OPCODE_AT: usize = Ethernet::BYTES + Ipv4::BYTES + Udp::BYTES;

/// Number of bytes that a frame takes on the wire.
pub(super) fn on_wire(frame: &[u8]) -> u64 {
    frame.len().max(ethernet::FRAME_BYTES_MIN) as u64 + FRAMING_BYTES
}

/// Counts everything that the machines send. All frames of a benchmark are RoCE.
#[derive(Clone, Debug)]
pub(super) struct Census {
    carriers: Vec<Opcode>,
    /// Number of packets that carry the operation.
    pub(super) packets: u64,
    /// Number of bytes that all other packets take on the wire.
    pub(super) other_bytes: u64,
}

impl Census {
    pub(super) fn new(carriers: &[Opcode]) -> Self {
        Self { carriers: carriers.to_vec(), packets: 0, other_bytes: 0 }
    }
}

impl Tap for Census {
    fn frame(&mut self, _: Instant, _: MachineId, direction: Direction, frame: &[u8]) {
        if direction == Direction::In {
            return;
        }
        let opcode = frame.get(OPCODE_AT).and_then(|&opcode| Opcode::from_u8(opcode));
        if opcode.is_some_and(|opcode| self.carriers.contains(&opcode)) {
            self.packets += 1;
        } else {
            self.other_bytes += on_wire(frame);
        }
    }
}
