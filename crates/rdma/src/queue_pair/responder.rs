//! The responder: carries out the peer's requests in the order of their PSNs and answers them.
//!
//! Answers leave in the order of their PSNs too: first the queued responses of READs and atomics, then the one
//! acknowledgement that may be pending. Since an acknowledgement speaks for everything before it, a
//! later one takes the place of an earlier one: that is all the coalescing there is.

use std::collections::VecDeque;

use weft_wire::roce::{Aeth, MASK_24, NakCode, Opcode, Packet, Reth, Syndrome};

use super::{Setup, emit};
use crate::completion::{Completion, CompletionOpcode, CompletionStatus};
use crate::memory::RegionMemory;
use crate::region::{AccessFlags, Grant, Request};
use crate::rpc::RpcWrite;
use crate::shared::Shared;
use crate::work::{LocalBuffer, ReceiveRequest};
use crate::{ApiError, psn};

/// The credit count code that says "credits are not used" (clause 9.7.7.2.4).
const NO_CREDITS: Syndrome = Syndrome::Ack { credits: 31 };

/// The longest message of the specification.
const MESSAGE_BYTES_MAX: u32 = 1 << 31;

/// The queue pair must enter the ERROR state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused;

/// Why a request in its turn is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// As if the packet had never arrived; counted.
    Drop,
    /// No receive request is posted.
    NotReady,
    /// The peer is told why, and the connection ends.
    Nak(NakCode),
    /// As `Nak`, and the receive request that the message would have filled fails.
    NakReceive(NakCode, CompletionStatus),
}

/// The message of which the next packet is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inbound {
    Idle,
    /// A SEND of which `done` bytes lie in the oldest receive request.
    Send {
        done: u32,
    },
    /// A WRITE of which `done` bytes are written.
    Write {
        reth: Reth,
        done: u32,
    },
}

/// What is kept of a READ or atomic to answer its duplicates (clause 9.7.4.2: responder resources).
#[derive(Clone, Copy, Debug)]
struct Saved {
    first: u64,
    packets: u32,
    body: Body,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Read(Reth),
    Atomic { original: u64 },
}

/// A response that is due or under way.
#[derive(Clone, Copy, Debug)]
struct Response {
    first: u64,
    packets: u32,
    sent: u32,
    body: Body,
    duplicate: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acknowledgement {
    /// Of everything that has been carried out when it leaves.
    Positive,
    Negative {
        syndrome: Syndrome,
        sequence: u64,
    },
}

#[derive(Debug)]
pub(super) struct Responder {
    receives: VecDeque<ReceiveRequest>,
    depth: usize,
    /// Sequence number of the next packet in order.
    expected: u64,
    /// Messages carried out, 24 bits.
    msn: u32,
    inbound: Inbound,
    /// The peer has been told to send again from `expected`; until that arrives, later packets are dropped.
    gap_reported: bool,
    /// One past the highest sequence number that arrived too early and was dropped.
    dropped: u64,
    saved: VecDeque<Saved>,
    responses: VecDeque<Response>,
    /// The most READs and atomics in `saved`, and the most in `responses`, once for originals and once
    /// for duplicates.
    resources: usize,
    acknowledgement: Option<Acknowledgement>,
    /// A request met congestion, which the next answer says.
    marked: bool,
}

impl Responder {
    pub(super) fn new(depth: u32) -> Self {
        Self {
            receives: VecDeque::with_capacity(depth as usize),
            depth: depth as usize,
            expected: 0,
            msn: 0,
            inbound: Inbound::Idle,
            gap_reported: false,
            dropped: 0,
            saved: VecDeque::new(),
            responses: VecDeque::new(),
            resources: 0,
            acknowledgement: None,
            marked: false,
        }
    }

