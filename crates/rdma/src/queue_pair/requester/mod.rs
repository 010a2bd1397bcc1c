//! The requester: makes request packets from work requests, and completes these by the peer's answers.
//!
//! All posted requests are in one queue, in the order of their PSNs. A cursor points to the next packet to
//! send. Going back N means to move the cursor back to the oldest unacknowledged packet. Packets are made
//! again from memory, so no copies are kept.

mod early;
mod receive;
mod round_trip;
mod transmit;

use std::collections::VecDeque;

use weft_time::Instant;
use weft_verbs::{AccessFlags, ApiError, Completion, CompletionStatus, LocalBuffer, Operation, WorkRequest};

use super::Setup;
use crate::congestion::CongestionControl;
use crate::psn;
use crate::region::{Grant, Request};
use crate::shared::Shared;
use early::Early;
use round_trip::RoundTrip;

/// The longest message of the specification, 2^31 bytes (clause 9.3.3.1).
const MESSAGE_BYTES_MAX: u32 = 1 << 31;

/// The most packets of one message. Together with a window of other packets this is less than half the PSN
/// space, within which PSNs can be compared.
const MESSAGE_PACKETS_MAX: u32 = 1 << 22;

/// The reason why the oldest work request, and with it the queue pair, fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) status: CompletionStatus,
    pub(super) vendor_error: u32,
}

impl From<CompletionStatus> for Fault {
    fn from(status: CompletionStatus) -> Self {
        Self { status, vendor_error: 0 }
    }
}

/// One work request in the queue.
#[derive(Clone, Copy, Debug)]
struct Entry {
    request: WorkRequest,
    /// Sequence number of its first packet; for a READ, of its first response.
    first: u64,
    /// Number of its packets; for a READ, of its response's packets.
    packets: u32,
    /// Number of response packets that have arrived.
    received: u32,
}

impl Entry {
    /// The sequence number after its last one.
    fn end(&self) -> u64 {
        self.first + u64::from(self.packets)
    }
}

/// The next packet to send: the serial number of its request since the connection started, and the packet's
/// index in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cursor {
    serial: u64,
    packet: u32,
}

/// The event that the requester's timer limits the wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Acknowledgement,
    ReceiverReady,
}

/// A missing response for which the requester has gone back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Implied {
    missing: u64,
    /// The first later response that arrived. If it arrives again, the peer has answered the repeated
    /// request. That covers the missing response too, so the missing response was lost again.
    witness: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Requester {
    entries: VecDeque<Entry>,
    depth: usize,
    /// Serial number of the oldest entry.
    first_serial: u64,
    cursor: Cursor,
    /// The local failure of the request at the cursor. It is reported once all earlier requests have
    /// completed.
    failed: Option<Fault>,
    /// Serial numbers of READs and atomics that were sent and are not complete.
    awaited: VecDeque<u64>,
    /// Sequence number of the next request to be posted.
    next: u64,
    /// The sequence number after the highest one ever sent.
    sent: u64,
    /// The oldest unacknowledged sequence number.
    unacknowledged: u64,
    /// The missing response for which the requester has already gone back.
    implied: Option<Implied>,
    /// Whether the oldest unacknowledged packet is to be sent again, alone, before the packet at the cursor.
    repair: bool,
    /// Whether this repair is the first one for that packet. Then it is measured, so that time-outs follow the
    /// round trip even while there are only repairs. If the first copy was late and not lost, one estimate is too
    /// short.
    first_repair: bool,
    /// Whether the peer answers a READ of a missing part without ending the stream of the whole.
    peer_repairs: bool,
    /// Responses that arrived before the expected one.
    early: Early,
    retries: u8,
    rnr_retries: u8,
    timer: Option<(Wait, Instant)>,
    /// Whether the timer runs for the time-out of verbs, and not for a shorter one from measured round trips.
    whole: bool,
    round_trip: RoundTrip,
    /// The sequence number after the last packet that has requested an acknowledgement since the requester
    /// last went back.
    asked: u64,
    /// Packets sent since the last one that requested an acknowledgement.
    since_request: u32,
    congestion: Box<dyn CongestionControl>,
    window_limit: u32,
    /// The window that the congestion control allows, within the limit. Only events of the congestion control
    /// change it.
    window: u32,
}

