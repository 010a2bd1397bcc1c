//! The layout of a table in host memory.
//!
//! ```text
//! memory   slots | heads | pages | blocks            each part begins at a multiple of 64 bytes
//! slots    record, slot_bytes each: one for each home, and a tail into which objects of the last homes are displaced
//! heads    4 bytes for each segment: 1 + the number of its first overflow page; 0 if it has none
//! page     0 segment(4)   1 + the segment that it belongs to; 0 = free
//!          8 next(4)      1 + the number of the next page of that segment; 0 = none
//!          64             records, page_slots of them
//! block    record, block_bytes: one value that is too long for a slot
//! record   0 key(8)  8 version(8)
//!          16 stamp(2)    of the latest write of this record
//!          18 before(2)   of the latest change that wrote this slot and the one before it
//!          20 after(2)    of the latest change that wrote this slot and the one after it
//!          22 length(2)   bytes of the value; 0x8000: the record is in use; 0x4000: the value is in a block
//!          24 value       to the end of the line; if the value is in a block, the block's number(4)
//!          64             each further line: stamp(2) value(62)
//! ```
//!
//! All integers are big-endian. A line (64 bytes, or a slot that shares a line) is written atomically: on a
//! host, by one MOVDIR64B or one aligned vector store. It is read atomically too, since PCIe reads host
//! memory by cache lines. There is no atomicity between lines, hence the stamps. If the lines of a record do
//! not all have the same stamp, the read is torn, as in FaRM (NSDI 2014, section 4.1). Two neighbouring slots
//! were read between the same changes exactly if the first slot's `after` is the second slot's `before`.
//! Xenic uses transactional memory instead (section 4.1.2). Processors no longer have it, and it does not
//! help a reader that gets lines out of order: such a reader can miss an object that moves.
//!
//! A stamp has 16 bits, so a torn read is overlooked only if 65,536 changes happen during one read.

use crate::room::Room;
use thiserror::Error;

/// Bytes that are written and read atomically.
pub const LINE: usize = 64;

/// Bytes of a record that precede its value.
pub(crate) const HEAD: usize = 24;

/// Bytes of the stamp at the start of each further line.
pub(crate) const STAMP: usize = 2;

/// The longest value that is stored in a slot. Longer values would make swaps and look-ups expensive (section
/// 4.1.2).
const INLINE_MAX: usize = 256;

/// The largest slot: the smallest whole number of lines that holds [`INLINE_MAX`].
pub(crate) const SLOT_BYTES_MAX: usize = 5 * LINE;

/// Slots after the last home if displacement has no limit.
const TAIL_UNLIMITED: u32 = 1024;

/// Bytes of an overflow page's head. It takes a whole line, so that records are aligned to lines.
pub(crate) const PAGE_HEAD: usize = LINE;

/// Parameters of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of homes: a key's hash selects one of these slots.
    pub slots: u32,
    /// Homes of a segment, a power of two up to 16. The card's index has one entry for each segment.
    pub segment_slots: u32,
    /// The displacement limit D_m: an object is less than D_m slots away from its home. `None`: no limit, and
    /// no overflow.
    pub displacement: Option<u32>,
    /// Bytes of a slot: 32 (values of 8 bytes), 64 (40), 128 (102), 192 (164), 256 (226) or 320 (256).
    pub slot_bytes: usize,
    /// Number of overflow pages.
    pub pages: u32,
    /// Records in an overflow page.
    pub page_slots: u32,
    /// Number of blocks, for values that are too long for a slot.
    pub blocks: u32,
    /// The longest value, in bytes.
    pub value_bytes_max: usize,
}

/// The reason why a shape is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// The number with this name is zero or too large.
    #[error("{0} is out of range")]
    Range(&'static str),
    /// The size of a slot is invalid: slots must not cross lines.
    #[error("a slot has 32, 64, 128, 192, 256 or 320 bytes")]
    SlotBytes,
    /// The number of slots is not a multiple of the segment size.
    #[error("a segment has 1, 2, 4, 8 or 16 homes, and the homes are a multiple of it")]
    Segment,
}

/// Offsets of all parts of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    shape: Shape,
    tail: u32,
    block_bytes: usize,
    heads: u64,
    pages: u64,
    blocks: u64,
    end: u64,
}

