//! Messages between an engine and the log of its host, used where
//! [`Parameters::durable_copies`](crate::Parameters::durable_copies) is not 0.
//!
//! The engine sends the records to be logged as replies to the caller [`HOST`] ([`Kind::Record`]). The host
//! reports how many records are durable ([`Kind::Durable`]: a count since the engine was made, 8 bytes). When a
//! process restarts, its host first replays the log: a snapshot's parts and the records behind it
//! ([`Kind::Restore`]). It ends with [`Kind::Restored`]: that was the whole log, and all of it is durable.
//!
//! ```text
//! Record     0 what(1) stream(1) zero(6)   then
//!            1  an entry: the message Write, of the stream with that number
//!            2  an epoch begins: epoch(4) closed epoch(4)   8 full(2) joining(2) node(1) zero(3)   16 lengths(8) x 16
//!            3  slots of a state transfer     4  sessions of a state transfer     5  its last record, without content
//!            (3, 4: stream 255 if they belong to a snapshot)
//!            6  the beginning of a snapshot: as 2, with the committed lengths; then, as in Sealed, cuts(1)
//!               zero(7) and the cuts
//!            7  the node has sealed an epoch(4): it accepts nothing more in it, and has every entry committed in it
//!            8  as 1, part of a snapshot: a committed entry that another member may lack
//!            (1, 2, 7 in a snapshot: records for which the log has no room before the snapshot is complete; they follow
//!            those in the log)
//! Snapshot   0 what(1) zero(3) from(4): 0 mark, 1 the beginning, 3 slots, 4 sessions, 8 entries
//! Part       0 next(4) zero(4)   then a record; no record if the part is not available yet
//! ```
//!
//! [`Kind::Record`]: crate::message::Kind::Record
//! [`Kind::Durable`]: crate::message::Kind::Durable
//! [`Kind::Restore`]: crate::message::Kind::Restore
//! [`Kind::Restored`]: crate::message::Kind::Restored

use weft_waist::{Epoch, NodeId, NodeSet, View};

use crate::message::{Cut, Lengths, Malformed, be16, be32, be64, put};

/// The caller number of the host's log. No client on the host has it.
pub const HOST: u32 = u32::MAX;

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum What {
    /// An entry of a stream.
    Entry = 1,
    /// An epoch begins.
    Opening = 2,
    /// Slots of a state transfer.
    Slots = 3,
    /// Sessions of a state transfer.
    Sessions = 4,
    /// The last chunk of a state transfer, without content.
    Complete = 5,
    /// The first part of a snapshot.
    State = 6,
    /// The node has sealed an epoch.
    Sealed = 7,
    /// A committed entry in a snapshot.
    Kept = 8,
}

impl What {
    /// Splits a record into its kind, its stream, and its content.
    ///
    /// # Errors
    /// The bytes are no record.
    pub fn of(record: &[u8]) -> Result<(Self, usize, &[u8]), Malformed> {
        let Some((head, rest)) = record.split_first_chunk::<8>() else {
            return Err(Malformed::Truncated { have: record.len(), need: 8 });
        };
        let what = match head[0] {
            1 => Self::Entry,
            2 => Self::Opening,
            3 => Self::Slots,
            4 => Self::Sessions,
            5 => Self::Complete,
            6 => Self::State,
            7 => Self::Sealed,
            8 => Self::Kept,
            _ => return Err(Malformed::Field("what")),
        };
        Ok((what, usize::from(head[1]), rest))
    }

    /// The 8-byte head of a record of this kind.
    pub const fn head(self, stream: usize) -> [u8; 8] {
        [self as u8, stream as u8, 0, 0, 0, 0, 0, 0]
    }
}

/// The opening of an epoch at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Opening {
    /// The node whose log this is.
    pub node: NodeId,
    /// The view of the epoch.
    pub view: View,
    /// The cut of the streams of the previous epoch; epoch 0 if the node was in none.
    pub closed: Cut,
}

impl Opening {
    /// No epoch is closed: the node begins without data.
    pub const FOUNDED: Cut = Cut { epoch: Epoch(0), lengths: [0; weft_waist::NODES_MAX] };
    /// Length in bytes of the encoded opening, without the cuts of a snapshot's first part.
    pub const BYTES: usize = 16 + 8 * weft_waist::NODES_MAX;

    /// Encodes the opening.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, self.view.epoch.0.to_be_bytes());
        put(&mut bytes, 4, self.closed.epoch.0.to_be_bytes());
        put(&mut bytes, 8, self.view.full.bits().to_be_bytes());
        put(&mut bytes, 10, self.view.joining.bits().to_be_bytes());
        bytes[12] = self.node.index() as u8;
        put_lengths(&mut bytes[16..], &self.closed.lengths);
        bytes
    }

    /// Decodes an opening, and returns it with the bytes that follow it.
    ///
    /// # Errors
    /// The bytes are too short, have epoch 0, or name a node that is no member.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let Some((bytes, rest)) = bytes.split_first_chunk::<{ Self::BYTES }>() else {
            return Err(Malformed::Truncated { have: bytes.len(), need: Self::BYTES });
        };
        let node = NodeId::new(bytes[12].into()).ok_or(Malformed::Field("node"))?;
        let view = View {
            epoch: Epoch(be32(bytes, 0)),
            full: NodeSet::from_bits(be16(bytes, 8)),
            joining: NodeSet::from_bits(be16(bytes, 10)),
        };
        let closed = Cut { epoch: Epoch(be32(bytes, 4)), lengths: lengths(&bytes[16..]) };
        if closed.epoch >= view.epoch || !view.members().contains(node) {
            return Err(Malformed::Field("epoch"));
        }
        Ok((Self { node, view, closed }, rest))
    }
}

pub(crate) fn put_lengths(bytes: &mut [u8], lengths: &Lengths) {
    for (place, length) in lengths.iter().enumerate() {
        put(bytes, 8 * place, length.to_be_bytes());
    }
}

pub(crate) fn lengths(bytes: &[u8]) -> Lengths {
    std::array::from_fn(|place| be64(bytes, 8 * place))
}