    /// Begins a connection whose first request has the PSN `rq_psn`.
    pub(super) fn start(&mut self, rq_psn: u32, resources: usize) {
        self.expected = psn::initial(rq_psn);
        self.msn = 0;
        self.inbound = Inbound::Idle;
        self.gap_reported = false;
        self.dropped = self.expected;
        self.saved.clear();
        self.saved.reserve(resources);
        self.forget_output();
        self.responses.reserve(2 * resources);
        self.resources = resources;
    }

    pub(super) fn expected(&self) -> u64 {
        self.expected
    }

    pub(super) fn queued(&self) -> usize {
        self.receives.len()
    }

    pub(super) fn post(&mut self, request: ReceiveRequest, shared: &mut Shared) -> Result<(), ApiError> {
        if self.receives.len() == self.depth {
            return Err(ApiError::QueueFull(self.depth));
        }
        shared.completions.reserve()?;
        self.receives.push_back(request);
        Ok(())
    }

    /// Completes all receive requests as flushed.
    pub(super) fn flush(&mut self, setup: &Setup, shared: &mut Shared) {
        self.inbound = Inbound::Idle;
        while !self.receives.is_empty() {
            self.complete_receive(CompletionStatus::WorkRequestFlushed, setup, shared);
        }
    }

    /// Forgets everything without completions; returns how many receive requests there were.
    pub(super) fn clear(&mut self) -> usize {
        let count = self.receives.len();
        self.receives.clear();
        self.inbound = Inbound::Idle;
        self.forget_output();
        count
    }

    /// Forgets the answers that are due.
    pub(super) fn forget_output(&mut self) {
        self.responses.clear();
        self.acknowledgement = None;
        self.marked = false;
    }

    pub(super) fn has_output(&self) -> bool {
        !self.responses.is_empty() || self.acknowledgement.is_some()
    }

    /// Takes a request packet.
    pub(super) fn receive(
        &mut self,
        packet: &Packet<'_>,
        setup: &Setup,
        shared: &mut Shared,
        memory: &mut impl RegionMemory,
    ) -> Result<(), Refused> {
        if !is_well_formed(packet) {
            shared.counters.drop_malformed += 1;
            return Ok(());
        }
        self.marked |= packet.bth.congestion.forward;
        let sequence = psn::extend(packet.bth.psn, self.expected);
        if sequence > self.expected {
            self.receive_ahead(sequence, shared);
            return Ok(());
        }
        if sequence < self.expected {
            self.receive_duplicate(sequence, packet, setup, shared);
            return Ok(());
        }
        let earlier = self.acknowledgement;
        match self.carry_out(packet, setup, shared, memory) {
            Ok(packets) => {
                self.expected += u64::from(packets);
                self.gap_reported = false;
                self.acknowledge(packet);
                if earlier == Some(Acknowledgement::Positive) {
                    shared.counters.ack_deferred += 1;
                }
                Ok(())
            }
            Err(Refusal::Drop) => Ok(()),
            Err(Refusal::NotReady) => {
                shared.counters.send_rnr_err += 1;
                self.gap_reported = true;
                self.refuse(Syndrome::RnrNak { timer: setup.min_rnr_timer }, self.expected);
                Ok(())
            }
            Err(Refusal::Nak(code)) => {
                shared.count_sent_nak(code);
                self.refuse(Syndrome::Nak(code), self.expected);
                Err(Refused)
            }
            Err(Refusal::NakReceive(code, status)) => {
                shared.count_sent_nak(code);
                self.refuse(Syndrome::Nak(code), self.expected);
                self.complete_receive(status, setup, shared);
                Err(Refused)
            }
        }
    }