impl Requester {
    pub(super) fn new(depth: u32, congestion: Box<dyn CongestionControl>, window_limit: u32) -> Self {
        let depth = depth as usize;
        Self {
            entries: VecDeque::with_capacity(depth),
            depth,
            first_serial: 0,
            cursor: Cursor::default(),
            failed: None,
            awaited: VecDeque::new(),
            next: 0,
            sent: 0,
            unacknowledged: 0,
            implied: None,
            repair: false,
            first_repair: false,
            peer_repairs: false,
            early: Early::default(),
            retries: 0,
            rnr_retries: 0,
            timer: None,
            whole: true,
            round_trip: RoundTrip::default(),
            asked: 0,
            since_request: 0,
            window: congestion.window().clamp(1, window_limit),
            congestion,
            window_limit,
        }
    }

    /// Starts a connection whose first request has the PSN `sq_psn`.
    pub(super) fn start(&mut self, sq_psn: u32, setup: &Setup, congestion: Box<dyn CongestionControl>) {
        assert!(self.entries.is_empty(), "nothing can be posted before the queue pair is ready to send");
        self.next = psn::initial(sq_psn);
        self.sent = self.next;
        self.unacknowledged = self.next;
        self.cursor = Cursor { serial: self.first_serial, packet: 0 };
        self.awaited.reserve(setup.max_rd_atomic);
        self.implied = None;
        self.repair = false;
        self.peer_repairs = false;
        self.early = Early::default();
        self.failed = None;
        self.timer = None;
        self.round_trip = RoundTrip::default();
        self.asked = self.next;
        self.since_request = 0;
        self.tell_congestion_control(|control| *control = congestion);
        self.restore_retries(setup);
    }

    pub(super) fn queued(&self) -> usize {
        self.entries.len()
    }

    /// Number of packets that may be outstanding.
    pub(super) fn window(&self) -> u32 {
        self.window
    }

    /// Passes an event to the congestion control, and updates the window. All events go through this
    /// function.
    fn tell_congestion_control(&mut self, tell: impl FnOnce(&mut Box<dyn CongestionControl>)) {
        tell(&mut self.congestion);
        self.window = self.congestion.window().clamp(1, self.window_limit);
    }

    #[inline]
    pub(super) fn next_to_send(&self) -> u64 {
        self.at_cursor().map_or(self.next, |entry| entry.first + u64::from(self.cursor.packet))
    }

    /// Whether the next packet and the last one differ in length because one of them is the first of a
    /// message: only the first packet has the header with the remote address.
    #[inline]
    pub(super) fn is_next_to_first_packet(&self) -> bool {
        self.cursor.packet <= 1
            && self
                .at_cursor()
                .is_some_and(|entry| entry.packets > 1 && !entry.request.operation.has_response())
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.timer.map(|(_, at)| at)
    }

    pub(super) fn on_mark(&mut self, now: Instant) {
        self.tell_congestion_control(|control| control.on_mark(now));
    }

    pub(super) fn post(
        &mut self,
        request: WorkRequest,
        setup: &Setup,
        shared: &mut Shared,
    ) -> Result<(), ApiError> {
        let length = request.local.length;
        let packets = setup.packets(length);
        if request.operation.is_atomic() && length != 8 {
            return Err(ApiError::AtomicLength(length));
        }
        if length > MESSAGE_BYTES_MAX || packets > MESSAGE_PACKETS_MAX {
            return Err(ApiError::MessageTooLong(length));
        }
        if request.operation.has_response() && setup.max_rd_atomic == 0 {
            return Err(ApiError::NoReadResources);
        }
        if self.entries.len() == self.depth {
            return Err(ApiError::QueueFull(self.depth));
        }
        shared.completions.reserve()?;
        if matches!(request.operation, Operation::Send { .. }) {
            shared.counters.rdma_sends += 1;
        }
        self.entries.push_back(Entry { request, first: self.next, packets, received: 0 });
        self.next += u64::from(packets);
        Ok(())
    }

