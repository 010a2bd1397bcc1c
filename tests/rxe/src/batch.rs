//! Batches of messages, and the memory contents that they must produce.

use crate::random::{Random, fill};

/// Queue pairs in use at a time.
pub const QUEUE_PAIRS: usize = 8;
/// Outstanding messages on one queue pair, in each direction.
pub const SLOTS: usize = 4;
/// Bytes of a buffer.
pub const SLOT_BYTES: usize = 16 << 10;
/// Bytes of each end's memory: for each queue pair, buffers of the messages that it initiates and of those
/// that it receives.
pub const MEMORY_BYTES: usize = QUEUE_PAIRS * 2 * SLOTS * SLOT_BYTES;
/// Bytes of payload in a packet, used to choose lengths close to multiples of it.
const PATH_MTU: u64 = 1024;

/// An end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Weft,
    Linux,
}

impl End {
    pub const BOTH: [Self; 2] = [Self::Weft, Self::Linux];

    pub const fn other(self) -> Self {
        match self {
            Self::Weft => Self::Linux,
            Self::Linux => Self::Weft,
        }
    }
}

/// A kind of message, in the order of [`KINDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Write,
    WriteWithImmediate,
    Send,
    SendWithImmediate,
    Read,
    FetchAdd,
    CompareSwap,
}

pub const KINDS: [Kind; 7] = [
    Kind::Write,
    Kind::WriteWithImmediate,
    Kind::Send,
    Kind::SendWithImmediate,
    Kind::Read,
    Kind::FetchAdd,
    Kind::CompareSwap,
];

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Write => "WRITE",
            Self::WriteWithImmediate => "WRITE_WITH_IMMEDIATE",
            Self::Send => "SEND",
            Self::SendWithImmediate => "SEND_WITH_IMMEDIATE",
            Self::Read => "READ",
            Self::FetchAdd => "FETCH_ADD",
            Self::CompareSwap => "CMP_SWAP",
        }
    }

    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::FetchAdd | Self::CompareSwap)
    }

    pub const fn has_immediate(self) -> bool {
        matches!(self, Self::WriteWithImmediate | Self::SendWithImmediate)
    }

    /// Whether a message of this kind consumes a receive request of its target.
    pub const fn is_received(self) -> bool {
        self.has_immediate() || matches!(self, Self::Send)
    }
}

/// A message. Offsets are into the memories.
#[derive(Clone, Debug)]
pub struct Message {
    /// Index of the message in the batch.
    pub id: u64,
    pub queue_pair: usize,
    pub from: End,
    pub kind: Kind,
    /// The initiator's buffer.
    pub local: usize,
    /// Offset of the target's buffer.
    pub remote: usize,
    pub length: usize,
    /// The immediate value, the addend or the compare value.
    pub a: u64,
    /// The value that a swap stores.
    pub b: u64,
}

/// Bytes to write into a memory before a batch starts: end, offset, length, seed.
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    pub end: End,
    pub offset: usize,
    pub length: usize,
    pub seed: u64,
}

/// Messages that are outstanding together, in order on each queue pair.
#[derive(Debug, Default)]
pub struct Batch {
    pub fills: Vec<Fill>,
    pub messages: Vec<Message>,
}

/// The expected contents of both memories.
#[derive(Debug)]
pub struct Shadow {
    images: [Vec<u8>; 2],
}

impl Shadow {
    pub fn new() -> Self {
        Self { images: [vec![0; MEMORY_BYTES], vec![0; MEMORY_BYTES]] }
    }

    pub fn image(&self, end: End) -> &[u8] {
        &self.images[end as usize]
    }

    pub fn fill(&mut self, part: Fill) {
        fill(&mut self.images[part.end as usize][part.offset..part.offset + part.length], part.seed);
    }

    fn word(&self, end: End, offset: usize) -> u64 {
        u64::from_le_bytes(self.image(end)[offset..offset + 8].try_into().expect("8 bytes"))
    }

    /// Executes a message in the model.
    pub fn apply(&mut self, message: &Message) {
        let Message { from, local, remote, length, .. } = *message;
        let target = from.other();
        let (source, sink) = match message.kind {
            Kind::Read | Kind::FetchAdd | Kind::CompareSwap => ((target, remote), (from, local)),
            _ => ((from, local), (target, remote)),
        };
        let word = message.kind.is_atomic().then(|| self.word(target, remote));
        let bytes = self.image(source.0)[source.1..source.1 + length].to_vec();
        self.images[sink.0 as usize][sink.1..sink.1 + length].copy_from_slice(&bytes);
        let new = match (message.kind, word) {
            (Kind::FetchAdd, Some(old)) => old.wrapping_add(message.a),
            (Kind::CompareSwap, Some(old)) if old == message.a => message.b,
            _ => return,
        };
        self.images[target as usize][remote..remote + 8].copy_from_slice(&new.to_le_bytes());
    }
}

