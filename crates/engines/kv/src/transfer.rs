//! State transfer: how a joining node gets its data.
//!
//! The joining node requests state from one node at a time: from each full member, in ascending order, the buckets
//! that it leads, then from the lowest one the sessions. A position is the number of a slot (bucket times ways
//! plus way) in the sender's table, or the index of an entry in its session table. An answer is up to
//! [`CHUNKS_MAX`] chunks, all composed at the same moment. A chunk holds the records of the positions from `from`
//! up to, not including, `next`: as many as fit. Its tag is the committed length of the sender's stream at that
//! moment; the chunk's buckets reflect the stream up to there.
//!
//! ```text
//! slot      0 version(8)   8 value length(2) zero(6)   16 key(K)   value, padded with zeros to whole 64-bit words
//! session   0 client(8)    then 16 times: request(8) version(8) status(1) zero(7)
//! ```
//!
//! The joining node begins with an empty table and applies every entry of the epoch's streams to it, whether or
//! not the entry's bucket has arrived. It accepts the chunk that begins at its cursor, unless it has applied more
//! of the stream than the tag. It applies the stream up to the tag and then installs each slot of the chunk that
//! is newer than its table's: nobody has written these in this epoch. A key deleted before the tag is not in the
//! chunk; a key deleted after it is deleted here by the stream. So neither the end of a chunk nor changes between
//! two chunks matter. If a chunk is lost, those that follow it are useless; a timer repeats the request from the
//! cursor.

use weft_waist::{Epoch, NodeId, NodeSet};

use crate::message::{SESSION_BYTES, StateChunk, StateRequest, What, be16, be64, put};
use crate::parameters::{Parameters, SLOT_HEADER_BYTES};
use crate::stream::Pace;

/// Position that stands for the end of the table.
pub(crate) const END: u32 = u32::MAX;

/// The most chunks of one answer.
pub(crate) const CHUNKS_MAX: usize = 16;

/// The most buckets, or entries of the session table, that one answer looks at. It limits the work of an event.
pub(crate) const SCAN_MAX: u32 = 1024;

/// Buffer in which the records of a chunk are composed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

    /// Appends a slot; if it does not fit, returns `false` and changes nothing.
    #[must_use]
    pub fn push_slot(&mut self, version: u64, key: &[u8], value: &[u8]) -> bool {
        let mut head = [0; SLOT_HEADER_BYTES];
        put(&mut head, 0, version.to_be_bytes());
        put(&mut head, 8, (value.len() as u16).to_be_bytes());
        let pad = value.len().next_multiple_of(8) - value.len();
        self.push(&[&head, key, value, &[0; 8][..pad]])
    }

    /// Appends a session; if it does not fit, returns `false` and changes nothing.
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

/// The slots of a chunk. The last item is `None` if the bytes are malformed.
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

/// The sessions of a chunk. The last item is `None` if the bytes are malformed.
pub(crate) fn sessions(records: &[u8]) -> impl Iterator<Item = Option<&[u8; SESSION_BYTES]>> {
    records.chunks(SESSION_BYTES).map(|bytes| bytes.try_into().ok())
}

/// What a joining node still has to fetch, and from which nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Transfer {
    /// Nodes whose buckets are still missing. The first is the current source.
    buckets_of: NodeSet,
    /// Node whose sessions are still missing; it is the source after the last bucket.
    sessions_of: Option<NodeId>,
    /// The first position that has not arrived from the current source.
    cursor: u32,
    /// Number of the latest request; chunks repeat it.
    attempt: u32,
    pub pace: Pace,
}

impl Transfer {
    /// A transfer that has nothing to fetch.
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            buckets_of: NodeSet::EMPTY,
            sessions_of: None,
            cursor: 0,
            attempt: 0,
            pace: Pace::new(parameters),
        }
    }

    /// Starts to fetch buckets and sessions from these nodes; with an empty set, stops fetching.
    pub fn begin(&mut self, sources: NodeSet) {
        self.buckets_of = sources;
        self.sessions_of = sources.nth(0);
        self.cursor = 0;
    }

    /// The current source, and the kind of state to fetch there. `None` if nothing is missing.
    fn source(&self) -> Option<(NodeId, What)> {
        let buckets = self.buckets_of.nth(0).map(|node| (node, What::Buckets));
        buckets.or(self.sessions_of.map(|node| (node, What::Sessions)))
    }

    /// The cursor, if `peer` is the current source.
    pub fn waits_for(&self, peer: NodeId) -> Option<u64> {
        self.source().filter(|(source, _)| *source == peer).map(|_| u64::from(self.cursor))
    }

    pub fn is_done(&self) -> bool {
        self.source().is_none()
    }

    /// The next request, and its destination.
    pub fn ask(&mut self, epoch: Epoch) -> Option<(NodeId, StateRequest)> {
        let (node, what) = self.source()?;
        self.attempt = self.attempt.wrapping_add(1);
        Some((node, StateRequest { epoch, attempt: self.attempt, what, from: self.cursor }))
    }

    /// Whether a chunk is the next one that the latest request awaits.
    pub fn awaits(&self, from: NodeId, chunk: &StateChunk<'_>) -> bool {
        self.source() == Some((from, chunk.what))
            && (self.attempt, self.cursor) == (chunk.attempt, chunk.from)
    }

    /// Notes that everything before `next` has arrived from the current source.
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
