//! The requester: makes request packets from work requests and completes them by the answers.
//!
//! Everything that was posted lies in one queue in the order of its PSNs. A cursor stands at the next packet
//! to send. Going back N is moving the cursor back to the oldest packet that is not acknowledged; packets
//! are made again from memory, so nothing else needs to be kept.

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

/// The most packets of one message: with a window's worth of others beside it, still less than the half
/// round in which PSNs can be told apart.
const MESSAGE_PACKETS_MAX: u32 = 1 << 22;

/// Reason for which the oldest work request fails, and the queue pair with it.
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
    /// Sequence number of its first packet; for a READ of its first response.
    first: u64,
    /// Packets, for a READ of its response.
    packets: u32,
    /// Responses that have arrived.
    received: u32,
}

impl Entry {
    /// One past its last sequence number.
    fn end(&self) -> u64 {
        self.first + u64::from(self.packets)
    }
}

/// The next packet to send: which request, counted since the connection began, and which packet of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cursor {
    serial: u64,
    packet: u32,
}

/// Event that the requester waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Acknowledgement,
    ReceiverReady,
}

/// A missing response for which the requester has gone back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Implied {
    missing: u64,
    /// The first response from behind it. What comes again has been asked for again: so the missing one, which was
    /// asked for before it, has been lost once more.
    witness: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Requester {
    entries: VecDeque<Entry>,
    depth: usize,
    /// Serial number of the oldest entry.
    first_serial: u64,
    cursor: Cursor,
    /// A local failure of the request at the cursor, which shows once all earlier ones have completed.
    failed: Option<Fault>,
    /// READs and atomics that have been sent and not completed, by serial number.
    awaited: VecDeque<u64>,
    /// Sequence number of the next request to be posted.
    next: u64,
    /// One past the highest sequence number ever sent.
    sent: u64,
    /// The oldest sequence number that is not acknowledged.
    unacknowledged: u64,
    /// The missing response for which the requester has gone back already.
    implied: Option<Implied>,
    /// The oldest packet that is not acknowledged is sent again, and nothing else, before the packet at the cursor.
    repair: bool,
    /// And that has not happened before. A READ of a part is measured then, so that time-outs follow the way also while
    /// there are only repairs. If the first copy was late and not lost, the estimate is too short for once.
    first_repair: bool,
    /// The peer answers a READ of a part that is missing without ending what it sends of the rest.
    peer_repairs: bool,
    /// Responses behind the one that is due.
    early: Early,
    retries: u8,
    rnr_retries: u8,
    timer: Option<(Wait, Instant)>,
    /// The timer runs for as long as verbs say, and not for as long as an answer may take.
    whole: bool,
    round_trip: RoundTrip,
    /// One past the last packet for which an acknowledgement was requested since the requester last went back.
    asked: u64,
    /// Packets since one asked for an acknowledgement.
    since_request: u32,
    congestion: Box<dyn CongestionControl>,
    window_limit: u32,
    /// Window that the congestion control allows, within the limit. It changes only with events of the congestion
    /// control.
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

    /// Begins a connection whose first request has the PSN `sq_psn`.
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

    /// Packets that may be outstanding.
    pub(super) fn window(&self) -> u32 {
        self.window
    }

    /// The only way to the congestion control, which keeps the window up to date.
    fn tell_congestion_control(&mut self, tell: impl FnOnce(&mut Box<dyn CongestionControl>)) {
        tell(&mut self.congestion);
        self.window = self.congestion.window().clamp(1, self.window_limit);
    }

    #[inline]
    pub(super) fn next_to_send(&self) -> u64 {
        self.at_cursor().map_or(self.next, |entry| entry.first + u64::from(self.cursor.packet))
    }

    /// Whether the next packet and the one that was made last differ in length because a message of several packets
    /// begins: its first packet says where the message goes.
    #[inline]
    pub(super) fn is_beside_first(&self) -> bool {
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
        // A request that waits behind a fence, or for a responder resource, waits before its first packet.
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

    /// Completes everything: the oldest request with `fault`, if there is one, the others flushed.
    pub(super) fn flush(&mut self, fault: Option<Fault>, setup: &Setup, shared: &mut Shared) {
        let mut fault = fault.unwrap_or(CompletionStatus::WorkRequestFlushed.into());
        while let Some(entry) = self.entries.pop_front() {
            self.first_serial += 1;
            complete(&entry, fault, setup, shared);
            fault = CompletionStatus::WorkRequestFlushed.into();
        }
        self.stop();
    }

    /// Forgets everything without completions; returns how many requests there were.
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

    /// Takes everything before `end` as acknowledged, but nothing that waits for a response. Says whether
    /// there is such a response before `end`: it is missing.
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
            // After going back, the acknowledgement of what was sent before can overtake the cursor.
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

    /// Moves the cursor to the oldest packet that is not acknowledged.
    fn rewind(&mut self) {
        let packet = self.entries.front().map_or(0, |entry| (self.unacknowledged - entry.first) as u32);
        self.cursor = Cursor { serial: self.first_serial, packet };
        self.failed = None;
        self.repair = false;
        self.round_trip.went_back();
        self.asked = self.unacknowledged;
        // The first packet that is sent again asks for an acknowledgement: perhaps all that is missing is one.
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
        // The peer does not acknowledge without being asked.
        let asked = self.asked > self.unacknowledged;
        let timeout = if asked { self.round_trip.timeout(setup.timeout_floor, ceiling) } else { ceiling };
        self.whole = timeout == ceiling;
        self.timer = Some((Wait::Acknowledgement, now + timeout));
    }

    #[inline]
    fn at_cursor(&self) -> Option<&Entry> {
        self.entries.get((self.cursor.serial - self.first_serial) as usize)
    }

    /// The packet to send next: of which entry, counted from the oldest, and which packet of it.
    #[inline]
    fn next_packet(&self) -> (usize, u32) {
        if self.repair {
            let oldest = self.entries.front().expect("what is not acknowledged is queued");
            return (0, (self.unacknowledged - oldest.first) as u32);
        }
        ((self.cursor.serial - self.first_serial) as usize, self.cursor.packet)
    }

    /// Whether the request at the cursor is a READ or atomic that has been sent before.
    fn is_awaited(&self) -> bool {
        self.awaited.back().is_some_and(|&last| self.cursor.serial <= last)
    }
}

/// The local memory of packet `packet` of `entry`; for a READ, of all packets from there on.
#[inline]
fn part_of(entry: &Entry, packet: u32, mtu: u32) -> LocalBuffer {
    let LocalBuffer { address, length, lkey } = entry.request.local;
    // A message has at most 2^31 bytes, so this fits.
    let offset = packet * mtu;
    let rest = length - offset;
    let length = if matches!(entry.request.operation, Operation::Read { .. }) { rest } else { rest.min(mtu) };
    LocalBuffer { address: address.wrapping_add(u64::from(offset)), length, lkey }
}

/// Checks the local memory of a packet; nothing needs to be checked for no bytes.
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