    /// Makes one packet of the oldest answer that is due. Returns false if it turned into a refusal.
    pub(super) fn transmit(
        &mut self,
        setup: &Setup,
        shared: &mut Shared,
        memory: &mut impl RegionMemory,
        out: &mut Vec<u8>,
    ) -> Result<bool, Refused> {
        let Some(response) = self.responses.front().copied() else {
            self.transmit_acknowledgement(setup, shared, out);
            return Ok(true);
        };
        let sequence = response.first + u64::from(response.sent);
        let last = response.sent + 1 == response.packets;
        let aeth = Some(Aeth { syndrome: NO_CREDITS, msn: self.msn });
        match response.body {
            Body::Atomic { original } => {
                let mut packet = Packet::new(setup.header(shared, Opcode::AtomicAcknowledge, sequence), &[]);
                packet.aeth = aeth;
                packet.atomic_ack = Some(original);
                packet.bth.congestion.backward = std::mem::take(&mut self.marked);
                emit(&packet, shared, out);
            }
            Body::Read(reth) => {
                let opcode = match (response.sent == 0, last) {
                    (true, true) => Opcode::ReadResponseOnly,
                    (true, false) => Opcode::ReadResponseFirst,
                    (false, false) => Opcode::ReadResponseMiddle,
                    (false, true) => Opcode::ReadResponseLast,
                };
                // The permission may have gone since the request came.
                let offset = response.sent * setup.mtu;
                let part = Reth {
                    address: reth.address + u64::from(offset),
                    length: (reth.length - offset).min(setup.mtu),
                    ..reth
                };
                let payload = match read_part(&part, setup, shared, memory) {
                    Ok(payload) => payload,
                    Err(code) => return self.abandon_response(response, code, shared),
                };
                let mut packet = Packet::new(setup.header(shared, opcode, sequence), payload);
                packet.aeth = aeth.filter(|_| opcode.has_aeth());
                packet.bth.congestion.backward = std::mem::take(&mut self.marked);
                emit(&packet, shared, out);
            }
        }
        if last {
            self.responses.pop_front();
        } else {
            self.responses[0].sent += 1;
        }
        Ok(true)
    }

    fn transmit_acknowledgement(&mut self, setup: &Setup, shared: &mut Shared, out: &mut Vec<u8>) {
        let (syndrome, sequence) = match self.acknowledgement.take() {
            Some(Acknowledgement::Positive) => (NO_CREDITS, self.expected - 1),
            Some(Acknowledgement::Negative { syndrome, sequence }) => (syndrome, sequence),
            None => unreachable!("only a responder with output transmits"),
        };
        let mut packet = Packet::new(setup.header(shared, Opcode::Acknowledge, sequence), &[]);
        packet.aeth = Some(Aeth { syndrome, msn: self.msn });
        packet.bth.congestion.backward = std::mem::take(&mut self.marked);
        emit(&packet, shared, out);
    }

    /// A READ that was accepted cannot be answered any more. The requester learns it at the packet that is
    /// missing. A duplicate may be one that the requester no longer waits for: then the refusal means nothing
    /// to it, and the connection goes on.
    fn abandon_response(
        &mut self,
        response: Response,
        code: NakCode,
        shared: &mut Shared,
    ) -> Result<bool, Refused> {
        shared.count_sent_nak(code);
        let sequence = response.first + u64::from(response.sent);
        if response.duplicate {
            self.responses.pop_front();
        } else {
            self.responses.clear();
        }
        self.refuse(Syndrome::Nak(code), sequence);
        if response.duplicate { Ok(false) } else { Err(Refused) }
    }

    /// Brings the acknowledgement that is due in line with a request that was just carried out.
    fn acknowledge(&mut self, packet: &Packet<'_>) {
        self.acknowledgement = match self.acknowledgement {
            // The gap is smaller than the refusal says that is about to leave, but what came behind it has
            // been dropped all the same.
            Some(Acknowledgement::Negative { .. }) if self.expected < self.dropped => {
                self.gap_reported = true;
                let syndrome = Syndrome::Nak(NakCode::PsnSequenceError);
                Some(Acknowledgement::Negative { syndrome, sequence: self.expected })
            }
            // A response acknowledges by itself.
            _ if asks_for_response(packet.bth.opcode) => None,
            None if !packet.bth.acknowledge => None,
            _ => Some(Acknowledgement::Positive),
        };
    }

    fn refuse(&mut self, syndrome: Syndrome, sequence: u64) {
        self.acknowledgement = Some(Acknowledgement::Negative { syndrome, sequence });
    }

