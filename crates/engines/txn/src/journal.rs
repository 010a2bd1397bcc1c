//! What a node's host writes to its log on disk, where [`Parameters::has_disk`](crate::Parameters::has_disk) is set.
//!
//! ```text
//! record     1 number(8)  a record of the card's log, as in its ring
//! applied    2 number(8): the host has applied all records with smaller numbers
//! dropped    3 id(8): the attempt is withdrawn; its records are not to be applied
//! verdicts   4 { id(8) verdict(1) }: how a view change has marked attempts with records here; every node had all
//!            others as decided
//! opening    5 epoch(4) full(2) joining(2): the node begins to serve in this view
//! state      6 epoch(4) full(2) joining(2) decided(8) x 16 { id(8) shards(2) held(2) verdict(1) }
//!            decided: for each coordinator, all attempts of this epoch with smaller sequences are decided
//! page       7 as in Copied
//! ```
//!
//! The numbers of records grow by one; an aborted record may have none. A snapshot consists of a state, the records
//! that are not applied yet, and pages. The table of a node that has no snapshot begins as a founder's.

use weft_waist::{Epoch, NODES_MAX, NodeSet};

use crate::message::{Base, Held, Malformed, Page, Reader, Verdict, Watermarks};
use crate::transaction::TransactionId;

const HELD_BYTES: usize = 13;
const VERDICT_BYTES: usize = 9;

/// An entry of the log on disk.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the table above says what the fields are")]
pub enum Entry<'a> {
    Record { number: u64, record: &'a [u8] },
    Applied { number: u64 },
    Dropped { id: TransactionId },
    Verdicts(Verdicts<'a>),
    Opening { base: Base },
    State(State<'a>),
    Page(Page<'a>),
}

/// The verdicts of a view change.
#[derive(Clone, Copy, Debug)]
pub struct Verdicts<'a>(&'a [u8]);

/// The beginning of a snapshot: what a node must know of attempts in order to take part in the next view change.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// The last view in which the node served.
    pub base: Base,
    pub(crate) decided: Watermarks,
    held: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Decodes an entry.
    ///
    /// # Errors
    /// The entry is malformed.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        let r = &mut reader;
        Ok(match r.u8()? {
            1 => Self::Record { number: r.u64()?, record: r.rest() },
            2 => Self::Applied { number: r.u64()? },
            3 => Self::Dropped { id: id(r)? },
            4 => Self::Verdicts(Verdicts(whole(r.rest(), VERDICT_BYTES)?)),
            5 => Self::Opening { base: base(r)? },
            6 => {
                let base = base(r)?;
                let mut decided = [0; NODES_MAX];
                for watermark in &mut decided {
                    *watermark = r.u64()?;
                }
                Self::State(State { base, decided, held: whole(r.rest(), HELD_BYTES)? })
            }
            7 => Self::Page(Page::read(r)?),
            _ => return Err(Malformed::Kind),
        })
    }
}

impl Verdicts<'_> {
    /// The attempts, each with its verdict.
    ///
    /// # Errors
    /// An item is malformed; the others are not reached then.
    pub fn iter(&self) -> impl Iterator<Item = Result<(TransactionId, Verdict), Malformed>> {
        self.0.chunks_exact(VERDICT_BYTES).map(|item| {
            let r = &mut Reader(item);
            Ok((id(r)?, Verdict::parse(r.u8()?)?))
        })
    }
}

impl State<'_> {
    /// The attempts with records at the node that may not be decided at every node.
    ///
    /// # Errors
    /// As [`Verdicts::iter`].
    pub fn held(&self) -> impl Iterator<Item = Result<Held, Malformed>> {
        self.held.chunks_exact(HELD_BYTES).map(|item| {
            let r = &mut Reader(item);
            Ok(Held { id: id(r)?, shards: r.u16()?, held: r.u16()?, verdict: Verdict::parse(r.u8()?)? })
        })
    }
}

fn whole(bytes: &[u8], item: usize) -> Result<&[u8], Malformed> {
    if bytes.len().is_multiple_of(item) { Ok(bytes) } else { Err(Malformed::Length) }
}

fn id(reader: &mut Reader<'_>) -> Result<TransactionId, Malformed> {
    TransactionId::from_bits(reader.u64()?).ok_or(Malformed::Field("identifier"))
}

fn base(reader: &mut Reader<'_>) -> Result<Base, Malformed> {
    let epoch = Epoch(reader.u32()?);
    let (full, joining) = (NodeSet::from_bits(reader.u16()?), NodeSet::from_bits(reader.u16()?));
    Ok(Base { epoch, full, joining })
}

/// The head of a record's entry; the record follows.
pub fn record(number: u64) -> [u8; 9] {
    numbered(1, number)
}

/// Encodes how far the host has applied records.
pub fn applied(number: u64) -> [u8; 9] {
    numbered(2, number)
}

