//! Responder resources (clause 9.7.4.2): the latest READs and atomics, kept to answer duplicates of them, and
//! the responses that are due.
//!
//! They are in the order of their PSNs, and each has at most one response due. If a requester repeats a
//! request, the new response replaces the old one. So a responder never sends more than one stream of data
//! for a READ. An exception is a repeated request for a part that ends before the READ does: a requester that
//! goes back would request everything up to the end, so this one lacks only the part. It is sent next, and
//! the other responses go on behind it. There is one such part.

use std::collections::VecDeque;

use weft_wire::roce::Reth;

use crate::queue_pair::Setup;

/// Source of a response's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// The memory to read.
    Read(Reth),
    Atomic {
        original: u64,
    },
}

/// A response that is due or under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Response {
    /// Sequence number of its first packet.
    pub(super) first: u64,
    pub(super) packets: u32,
    pub(super) sent: u32,
    pub(super) body: Body,
    /// Whether the request was never answered in full.
    pub(super) fresh: bool,
}

#[derive(Clone, Copy, Debug)]
struct Resource {
    first: u64,
    packets: u32,
    body: Body,
    due: Option<Response>,
}

impl Resource {
    fn covers(&self, sequence: u64) -> bool {
        (self.first..self.first + u64::from(self.packets)).contains(&sequence)
    }
}

#[derive(Debug, Default)]
pub(super) struct Resources {
    kept: VecDeque<Resource>,
    /// The most READs and atomics that are kept.
    limit: usize,
    /// Number of responses that are due, without the part.
    due: usize,
    /// A part of a READ that was requested again. It is sent first.
    part: Option<Response>,
}

impl Resources {
    /// Starts a connection whose peer may have `limit` READs and atomics outstanding.
    pub(super) fn start(&mut self, limit: usize) {
        self.kept.clear();
        self.kept.reserve(limit);
        self.limit = limit;
        self.due = 0;
        self.part = None;
    }

    /// Whether there is room for another READ or atomic. There is none while all kept ones are unanswered.
    pub(super) fn has_room(&self) -> bool {
        // Responses are sent oldest first. So if the oldest request is unanswered, all are.
        let waits = |oldest: &Resource| oldest.due.is_some_and(|response| response.fresh);
        self.kept.len() < self.limit || self.kept.front().is_some_and(|oldest| !waits(oldest))
    }

    /// Keeps a READ or atomic that was just executed; the oldest one is dropped if necessary. The requester
    /// has completed that one, or it would have more outstanding than agreed. The whole response becomes due.
    pub(super) fn keep(&mut self, first: u64, packets: u32, body: Body) {
        assert!(self.has_room(), "a request without room is refused");
        if self.kept.len() == self.limit {
            let oldest = self.kept.pop_front().expect("a connection without resources has no room");
            self.due -= usize::from(oldest.due.is_some());
        }
        let response = Response { first, packets, sent: 0, body, fresh: true };
        self.kept.push_back(Resource { first, packets, body, due: Some(response) });
        self.due += 1;
    }

    /// Schedules the response to a duplicate. It replaces a response to the same request that is still due.
    /// Returns false if the request is not kept, or differs from the duplicate.
    pub(super) fn repeat(&mut self, sequence: u64, again: Option<Reth>, setup: &Setup) -> bool {
        let Some(resource) = self.kept.iter_mut().find(|resource| resource.covers(sequence)) else {
            return false;
        };
        let response = |body, packets| Response { first: sequence, packets, sent: 0, body, fresh: false };
        let again = match (resource.body, again) {
            (Body::Read(original), Some(again)) => {
                let Some(rest) = rest_of(&original, &again, sequence - resource.first, setup.mtu) else {
                    return false;
                };
                let response = response(Body::Read(again), setup.packets(again.length));
                if again.length < rest {
                    self.part = Some(response);
                    return true;
                }
                response
            }
            (Body::Atomic { .. }, None) => response(resource.body, 1),
            _ => return false,
        };
        self.part = None;
        let fresh = resource.due.is_some_and(|response| response.fresh);
        self.due += usize::from(resource.due.is_none());
        resource.due = Some(Response { fresh, ..again });
        true
    }

    /// Sequence number of the oldest READ or atomic after `sequence`.
    pub(super) fn first_behind(&self, sequence: u64) -> Option<u64> {
        self.kept.iter().map(|resource| resource.first).find(|&first| first > sequence)
    }

    #[inline]
    pub(super) fn has_response(&self) -> bool {
        self.due > 0 || self.part.is_some()
    }

    /// The response to send next: the part, or the oldest one due.
    pub(super) fn response(&self) -> Option<Response> {
        if self.part.is_some() || self.due == 0 {
            return self.part;
        }
        self.kept.iter().find_map(|resource| resource.due)
    }

    /// Notes that one packet of the next response was sent.
    pub(super) fn sent_one(&mut self) {
        let response = self.next().as_mut().expect("it is due");
        response.sent += 1;
        if response.sent == response.packets {
            self.forget_response();
        }
    }

    /// Drops the next response. Its request is still kept for duplicates.
    pub(super) fn forget_response(&mut self) {
        self.due -= usize::from(self.part.is_none());
        *self.next() = None;
    }

    /// Drops all due responses.
    pub(super) fn forget_responses(&mut self) {
        self.kept.iter_mut().for_each(|resource| resource.due = None);
        self.due = 0;
        self.part = None;
    }

    fn next(&mut self) -> &mut Option<Response> {
        if self.part.is_some() {
            return &mut self.part;
        }
        let mut due = self.kept.iter_mut().map(|resource| &mut resource.due);
        due.find(|due| due.is_some()).expect("a response is due")
    }
}

/// Length of the READ `original` from its packet `packet` on, if `again` requests all or a part of it from there.
fn rest_of(original: &Reth, again: &Reth, packet: u64, mtu: u32) -> Option<u32> {
    // The packet is one of the READ, so its offset is less than 2^32.
    let offset = packet as u32 * mtu;
    let rest = original.length - offset;
    let same = again.rkey == original.rkey
        && again.address == original.address.wrapping_add(offset.into())
        && again.length <= rest;
    same.then_some(rest)
}