    /// A request from behind a gap: the first is reported, the others wait for the gap to be filled.
    fn receive_ahead(&mut self, sequence: u64, shared: &mut Shared) {
        self.dropped = self.dropped.max(sequence + 1);
        shared.counters.out_of_seq_request += 1;
        if self.gap_reported {
            shared.counters.drop_out_of_sequence += 1;
        } else {
            self.gap_reported = true;
            self.refuse(Syndrome::Nak(NakCode::PsnSequenceError), self.expected);
        }
    }

    /// A request that was carried out before (clause 9.7.4.1.4, table 33): SENDs and WRITEs are only
    /// acknowledged again, READs carried out again, atomics answered from what was saved.
    fn receive_duplicate(&mut self, sequence: u64, packet: &Packet<'_>, setup: &Setup, shared: &mut Shared) {
        shared.counters.duplicate_request += 1;
        if !asks_for_response(packet.bth.opcode) {
            // A refusal that is still due says as much about what was carried out.
            self.acknowledgement.get_or_insert(Acknowledgement::Positive);
            return;
        }
        let Some(saved) = self
            .saved
            .iter()
            .rev()
            .find(|saved| (saved.first..saved.first + u64::from(saved.packets)).contains(&sequence))
        else {
            shared.counters.drop_unknown_duplicate += 1;
            return;
        };
        let (body, packets) = match (saved.body, packet.reth) {
            (Body::Read(original), Some(again))
                if is_part(&original, &again, sequence - saved.first, setup.mtu) =>
            {
                (Body::Read(again), setup.packets(again.length))
            }
            (Body::Atomic { original }, None) => (Body::Atomic { original }, 1),
            _ => {
                shared.counters.drop_unknown_duplicate += 1;
                return;
            }
        };
        let waiting = self.responses.iter().filter(|response| response.duplicate).count();
        let same = |response: &Response| response.first == sequence && response.sent == 0;
        if waiting >= self.resources || self.responses.iter().any(same) {
            shared.counters.drop_duplicate_busy += 1;
            return;
        }
        self.responses.push_back(Response { first: sequence, packets, sent: 0, body, duplicate: true });
    }

    /// Carries out the packet whose turn it is. Returns how many sequence numbers it takes.
    fn carry_out(
        &mut self,
        packet: &Packet<'_>,
        setup: &Setup,
        shared: &mut Shared,
        memory: &mut impl RegionMemory,
    ) -> Result<u32, Refusal> {
        let opcode = packet.bth.opcode;
        // A message must end before the next begins, and only one that began goes on.
        if opcode.starts_message() != (self.inbound == Inbound::Idle) {
            return Err(Refusal::Nak(NakCode::InvalidRequest));
        }
        match opcode {
            Opcode::SendFirst | Opcode::SendOnly | Opcode::SendOnlyWithImmediate => {
                self.carry_out_send(0, packet, setup, shared, memory)
            }
            Opcode::SendMiddle | Opcode::SendLast | Opcode::SendLastWithImmediate => match self.inbound {
                Inbound::Send { done } => self.carry_out_send(done, packet, setup, shared, memory),
                _ => Err(Refusal::Nak(NakCode::InvalidRequest)),
            },
            Opcode::WriteFirst | Opcode::WriteOnly | Opcode::WriteOnlyWithImmediate => {
                let reth = packet.reth.expect("the packet is well formed");
                // The whole range is checked at once, so that no part of a WRITE that leaves its region lands.
                if reth.length > 0 {
                    allow(setup, AccessFlags::REMOTE_WRITE, shared)?;
                    check(&reth, AccessFlags::REMOTE_WRITE, setup, shared).map_err(Refusal::Nak)?;
                }
                self.carry_out_write(reth, 0, packet, setup, shared, memory)
            }
            Opcode::WriteMiddle | Opcode::WriteLast | Opcode::WriteLastWithImmediate => match self.inbound {
                Inbound::Write { reth, done } => {
                    self.carry_out_write(reth, done, packet, setup, shared, memory)
                }
                _ => Err(Refusal::Nak(NakCode::InvalidRequest)),
            },
            Opcode::ReadRequest => self.carry_out_read(packet, setup, shared),
            Opcode::CompareSwap | Opcode::FetchAdd => self.carry_out_atomic(packet, setup, shared, memory),
            _ => unreachable!("responses go to the requester"),
        }
    }