pub(crate) fn dropped(id: TransactionId) -> [u8; 9] {
    numbered(3, id.bits())
}

/// The head of a page's entry; the page follows.
pub const PAGE: u8 = 7;

fn numbered(kind: u8, number: u64) -> [u8; 9] {
    let mut bytes = [kind; 9];
    bytes[1..].copy_from_slice(&number.to_be_bytes());
    bytes
}

pub(crate) fn verdicts(out: &mut Vec<u8>, verdicts: impl Iterator<Item = (TransactionId, Verdict)>) {
    out.push(4);
    for (id, verdict) in verdicts {
        out.extend_from_slice(&id.bits().to_be_bytes());
        out.push(verdict as u8);
    }
}

pub(crate) fn opening(out: &mut Vec<u8>, base: &Base) {
    out.push(5);
    write_base(out, base);
}

pub(crate) fn state(out: &mut Vec<u8>, base: &Base, decided: &Watermarks, held: impl Iterator<Item = Held>) {
    out.push(6);
    write_base(out, base);
    for watermark in decided {
        out.extend_from_slice(&watermark.to_be_bytes());
    }
    for held in held {
        out.extend_from_slice(&held.id.bits().to_be_bytes());
        out.extend_from_slice(&held.shards.to_be_bytes());
        out.extend_from_slice(&held.held.to_be_bytes());
        out.push(held.verdict as u8);
    }
}

fn write_base(out: &mut Vec<u8>, base: &Base) {
    out.extend_from_slice(&base.epoch.0.to_be_bytes());
    out.extend_from_slice(&base.full.bits().to_be_bytes());
    out.extend_from_slice(&base.joining.bits().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use weft_waist::NodeId;

    use super::*;

    fn id(coordinator: usize, sequence: u64) -> TransactionId {
        TransactionId::new(NodeId::new(coordinator).unwrap(), Epoch(3), sequence)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_state_is_what_was_written(
            (epoch, full, joining) in any::<(u32, u16, u16)>(),
            decided in any::<Watermarks>(),
            attempts in vec((0usize..16, 0u64..1 << 36, any::<u16>(), any::<u16>(), 0u8..3), 0..40),
        ) {
            let base = Base {
                epoch: Epoch(epoch),
                full: NodeSet::from_bits(full),
                joining: NodeSet::from_bits(joining),
            };
            let held = attempts.iter().map(|&(coordinator, sequence, shards, held, verdict)| Held {
                id: id(coordinator, sequence),
                shards,
                held,
                verdict: Verdict::parse(verdict).unwrap(),
            });
            let mut bytes = Vec::new();
            state(&mut bytes, &base, &decided, held.clone());
            let Ok(Entry::State(read)) = Entry::parse(&bytes) else { panic!("it is a state") };
            prop_assert_eq!((read.base, read.decided), (base, decided));
            prop_assert_eq!(read.held().collect::<Result<Vec<_>, _>>().unwrap(), held.collect::<Vec<_>>());
            prop_assert!(Entry::parse(&bytes[..bytes.len() - 1]).is_err());
        }

        /// Also malformed entries are read without a panic.
        #[test]
        fn any_bytes_can_be_read(bytes in vec(any::<u8>(), 0..200), kind in 0u8..9) {
            match Entry::parse(&[&[kind][..], &bytes].concat()) {
                Ok(Entry::Verdicts(verdicts)) => verdicts.iter().for_each(drop),
                Ok(Entry::State(state)) => state.held().for_each(drop),
                _ => {}
            }
        }
    }

    #[test]
    fn short_entries_are_what_was_written() {
        let attempts = [(id(1, 7), Verdict::Committed), (id(2, 8), Verdict::Aborted)];
        let mut bytes = Vec::new();
        verdicts(&mut bytes, attempts.into_iter());
        let Ok(Entry::Verdicts(read)) = Entry::parse(&bytes) else { panic!("these are verdicts") };
        assert_eq!(read.iter().map(Result::unwrap).collect::<Vec<_>>(), attempts);
        assert!(
            matches!(Entry::parse(&dropped(id(1, 7))), Ok(Entry::Dropped { id: read }) if read == id(1, 7))
        );
        assert!(matches!(Entry::parse(&applied(9)), Ok(Entry::Applied { number: 9 })));
        let written = [&record(5)[..], b"bytes"].concat();
        assert!(matches!(Entry::parse(&written), Ok(Entry::Record { number: 5, record: b"bytes" })));
        let base = Base { epoch: Epoch(2), full: NodeSet::first(3), joining: NodeSet::EMPTY };
        let mut bytes = Vec::new();
        opening(&mut bytes, &base);
        assert!(matches!(Entry::parse(&bytes), Ok(Entry::Opening { base: read }) if read == base));
    }
}
