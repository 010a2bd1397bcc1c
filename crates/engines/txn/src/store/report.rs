//! The host's reports to the card about segments, and how they determine where a look-up reads.
//!
//! The card keeps a few bits for each segment (section 4.1.3). They come from the host. After an insertion or
//! deletion the host knows which segments have changed ([`super::Change`]). It sends a [`Report`] of each
//! with its acknowledgement. In Xenic the card learns of changes by its own reads, and so each look-up reads
//! one object more in case the information is out of date.
//!
//! **Highest** is Xenic's d_i: the highest displacement in the segment, in one byte. A look-up reads from the
//! home to that displacement.
//!
//! **Runs** takes two bytes more, and describes where the objects of each home are. A Robin Hood table keeps
//! objects in the order of their homes. So the objects of a home are adjacent, and form a run. Six bits hold
//! the distance from the segment's first home to the start of the first run. Then, for each home, there is a
//! 1 for each slot of its run, and a 0. A run starts where the previous one ends, or at its home if that is
//! later. This is the `runend` of a quotient filter (Bender and others, VLDB 2012) in unary. Eighteen bits
//! describe eight homes with ten objects. Further objects are cut off; a look-up of one of them reads a few
//! slots from the earliest possible position.

use super::record::be32;

/// How precisely the card's index describes where a segment's objects lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// The highest displacement: one byte a segment.
    Highest,
    /// Positions of the objects of each home: three bytes a segment.
    Runs,
}

impl Precision {
    /// Bytes of the description of a segment.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Highest => 1,
            Self::Runs => 3,
        }
    }
}

/// Slots that are read for a run whose end was cut off.
const GUESS: u32 = 3;

/// Bits for the start of the first run. All ones: unknown.
const START_BITS: u32 = 6;
const START_UNKNOWN: u32 = (1 << START_BITS) - 1;
/// Bits for the runs.
const RUN_BITS: u32 = 18;

/// The description of where a segment's objects lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Knowledge([u8; 3]);

impl Knowledge {
    /// No information.
    pub const UNKNOWN: Self = Self([u8::MAX; 3]);

    /// Describes a segment. `objects`: home and slot of each object, in the order of the slots. Both count
    /// from the segment's first home.
    pub fn of(precision: Precision, objects: impl Iterator<Item = (u32, u32)>) -> Self {
        match precision {
            Precision::Highest => {
                let highest = objects.map(|(home, slot)| slot - home).max().unwrap_or(0);
                Self([u8::try_from(highest).map_or(u8::MAX - 1, |highest| highest.min(u8::MAX - 1)), 0, 0])
            }
            Precision::Runs => Self::runs(objects),
        }
    }

    fn runs(objects: impl Iterator<Item = (u32, u32)>) -> Self {
        let mut objects = objects.peekable();
        let start = objects.peek().map_or(0, |&(_, slot)| slot);
        if start >= START_UNKNOWN {
            return Self::UNKNOWN;
        }
        let (mut code, mut used, mut home, mut next) = (0u32, 0, 0, start);
        for (of, slot) in objects {
            // A zero ends each home that precedes this object's home.
            while home < of {
                (home, used) = (home + 1, used + 1);
                next = next.max(home);
            }
            while next <= slot {
                if used < RUN_BITS {
                    code |= 1 << used;
                }
                (next, used) = (next + 1, used + 1);
            }
        }
        let word = start << RUN_BITS | code;
        let [_, bytes @ ..] = word.to_be_bytes();
        Self(bytes)
    }

    /// The range of slots to read for objects of `home`, counted from that home; `None` if nothing is known.
    /// With [`Precision::Highest`], `ahead` more slots are read.
    fn reach(self, precision: Precision, home: u32, ahead: u32) -> Option<(u32, u32)> {
        if self == Self::UNKNOWN {
            return None;
        }
        match precision {
            Precision::Highest => Some((0, u32::from(self.0[0]) + 1 + ahead)),
            Precision::Runs => {
                let [a, b, c] = self.0;
                let (begin, end) = Self::run(u32::from_be_bytes([0, a, b, c]), home);
                Some((begin - home, end + ahead - home))
            }
        }
    }

    /// The run of a home, as a range of slots counted from the segment's first home.
    fn run(word: u32, home: u32) -> (u32, u32) {
        let (mut next, mut used) = (word >> RUN_BITS, 0);
        for of in 0..=home {
            next = next.max(of);
            let begin = next;
            loop {
                if used == RUN_BITS {
                    let begin = if of == home { begin } else { next.max(home) };
                    return (begin, next.max(home) + GUESS);
                }
                used += 1;
                if word >> (used - 1) & 1 == 0 {
                    break;
                }
                next += 1;
            }
            if of == home {
                return (begin, next);
            }
        }
        unreachable!("the loop ends at the home")
    }
}

