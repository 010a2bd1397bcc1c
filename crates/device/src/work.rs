//! Requests that programs post, and the queues that hold them until they complete.

use std::net::IpAddr;

use weft_verbs::{Operation, ProtectionDomain};

use crate::DeviceError;

/// A range of a region of the program: `ibv_sge`, with the same memory layout.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// Address of the first byte, within the region's addresses.
    pub address: u64,
    /// Number of bytes.
    pub length: u32,
    /// Local key of the region.
    pub lkey: u32,
}

/// The operation of a request on a send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOperation {
    /// An operation on a connection.
    Connected(Operation),
    /// Sending a datagram.
    Datagram {
        /// The peer's address.
        destination: IpAddr,
        /// The peer's queue pair.
        queue_pair: u32,
        /// The Q_Key that the peer's queue pair expects. If its highest bit is set, the Q_Key of this queue
        /// pair is sent instead.
        queue_key: u32,
        /// Immediate data, which the peer's completion contains.
        immediate: Option<u32>,
    },
}

/// A request for a send queue: `ibv_send_wr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendRequest<'a> {
    /// The program's tag (`wr_id`).
    pub id: u64,
    /// The operation.
    pub operation: SendOperation,
    /// The memory to send from, or to store the answer in.
    pub elements: &'a [Element],
    /// Whether the bytes are copied immediately, from addresses of the program, without using the elements'
    /// keys (`IBV_SEND_INLINE`).
    pub inline: bool,
    /// Whether the request also produces a completion if it succeeds.
    pub signaled: bool,
    /// Whether the request waits for earlier READs and atomic operations.
    pub fence: bool,
    /// Whether to raise an event at a peer that has requested events only for solicited completions.
    pub solicited: bool,
}

/// One posted request.
#[derive(Clone, Copy, Debug, Default)]
struct PostedRequest {
    id: u64,
    elements: u32,
    inline_bytes: Option<u32>,
    /// Whether an element refers to memory that the program may not use in this way.
    violation: bool,
}

/// The requests of a send queue, a receive queue or a shared receive queue.
#[derive(Debug)]
pub(crate) struct WorkQueue {
    pub(crate) domain: ProtectionDomain,
    slots: Box<[PostedRequest]>,
    elements: Box<[Element]>,
    elements_max: usize,
    inline: Box<[u8]>,
    inline_max: usize,
    /// Free slots; `None` for a queue whose requests complete in the order in which they were posted.
    free: Option<Vec<u32>>,
    next: usize,
}

impl WorkQueue {
    /// `in_order`: whether requests complete in the order in which they were posted.
    pub(crate) fn new(
        domain: ProtectionDomain,
        depth: u32,
        elements_max: u32,
        inline_max: u32,
        in_order: bool,
    ) -> Self {
        let (depth, elements_max, inline_max) = (depth as usize, elements_max as usize, inline_max as usize);
        Self {
            domain,
            slots: vec![PostedRequest::default(); depth].into(),
            elements: vec![Element::default(); depth * elements_max].into(),
            elements_max,
            inline: vec![0; depth * inline_max].into(),
            inline_max,
            free: (!in_order).then(|| (0..depth as u32).rev().collect()),
            next: 0,
        }
    }

    pub(crate) fn depth(&self) -> usize {
        self.slots.len()
    }

    /// Checks a list and returns its length in bytes.
    pub(crate) fn check(&self, elements: &[Element], inline: bool) -> Result<u32, DeviceError> {
        if elements.len() > self.elements_max && !inline {
            return Err(DeviceError::TooManyElements(self.elements_max));
        }
        let length: u64 = elements.iter().map(|element| u64::from(element.length)).sum();
        if inline && length > self.inline_max as u64 {
            return Err(DeviceError::InlineTooLong(self.inline_max));
        }
        u32::try_from(length).ok().filter(|&length| length <= 1 << 31).ok_or(DeviceError::MessageTooLong)
    }

    /// The slot for the next request. [`WorkQueue::keep`] stores the request there, once it is known that the
    /// queue has room.
    pub(crate) fn next_slot(&self) -> Result<usize, DeviceError> {
        match &self.free {
            Some(free) => free.last().map(|&slot| slot as usize).ok_or(DeviceError::QueueFull),
            None if self.slots.is_empty() => Err(DeviceError::QueueFull),
            None => Ok(self.next),
        }
    }

    /// Stores a request in the slot that [`WorkQueue::next_slot`] returned.
    pub(crate) fn keep(&mut self, id: u64, elements: &[Element]) {
        let slot = self.advance();
        self.slots[slot] =
            PostedRequest { id, elements: elements.len() as u32, inline_bytes: None, violation: false };
        self.elements[slot * self.elements_max..][..elements.len()].copy_from_slice(elements);
    }

    /// Copies the inline bytes of the next request.
    pub(crate) fn fill_inline<E>(
        &mut self,
        length: u32,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        fill(&mut self.inline[self.next * self.inline_max..][..length as usize])
    }

    /// Stores a request whose inline bytes have been copied, in the slot that [`WorkQueue::next_slot`]
    /// returned.
    pub(crate) fn keep_inline(&mut self, id: u64, length: u32) {
        let slot = self.advance();
        self.slots[slot] = PostedRequest { id, elements: 0, inline_bytes: Some(length), violation: false };
    }

    /// Number of bytes in the list of a request.
    pub(crate) fn length(&self, slot: usize) -> u64 {
        (0..self.count(slot)).map(|at| u64::from(self.element(slot, at).length)).sum()
    }

    fn advance(&mut self) -> usize {
        if let Some(free) = &mut self.free {
            return free.pop().expect("the caller has seen that there is a slot") as usize;
        }
        let slot = self.next;
        self.next = if slot + 1 == self.slots.len() { 0 } else { slot + 1 };
        slot
    }

    /// Ends a request. Returns its tag, and whether it referred to memory that it may not use.
    pub(crate) fn end(&mut self, slot: usize) -> (u64, bool) {
        if let Some(free) = &mut self.free {
            free.push(slot as u32);
        }
        let PostedRequest { id, violation, .. } = self.slots[slot];
        (id, violation)
    }

    pub(crate) fn note_violation(&mut self, slot: usize) {
        self.slots[slot].violation = true;
    }

    /// Number of elements in the list of a request.
    pub(crate) fn count(&self, slot: usize) -> usize {
        self.slots.get(slot).map_or(0, |kept| kept.elements as usize)
    }

    /// An element of the list of a request.
    pub(crate) fn element(&self, slot: usize, at: usize) -> Element {
        self.elements[slot * self.elements_max + at]
    }

    pub(crate) fn inline_bytes(&self, slot: usize) -> Option<&[u8]> {
        let length = self.slots.get(slot)?.inline_bytes? as usize;
        Some(&self.inline[slot * self.inline_max..][..length])
    }
}
