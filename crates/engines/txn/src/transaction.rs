//! Identifiers of transaction attempts.

use std::fmt;

use weft_waist::{Epoch, NodeId};

const EPOCH_BITS: u32 = 24;
const SEQUENCE_BITS: u32 = 36;

/// The identifier of an attempt: its coordinator, the epoch, and the coordinator's sequence number. Never
/// zero, since epochs start with 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(u64);

impl TransactionId {
    /// Attempt `sequence` of `coordinator`, begun in `epoch`.
    ///
    /// # Panics
    /// If the epoch needs more than 24 bits or the sequence more than 36.
    pub const fn new(coordinator: NodeId, epoch: Epoch, sequence: u64) -> Self {
        assert!(
            epoch.0 != 0 && epoch.0 >> EPOCH_BITS == 0,
            "an identifier has 24 bits of epochs, and none is 0"
        );
        assert!(sequence >> SEQUENCE_BITS == 0, "an identifier has 36 bits of attempts");
        let epoch = (epoch.0 as u64) << SEQUENCE_BITS;
        Self((coordinator.index() as u64) << (EPOCH_BITS + SEQUENCE_BITS) | epoch | sequence)
    }

    /// The identifier that stands for a call of which no attempt was begun.
    pub const fn none(coordinator: NodeId) -> Self {
        Self::new(coordinator, Epoch(1), (1 << SEQUENCE_BITS) - 1)
    }

    /// The identifier with these 64 bits, or `None` if they are invalid.
    pub const fn from_bits(bits: u64) -> Option<Self> {
        if (bits >> SEQUENCE_BITS) & ((1 << EPOCH_BITS) - 1) == 0 { None } else { Some(Self(bits)) }
    }

    /// The epoch; and the coordinator and the sequence, packed into 40 bits.
    pub(crate) const fn parts(self) -> (Epoch, u64) {
        (self.epoch(), (self.coordinator() as u64) << SEQUENCE_BITS | self.sequence())
    }

    /// The identifier with these [`TransactionId::parts`], or `None` if they are invalid.
    pub(crate) const fn from_parts(epoch: Epoch, count: u64) -> Option<Self> {
        if epoch.0 >> EPOCH_BITS != 0 {
            return None;
        }
        let (coordinator, sequence) = (count >> SEQUENCE_BITS, count & ((1 << SEQUENCE_BITS) - 1));
        Self::from_bits(
            coordinator << (EPOCH_BITS + SEQUENCE_BITS) | (epoch.0 as u64) << SEQUENCE_BITS | sequence,
        )
    }

    /// The identifier as 64 bits.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Its coordinator.
    pub const fn coordinator(self) -> usize {
        (self.0 >> (EPOCH_BITS + SEQUENCE_BITS)) as usize
    }

    /// The epoch in which the attempt began.
    pub const fn epoch(self) -> Epoch {
        Epoch((self.0 >> SEQUENCE_BITS) as u32 & ((1 << EPOCH_BITS) - 1))
    }

    /// The coordinator's sequence number.
    pub const fn sequence(self) -> u64 {
        self.0 & ((1 << SEQUENCE_BITS) - 1)
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.coordinator(), self.epoch().0, self.sequence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_holds_its_parts() {
        let id = TransactionId::new(NodeId::new(15).unwrap(), Epoch(0xff_ffff), (1 << 36) - 1);
        assert_eq!((id.coordinator(), id.epoch(), id.sequence()), (15, Epoch(0xff_ffff), (1 << 36) - 1));
        assert_eq!(TransactionId::from_bits(id.bits()), Some(id));
        assert_eq!(TransactionId::from_bits(5), None);
    }
}