/// What the card knows of a segment's overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// No information; the segment's head in host memory must be read.
    Unknown,
    /// The segment has no overflow.
    None,
    /// The first page, and its number of records up to the last one in use.
    Page {
        /// The page's number.
        page: u32,
        /// Records to read.
        used: u8,
    },
}

impl Overflow {
    /// Packs the overflow into four bytes for the page and one for the records.
    pub(crate) fn pack(self) -> (u32, u8) {
        match self {
            Self::Unknown => (u32::MAX, 0),
            Self::None => (0, 0),
            Self::Page { page, used } => (page + 1, used),
        }
    }

    pub(crate) fn unpack(page: u32, used: u8) -> Self {
        match page {
            u32::MAX => Self::Unknown,
            0 => Self::None,
            _ => Self::Page { page: page - 1, used },
        }
    }
}

/// The host's report of one segment that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The segment.
    pub segment: u32,
    pub(crate) knowledge: Knowledge,
    /// The segment's overflow.
    pub overflow: Overflow,
}

impl Report {
    /// Bytes of an encoded report.
    pub const BYTES: usize = 12;

    /// Encodes the report: segment(4) knowledge(3) used(1) page(4), big-endian.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (page, used) = self.overflow.pack();
        bytes[..4].copy_from_slice(&self.segment.to_be_bytes());
        bytes[4..7].copy_from_slice(&self.knowledge.0);
        bytes[7] = used;
        bytes[8..].copy_from_slice(&page.to_be_bytes());
        bytes
    }

    /// Decodes a report.
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Self {
        Self {
            segment: be32(bytes, 0),
            knowledge: Knowledge([bytes[4], bytes[5], bytes[6]]),
            overflow: Overflow::unpack(be32(bytes, 8), bytes[7]),
        }
    }
}

/// Where a look-up starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Range of slots of the first read, counted from the key's home; `None`: unknown.
    pub reach: Option<(u32, u32)>,
    /// The overflow of the key's segment.
    pub overflow: Overflow,
}

impl Hint {
    /// A hint without information.
    pub const NONE: Self = Self { reach: None, overflow: Overflow::Unknown };

    /// The hint for the home with index `home` in a segment that is described so.
    pub(crate) fn of(
        knowledge: Knowledge,
        overflow: Overflow,
        precision: Precision,
        home: u32,
        ahead: u32,
    ) -> Self {
        Self { reach: knowledge.reach(precision, home, ahead), overflow }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Random objects of a segment in the order of their slots, as in a Robin Hood table. Gaps between them
    /// are possible, as deletions leave them.
    fn segment() -> impl Strategy<Value = Vec<(u32, u32)>> {
        let objects = prop::collection::vec((0u32..8, 0u32..2), 0..14);
        (0u32..12, objects).prop_map(|(start, mut objects)| {
            objects.sort_by_key(|&(home, _)| home);
            let mut next = start;
            objects
                .iter()
                .map(|&(home, gap)| {
                    let slot = next.max(home) + gap / 2;
                    next = slot + 1;
                    (home, slot)
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn a_description_covers_every_object(objects in segment()) {
            for precision in [Precision::Highest, Precision::Runs] {
                let knowledge = Knowledge::of(precision, objects.iter().copied());
                let mut described = 0;
                for &(home, slot) in &objects {
                    let (begin, end) = knowledge.reach(precision, home, 0).unwrap();
                    described += slot + 1 - objects[0].1;
                    // A range of a run that was cut off starts early enough, but may end too early.
                    prop_assert!(begin <= slot - home);
                    prop_assert!(slot - home < end || (precision == Precision::Runs && objects.len() > 10));
                }
                let _ = described;
            }
        }

        #[test]
        fn runs_are_exact(counts in prop::collection::vec(0u32..3, 8), start in 0u32..20) {
            prop_assume!(counts.iter().sum::<u32>() <= 10);
            let (mut next, mut objects, mut runs) = (start, Vec::new(), Vec::new());
            for (home, &count) in (0..).zip(&counts) {
                next = next.max(home);
                runs.push((next, next + count));
                objects.extend((next..next + count).map(|slot| (home, slot)));
                next += count;
            }
            let knowledge = Knowledge::of(Precision::Runs, objects.iter().copied());
            for (home, &(begin, end)) in (0..).zip(&runs) {
                if begin < end {
                    let reach = |ahead| knowledge.reach(Precision::Runs, home, ahead);
                    prop_assert_eq!(reach(0), Some((begin - home, end - home)));
                    prop_assert_eq!(reach(3), Some((begin - home, end - home + 3)));
                }
            }
        }

        #[test]
        fn a_report_is_read_as_it_was_written(bytes: [u8; Report::BYTES]) {
            let report = Report::parse(&bytes);
            prop_assert_eq!(Report::parse(&report.encode()), report);
        }
    }
}
