//! What programs post, and where it is kept until it completes.

use std::net::IpAddr;

use weft_verbs::{Operation, ProtectionDomain};

use crate::DeviceError;

/// A range of a region of the program: `ibv_sge`, with its layout.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// First byte, as the region has it.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// Local key of the region.
    pub lkey: u32,
}

/// What to do on a send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOperation {
    /// On a connection.
    Connected(Operation),
    /// A datagram.
    Datagram {
        /// The peer's address.
        destination: IpAddr,
        /// The peer's queue pair.
        queue_pair: u32,
        /// What the peer's queue pair wants to see; with its highest bit, this queue pair's own is sent instead.
        queue_key: u32,
        /// Delivered with the peer's completion.
        immediate: Option<u32>,
    },
}

/// A request for a send queue: `ibv_send_wr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendRequest<'a> {
    /// The program's tag (`wr_id`).
    pub id: u64,
    /// What to do.
    pub operation: SendOperation,
    /// Where from, or where the answer goes.
    pub elements: &'a [Element],
    /// The bytes are copied at once, from addresses of the program and whatever their keys (`IBV_SEND_INLINE`).
    pub inline: bool,
    /// Completes visibly even if it succeeds.
    pub signaled: bool,
    /// Waits for earlier READs and atomics.
    pub fence: bool,
    /// Raises an event at a peer that waits for nothing else.
    pub solicited: bool,
}

/// One posted request.
#[derive(Clone, Copy, Debug, Default)]
struct PostedRequest {
    id: u64,
    elements: u32,
    inline_bytes: Option<u32>,
    /// An element named memory that the program may not use so.
    violation: bool,
}

/// The requests of a send queue, of a receive queue or of a shared receive queue.
#[derive(Debug)]
pub(crate) struct WorkQueue {
    pub(crate) domain: ProtectionDomain,
    slots: Box<[PostedRequest]>,
    elements: Box<[Element]>,
    elements_max: usize,
    inline: Box<[u8]>,
    inline_max: usize,
    /// Slots that are free, where requests complete in another order than they are posted.
    free: Option<Vec<u32>>,
    next: usize,
}

impl WorkQueue {
    /// `in_order`: whether requests complete in the order in which they are posted.
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

    /// Checks a list; returns its length in bytes.
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

    /// The slot of the next request, which is kept there once it is known that the queue has room.
    pub(crate) fn next_slot(&self) -> Result<usize, DeviceError> {
        match &self.free {
            Some(free) => free.last().map(|&slot| slot as usize).ok_or(DeviceError::QueueFull),
            None if self.slots.is_empty() => Err(DeviceError::QueueFull),
            None => Ok(self.next),
        }
    }

    /// Keeps a request in the slot that [`WorkQueue::next_slot`] gave.
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

    /// As [`WorkQueue::keep`], for bytes that have been copied.
    pub(crate) fn keep_inline(&mut self, id: u64, length: u32) {
        let slot = self.advance();
        self.slots[slot] = PostedRequest { id, elements: 0, inline_bytes: Some(length), violation: false };
    }

    /// Bytes that the list of a request has room for.
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

    /// A request is over: its tag, and whether it named memory wrongly.
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

    /// How many elements the list of a request has.
    pub(crate) fn count(&self, slot: usize) -> usize {
        self.slots.get(slot).map_or(0, |kept| kept.elements as usize)
    }

    /// One element of the list of a request.
    pub(crate) fn element(&self, slot: usize, at: usize) -> Element {
        self.elements[slot * self.elements_max + at]
    }

    pub(crate) fn inline_bytes(&self, slot: usize) -> Option<&[u8]> {
        let length = self.slots.get(slot)?.inline_bytes? as usize;
        Some(&self.inline[slot * self.inline_max..][..length])
    }
}