    /// Whether the packet at the cursor may be sent now.
    #[inline]
    pub(super) fn ready(&self, setup: &Setup) -> bool {
        if self.waits_for(Wait::ReceiverReady) {
            return false;
        }
        if self.repair {
            return true;
        }
        if self.failed.is_some() {
            return false;
        }
        let Some(entry) = self.at_cursor() else { return false };
        let outstanding = self.next_to_send() - self.unacknowledged;
        if outstanding >= u64::from(self.window()) {
            return false;
        }
        // A request that must wait for a fence, or for a responder resource, waits before its first packet.
        let begins = self.cursor.packet == 0;
        if begins
            && entry.request.fence
            && self.awaited.front().is_some_and(|&first| first < self.cursor.serial)
        {
            return false;
        }
        !entry.request.operation.has_response()
            || self.is_awaited()
            || self.awaited.len() < setup.max_rd_atomic
    }

    /// Completes all requests: the oldest with `fault`, if there is one, the others as flushed.
    pub(super) fn flush(&mut self, fault: Option<Fault>, setup: &Setup, shared: &mut Shared) {
        let mut fault = fault.unwrap_or(CompletionStatus::WorkRequestFlushed.into());
        while let Some(entry) = self.entries.pop_front() {
            self.first_serial += 1;
            complete(&entry, fault, setup, shared);
            fault = CompletionStatus::WorkRequestFlushed.into();
        }
        self.stop();
    }

    /// Drops all requests without completions, and returns their number.
    pub(super) fn clear(&mut self) -> usize {
        let count = self.entries.len();
        self.entries.clear();
        self.first_serial += count as u64;
        self.stop();
        count
    }

    fn stop(&mut self) {
        self.cursor = Cursor { serial: self.first_serial, packet: 0 };
        self.awaited.clear();
        self.timer = None;
        self.failed = None;
        self.repair = false;
        self.early = Early::default();
    }

    /// Marks packets before `end` as acknowledged, but not beyond a response that has not arrived. Returns
    /// whether such a response precedes `end`: then it is missing.
    fn advance(&mut self, now: Instant, end: u64, setup: &Setup, shared: &mut Shared) -> Result<bool, Fault> {
        let missing = self.next_response().filter(|&response| response < end);
        let end = missing.unwrap_or(end);
        if end > self.unacknowledged {
            let packets = (end - self.unacknowledged) as u32;
            self.round_trip.answered(now, end);
            self.tell_congestion_control(|control| control.on_ack(now, packets));
            self.unacknowledged = end;
            self.repair = false;
            self.restore_retries(setup);
            while self.entries.front().is_some_and(|entry| entry.end() <= end) {
                let entry = self.entries.pop_front().expect("there is a front");
                self.first_serial += 1;
                if entry.request.signaled {
                    complete(&entry, CompletionStatus::Success.into(), setup, shared);
                } else {
                    shared.completions.release(1);
                }
            }
            // After the requester has gone back, an acknowledgement of packets that were sent before may
            // overtake the cursor.
            if self.cursor.serial < self.first_serial || self.next_to_send() < end {
                self.rewind();
            }
            if self.next_to_send() > self.unacknowledged {
                self.wait_for_acknowledgement(now, setup);
            } else {
                self.timer = None;
            }
            if let Some(fault) = self.failed.filter(|_| self.cursor.serial == self.first_serial) {
                return Err(fault);
            }
        }
        Ok(missing.is_some())
    }

