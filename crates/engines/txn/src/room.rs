//! How much a table can still take, whatever comes: what a write is admitted by before it is decided.
//!
//! Where an object finds a place depends on what stands around its home, so nobody but the host can say that it fits.
//! What anybody can count is what an insertion takes at worst: a new overflow page, and a block if its value is long.
//! As long as there are as many free pages and blocks as insertions that are not carried out, all of them find room,
//! in any order.

/// Overflow pages and blocks: free ones of a table, or those that writes take at worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Overflow pages.
    pub pages: u32,
    /// Blocks for long values.
    pub blocks: u32,
}

impl Room {
    /// Bytes of an encoded room.
    pub const BYTES: usize = 8;

    /// Most room that a write of `length` bytes takes, in place of one of `former` bytes, or none.
    pub(crate) fn for_write(inline_bytes: usize, length: usize, former: Option<usize>) -> Self {
        let is_long = |length: usize| length > inline_bytes;
        Self {
            pages: u32::from(former.is_none()),
            blocks: u32::from(is_long(length) && !former.is_some_and(is_long)),
        }
    }

    /// Whether this is enough.
    pub const fn covers(self, needs: Self) -> bool {
        self.pages >= needs.pages && self.blocks >= needs.blocks
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            pages: self.pages.saturating_add(other.pages),
            blocks: self.blocks.saturating_add(other.blocks),
        }
    }

    /// What is left without `other`, which is part of it.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        assert!(self.covers(other), "it is part of it");
        Self { pages: self.pages - other.pages, blocks: self.blocks - other.blocks }
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.pages.to_be_bytes());
        out.extend_from_slice(&self.blocks.to_be_bytes());
    }
}

/// Effect of logged writes on a table's room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    /// Most room that they take.
    pub needs: Room,
    /// Number of deletions among them, which may free room.
    pub deletions: u32,
}

impl Demand {
    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { needs: self.needs.plus(other.needs), deletions: self.deletions + other.deletions }
    }

    /// What is left without `other`, which is part of it.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self { needs: self.needs.less(other.needs), deletions: self.deletions - other.deletions }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::key::{Key, Version};
    use crate::store::{Layout, Shape, Table};

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Wherever objects stand, a write takes no more than it is said to take at worst, and whatever is covered
        /// finds room.
        #[test]
        fn what_is_covered_finds_room(writes in vec((0u64..60, prop::option::of(0usize..60)), 1..400)) {
            let shape = Shape {
                slots: 24,
                segment_slots: 4,
                displacement: Some(4),
                slot_bytes: 64,
                pages: 6,
                page_slots: 2,
                blocks: 10,
                value_bytes_max: 60,
            };
            let layout = Layout::new(shape).unwrap();
            let mut table = Table::new(layout);
            let mut bytes = vec![0; layout.bytes() as usize];
            prop_assert_eq!(table.room(), Room::of_empty(&layout));
            for (local, length) in writes {
                let key = Key::new(0, local);
                let Some(length) = length else {
                    let before = table.room();
                    table.remove(&mut bytes[..], key);
                    prop_assert!(table.room().covers(before));
                    continue;
                };
                let former = table.get(&bytes, key, &mut [0; 60]).map(|(_, length)| length);
                let needs = Room::for_write(layout.inline_bytes(), length, former);
                let before = table.room();
                let done = table.put(&mut bytes[..], key, Version::from_bits(1), &[7; 60][..length]);
                prop_assert!(table.room().plus(needs).covers(before));
                prop_assert!(done.is_ok() || !before.covers(needs));
            }
        }
    }
}
