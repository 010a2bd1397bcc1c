//! A remote look-up: it determines which bytes of the table to read, and interprets them.
//!
//! The reader gets the bytes of a [`Region`] some time after its request. Each line shows its content at some
//! moment in between, while the host writes. The result was true at some moment between the first request and
//! the last answer, for these reasons:
//!
//! - If a whole object is found, it was there.
//! - An object moves only between neighbouring slots, by a change that writes both. If the reader has missed
//!   an object that moved, it has seen the two slots on different sides of that change, so their stamps
//!   differ ([`super::Layout`]). Suppose that the stamps of all slots agree, that the first slot is the home
//!   or holds an object of a lower home, and that the last slot is the end of the window or holds an object
//!   of a higher home. Then the object is not among the slots. The slots may be read in several pieces if the
//!   stamps agree where the pieces meet.
//! - An object moves from the overflow to the slots, never back. So if it is in neither, the slots are read
//!   once more. That is not necessary if the card knows that the segment has no overflow. The card's
//!   information is reliable because it processes the host's reports before it unpins the writes that they
//!   belong to ([`super::Index`]).

use super::layout::{Layout, PAGE_HEAD};
use super::overflow::{PageHead, first_page};
use super::record::{self, Head, be16};
use super::report::{Hint, Overflow};
use super::table::block_of;
use crate::key::{Key, Version};

/// Slots that are read beyond those in which the object is expected. They may show the object a little
/// farther away, or an object of a higher home.
const PIECE: u32 = 4;

/// Slots that the first read covers if displacement has no limit and there is no hint.
const UNLIMITED: u32 = 16;

/// A range of bytes to read from the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Offset of the first byte in the table.
    pub at: u64,
    /// Length in bytes.
    pub length: usize,
    /// Number of records in the range, in use or not. Papers on such tables count these as objects read.
    pub objects: u32,
}

/// The next step of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Read this region, and call [`Lookup::take`] with its bytes.
    Read(Region),
    /// The object exists: its version, and the length of its value, which was copied to the start of the
    /// buffer.
    Found(Version, usize),
    /// The object is absent.
    Absent,
}

/// One lookup in progress.
#[derive(Clone, Copy, Debug)]
pub struct Lookup {
    key: u64,
    home: u32,
    /// Range of slots of the first read.
    begin: u32,
    end: u32,
    overflow: Overflow,
    step: Step,
    restarts: u16,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Read the slots from `begin` to `end`. `lower`: the first slot is the home, or an object of a lower
    /// home was seen. `seam`: the last stamp of the piece read before. `again`: the overflow was read
    /// already.
    Slots {
        begin: u32,
        end: u32,
        lower: bool,
        seam: Option<u16>,
        again: bool,
    },
    /// Read the segment's head, which names the first overflow page.
    Head,
    /// Read an overflow page, up to this number of records.
    Page {
        page: u32,
        records: u32,
    },
    Block {
        block: u32,
    },
}

impl Lookup {
    /// A look-up of `key`, and the first region to read.
    pub fn new(layout: &Layout, key: Key, hint: Hint) -> (Self, Region) {
        let key = key.bits();
        let home = layout.home(key);
        let window = layout.window_end(home);
        let (begin, end) = match hint.reach {
            // There are no objects of this home. The two neighbouring slots can prove that.
            Some((begin, end)) if begin == end => (begin.saturating_sub(1), end + 1),
            Some(reach) => reach,
            None => (0, layout.shape().displacement.unwrap_or(UNLIMITED)),
        };
        // Whatever the hint says, the read stays within the window.
        let begin = (home + begin).min(window - 1);
        let end = (home + end).clamp(begin + 1, window);
        let step = Step::Slots { begin, end, lower: begin == home, seam: None, again: false };
        let lookup = Self { key, home, begin, end, overflow: hint.overflow, step, restarts: 0 };
        (lookup, lookup.region(layout))
    }

    /// Number of restarts because the table changed during the lookup.
    pub fn restarts(&self) -> u32 {
        self.restarts.into()
    }

    /// Handles the bytes of the region that was requested last. `value` must have room for the longest value.
    ///
    /// # Panics
    /// If the number of bytes is not that of the region.
    pub fn take(&mut self, layout: &Layout, bytes: &[u8], value: &mut [u8]) -> Next {
        assert_eq!(bytes.len(), self.region(layout).length, "the bytes of the region");
        match self.step {
            Step::Slots { begin, end, lower, seam, again } => {
                self.slots(layout, bytes, value, begin..end, lower, seam, again)
            }
            Step::Head => match first_page(bytes) {
                Some(page) if page < layout.shape().pages => {
                    self.go(layout, Step::Page { page, records: layout.shape().page_slots })
                }
                _ => self.slots_again(layout),
            },
            Step::Page { .. } => self.page(layout, bytes, value),
            Step::Block { .. } => self.block(layout, bytes, value),
        }
    }

    fn region(&self, layout: &Layout) -> Region {
        let slot_bytes = layout.shape().slot_bytes;
        match self.step {
            Step::Slots { begin, end, .. } => Region {
                at: layout.slot(begin),
                length: (end - begin) as usize * slot_bytes,
                objects: end - begin,
            },
            Step::Head => Region { at: layout.head(layout.segment_of(self.home)), length: 4, objects: 0 },
            Step::Page { page, records } => {
                Region { at: layout.page(page), length: layout.page_bytes(records), objects: records }
            }
            Step::Block { block } => {
                Region { at: layout.block(block), length: layout.block_bytes(), objects: 1 }
            }
        }
    }