    fn carry_out_send(
        &mut self,
        done: u32,
        packet: &Packet<'_>,
        setup: &Setup,
        shared: &mut Shared,
        memory: &mut impl RegionMemory,
    ) -> Result<u32, Refusal> {
        let last = packet.bth.opcode.ends_message();
        check_payload_length(packet, setup)?;
        let receive = *self.receives.front().ok_or(Refusal::NotReady)?;
        let length = packet.payload.len() as u32;
        if length > receive.local.length - done {
            return Err(Refusal::NakReceive(NakCode::InvalidRequest, CompletionStatus::LocalLengthError));
        }
        if length > 0 {
            let LocalBuffer { address, lkey, .. } = receive.local;
            let operational = |status| Refusal::NakReceive(NakCode::RemoteOperationalError, status);
            let address = address
                .checked_add(u64::from(done))
                .ok_or(operational(CompletionStatus::LocalProtectionError))?;
            let request = Request {
                key: lkey,
                domain: setup.domain,
                address,
                length: u64::from(length),
                needs: AccessFlags::LOCAL_WRITE,
            };
            let grant = shared
                .check_local(request)
                .map_err(|_| operational(CompletionStatus::LocalProtectionError))?;
            if !shared.spend_credits(grant.target, packet.payload.len()) {
                return Err(Refusal::Drop);
            }
            grant
                .store(memory, address, packet.payload)
                .map_err(|_| operational(CompletionStatus::LocalQueuePairOperationError))?;
        }
        let done = done + length;
        if last {
            self.inbound = Inbound::Idle;
            self.count_message();
            shared.counters.rdma_recvs += 1;
            self.receives.pop_front();
            shared.completions.push(Completion {
                id: receive.id,
                status: CompletionStatus::Success,
                opcode: CompletionOpcode::Receive,
                bytes: done,
                immediate: packet.immediate,
                queue_pair: setup.number,
                vendor_error: 0,
            });
        } else {
            self.inbound = Inbound::Send { done };
        }
        Ok(1)
    }

    fn carry_out_write(
        &mut self,
        reth: Reth,
        done: u32,
        packet: &Packet<'_>,
        setup: &Setup,
        shared: &mut Shared,
        memory: &mut impl RegionMemory,
    ) -> Result<u32, Refusal> {
        let last = packet.bth.opcode.ends_message();
        check_payload_length(packet, setup)?;
        let length = packet.payload.len() as u32;
        let rest = reth.length.checked_sub(done).expect("a WRITE never exceeds its length");
        let fits = if last { length == rest } else { length < rest };
        if !fits || reth.length > MESSAGE_BYTES_MAX {
            return Err(Refusal::Nak(NakCode::InvalidRequest));
        }
        let part = Reth { address: reth.address.wrapping_add(u64::from(done)), length, ..reth };
        // A WRITE of no bytes needs no permission (clause 9.7.4.1.5), but it can call an engine where it has one.
        let grant = if length > 0 {
            allow(setup, AccessFlags::REMOTE_WRITE, shared)?;
            Some(check(&part, AccessFlags::REMOTE_WRITE, setup, shared).map_err(Refusal::Nak)?)
        } else {
            let request = access(&part, AccessFlags::REMOTE_WRITE, setup);
            shared
                .regions
                .check_remote(request)
                .ok()
                .filter(|_| setup.access.contains(AccessFlags::REMOTE_WRITE))
        };
        let call = grant.filter(|_| last).and_then(|grant| {
            Some(RpcWrite {
                engine: grant.rpc?,
                queue_pair: setup.number,
                target: grant.target,
                address: reth.address,
                length: reth.length,
                immediate: packet.immediate,
            })
        });
        let consumes_receive = packet.immediate.is_some() && call.is_none();
        if consumes_receive && self.receives.is_empty() {
            return Err(Refusal::NotReady);
        }
        if call.is_some() && shared.rpc.is_full() {
            shared.counters.drop_rpc_queue_full += 1;
            return Err(Refusal::Drop);
        }
        if let Some(grant) = grant.filter(|_| length > 0) {
            if !shared.spend_credits(grant.target, packet.payload.len()) {
                return Err(Refusal::Drop);
            }
            grant
                .store(memory, part.address, packet.payload)
                .map_err(|_| Refusal::Nak(NakCode::RemoteOperationalError))?;
        }
        if !last {
            self.inbound = Inbound::Write { reth, done: done + length };
            return Ok(1);
        }
        self.inbound = Inbound::Idle;
        self.count_message();
        if let Some(call) = call {
            shared.counters.rpc_calls += 1;
            shared.rpc.push(call);
        }
        if consumes_receive {
            let receive = self.receives.pop_front().expect("checked above");
            shared.completions.push(Completion {
                id: receive.id,
                status: CompletionStatus::Success,
                opcode: CompletionOpcode::ReceiveWriteWithImmediate,
                bytes: reth.length,
                immediate: packet.immediate,
                queue_pair: setup.number,
                vendor_error: 0,
            });
        }
        Ok(1)
    }

