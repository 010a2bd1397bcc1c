//! Inspection: says whether the payload of a packet contains executable code. Equivalent to
//! `rtl/services/inspect_service.sv`.
//!
//! Each byte of a packet has a score, the evidence in units of 1/8 bit that it is part of machine code rather
//! than of data: the sum of one entry of each of four tables, which are read at the classes of the byte and
//! of the bytes 1, 2, 3 and 4 before it. A byte that repeats the bytes shortly before has a fixed score,
//! because data repeats itself and code seldom does. The score of the packet is the largest sum of a
//! contiguous run of its bytes, so code is found anywhere in a packet, and data around it does not hide it.
//! The packet is flagged if its score reaches a threshold.
//!
//! The score depends only on the bytes of the packet, not on how they are divided into beats. Tables and
//! threshold are trained by `tools/inspection` (`docs/inspection.md`).

mod scan;
mod segment;
#[rustfmt::skip]
mod tables;

pub use scan::Scan;
pub use segment::Segment;

use crate::shapes::Tap;

/// Finds executable code.
///
/// The state of a flow has the number of its flagged packets in the upper 32 bits (modulo 2^32), and the
/// highest score of a packet of the current message in the lower bits. A message begins with the packet at
/// offset 0.
#[derive(Clone, Copy, Debug)]
pub struct Inspect;

impl Inspect {
    /// The score from which a packet is flagged.
    pub const THRESHOLD: u32 = tables::THRESHOLD as u32;
}

/// Verdict on a packet.
///
/// As a number: the score in the lower 30 bits, bit 30 if the packet begins a message, bit 31 if it is
/// flagged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Score of the best run, in 1/8 bit.
    pub score: u32,
    /// Whether the packet is the first of its message.
    pub begins: bool,
    /// Whether the score reaches the threshold.
    pub flagged: bool,
}

const FLAGGED: u32 = 1 << 31;
const BEGINS: u32 = 1 << 30;

impl Verdict {
    /// The verdict with this number.
    pub const fn from_bits(bits: u32) -> Self {
        Self { score: bits & (BEGINS - 1), begins: bits & BEGINS != 0, flagged: bits & FLAGGED != 0 }
    }

    /// The number of the verdict.
    pub const fn to_bits(self) -> u32 {
        self.score | if self.begins { BEGINS } else { 0 } | if self.flagged { FLAGGED } else { 0 }
    }
}

/// What a flow's state says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Number of flagged packets, modulo 2^32.
    pub flagged: u32,
    /// Highest score of a packet of the current message.
    pub message_score: u32,
}

impl Reading {
    /// The reading of a flow's state.
    pub const fn from_state(state: u64) -> Self {
        Self { flagged: (state >> 32) as u32, message_score: state as u32 }
    }

    const fn to_state(self) -> u64 {
        (self.flagged as u64) << 32 | self.message_score as u64
    }
}

impl Tap for Inspect {
    fn verdict(&self, _value: u64, offset: u64, bytes: &[u8]) -> u32 {
        let mut scan = Scan::new();
        scan.push(bytes);
        Verdict { begins: offset == 0, ..scan.verdict() }.to_bits()
    }

    fn accept(&self, state: u64, verdict: u32) -> u64 {
        let Verdict { score, begins, flagged } = Verdict::from_bits(verdict);
        let reading = Reading::from_state(state);
        let before = if begins { 0 } else { reading.message_score };
        Reading { flagged: reading.flagged.wrapping_add(flagged.into()), message_score: before.max(score) }
            .to_state()
    }

    /// The score.
    fn level(&self, verdict: u32) -> u32 {
        Verdict::from_bits(verdict).score
    }
}
