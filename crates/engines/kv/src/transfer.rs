//! How a joining node gets its state.
//!
//! The joiner asks one node at a time: each full member for the buckets that it leads, in ascending order, then the
//! lowest one for its sessions. A position is the number of a slot (bucket times ways plus way) in the table of the
//! node that is asked, or of a place in its session table. An answer is up to [`CHUNKS_MAX`] chunks, all made in one
//! moment; each is complete in itself: it holds the records of the positions from `from` to before `next`, as many as
//! fit. Its tag is how much of the sender's stream was committed in that moment, and so is in its buckets.
//!
//! ```text
//! slot      0 version(8)   8 value length(2) zero(6)   16 key(K)   value, padded with zeros to whole 64-bit words
//! session   0 client(8)    then 16 times: request(8) version(8) status(1) zero(7)
//! ```
//!
//! The joiner begins with an empty table and applies every entry of the epoch's streams to it, whether the bucket has
//! come or not. It takes the chunk that begins at its cursor, unless it has applied more of the stream than the tag.
//! It applies the stream up to the tag and then installs each slot that is newer than what its table holds: those are
//! the ones that nobody has written in this epoch. What was deleted before the tag is not in the chunk, what is
//! deleted after it is deleted here too. So it does not matter where a chunk ends or what changes between two. A lost
//! chunk makes those behind it useless; a timer asks again from the cursor.

use weft_waist::{Epoch, NodeId, NodeSet};

use crate::message::{SESSION_BYTES, StateChunk, StateRequest, What, be16, be64, put};
use crate::parameters::{Parameters, SLOT_HEADER_BYTES};
use crate::stream::Pace;

/// The position behind the last.
pub(crate) const END: u32 = u32::MAX;

/// The most chunks of one answer.
pub(crate) const CHUNKS_MAX: usize = 16;

/// Buckets, or places of the session table, that are looked at for one answer: bounds the work of an event.
pub(crate) const SCAN_MAX: u32 = 1024;

/// The records of a chunk as they are composed.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    capacity: usize,
    bytes: Vec<u8>,
}

impl Records {
    pub fn new(parameters: &Parameters) -> Self {
        let capacity = parameters.chunk_bytes - StateChunk::HEADER;
        Self { capacity, bytes: Vec::with_capacity(capacity) }
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends a slot; `false`, and nothing changed, if it does not fit.
    #[must_use]
    pub fn push_slot(&mut self, version: u64, key: &[u8], value: &[u8]) -> bool {
        let mut head = [0; SLOT_HEADER_BYTES];
        put(&mut head, 0, version.to_be_bytes());
        put(&mut head, 8, (value.len() as u16).to_be_bytes());
        let pad = value.len().next_multiple_of(8) - value.len();
        self.push(&[&head, key, value, &[0; 8][..pad]])
    }

    /// Appends a session; `false`, and nothing changed, if it does not fit.
    #[must_use]
    pub fn push_session(&mut self, session: &[u8; SESSION_BYTES]) -> bool {
        self.push(&[session])
    }

    fn push(&mut self, parts: &[&[u8]]) -> bool {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let fits = self.bytes.len() + length <= self.capacity;
        if fits {
            parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        }
        fits
    }
}

/// A slot of a chunk: version, key, value.
type ChunkEntry<'a> = (u64, &'a [u8], &'a [u8]);

/// The slots of a chunk, the last one `None` if the bytes are no slots.
pub(crate) fn slots(
    mut records: &[u8],
    key_field: usize,
    value_max: usize,
) -> impl Iterator<Item = Option<ChunkEntry<'_>>> {
    std::iter::from_fn(move || {
        if records.is_empty() {
            return None;
        }
        let parsed = parse_slot(records, key_field, value_max);
        records = parsed.map_or(&[], |(_, after)| after);
        Some(parsed.map(|(slot, _)| slot))
    })
}

fn parse_slot(bytes: &[u8], key_field: usize, value_max: usize) -> Option<(ChunkEntry<'_>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(SLOT_HEADER_BYTES)?;
    let length = usize::from(be16(head, 8));
    if length == 0 || length > value_max {
        return None;
    }
    let (key, rest) = rest.split_at_checked(key_field)?;
    let (value, rest) = rest.split_at_checked(length.next_multiple_of(8))?;
    Some(((be64(head, 0), key, &value[..length]), rest))
}

/// The sessions of a chunk, the last one `None` if the bytes are no sessions.
pub(crate) fn sessions(records: &[u8]) -> impl Iterator<Item = Option<&[u8; SESSION_BYTES]>> {
    records.chunks(SESSION_BYTES).map(|bytes| bytes.try_into().ok())
}

/// State that a joining node has yet to fetch, and its sources.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    /// Nodes whose buckets are still missing. The first is being asked.
    buckets_of: NodeSet,
    /// Node whose sessions are still missing; asked after the last bucket.
    sessions_of: Option<NodeId>,
    /// The first position of the source at hand that has yet to come.
    cursor: u32,
    /// Counts requests; chunks repeat it.
    attempt: u32,
    pub pace: Pace,
}