    fn go(&mut self, layout: &Layout, step: Step) -> Next {
        self.step = step;
        Next::Read(self.region(layout))
    }

    /// Starts again, because the bytes were read in the middle of a change.
    fn restart(&mut self, layout: &Layout) -> Next {
        self.restarts = self.restarts.saturating_add(1);
        let (begin, end) = (self.begin, self.end);
        self.go(layout, Step::Slots { begin, end, lower: begin == self.home, seam: None, again: false })
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of its step")]
    fn slots(
        &mut self,
        layout: &Layout,
        bytes: &[u8],
        value: &mut [u8],
        slots: std::ops::Range<u32>,
        lower: bool,
        seam: Option<u16>,
        again: bool,
    ) -> Next {
        let (mut lower, mut higher, mut seam) = (lower, slots.end >= layout.window_end(self.home), seam);
        let mut seen_together = true;
        for record in bytes.chunks_exact(layout.shape().slot_bytes) {
            seen_together &= seam.is_none_or(|after| after == before_of(record));
            seam = Some(after_of(record));
            let Some(key) = Head::key(record) else { continue };
            if key == self.key {
                return self.found(layout, record, value);
            }
            let home = layout.home(key);
            lower |= home < self.home;
            higher |= home > self.home;
        }
        if !seen_together {
            return self.restart(layout);
        }
        match (lower, higher) {
            (true, true) if again => Next::Absent,
            (true, true) => self.beyond_slots(layout),
            // According to the hint the object is not in further slots, so it is probably in the overflow. If
            // it is not there either, all slots are read in the end.
            _ if !again && matches!(self.overflow, Overflow::Page { .. }) => self.beyond_slots(layout),
            // Read the slots that follow.
            (true, false) => {
                let end = self.piece_end(layout, slots.end);
                self.go(layout, Step::Slots { begin: slots.end, end, lower, seam, again })
            }
            // Read again from one slot before the expected position. If that does not decide it either, read
            // from the home.
            (false, _) => {
                let begin = if slots.start == self.begin { self.begin - 1 } else { self.home };
                self.wider(layout, begin, slots.end, again)
            }
        }
    }

    /// The end of a read that extends beyond `end`: a few slots at first, then twice as many each time.
    fn piece_end(&self, layout: &Layout, end: u32) -> u32 {
        layout.window_end(self.home).min(end + PIECE.max(end - self.home))
    }

    /// Reads slots again, from `begin` to beyond `end`.
    fn wider(&mut self, layout: &Layout, begin: u32, end: u32, again: bool) -> Next {
        let end = self.piece_end(layout, end);
        self.go(layout, Step::Slots { begin, end, lower: begin == self.home, seam: None, again })
    }

    /// The object is not among the slots: the look-up continues in the overflow.
    fn beyond_slots(&mut self, layout: &Layout) -> Next {
        match self.overflow {
            Overflow::None => Next::Absent,
            _ if layout.shape().pages == 0 => Next::Absent,
            Overflow::Page { page, used } if page < layout.shape().pages => {
                let records = u32::from(used).clamp(1, layout.shape().page_slots);
                self.go(layout, Step::Page { page, records })
            }
            _ => self.go(layout, Step::Head),
        }
    }

    /// The object is not in the overflow either. It may have moved to the slots since these were read, so
    /// they are read again.
    fn slots_again(&mut self, layout: &Layout) -> Next {
        self.wider(layout, self.home.max(self.begin.saturating_sub(1)), self.end, true)
    }

    fn page(&mut self, layout: &Layout, bytes: &[u8], value: &mut [u8]) -> Next {
        let head = PageHead::parse(bytes);
        let slot_bytes = layout.shape().slot_bytes;
        let mut records = bytes[PAGE_HEAD..].chunks_exact(slot_bytes);
        if let Some(record) = records.find(|record| Head::key(record) == Some(self.key)) {
            return self.found(layout, record, value);
        }
        if head.segment != Some(layout.segment_of(self.home)) {
            // The hint was out of date: the page does not belong to the segment.
            self.overflow = Overflow::Unknown;
            return self.restart(layout);
        }
        // A record after those that were read came into use later than the host's report, so it is not the
        // object.
        match head.next {
            Some(next) if next < layout.shape().pages => {
                self.go(layout, Step::Page { page: next, records: layout.shape().page_slots })
            }
            _ => self.slots_again(layout),
        }
    }

    fn found(&mut self, layout: &Layout, record: &[u8], value: &mut [u8]) -> Next {
        let head = Head::parse(record);
        if !record::is_whole(record) {
            return self.restart(layout);
        }
        if head.in_block {
            let block = block_of(record);
            return self.go(layout, Step::Block { block });
        }
        record::copy_value(record, head.length, value);
        Next::Found(Version::from_bits(head.version), head.length)
    }

    fn block(&mut self, layout: &Layout, bytes: &[u8], value: &mut [u8]) -> Next {
        let head = Head::parse(bytes);
        if !head.in_use || head.key != self.key || !record::is_whole(bytes) {
            return self.restart(layout);
        }
        record::copy_value(bytes, head.length, value);
        Next::Found(Version::from_bits(head.version), head.length)
    }
}

fn before_of(record: &[u8]) -> u16 {
    be16(record, record::BEFORE_AT)
}

fn after_of(record: &[u8]) -> u16 {
    be16(record, record::AFTER_AT)
}
