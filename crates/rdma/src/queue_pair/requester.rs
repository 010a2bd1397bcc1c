//! The requester: makes request packets from work requests and completes them by the answers.
//!
//! Everything that was posted lies in one queue in the order of its PSNs. A cursor stands at the next packet
//! to send. Going back N is moving the cursor back to the oldest packet that is not acknowledged; packets
//! are made again from memory, so nothing else needs to be kept.

use std::collections::VecDeque;

use weft_time::Instant;
use weft_wire::roce::{AtomicEth, NakCode, Opcode, Packet, Reth, Syndrome};

use super::{Setup, emit, rnr_timer};
use crate::completion::{Completion, CompletionStatus};
use crate::congestion::{CongestionControl, Loss};
use crate::memory::RegionMemory;
use crate::region::{AccessFlags, Grant, Request};
use crate::shared::Shared;
use crate::work::{LocalBuffer, Operation, WorkRequest};
use crate::{ApiError, psn};

/// The longest message of the specification, 2^31 bytes (clause 9.3.3.1).
const MESSAGE_BYTES_MAX: u32 = 1 << 31;

/// The most packets of one message: with a window's worth of others beside it, still less than the half
/// round in which PSNs can be told apart.
const MESSAGE_PACKETS_MAX: u32 = 1 << 22;

/// The value of `rnr_retry` that means "no limit".
const RNR_RETRY_WITHOUT_LIMIT: u8 = 7;

/// Why the oldest work request fails, and the queue pair with it.
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

