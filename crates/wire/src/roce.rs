//! RoCE v2: the InfiniBand transport headers in a UDP datagram (InfiniBand Architecture Specification
//! volume 1, chapter 9, and annex A17).
//!
//! A packet is `BTH [extended headers] payload [pad] ICRC`. The opcode alone determines which extended
//! headers there are. [`Packet`] is everything before the ICRC. The ICRC depends on the IPv4 and UDP headers
//! too; see [`crate::icrc`].

mod bth;
mod extended;
mod gid;
mod opcode;
mod packet;
mod syndrome;
mod unreliable;

pub use bth::{Bth, Congestion};
pub use extended::{Aeth, AtomicEth, Reth};
pub use gid::{Gid, NoGid};
pub use opcode::Opcode;
pub use packet::{Packet, pad_bytes};
pub use syndrome::{NakCode, Syndrome, rnr_timer_ns};
pub use unreliable::{DatagramPacket, Service};

/// UDP destination port of RoCE v2 (annex A17.3.1).
pub const UDP_PORT: u16 = 4791;

/// Packet sequence numbers, queue-pair numbers and message sequence numbers have 24 bits.
pub const MASK_24: u32 = 0x00ff_ffff;

impl Opcode {
    /// Bytes of the base and the extended headers together, reserved bytes included: 12 to 40.
    pub const fn header_bytes(self) -> usize {
        let mut bytes = Bth::BYTES + self.reserved_bytes();
        if self.has_reth() {
            bytes += Reth::BYTES;
        }
        if self.has_atomic() {
            bytes += AtomicEth::BYTES;
        }
        if self.has_aeth() {
            bytes += Aeth::BYTES;
        }
        if self.has_atomic_ack() {
            bytes += 8;
        }
        if self.has_immediate() {
            bytes += 4;
        }
        bytes
    }
}
