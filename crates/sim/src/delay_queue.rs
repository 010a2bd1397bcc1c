//! Outputs that leave a machine later than the other outputs of their batch, in the order in which they
//! leave.

use std::collections::VecDeque;

use weft_nic::{DmaRequest, HostEvent};
use weft_time::{Duration, Instant};
use weft_wire::frame::Frame;
use weft_wire::roce::{self, Opcode};

/// Outputs of a batch of events, each with the core time of its event.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub frames: Vec<(Duration, Vec<u8>)>,
    pub events: Vec<(Duration, HostEvent)>,
    pub copies: Vec<(Duration, DmaRequest)>,
}

/// A queue of items, each of which waits until its time.
#[derive(Debug)]
pub(crate) struct DelayQueue<T>(VecDeque<(Instant, T)>);

impl<T> DelayQueue<T> {
    pub const fn new() -> Self {
        Self(VecDeque::new())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When the first item is due.
    pub fn next(&self) -> Option<Instant> {
        self.0.front().map(|(until, _)| *until)
    }

    /// Adds an item that waits until `until`, after others that wait as long.
    pub fn insert(&mut self, until: Instant, thing: T) {
        let place = self.0.partition_point(|(other, _)| *other <= until);
        self.0.insert(place, (until, thing));
    }

    /// The time of the last waiting item with this order, which a new item must not overtake. An item without
    /// order may overtake all.
    pub fn last<O: PartialEq>(
        &self,
        order: Option<&O>,
        order_of: impl Fn(&T) -> Option<O>,
    ) -> Option<Instant> {
        let order = order?;
        self.0
            .iter()
            .rev()
            .find(|(_, thing)| order_of(thing).as_ref() == Some(order))
            .map(|(until, _)| *until)
    }

    /// Removes the first item, if it is due.
    pub fn pop_due(&mut self, now: Instant) -> Option<(Instant, T)> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_front()
    }

    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = &(Instant, T)> {
        self.0.iter()
    }
}

/// Whether a frame is a response of a queue pair to its peer.
pub(crate) fn is_response(frame: &[u8]) -> bool {
    let Ok(Frame::Udp { udp, payload, .. }) = Frame::parse(frame) else { return false };
    let opcode = payload.first().and_then(|byte| Opcode::from_u8(*byte));
    udp.destination_port == roce::UDP_PORT && opcode.is_some_and(Opcode::is_response)
}

/// The order that frames must keep: requests to one queue pair of a peer, and the responses to it.
pub(crate) type FrameOrder = ([u8; 6], [u8; 3], bool);

/// The order that a frame must keep; `None` if it need not keep any.
pub(crate) fn order_of(frame: &[u8]) -> Option<FrameOrder> {
    let Ok(Frame::Udp { ethernet, udp, payload, .. }) = Frame::parse(frame) else { return None };
    let opcode = payload.first().and_then(|byte| Opcode::from_u8(*byte))?;
    if opcode.is_congestion_notification() {
        return None;
    }
    let queue_pair = payload.get(5..8)?.try_into().expect("three bytes");
    (udp.destination_port == roce::UDP_PORT).then_some((
        ethernet.destination.0,
        queue_pair,
        opcode.is_response(),
    ))
}

/// The order that an event for the host must keep. Replies to one call stay in order (messages about a log
/// have one token, so they count as one call), and so do all events that are not replies.
pub(crate) const fn event_order(event: &HostEvent) -> Option<Option<u32>> {
    Some(match event {
        HostEvent::Reply { token, .. } => Some(*token),
        HostEvent::Frame(_)
        | HostEvent::Completion(_)
        | HostEvent::Status { .. }
        | HostEvent::Request { .. } => None,
    })
}