    fn carry_out_read(
        &mut self,
        packet: &Packet<'_>,
        setup: &Setup,
        shared: &mut Shared,
    ) -> Result<u32, Refusal> {
        let reth = packet.reth.expect("the packet is well formed");
        self.claim_resource()?;
        if reth.length > MESSAGE_BYTES_MAX {
            return Err(Refusal::Nak(NakCode::InvalidRequest));
        }
        if reth.length > 0 {
            allow(setup, AccessFlags::REMOTE_READ, shared)?;
            check(&reth, AccessFlags::REMOTE_READ, setup, shared).map_err(Refusal::Nak)?;
        }
        let packets = setup.packets(reth.length);
        self.respond(packets, Body::Read(reth));
        Ok(packets)
    }

    fn carry_out_atomic(
        &mut self,
        packet: &Packet<'_>,
        setup: &Setup,
        shared: &mut Shared,
        memory: &mut impl RegionMemory,
    ) -> Result<u32, Refusal> {
        let atomic = packet.atomic.expect("the packet is well formed");
        self.claim_resource()?;
        allow(setup, AccessFlags::REMOTE_ATOMIC, shared)?;
        if atomic.address % 8 != 0 {
            return Err(Refusal::Nak(NakCode::InvalidRequest));
        }
        let word = Reth { address: atomic.address, rkey: atomic.rkey, length: 8 };
        let grant: Grant = check(&word, AccessFlags::REMOTE_ATOMIC, setup, shared).map_err(Refusal::Nak)?;
        let fault = |_| Refusal::Nak(NakCode::RemoteOperationalError);
        let bytes = memory.read(grant.target, atomic.address, 8).map_err(fault)?;
        let original =
            u64::from_le_bytes(bytes.try_into().map_err(|_| Refusal::Nak(NakCode::RemoteOperationalError))?);
        let value = match packet.bth.opcode {
            Opcode::FetchAdd => Some(original.wrapping_add(atomic.swap_or_add)),
            _ => (original == atomic.compare).then_some(atomic.swap_or_add),
        };
        if let Some(value) = value {
            grant.store(memory, atomic.address, &value.to_le_bytes()).map_err(fault)?;
        }
        self.respond(1, Body::Atomic { original });
        Ok(1)
    }

    /// A peer that has more READs and atomics outstanding than was agreed makes an invalid request.
    fn claim_resource(&self) -> Result<(), Refusal> {
        let waiting = self.responses.iter().filter(|response| !response.duplicate).count();
        if waiting < self.resources { Ok(()) } else { Err(Refusal::Nak(NakCode::InvalidRequest)) }
    }

