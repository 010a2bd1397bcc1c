//! A lookup from afar: which bytes to read, and what they say.
//!
//! The reader gets the bytes of a [`Region`] some time after it has asked for it, each line as it was at some moment
//! in between, and meanwhile the host writes. What it concludes was true at some moment between the first request and
//! the last answer:
//!
//! - An object that is found, whole, was there.
//! - An object moves between neighbouring slots only, by a change that writes both. If it was missed on its way, the
//!   two slots were seen on different sides of that change, and their stamps differ ([`super::Layout`]). So slots
//!   whose stamps agree, among them one of a lower home (or the home itself) and one of a higher home (or the end of
//!   the window), prove that the object is not among the slots. Pieces of the window that are read one after the
//!   other count as well, if the stamps agree at the seam.
//! - An object moves from the overflow to the slots, never back. So if it is in neither, the slots are read once
//!   more. That is left out if the card knows that there is no overflow, which is so as long as it takes the host's
//!   reports before it unpins what they are about ([`super::Index`]).

use super::layout::{Layout, PAGE_HEAD};
use super::overflow::{PageHead, first_page};
use super::record::{self, Head, be16};
use super::report::{Hint, Overflow};
use super::table::block_of;
use crate::key::{Key, Version};

/// Slots that are read beyond those in which the object should be, to find it a little farther, or a higher home.
const PIECE: u32 = 4;

/// Slots that are read first where displacement has no limit and nothing is known.
const UNLIMITED: u32 = 16;

/// Bytes to read, in the memory of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte, from the beginning of the table.
    pub at: u64,
    /// Length in bytes.
    pub length: usize,
    /// Records of objects among them, in use or not: what tables of such designs call objects read.
    pub objects: u32,
}

/// Next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Read this, and come back with the bytes.
    Read(Region),
    /// The object was there: its version, and the bytes of its value, which has been copied to the beginning of the
    /// buffer.
    Found(Version, usize),
    /// The object was not there.
    Absent,
}

/// One lookup in progress.
#[derive(Clone, Copy, Debug)]
pub struct Lookup {
    key: u64,
    home: u32,
    /// First and last slot of the first read.
    begin: u32,
    end: u32,
    overflow: Overflow,
    step: Step,
    restarts: u16,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Slots from `begin` to `end`; `seen` is the last stamp of what was read before them; `again` after the overflow.
    Slots {
        begin: u32,
        end: u32,
        lower: bool,
        seam: Option<u16>,
        again: bool,
    },
    /// The word that says where the overflow begins.
    Head,
    /// A page, up to so many of its records.
    Page {
        page: u32,
        records: u32,
    },
    Block {
        block: u32,
    },
}

impl Lookup {
    /// A lookup of `key`, and what to read first.
    pub fn new(layout: &Layout, key: Key, hint: Hint) -> (Self, Region) {
        let key = key.bits();
        let home = layout.home(key);
        let window = layout.window_end(home);
        let (begin, end) = match hint.reach {
            // No objects of this home: its two neighbours prove it.
            Some((begin, end)) if begin == end => (begin.saturating_sub(1), end + 1),
            Some(reach) => reach,
            None => (0, layout.shape().displacement.unwrap_or(UNLIMITED)),
        };
        // The window bounds the read, whatever a report says.
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

    /// Takes the bytes of the region that was asked for last. `value` has room for the longest value.
    ///
    /// # Panics
    /// If there are not as many bytes as the region has.
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

    /// From the beginning: what was read was in the middle of a change.
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
            // As far as is known it is not among the other slots, so it is in the overflow. If not, all slots are
            // read in the end.
            _ if !again && matches!(self.overflow, Overflow::Page { .. }) => self.beyond_slots(layout),
            // A second, adjacent read.
            (true, false) => {
                let end = self.piece_end(layout, slots.end);
                self.go(layout, Step::Slots { begin: slots.end, end, lower, seam, again })
            }
            // From one slot before where the object should be, and if that does not tell, from the home.
            (false, _) => {
                let begin = if slots.start == self.begin { self.begin - 1 } else { self.home };
                self.wider(layout, begin, slots.end, again)
            }
        }
    }

    /// End of a read that goes beyond `end`: a few slots later, and each time twice as many.
    fn piece_end(&self, layout: &Layout, end: u32) -> u32 {
        layout.window_end(self.home).min(end + PIECE.max(end - self.home))
    }

    /// Reads from `begin` to beyond `end`.
    fn wider(&mut self, layout: &Layout, begin: u32, end: u32, again: bool) -> Next {
        let end = self.piece_end(layout, end);
        self.go(layout, Step::Slots { begin, end, lower: begin == self.home, seam: None, again })
    }

    /// The object is not among the slots.
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

    /// The object is not in the overflow either, unless it came from there since the slots were read.
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
            // The card's knowledge is out of date.
            self.overflow = Overflow::Unknown;
            return self.restart(layout);
        }
        // A record that came into use behind those that were read is newer than the report, so it is not the object.
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
