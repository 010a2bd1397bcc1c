//! One slot of the log, byte by byte.
//!
//! ```text
//! 0 index + 1(8)   8 proposal(8)   16 decided(8)   24 length(2) kind(1) zero(5)   32 entry(length)   canary(1)   zeros
//! ```
//!
//! Integers are big-endian. A slot of zeros is empty. *decided* is the number of entries that the leader knew to
//! be decided when it wrote the slot: so followers receive it with the next entry. The canary, 0xff, follows the
//! entry and is written last, so that a partly written entry is not taken for a complete one; this requires that a
//! slot is zero before it is written. The index distinguishes an entry from the one that was in the slot one lap
//! of the ring earlier.

/// Bytes before the entry.
pub const HEADER: usize = 32;
/// Bytes of a slot beside its entry.
pub const OVERHEAD: usize = HEADER + 1;

const CANARY: u8 = 0xff;

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// An entry of the embedder.
    Call = 1,
    /// An empty entry that fills a gap left by a former leader.
    Nothing = 2,
    /// A replica that had lost its memory takes part again: node(1) zero(3) incarnation(4).
    Join = 3,
}

impl Kind {
    fn parse(kind: u8) -> Option<Self> {
        [Self::Call, Self::Nothing, Self::Join].into_iter().find(|known| *known as u8 == kind)
    }
}

/// Content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot<'a> {
    /// Index of the entry, counted from 0.
    pub index: u64,
    /// Number of the proposal under which the entry was written.
    pub proposal: u64,
    /// Number of entries that were known to be decided when the slot was written.
    pub decided: u64,
    /// Kind of the entry.
    pub kind: Kind,
    /// Content of the entry.
    pub entry: &'a [u8],
}

impl<'a> Slot<'a> {
    /// The entry with this index, if the bytes hold it completely.
    ///
    /// # Panics
    /// If there are fewer bytes than [`OVERHEAD`].
    pub fn parse(bytes: &'a [u8], index: u64) -> Option<Self> {
        let length = usize::from(u16::from_be_bytes([bytes[24], bytes[25]]));
        let whole = word(bytes, 0) == index + 1 && bytes.get(HEADER + length) == Some(&CANARY);
        if !whole {
            return None;
        }
        let kind = Kind::parse(bytes[26])?;
        let entry = &bytes[HEADER..HEADER + length];
        Some(Self { index, proposal: word(bytes, 8), decided: word(bytes, 16), kind, entry })
    }

    /// Encodes the entry into a slot, and fills the remainder with zeros.
    ///
    /// # Panics
    /// If the entry does not fit.
    pub fn write(&self, bytes: &mut [u8]) {
        bytes.fill(0);
        bytes[..8].copy_from_slice(&(self.index + 1).to_be_bytes());
        bytes[8..16].copy_from_slice(&self.proposal.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.decided.to_be_bytes());
        bytes[24..26].copy_from_slice(&(self.entry.len() as u16).to_be_bytes());
        bytes[26] = self.kind as u8;
        bytes[HEADER..HEADER + self.entry.len()].copy_from_slice(self.entry);
        bytes[HEADER + self.entry.len()] = CANARY;
    }

    /// Bytes up to the canary. A leader writes only these, because the slot is zero before.
    pub fn bytes(&self) -> usize {
        OVERHEAD + self.entry.len()
    }

    /// Whether both slots hold the same entry, under whatever proposals.
    pub fn same_entry(&self, other: &Slot<'_>) -> bool {
        (self.index, self.kind, self.entry) == (other.index, other.kind, other.entry)
    }
}

/// The big-endian word at an offset.
///
/// # Panics
/// If the word is not completely within the bytes.
pub fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The content of a [`Kind::Join`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Join {
    pub node: usize,
    pub incarnation: u32,
}

impl Join {
    pub fn encode(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[0] = self.node as u8;
        bytes[4..].copy_from_slice(&self.incarnation.to_be_bytes());
        bytes
    }

    pub fn parse(entry: &[u8]) -> Option<Self> {
        let entry: [u8; 8] = entry.try_into().ok()?;
        let incarnation = u32::from_be_bytes([entry[4], entry[5], entry[6], entry[7]]);
        Some(Self { node: entry[0].into(), incarnation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(entry: &[u8]) -> [u8; 64] {
        let mut bytes = [0xaa; 64];
        Slot { index: 7, proposal: 9, decided: 5, kind: Kind::Call, entry }.write(&mut bytes);
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = written(b"abc");
        let slot = Slot::parse(&bytes, 7).unwrap();
        assert_eq!((slot.proposal, slot.decided, slot.kind, slot.entry), (9, 5, Kind::Call, &b"abc"[..]));
        assert_eq!(slot.bytes(), 36);
        assert_eq!(Slot::parse(&bytes, 71), None, "that is another lap");
        assert_eq!(Slot::parse(&[0; 64], 7), None);
    }

    #[test]
    fn no_part_of_an_entry_is_an_entry() {
        let whole = written(&[0xff; 31]);
        for length in 0..64 {
            let mut part = [0; 64];
            part[..length].copy_from_slice(&whole[..length]);
            assert_eq!(Slot::parse(&part, 7), None, "{length} bytes");
        }
        assert!(Slot::parse(&whole, 7).is_some());
    }

    #[test]
    fn a_length_beyond_the_slot_is_no_entry() {
        let mut bytes = written(b"");
        bytes[24] = 0xff;
        assert_eq!(Slot::parse(&bytes, 7), None);
    }
}