    /// Queues the response to a READ or atomic and keeps what its duplicates need.
    fn respond(&mut self, packets: u32, body: Body) {
        self.count_message();
        if self.saved.len() == self.resources {
            self.saved.pop_front();
        }
        self.saved.push_back(Saved { first: self.expected, packets, body });
        let response = Response { first: self.expected, packets, sent: 0, body, duplicate: false };
        self.responses.push_back(response);
    }

    fn count_message(&mut self) {
        self.msn = (self.msn + 1) & MASK_24;
    }

    fn complete_receive(&mut self, status: CompletionStatus, setup: &Setup, shared: &mut Shared) {
        let receive = self.receives.pop_front().expect("there is a receive request to complete");
        shared.completions.push(Completion {
            id: receive.id,
            status,
            opcode: CompletionOpcode::Receive,
            bytes: 0,
            immediate: None,
            queue_pair: setup.number,
            vendor_error: 0,
        });
    }
}

/// Checks what the queue pair as a whole lets its peer do.
fn allow(setup: &Setup, needs: AccessFlags, shared: &mut Shared) -> Result<(), Refusal> {
    if setup.access.contains(needs) {
        return Ok(());
    }
    shared.counters.violation_permission += 1;
    Err(Refusal::Nak(NakCode::InvalidRequest))
}

fn access(reth: &Reth, needs: AccessFlags, setup: &Setup) -> Request {
    Request {
        key: reth.rkey,
        domain: setup.domain,
        address: reth.address,
        length: u64::from(reth.length),
        needs,
    }
}

fn check(reth: &Reth, needs: AccessFlags, setup: &Setup, shared: &mut Shared) -> Result<Grant, NakCode> {
    shared.check_remote(access(reth, needs, setup)).map_err(|_| NakCode::RemoteAccessError)
}

/// The memory that one packet of a READ response carries.
fn read_part<'a>(
    part: &Reth,
    setup: &Setup,
    shared: &mut Shared,
    memory: &'a mut impl RegionMemory,
) -> Result<&'a [u8], NakCode> {
    if part.length == 0 {
        return Ok(&[]);
    }
    let grant = check(part, AccessFlags::REMOTE_READ, setup, shared)?;
    let fault = |_| NakCode::RemoteOperationalError;
    memory.read(grant.target, part.address, part.length as usize).map_err(fault)
}

/// Whether `again` asks for a part of the READ `original`, from its packet `packet` on.
fn is_part(original: &Reth, again: &Reth, packet: u64, mtu: u32) -> bool {
    let offset = packet * u64::from(mtu);
    again.rkey == original.rkey
        && again.address == original.address.wrapping_add(offset)
        && u64::from(again.length) <= u64::from(original.length) - offset
}

/// A FIRST or MIDDLE packet is full, a LAST one holds something, and none holds more than the path carries.
fn check_payload_length(packet: &Packet<'_>, setup: &Setup) -> Result<(), Refusal> {
    let mtu = setup.mtu as usize;
    let length = packet.payload.len();
    let opcode = packet.bth.opcode;
    let right = if opcode.is_first() || opcode.is_middle() {
        length == mtu
    } else {
        length <= mtu && (length > 0 || !opcode.is_last())
    };
    if right { Ok(()) } else { Err(Refusal::Nak(NakCode::InvalidRequest)) }
}

/// Whether the packet has exactly the extended headers that its opcode calls for.
fn is_well_formed(packet: &Packet<'_>) -> bool {
    let opcode = packet.bth.opcode;
    packet.reth.is_some() == opcode.has_reth()
        && packet.atomic.is_some() == opcode.has_atomic()
        && packet.immediate.is_some() == opcode.has_immediate()
}

fn asks_for_response(opcode: Opcode) -> bool {
    opcode == Opcode::ReadRequest || opcode.is_atomic()
}