/// What the requester waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Acknowledgement,
    ReceiverReady,
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
    implied: Option<u64>,
    retries: u8,
    rnr_retries: u8,
    timer: Option<(Wait, Instant)>,
    /// Packets since one asked for an acknowledgement.
    since_request: u32,
    congestion: Box<dyn CongestionControl>,
    window_limit: u32,
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
            retries: 0,
            rnr_retries: 0,
            timer: None,
            since_request: 0,
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
        self.failed = None;
        self.timer = None;
        self.since_request = 0;
        self.congestion = congestion;
        self.restore_retries(setup);
    }

    pub(super) fn queued(&self) -> usize {
        self.entries.len()
    }

    /// Packets that may be outstanding.
    pub(super) fn window(&self) -> u32 {
        self.congestion.window().clamp(1, self.window_limit)
    }

    pub(super) fn next_to_send(&self) -> u64 {
        self.at_cursor().map_or(self.next, |entry| entry.first + u64::from(self.cursor.packet))
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.timer.map(|(_, at)| at)
    }

    pub(super) fn on_mark(&mut self, now: Instant) {
        self.congestion.on_mark(now);
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
    pub(super) fn ready(&self, setup: &Setup) -> bool {
        if self.failed.is_some() || matches!(self.timer, Some((Wait::ReceiverReady, _))) {
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

    /// Makes the packet at the cursor. Returns false if it cannot be made.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        setup: &Setup,
        shared: &mut Shared,
        memory: &mut impl RegionMemory,
        out: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        let entry = *self.at_cursor().expect("only a ready requester transmits");
        let packet = self.cursor.packet;
        let sequence = entry.first + u64::from(packet);
        let part = part_of(&entry, packet, setup.mtu);
        let needs =
            if entry.request.operation.has_response() { AccessFlags::LOCAL_WRITE } else { AccessFlags::NONE };
        let Ok(grant) = check_local(part, needs, setup, shared) else {
            return self.fail_at_cursor(CompletionStatus::LocalProtectionError, shared);
        };
        let payload: &[u8] = match grant {
            Some(grant) if !entry.request.operation.has_response() => {
                match memory.read(grant.target, part.address, part.length as usize) {
                    Ok(payload) => payload,
                    Err(_) => {
                        return self.fail_at_cursor(CompletionStatus::LocalQueuePairOperationError, shared);
                    }
                }
            }
            _ => &[],
        };

        let last = packet + 1 == entry.packets;
        if entry.request.operation.has_response() {
            if !self.is_awaited() {
                self.awaited.push_back(self.cursor.serial);
            }
            // The response takes the place of all its packets at once.
            self.cursor = Cursor { serial: self.cursor.serial + 1, packet: 0 };
            self.sent = self.sent.max(entry.end());
        } else {
            self.cursor = if last {
                Cursor { serial: self.cursor.serial + 1, packet: 0 }
            } else {
                Cursor { packet: packet + 1, ..self.cursor }
            };
            self.sent = self.sent.max(sequence + 1);
        }
        if self.timer.is_none() {
            self.wait_for_acknowledgement(now, setup);
        }

        let mut packet_out = Packet::new(setup.header(shared, opcode(&entry, packet), sequence), payload);
        let ends = last || entry.request.operation.has_response();
        self.since_request = self.since_request.saturating_add(1);
        if ends && entry.request.signaled
            || self.since_request >= self.acknowledge_interval(shared)
            || !self.ready(setup)
        {
            packet_out.bth.acknowledge = true;
            self.since_request = 0;
        }
        packet_out.bth.solicited = ends && entry.request.solicited;
        match entry.request.operation {
            Operation::Send { immediate } => {
                if last {
                    packet_out.immediate = immediate;
                }
            }
            Operation::Write { remote, immediate } => {
                if packet == 0 {
                    let length = entry.request.local.length;
                    packet_out.reth = Some(Reth { address: remote.address, rkey: remote.rkey, length });
                }
                if last {
                    packet_out.immediate = immediate;
                }
            }
            Operation::Read { remote } => {
                let done = u64::from(packet) * u64::from(setup.mtu);
                packet_out.reth = Some(Reth {
                    address: remote.address.wrapping_add(done),
                    rkey: remote.rkey,
                    length: part.length,
                });
            }
            Operation::FetchAdd { remote, add } => {
                let (address, rkey) = (remote.address, remote.rkey);
                packet_out.atomic = Some(AtomicEth { address, rkey, swap_or_add: add, compare: 0 });
            }
            Operation::CompareSwap { remote, compare, swap } => {
                let (address, rkey) = (remote.address, remote.rkey);
                packet_out.atomic = Some(AtomicEth { address, rkey, swap_or_add: swap, compare });
            }
        }
        emit(&packet_out, shared, out);
        Ok(true)
    }

    /// Takes a response or an acknowledgement.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        setup: &Setup,
        shared: &mut Shared,
        memory: &mut impl RegionMemory,
    ) -> Result<(), Fault> {
        let sequence = psn::extend(packet.bth.psn, self.unacknowledged);
        if sequence >= self.sent {
            shared.counters.drop_ghost_response += 1;
            return Ok(());
        }
        if sequence < self.unacknowledged {
            shared.counters.drop_stale_response += 1;
            return Ok(());
        }
        match packet.bth.opcode {
            Opcode::Acknowledge => {
                let Some(aeth) = packet.aeth else {
                    shared.counters.drop_malformed += 1;
                    return Ok(());
                };
                self.receive_acknowledgement(now, sequence, aeth.syndrome, setup, shared)
            }
            Opcode::AtomicAcknowledge => {
                let Some(original) = packet.atomic_ack else {
                    shared.counters.drop_malformed += 1;
                    return Ok(());
                };
                self.receive_response(now, sequence, true, &original.to_le_bytes(), setup, shared, memory)
            }
            _ => self.receive_response(now, sequence, false, packet.payload, setup, shared, memory),
        }
    }

    fn receive_acknowledgement(
        &mut self,
        now: Instant,
        sequence: u64,
        syndrome: Syndrome,
        setup: &Setup,
        shared: &mut Shared,
    ) -> Result<(), Fault> {
        // A negative acknowledgement says that everything before its PSN was carried out.
        let end = if matches!(syndrome, Syndrome::Ack { .. }) { sequence + 1 } else { sequence };
        if matches!(syndrome, Syndrome::Nak(NakCode::InvalidRdRequest) | Syndrome::RnrNak { timer: 32.. }) {
            shared.counters.drop_reserved_syndrome += 1;
            return Ok(());
        }
        if self.advance(now, end, setup, shared)? {
            return self.go_back_for_response(now, shared);
        }
        let fault = |status| Fault { status, vendor_error: u32::from(syndrome.to_u8()) };
        match syndrome {
            Syndrome::Ack { .. } => Ok(()),
            Syndrome::RnrNak { timer } => {
                shared.counters.rcvd_rnr_err += 1;
                if setup.rnr_retry != RNR_RETRY_WITHOUT_LIMIT {
                    let Some(rest) = self.rnr_retries.checked_sub(1) else {
                        shared.counters.retry_rnr_exceeded_err += 1;
                        let vendor_error = 0x20 | u32::from(timer & 31);
                        return Err(Fault {
                            status: CompletionStatus::ReceiverNotReadyRetryExceeded,
                            vendor_error,
                        });
                    };
                    self.rnr_retries = rest;
                }
                shared.counters.completer_retry_err += 1;
                self.rewind();
                self.timer = Some((Wait::ReceiverReady, now + rnr_timer(timer)));
                Ok(())
            }
            Syndrome::Nak(NakCode::PsnSequenceError) => {
                shared.counters.rcvd_seq_err += 1;
                self.retry(now, Loss::Gap, shared)
            }
            Syndrome::Nak(NakCode::InvalidRequest) => {
                shared.counters.rcvd_invalid_request += 1;
                Err(fault(CompletionStatus::RemoteInvalidRequest))
            }
            Syndrome::Nak(NakCode::RemoteAccessError) => {
                shared.counters.rcvd_access_error += 1;
                Err(fault(CompletionStatus::RemoteAccessError))
            }
            Syndrome::Nak(NakCode::RemoteOperationalError) => {
                shared.counters.rcvd_operational_error += 1;
                Err(fault(CompletionStatus::RemoteOperationError))
            }
            Syndrome::Nak(NakCode::InvalidRdRequest) => unreachable!("dropped above"),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one step of receive, split off for its length")]
    fn receive_response(
        &mut self,
        now: Instant,
        sequence: u64,
        atomic: bool,
        payload: &[u8],
        setup: &Setup,
        shared: &mut Shared,
        memory: &mut impl RegionMemory,
    ) -> Result<(), Fault> {
        match self.next_response() {
            Some(expected) if sequence == expected => {}
            Some(expected) if sequence > expected => {
                self.advance(now, expected, setup, shared)?;
                return self.go_back_for_response(now, shared);
            }
            // A response in the place of a request that is answered by an acknowledgement.
            _ => {
                shared.counters.drop_malformed += 1;
                return Ok(());
            }
        }
        // A response acknowledges all requests before its own (clause 9.7.5.1.3).
        self.advance(now, sequence, setup, shared)?;
        let entry = self.entries[0];
        if entry.request.operation.is_atomic() != atomic {
            return Err(CompletionStatus::BadResponse.into());
        }
        let part = part_of(&entry, entry.received, setup.mtu);
        if payload.len() != part.length.min(setup.mtu) as usize {
            return Err(CompletionStatus::LocalLengthError.into());
        }
        let whole = LocalBuffer { length: payload.len() as u32, ..part };
        match check_local(whole, AccessFlags::LOCAL_WRITE, setup, shared) {
            Ok(Some(grant)) => {
                if !shared.spend_credits(grant.target, payload.len()) {
                    return Ok(());
                }
                if grant.store(memory, part.address, payload).is_err() {
                    return Err(CompletionStatus::LocalQueuePairOperationError.into());
                }
            }
            Ok(None) => {}
            Err(()) => {
                shared.counters.send_err += 1;
                return Err(CompletionStatus::LocalProtectionError.into());
            }
        }
        self.entries[0].received += 1;
        if self.entries[0].received == entry.packets {
            self.awaited.pop_front();
        }
        self.advance(now, sequence + 1, setup, shared)?;
        Ok(())
    }

    /// The acknowledgement time-out has passed, or the wait after a receiver-not-ready NAK.
    pub(super) fn handle_deadline(&mut self, now: Instant, shared: &mut Shared) -> Result<(), Fault> {
        match self.timer.filter(|&(_, at)| at <= now) {
            None => Ok(()),
            Some((Wait::ReceiverReady, _)) => {
                self.timer = None;
                Ok(())
            }
            Some((Wait::Acknowledgement, _)) => {
                shared.counters.ack_timeout += 1;
                self.implied = None;
                self.retry(now, Loss::TimeOut, shared)
            }
        }
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
    }

    /// Takes everything before `end` as acknowledged, but nothing that waits for a response. Says whether
    /// there is such a response before `end`: it is missing.
    fn advance(&mut self, now: Instant, end: u64, setup: &Setup, shared: &mut Shared) -> Result<bool, Fault> {
        let missing = self.next_response().filter(|&response| response < end);
        let end = missing.unwrap_or(end);
        if end > self.unacknowledged {
            self.congestion.on_ack(now, (end - self.unacknowledged) as u32);
            self.unacknowledged = end;
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

    /// A later answer shows that a response is missing: an implied NAK (clause 9.7.5.2.7). Goes back once;
    /// if that is lost too, the time-out helps.
    fn go_back_for_response(&mut self, now: Instant, shared: &mut Shared) -> Result<(), Fault> {
        if self.implied == Some(self.unacknowledged) {
            return Ok(());
        }
        self.implied = Some(self.unacknowledged);
        shared.counters.implied_nak_seq_err += 1;
        self.retry(now, Loss::Gap, shared)
    }

    /// Spends one retry and goes back to the oldest packet that is not acknowledged.
    fn retry(&mut self, now: Instant, loss: Loss, shared: &mut Shared) -> Result<(), Fault> {
        let Some(rest) = self.retries.checked_sub(1) else {
            shared.counters.retry_exceeded_err += 1;
            return Err(CompletionStatus::RetryExceeded.into());
        };
        self.retries = rest;
        shared.counters.completer_retry_err += 1;
        self.congestion.on_loss(now, loss);
        self.rewind();
        self.timer = None;
        Ok(())
    }

    /// Moves the cursor to the oldest packet that is not acknowledged.
    fn rewind(&mut self) {
        let packet = self.entries.front().map_or(0, |entry| (self.unacknowledged - entry.first) as u32);
        self.cursor = Cursor { serial: self.first_serial, packet };
        self.failed = None;
        // The first packet that is sent again asks for an acknowledgement: perhaps all that is missing is one.
        self.since_request = self.window_limit;
    }

    fn restore_retries(&mut self, setup: &Setup) {
        self.retries = setup.retry_cnt;
        self.rnr_retries = setup.rnr_retry;
    }

    fn wait_for_acknowledgement(&mut self, now: Instant, setup: &Setup) {
        self.timer = setup.timeout.map(|timeout| (Wait::Acknowledgement, now + timeout));
    }

    /// After how many packets an acknowledgement is due. Four times in a window, so that one that is halved
    /// on its way does not leave the requester waiting for an acknowledgement that nobody was asked for.
    fn acknowledge_interval(&self, shared: &Shared) -> u32 {
        shared.acknowledge_interval.min(self.window() / 4).max(1)
    }

    fn at_cursor(&self) -> Option<&Entry> {
        self.entries.get((self.cursor.serial - self.first_serial) as usize)
    }

    /// Whether the request at the cursor is a READ or atomic that has been sent before.
    fn is_awaited(&self) -> bool {
        self.awaited.back().is_some_and(|&last| self.cursor.serial <= last)
    }

    /// The request at the cursor cannot be made. It fails when all before it have completed, so that
    /// completions keep their order.
    fn fail_at_cursor(&mut self, status: CompletionStatus, shared: &mut Shared) -> Result<bool, Fault> {
        shared.counters.send_err += 1;
        if self.cursor.serial == self.first_serial {
            return Err(status.into());
        }
        self.failed = Some(status.into());
        Ok(false)
    }
}

/// The local memory of packet `packet` of `entry`; for a READ, of all packets from there on.
fn part_of(entry: &Entry, packet: u32, mtu: u32) -> LocalBuffer {
    let LocalBuffer { address, length, lkey } = entry.request.local;
    // A message has at most 2^31 bytes, so this fits.
    let offset = packet * mtu;
    let rest = length - offset;
    let length = if matches!(entry.request.operation, Operation::Read { .. }) { rest } else { rest.min(mtu) };
    LocalBuffer { address: address.wrapping_add(u64::from(offset)), length, lkey }
}

/// Checks the local memory of a packet; nothing needs to be checked for no bytes.
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

fn opcode(entry: &Entry, packet: u32) -> Opcode {
    let first = packet == 0;
    let last = packet + 1 == entry.packets;
    match entry.request.operation {
        Operation::Send { immediate } => match (first, last, immediate.is_some()) {
            (true, true, false) => Opcode::SendOnly,
            (true, true, true) => Opcode::SendOnlyWithImmediate,
            (true, false, _) => Opcode::SendFirst,
            (false, false, _) => Opcode::SendMiddle,
            (false, true, false) => Opcode::SendLast,
            (false, true, true) => Opcode::SendLastWithImmediate,
        },
        Operation::Write { immediate, .. } => match (first, last, immediate.is_some()) {
            (true, true, false) => Opcode::WriteOnly,
            (true, true, true) => Opcode::WriteOnlyWithImmediate,
            (true, false, _) => Opcode::WriteFirst,
            (false, false, _) => Opcode::WriteMiddle,
            (false, true, false) => Opcode::WriteLast,
            (false, true, true) => Opcode::WriteLastWithImmediate,
        },
        Operation::Read { .. } => Opcode::ReadRequest,
        Operation::FetchAdd { .. } => Opcode::FetchAdd,
        Operation::CompareSwap { .. } => Opcode::CompareSwap,
    }
}