impl Layout {
    /// The layout of a table with this shape.
    ///
    /// # Errors
    /// If the shape is invalid; the error is the reason.
    pub fn new(shape: Shape) -> Result<Self, LayoutError> {
        let range = |good: bool, what| if good { Ok(()) } else { Err(LayoutError::Range(what)) };
        range((1..=1 << 30).contains(&shape.slots), "slots")?;
        range(shape.displacement.is_none_or(|limit| (2..=128).contains(&limit)), "displacement")?;
        range(shape.pages < 1 << 24, "pages")?;
        range((1..=128).contains(&shape.page_slots), "page_slots")?;
        range(shape.blocks < 1 << 30, "blocks")?;
        range(shape.value_bytes_max <= crate::VALUE_MAX, "value_bytes_max")?;
        if !matches!(shape.slot_bytes, 32 | 64 | 128 | 192 | 256 | 320) {
            return Err(LayoutError::SlotBytes);
        }
        let whole = shape.slots.is_multiple_of(shape.segment_slots.max(1));
        if !matches!(shape.segment_slots, 1 | 2 | 4 | 8 | 16) || !whole {
            return Err(LayoutError::Segment);
        }
        let tail = shape.displacement.map_or(TAIL_UNLIMITED, |limit| limit - 1);
        let block_bytes = record_bytes(shape.value_bytes_max);
        let up = |at: u64| at.next_multiple_of(LINE as u64);
        let heads = up(u64::from(shape.slots + tail) * shape.slot_bytes as u64);
        let pages = up(heads + u64::from(shape.slots / shape.segment_slots) * 4);
        let page_bytes = PAGE_HEAD + shape.page_slots as usize * shape.slot_bytes;
        let blocks = pages + u64::from(shape.pages) * up(page_bytes as u64);
        let end = blocks + u64::from(shape.blocks) * block_bytes as u64;
        Ok(Self { shape, tail, block_bytes, heads, pages, blocks, end })
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Bytes of host memory that the table takes.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// Number of segments.
    pub fn segments(&self) -> u32 {
        self.shape.slots / self.shape.segment_slots
    }

    /// The segment of a key, given its 64 bits.
    pub fn segment(&self, key: u64) -> u32 {
        self.segment_of(self.home(key))
    }

    /// The longest value that is stored in a slot, in bytes.
    pub fn inline_bytes(&self) -> usize {
        value_bytes(self.shape.slot_bytes).min(INLINE_MAX)
    }

    /// The slot that a key's hash selects.
    pub(crate) fn home(&self, key: u64) -> u32 {
        scale(mix(key), self.shape.slots)
    }

    pub(crate) fn segment_of(&self, home: u32) -> u32 {
        home / self.shape.segment_slots
    }

    /// Number of slots, including the tail.
    pub(crate) fn slots_all(&self) -> u32 {
        self.shape.slots + self.tail
    }

    /// The slot after the last one in which an object of this home may be.
    pub(crate) fn window_end(&self, home: u32) -> u32 {
        self.shape.displacement.map_or(self.slots_all(), |limit| home + limit)
    }

    pub(crate) fn slot(&self, slot: u32) -> u64 {
        assert!(slot < self.slots_all(), "a slot of the table");
        u64::from(slot) * self.shape.slot_bytes as u64
    }

    pub(crate) fn head(&self, segment: u32) -> u64 {
        assert!(segment < self.segments(), "a segment of the table");
        self.heads + u64::from(segment) * 4
    }

    pub(crate) fn page(&self, page: u32) -> u64 {
        assert!(page < self.shape.pages, "a page of the table");
        self.pages
            + u64::from(page) * (self.page_bytes(self.shape.page_slots) as u64).next_multiple_of(LINE as u64)
    }

    /// Bytes of a page up to the end of its first `records` records.
    pub(crate) fn page_bytes(&self, records: u32) -> usize {
        PAGE_HEAD + records as usize * self.shape.slot_bytes
    }

    pub(crate) fn block(&self, block: u32) -> u64 {
        assert!(block < self.shape.blocks, "a block of the table");
        self.blocks + u64::from(block) * self.block_bytes as u64
    }

    pub(crate) fn block_bytes(&self) -> usize {
        self.block_bytes
    }
}

/// The longest value, in bytes, that fits into a record of `record` bytes.
pub(crate) const fn value_bytes(record: usize) -> usize {
    if record <= LINE { record - HEAD } else { LINE - HEAD + (record / LINE - 1) * (LINE - STAMP) }
}

/// Bytes of a record of whole lines that holds a value of `value` bytes.
const fn record_bytes(value: usize) -> usize {
    let rest = value.saturating_sub(LINE - HEAD);
    LINE + rest.div_ceil(LINE - STAMP) * LINE
}

/// Maps a hash to a number below `bound`, with a nearly uniform distribution.
pub(crate) const fn scale(hash: u64, bound: u32) -> u32 {
    ((hash as u128 * bound as u128) >> 64) as u32
}

/// Spreads the bits of a key: the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub(crate) const fn mix(key: u64) -> u64 {
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}

impl Room {
    /// The free room of an empty table.
    pub(crate) fn of_empty(layout: &Layout) -> Self {
        Self { pages: layout.shape().pages, blocks: layout.shape().blocks }
    }
}
