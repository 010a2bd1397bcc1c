//! The overflow of a segment: a chain of pages for objects that have no slot near their home.
//!
//! Records do not move within pages, and only the last page of a chain is freed, when it is empty. So a
//! reader that follows the chain while it changes skips no record. If a page was freed meanwhile, its head no
//! longer names the segment.

use super::layout::{Layout, PAGE_HEAD};
use super::record::{Head, Lines, be32};
use super::report::Overflow;

/// The head of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageHead {
    /// The segment that the page belongs to; `None` if it is free.
    pub segment: Option<u32>,
    /// The next page of the segment.
    pub next: Option<u32>,
}

impl PageHead {
    pub fn parse(bytes: &[u8]) -> Self {
        Self { segment: be32(bytes, 0).checked_sub(1), next: be32(bytes, 4).checked_sub(1) }
    }

    fn encode(self) -> [u8; 8] {
        let word = |number: Option<u32>| number.map_or(0, |number| number + 1).to_be_bytes();
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&word(self.segment));
        bytes[4..].copy_from_slice(&word(self.next));
        bytes
    }
}

/// The first page of a segment, according to the segment's head.
pub(crate) fn first_page(head: &[u8]) -> Option<u32> {
    be32(head, 0).checked_sub(1)
}

/// The free pages. All records of a free page are unused.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    free: Vec<u32>,
}

impl Pages {
    pub fn new(layout: &Layout) -> Self {
        Self { free: (0..layout.shape().pages).rev().collect() }
    }

    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// The pages of a segment, in order.
    pub fn chain<'a>(layout: &'a Layout, bytes: &'a [u8], segment: u32) -> impl Iterator<Item = u32> + 'a {
        let first = first_page(&bytes[layout.head(segment) as usize..][..4]);
        std::iter::successors(first, move |&page| PageHead::parse(&bytes[layout.page(page) as usize..]).next)
    }

    /// Offsets of a page's records.
    pub fn records(layout: &Layout, page: u32) -> impl DoubleEndedIterator<Item = u64> + use<> {
        let (begin, bytes) = (layout.page(page) + PAGE_HEAD as u64, layout.shape().slot_bytes as u64);
        (0..layout.shape().page_slots).map(move |record| begin + u64::from(record) * bytes)
    }

    /// The overflow of a segment, as a report describes it.
    pub fn overflow(layout: &Layout, bytes: &[u8], segment: u32) -> Overflow {
        let Some(page) = Self::chain(layout, bytes, segment).next() else { return Overflow::None };
        let last = Self::records(layout, page).rposition_in_use(bytes);
        Overflow::Page { page, used: last.map_or(0, |last| last as u8 + 1) }
    }

    /// Offset of the record of `key` in the pages of its segment.
    pub fn find(layout: &Layout, bytes: &[u8], segment: u32, key: u64) -> Option<u64> {
        Self::chain(layout, bytes, segment)
            .flat_map(|page| Self::records(layout, page))
            .find(|&at| Head::key(&bytes[at as usize..]) == Some(key))
    }

    /// A free record for the segment. If no page of its chain has one, the second value is a free page, which
    /// the caller must add to the chain by [`Self::link`].
    pub fn room(&self, layout: &Layout, bytes: &[u8], segment: u32) -> Option<(u64, Option<u32>)> {
        let within = Self::chain(layout, bytes, segment)
            .flat_map(|page| Self::records(layout, page))
            .find(|&at| Head::key(&bytes[at as usize..]).is_none());
        if let Some(at) = within {
            return Some((at, None));
        }
        let &page = self.free.last()?;
        Some((Self::records(layout, page).next()?, Some(page)))
    }

    /// Appends the page that [`Self::room`] has returned to the segment's chain.
    pub fn link<L: Lines + ?Sized>(&mut self, layout: &Layout, memory: &mut L, segment: u32, page: u32) {
        assert_eq!(self.free.pop(), Some(page), "the page that was named is the next free one");
        let last = Self::chain(layout, memory.bytes(), segment).last();
        memory.write(layout.page(page), &PageHead { segment: Some(segment), next: None }.encode());
        Self::set_next(layout, memory, segment, last, Some(page));
    }

    /// Frees the last pages of the segment as long as they are empty.
    pub fn trim<L: Lines + ?Sized>(&mut self, layout: &Layout, memory: &mut L, segment: u32) {
        loop {
            let bytes = memory.bytes();
            let (mut before, mut last) = (None, None);
            for page in Self::chain(layout, bytes, segment) {
                (before, last) = (last, Some(page));
            }
            let Some(page) = last else { return };
            if Self::records(layout, page).rposition_in_use(bytes).is_some() {
                return;
            }
            Self::set_next(layout, memory, segment, before, None);
            memory.write(layout.page(page), &PageHead { segment: None, next: None }.encode());
            self.free.push(page);
        }
    }

    /// Sets the page that follows `before`. Without `before`, sets the segment's first page.
    fn set_next<L: Lines + ?Sized>(
        layout: &Layout,
        memory: &mut L,
        segment: u32,
        before: Option<u32>,
        next: Option<u32>,
    ) {
        let word = next.map_or(0, |page| page + 1).to_be_bytes();
        match before {
            Some(page) => memory.write(layout.page(page) + 4, &word),
            None => memory.write(layout.head(segment), &word),
        }
    }
}

/// Finds the last record in use in a list of records.
trait LastInUse {
    fn rposition_in_use(self, bytes: &[u8]) -> Option<usize>;
}

impl<I: DoubleEndedIterator<Item = u64>> LastInUse for I {
    fn rposition_in_use(self, bytes: &[u8]) -> Option<usize> {
        let mut last = None;
        for (i, at) in self.enumerate() {
            if Head::key(&bytes[at as usize..]).is_some() {
                last = Some(i);
            }
        }
        last
    }
}
