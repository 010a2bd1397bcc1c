//! The free room of a table, by which a write is admitted before it is decided.
//!
//! Whether an object fits depends on the slots around its home, which only the host sees. But the worst case
//! of an insertion is known everywhere: it takes a new overflow page, and a block if its value is long. If
//! there are as many free pages and blocks as insertions that are not applied yet, all of them fit, in any
//! order.

/// Numbers of overflow pages and blocks: those that are free in a table, or those that writes may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Overflow pages.
    pub pages: u32,
    /// Blocks for long values.
    pub blocks: u32,
}

impl Room {
    /// Bytes of an encoded [`Room`].
    pub const BYTES: usize = 8;

    /// The most room that a write of `length` bytes may take. `former`: the length of the value that it
    /// replaces, if there is one.
    pub(crate) fn for_write(inline_bytes: usize, length: usize, former: Option<usize>) -> Self {
        let is_long = |length: usize| length > inline_bytes;
        Self {
            pages: u32::from(former.is_none()),
            blocks: u32::from(is_long(length) && !former.is_some_and(is_long)),
        }
    }

    /// Whether this room is enough for `needs`.
    pub const fn covers(self, needs: Self) -> bool {
        self.pages >= needs.pages && self.blocks >= needs.blocks
    }

    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            pages: self.pages.saturating_add(other.pages),
            blocks: self.blocks.saturating_add(other.blocks),
        }
    }

    /// This room without `other`, which is part of it.
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

/// What logged writes may do to a table's room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    /// The most room that the writes may take.
    pub needs: Room,
    /// Number of deletions among the writes, which may free room.
    pub deletions: u32,
}

impl Demand {
    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { needs: self.needs.plus(other.needs), deletions: self.deletions + other.deletions }
    }

    /// This demand without `other`, which is part of it.
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

        /// Wherever objects lie, a write takes no more room than computed, and a write whose needs are
        /// covered fits.
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