    /// Sequence number of the oldest response that has not arrived.
    fn next_response(&self) -> Option<u64> {
        let &serial = self.awaited.front()?;
        let entry = &self.entries[(serial - self.first_serial) as usize];
        Some(entry.first + u64::from(entry.received))
    }

    /// Moves the cursor to the oldest unacknowledged packet.
    fn rewind(&mut self) {
        let packet = self.entries.front().map_or(0, |entry| (self.unacknowledged - entry.first) as u32);
        self.cursor = Cursor { serial: self.first_serial, packet };
        self.failed = None;
        self.repair = false;
        self.round_trip.went_back();
        self.asked = self.unacknowledged;
        // The first packet that is sent again requests an acknowledgement, because perhaps only an
        // acknowledgement was lost.
        self.since_request = self.window_limit;
    }

    fn restore_retries(&mut self, setup: &Setup) {
        self.retries = setup.retry_cnt;
        self.rnr_retries = setup.rnr_retry;
    }

    fn waits_for(&self, what: Wait) -> bool {
        self.timer.is_some_and(|(wait, _)| wait == what)
    }

    fn wait_for_acknowledgement(&mut self, now: Instant, setup: &Setup) {
        let Some(ceiling) = setup.timeout else { return };
        // If no outstanding packet has requested an acknowledgement, the peer need not send one, so the
        // longer time-out applies.
        let asked = self.asked > self.unacknowledged;
        let timeout = if asked { self.round_trip.timeout(setup.timeout_floor, ceiling) } else { ceiling };
        self.whole = timeout == ceiling;
        self.timer = Some((Wait::Acknowledgement, now + timeout));
    }

    #[inline]
    fn at_cursor(&self) -> Option<&Entry> {
        self.entries.get((self.cursor.serial - self.first_serial) as usize)
    }

    /// The packet to send next: the index of its entry, from the oldest, and the packet's index in the entry.
    #[inline]
    fn next_packet(&self) -> (usize, u32) {
        if self.repair {
            let oldest = self.entries.front().expect("what is not acknowledged is queued");
            return (0, (self.unacknowledged - oldest.first) as u32);
        }
        ((self.cursor.serial - self.first_serial) as usize, self.cursor.packet)
    }

    /// Whether the request at the cursor is a READ or atomic that was sent before.
    fn is_awaited(&self) -> bool {
        self.awaited.back().is_some_and(|&last| self.cursor.serial <= last)
    }
}

/// The local memory of packet `packet` of `entry`; for a READ, of this packet and all later ones.
#[inline]
fn part_of(entry: &Entry, packet: u32, mtu: u32) -> LocalBuffer {
    let LocalBuffer { address, length, lkey } = entry.request.local;
    // A message has at most 2^31 bytes, so this fits.
    let offset = packet * mtu;
    let rest = length - offset;
    let length = if matches!(entry.request.operation, Operation::Read { .. }) { rest } else { rest.min(mtu) };
    LocalBuffer { address: address.wrapping_add(u64::from(offset)), length, lkey }
}

/// Checks access to the local memory of a packet. A packet without payload needs no check.
#[inline]
fn check_local(
    part: LocalBuffer,
    needs: AccessFlags,
    setup: &Setup,
    shared: &mut Shared,
) -> Result<Option<Grant>, ()> {
    if part.length == 0 {
        return Ok(None);
    }
    let request = Request {
        key: part.lkey,
        domain: setup.domain,
        address: part.address,
        length: u64::from(part.length),
        needs,
    };
    shared.check_local(request).map(Some).map_err(|_| ())
}

fn complete(entry: &Entry, fault: Fault, setup: &Setup, shared: &mut Shared) {
    let operation = entry.request.operation;
    shared.completions.push(Completion {
        id: entry.request.id,
        status: fault.status,
        opcode: operation.completion_opcode(),
        bytes: if operation.has_response() { entry.request.local.length } else { 0 },
        immediate: None,
        queue_pair: setup.number,
        vendor_error: fault.vendor_error,
    });
}