/// Offset of a buffer: of the messages that the end initiates, or of those that it receives.
const fn slot(queue_pair: usize, is_target: bool, slot: usize) -> usize {
    ((queue_pair * 2 + is_target as usize) * SLOTS + slot) * SLOT_BYTES
}

/// A length: zero, one byte, about a packet, or random.
fn length(random: &mut Random) -> usize {
    let length = match random.below(8) {
        0 => random.below(2),
        1 => PATH_MTU - 1 + random.below(3),
        2 | 3 => random.below(65),
        4 | 5 => random.below(4 * PATH_MTU),
        _ => random.below(SLOT_BYTES as u64 + 1),
    };
    length as usize
}

impl Batch {
    /// Random messages of all kinds, from both ends, on all queue pairs.
    pub fn mixed(random: &mut Random) -> Self {
        let mut batch = Self::default();
        for queue_pair in 0..QUEUE_PAIRS {
            for from in End::BOTH {
                for index in 0..SLOTS {
                    let kind = KINDS[random.below(KINDS.len() as u64) as usize];
                    let length = if kind.is_atomic() { 8 } else { length(random) };
                    let mut place = |base: usize| {
                        let offset = random.below((SLOT_BYTES - length + 1) as u64) as usize;
                        base + if kind.is_atomic() { offset & !7 } else { offset }
                    };
                    let places =
                        (place(slot(queue_pair, false, index)), place(slot(queue_pair, true, index)));
                    batch.push(random, queue_pair, from, kind, places, length);
                }
            }
        }
        batch
    }

    /// On each queue pair, a WRITE from Linux followed by a READ or an atomic of the written data.
    pub fn pairs(random: &mut Random, second: Kind) -> Self {
        let mut batch = Self::default();
        for queue_pair in 0..QUEUE_PAIRS {
            let remote = slot(queue_pair, true, 0);
            let length = if second.is_atomic() { 8 } else { 1 + random.below(PATH_MTU) as usize };
            batch.push(
                random,
                queue_pair,
                End::Linux,
                Kind::Write,
                (slot(queue_pair, false, 0), remote),
                length,
            );
            let written = batch.fills.last().expect("a WRITE has bytes").seed;
            batch.push(random, queue_pair, End::Linux, second, (slot(queue_pair, false, 1), remote), length);
            // The second message's target is not filled, because the WRITE fills it. Half of the swaps
            // compare equal.
            batch.fills.pop();
            let message = batch.messages.last_mut().expect("one has been pushed");
            if second == Kind::CompareSwap && message.a & 1 == 0 {
                message.a = Random::new(written).next();
            }
        }
        batch
    }

    fn push(
        &mut self,
        random: &mut Random,
        queue_pair: usize,
        from: End,
        kind: Kind,
        (local, remote): (usize, usize),
        length: usize,
    ) {
        let seed = random.next();
        // The data that a READ finds is new each time, and differs from the previous contents of its
        // destination.
        let (end, offset) = match kind {
            Kind::Read | Kind::CompareSwap | Kind::FetchAdd => (from.other(), remote),
            _ => (from, local),
        };
        self.fills.push(Fill { end, offset, length, seed });
        let mut a = random.next();
        if kind.has_immediate() {
            a &= u64::from(u32::MAX);
        }
        if kind == Kind::CompareSwap && random.chance(500) {
            a = Random::new(seed).next();
        }
        let id = self.messages.len() as u64;
        self.messages.push(Message {
            id,
            queue_pair,
            from,
            kind,
            local,
            remote,
            length,
            a,
            b: random.next(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_reads_what_it_has_written() {
        let (mut random, mut shadow) = (Random::new(1), Shadow::new());
        for second in [Kind::Read, Kind::FetchAdd] {
            let batch = Batch::pairs(&mut random, second);
            assert_eq!((batch.messages.len(), batch.fills.len()), (2 * QUEUE_PAIRS, QUEUE_PAIRS));
            batch.fills.iter().for_each(|part| shadow.fill(*part));
            batch.messages.iter().for_each(|message| shadow.apply(message));
            for pair in batch.messages.chunks(2) {
                let [write, read] = pair else { panic!("pairs") };
                let linux = shadow.image(End::Linux);
                let (from, to) =
                    (write.local..write.local + write.length, read.local..read.local + read.length);
                assert_eq!(linux[from], linux[to]);
            }
        }
    }

    #[test]
    fn messages_of_a_batch_share_no_byte() {
        let batch = Batch::mixed(&mut Random::new(2));
        let mut taken = [vec![false; MEMORY_BYTES], vec![false; MEMORY_BYTES]];
        for message in &batch.messages {
            for (end, start) in [(message.from, message.local), (message.from.other(), message.remote)] {
                for byte in &mut taken[end as usize][start..start + message.length] {
                    assert!(!std::mem::replace(byte, true), "{message:?}");
                }
            }
        }
    }
}
