//! Buffers for replies to calls that came over a queue pair.

use weft_rdma::Transport;
use weft_verbs::{AccessFlags, ProtectionDomain, QueuePairNumber, Region, Target};
use weft_waist::Caller;
use weft_wire::roce::MASK_24;

/// The most outstanding replies.
const BUFFERS: u16 = 256;

/// Bytes of one reply.
const BUFFER_BYTES: usize = 2048;

/// Bytes of card memory that the buffers take.
pub(crate) const REPLY_BYTES: usize = BUFFERS as usize * BUFFER_BYTES;

/// A queue pair's incarnation: the time between two resets. No state survives a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incarnation {
    queue_pair: QueuePairNumber,
    resets: u32,
}

impl Incarnation {
    /// The present incarnation of a queue pair, if the queue pair exists.
    pub(crate) fn of(queue_pair: QueuePairNumber, transport: &Transport) -> Option<Self> {
        transport.resets(queue_pair).map(|resets| Self { queue_pair, resets })
    }

    /// The caller as an engine sees it. As in gateware, the upper eight bits hold the number of resets.
    pub(crate) const fn caller(self) -> Caller {
        Caller::QueuePair(QueuePairNumber(self.queue_pair.0 | self.resets << 24))
    }

    /// The incarnation that has called, if it is still the present one.
    pub(crate) fn of_caller(caller: QueuePairNumber, transport: &Transport) -> Option<Self> {
        Self::of(QueuePairNumber(caller.0 & MASK_24), transport)
            .filter(|present| present.caller() == Caller::QueuePair(caller))
    }

    pub(crate) const fn queue_pair(self) -> QueuePairNumber {
        self.queue_pair
    }
}

/// A region of card memory that is divided into equal buffers. A buffer is lent from a reply's SEND to its
/// completion, or to the end of its queue pair's incarnation, because a reset drops requests without
/// completions.
#[derive(Debug)]
pub(crate) struct Replies {
    base: u64,
    lkey: u32,
    free: Vec<u16>,
    /// For each buffer, the incarnation that it is lent to.
    lent: Vec<Option<Incarnation>>,
}

impl Replies {
    /// Registers the buffers at address `base` of HBM, for the queue pairs of the default domain.
    pub(crate) fn new(base: usize, transport: &mut Transport) -> Self {
        let region = Region {
            domain: ProtectionDomain(0),
            address: base as u64,
            length: REPLY_BYTES as u64,
            access: AccessFlags::NONE,
            target: Target::Hbm,
            write_through: false,
            rpc: None,
        };
        let keys = transport.register_region(region).expect("an empty transport has room for a region");
        Self {
            base: base as u64,
            lkey: keys.lkey,
            free: (0..BUFFERS).rev().collect(),
            lent: vec![None; BUFFERS.into()],
        }
    }

    /// Whether a reply of `bytes` bytes fits into a buffer.
    pub(crate) const fn fits(bytes: usize) -> bool {
        bytes <= BUFFER_BYTES
    }

    /// Lends a buffer; `None` if none is free.
    pub(crate) fn take(&mut self, to: Incarnation, transport: &Transport) -> Option<u16> {
        if self.free.is_empty() {
            self.reclaim(transport);
        }
        let buffer = self.free.pop()?;
        self.lent[usize::from(buffer)] = Some(to);
        Some(buffer)
    }

    /// Frees buffers that are lent to earlier incarnations of queue pairs.
    fn reclaim(&mut self, transport: &Transport) {
        for (buffer, lent) in (0..).zip(&mut self.lent) {
            let is_over = |one: &mut Incarnation| Incarnation::of(one.queue_pair, transport) != Some(*one);
            if lent.take_if(is_over).is_some() {
                self.free.push(buffer);
            }
        }
    }

    /// The tag of the SEND from a lent buffer, without the bit that all tags of the card have.
    pub(crate) fn tag(&self, buffer: u16) -> u64 {
        let lent = self.lent[usize::from(buffer)].expect("it is lent");
        u64::from(lent.resets) << 16 | u64::from(buffer)
    }

    /// Called when the SEND with this tag has completed. If the queue pair was reset since then, the buffer
    /// may already be lent to another incarnation.
    pub(crate) fn give_back(&mut self, queue_pair: QueuePairNumber, tag: u64) {
        let ended = Incarnation { queue_pair, resets: (tag >> 16) as u32 };
        let lent = &mut self.lent[usize::from(tag as u16)];
        if lent.take_if(|lent| *lent == ended).is_some() {
            self.free.push(tag as u16);
        }
    }

    pub(crate) fn address(&self, buffer: u16) -> u64 {
        self.base + u64::from(buffer) * BUFFER_BYTES as u64
    }

    pub(crate) const fn lkey(&self) -> u32 {
        self.lkey
    }
}