impl Transfer {
    /// Nothing is missing.
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            buckets_of: NodeSet::EMPTY,
            sessions_of: None,
            cursor: 0,
            attempt: 0,
            pace: Pace::new(parameters),
        }
    }

    /// Fetches everything from these nodes; nothing if there are none.
    pub fn begin(&mut self, sources: NodeSet) {
        self.buckets_of = sources;
        self.sessions_of = sources.nth(0);
        self.cursor = 0;
    }

    /// Node to ask next, and for which part. `None` if nothing is missing.
    fn source(&self) -> Option<(NodeId, What)> {
        let buckets = self.buckets_of.nth(0).map(|node| (node, What::Buckets));
        buckets.or(self.sessions_of.map(|node| (node, What::Sessions)))
    }

    /// Progress of a source that is being asked.
    pub fn waits_for(&self, peer: NodeId) -> Option<u64> {
        self.source().filter(|(source, _)| *source == peer).map(|_| u64::from(self.cursor))
    }

    pub fn is_done(&self) -> bool {
        self.source().is_none()
    }

    /// The next request, and for whom.
    pub fn ask(&mut self, epoch: Epoch) -> Option<(NodeId, StateRequest)> {
        let (node, what) = self.source()?;
        self.attempt = self.attempt.wrapping_add(1);
        Some((node, StateRequest { epoch, attempt: self.attempt, what, from: self.cursor }))
    }

    /// Whether a chunk is the next one of the answer to the latest request.
    pub fn awaits(&self, from: NodeId, chunk: &StateChunk<'_>) -> bool {
        self.source() == Some((from, chunk.what))
            && (self.attempt, self.cursor) == (chunk.attempt, chunk.from)
    }

    /// Everything before `next` has come from the source at hand.
    pub fn advance(&mut self, next: u32) {
        self.cursor = next;
        if next == END {
            self.cursor = 0;
            match self.buckets_of.nth(0) {
                Some(node) => self.buckets_of = self.buckets_of.without(node),
                None => self.sessions_of = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn slots_come_out_as_they_went_in(slots in prop::collection::vec((any::<u64>(), any::<u64>(), 1usize..300), 0..20)) {
            let mut records = Records::new(&Parameters::default());
            let fitting: Vec<_> = slots.into_iter().take_while(|&(version, key, length)| {
                records.push_slot(version, &key.to_be_bytes(), &vec![version as u8; length])
            }).collect();
            prop_assert!(records.bytes().len() <= 1280 - 32);
            let read: Vec<_> = super::slots(records.bytes(), 8, 1024).map(|slot| {
                let (version, key, value) = slot.unwrap();
                assert!(value.iter().all(|&byte| byte == version as u8));
                (version, u64::from_be_bytes(key.try_into().unwrap()), value.len())
            }).collect();
            prop_assert_eq!(read, fitting);
        }

        #[test]
        fn hostile_records_end_the_iteration(bytes in prop::collection::vec(any::<u8>(), 0..1248)) {
            prop_assert!(slots(&bytes, 8, 1024).count() <= bytes.len());
            prop_assert!(sessions(&bytes).count() <= bytes.len());
        }
    }

    fn node(index: usize) -> NodeId {
        NodeId::new(index).unwrap()
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut records = Records::new(&Parameters::default());
        assert!(records.push_slot(1, &[2; 8], &[3; 1024]));
        let before = records.bytes().to_vec();
        assert!(!records.push_slot(1, &[2; 8], &[3; 177]));
        assert!(!records.push_session(&[4; SESSION_BYTES]));
        assert_eq!(records.bytes(), before);
        assert!(records.push_slot(1, &[2; 8], &[3; 176]));
        assert_eq!(records.bytes().len(), 1280 - 32);
    }

    #[test]
    fn sources_are_asked_one_after_the_other() {
        let mut transfer = Transfer::new(&Parameters::default());
        assert!(transfer.is_done() && transfer.ask(Epoch(2)).is_none());
        transfer.begin(NodeSet::from_iter([node(1), node(3)]));
        let mut asked = Vec::new();
        for next in [31, 33, END, 64, END, 9, END] {
            let (from, request) = transfer.ask(Epoch(2)).unwrap();
            asked.push((from.index(), request.what, request.from));
            let StateRequest { epoch, attempt, what, from: start } = request;
            let chunk = |attempt, start| StateChunk {
                epoch,
                attempt,
                what,
                last: true,
                from: start,
                next,
                tag: 0,
                records: &[],
            };
            assert!(!transfer.awaits(from, &chunk(attempt - 1, start)), "late");
            assert!(!transfer.awaits(from, &chunk(attempt, start + 1)), "behind one that was lost");
            assert!(!transfer.awaits(node(2), &chunk(attempt, start)), "from another");
            assert!(transfer.awaits(from, &chunk(attempt, start)));
            transfer.advance(next);
        }
        use What::{Buckets, Sessions};
        let expected = [
            (1, Buckets, 0),
            (1, Buckets, 31),
            (1, Buckets, 33),
            (3, Buckets, 0),
            (3, Buckets, 64),
            (1, Sessions, 0),
            (1, Sessions, 9),
        ];
        assert_eq!(asked, expected);
        assert!(transfer.is_done());
    }
}
