//! Outputs that leave a machine later than their batch of work, in the order in which they leave.

use std::collections::VecDeque;

use weft_nic::{DmaRequest, HostEvent};
use weft_time::{Duration, Instant};
use weft_wire::frame::Frame;
use weft_wire::roce::{self, Opcode};

/// Outputs of a batch of events, each with the labour of its event.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub frames: Vec<(Duration, Vec<u8>)>,
    pub told: Vec<(Duration, HostEvent)>,
    pub asked: Vec<(Duration, DmaRequest)>,
}

/// Things that wait, each until its time.
#[derive(Debug)]
pub(crate) struct Late<T>(VecDeque<(Instant, T)>);

impl<T> Late<T> {
    pub const fn new() -> Self {
        Self(VecDeque::new())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// When the first output is due.
    pub fn next(&self) -> Option<Instant> {
        self.0.front().map(|(until, _)| *until)
    }

    /// Lets something wait until `until`, behind what waits as long.
    pub fn insert(&mut self, until: Instant, thing: T) {
        let place = self.0.partition_point(|(other, _)| *other <= until);
        self.0.insert(place, (until, thing));
    }

    /// Until when the last waits that something else with this order must not pass. What has no order may pass
    /// everything.
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

    /// The first, if its time has come.
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

/// Frames that must stay in order: requests to one queue pair of a peer, and its responses.
pub(crate) type FrameOrder = ([u8; 6], [u8; 3], bool);

/// The order that a frame belongs to.
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

/// What an event for the host must not pass: answers to one call come one after the other (a log's are those to one
/// call, too), and so does everything that answers none.
pub(crate) const fn event_order(event: &HostEvent) -> Option<Option<u32>> {
    Some(match event {
        HostEvent::Reply { token, .. } => Some(*token),
        HostEvent::Frame(_)
        | HostEvent::Completion(_)
        | HostEvent::Status { .. }
        | HostEvent::Request { .. } => None,
    })
}
