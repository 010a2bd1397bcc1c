//! The responder: executes the peer's requests in the order of their PSNs, and answers them.
//!
//! Answers are sent in the order of PSNs too: first the due responses of READs and atomics, then the
//! acknowledgement that may be pending. An acknowledgement covers everything before it, so a later one
//! replaces an earlier one. There is no other coalescing.

mod execute;
mod resources;

use std::collections::VecDeque;

use weft_verbs::{AccessFlags, ApiError, Completion, CompletionOpcode, CompletionStatus, ReceiveRequest};
use weft_wire::roce::{Aeth, MASK_24, NakCode, Opcode, Packet, Reth, Syndrome};

use super::{Setup, emit};
use crate::memory::RegionMemory;
use crate::psn;
use crate::region::{Grant, Request};
use crate::reorder::Reorder;
use crate::shared::Shared;
use crate::shared_receive::SharedReceiveQueueNumber;
use crate::sink::PacketSink;
use resources::{Body, Resources, Response};

/// The credit count code that says "credits are not used" (clause 9.7.7.2.4).
const NO_CREDITS: Syndrome = Syndrome::Ack { credits: 31 };

/// The queue pair must enter the ERROR state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused;

/// The reason why a request in PSN order is not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// The packet is dropped as if it had never arrived, and counted.
    Drop,
    /// No receive request is posted.
    NotReady,
    /// The responder sends a NAK with this code, and the connection ends.
    Nak(NakCode),
    /// As `Nak`, and the receive request that the message was to fill fails.
    NakReceive(NakCode, CompletionStatus),
}

/// The message to which the next packet belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inbound {
    Idle,
    /// A SEND of which `done` bytes are in the oldest receive request's memory.
    Send {
        done: u32,
    },
    /// A WRITE of which `done` bytes are stored.
    Write {
        reth: Reth,
        done: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acknowledgement {
    /// Acknowledges everything up to this PSN, which is never that of a READ or atomic: some requesters take
    /// an acknowledgement with such a PSN for the response itself.
    Positive { sequence: u64 },
    Negative {
        syndrome: Syndrome,
        sequence: u64,
        /// Whether packets beyond the gap are kept, so that only the packet with this PSN is missing.
        kept: bool,
    },
}

/// What is known about the expected packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    /// No later packet has arrived.
    None,
    /// Its loss was reported to the peer, which sends it again alone, because later packets are kept.
    Repair,
    /// Its loss was reported to the peer, which sends it and all later packets again.
    GoBack,
    /// There was no receive request for it. The peer sends it and all later packets again, so later packets
    /// are dropped.
    NotReady,
}

impl Gap {
    /// A gap that is reported with this promise.
    fn reported(kept: bool) -> Self {
        if kept { Self::Repair } else { Self::GoBack }
    }
}

/// The later request that revealed the gap. If it arrives again, the peer has gone back, and the missing packet
/// was lost again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Witness {
    None,
    /// The request with this sequence number.
    Packet(u64),
    /// Any request that the peer must have sent before: one that is kept, or the one right behind the gap.
    Repeated,
}

#[derive(Debug)]
pub(super) struct Responder {
    receives: VecDeque<ReceiveRequest>,
    depth: usize,
    /// The shared queue from which receive requests are taken, one when a message needs one; `None` if they
    /// are posted to this queue pair.
    source: Option<SharedReceiveQueueNumber>,
    /// Sequence number of the next packet in order.
    expected: u64,
    /// Number of messages executed, 24 bits (MSN).
    msn: u32,
    inbound: Inbound,
    /// Whether a service has marked a packet of the message.
    marked: bool,
    gap: Gap,
    witness: Witness,
    /// The sequence number after the highest one that arrived out of order.
    early: u64,
    /// A packet behind the gap found no place. The peer sends it again with all behind it, so those are not kept
    /// either. Otherwise the places would fill with packets that are separated by others, each of them a gap of its
    /// own.
    overflow: bool,
    reorder: Reorder,
    resources: Resources,
    acknowledgement: Option<Acknowledgement>,
}

impl Responder {
    pub(super) fn new(depth: u32) -> Self {
        Self {
            receives: VecDeque::with_capacity(depth as usize),
            depth: depth as usize,
            source: None,
            expected: 0,
            msn: 0,
            inbound: Inbound::Idle,
            marked: false,
            gap: Gap::None,
            witness: Witness::None,
            early: 0,
            overflow: false,
            reorder: Reorder::new(),
            resources: Resources::default(),
            acknowledgement: None,
        }
    }

    /// Starts a connection whose first request has the PSN `rq_psn`.
    pub(super) fn start(&mut self, rq_psn: u32, resources: usize) {
        self.expected = psn::initial(rq_psn);
        self.msn = 0;
        self.inbound = Inbound::Idle;
        self.gap = Gap::None;
        self.witness = Witness::None;
        self.early = self.expected;
        self.overflow = false;
        self.forget_output();
        self.resources.start(resources);
    }

    pub(super) fn expected(&self) -> u64 {
        self.expected
    }

    pub(super) fn queued(&self) -> usize {
        self.receives.len()
    }

    /// Makes the responder take receive requests from a shared queue from now on.
    pub(super) fn share(&mut self, source: SharedReceiveQueueNumber) {
        self.receives.reserve(1);
        self.source = Some(source);
    }

    /// The receive request for the next message. It is taken from the shared queue if necessary.
    fn next_receive(&mut self, shared: &mut Shared) -> Option<ReceiveRequest> {
        if self.receives.is_empty() {
            self.receives.push_back(shared.receives.take(self.source?)?);
        }
        self.receives.front().copied()
    }

    pub(super) fn post(&mut self, request: ReceiveRequest, shared: &mut Shared) -> Result<(), ApiError> {
        if self.source.is_some() || self.receives.len() == self.depth {
            return Err(ApiError::QueueFull(self.depth));
        }
        shared.completions.reserve()?;
        self.receives.push_back(request);
        Ok(())
    }

    /// Completes all receive requests as flushed.
    pub(super) fn flush(&mut self, setup: &Setup, shared: &mut Shared) {
        self.inbound = Inbound::Idle;
        self.reorder.clear(&mut shared.reorder);
        while !self.receives.is_empty() {
            self.complete_receive(CompletionStatus::WorkRequestFlushed, setup, shared);
        }
    }

    /// Drops all requests without completions, and returns the number of receive requests.
    pub(super) fn clear(&mut self, shared: &mut Shared) -> usize {
        self.reorder.clear(&mut shared.reorder);
        let count = self.receives.len();
        self.receives.clear();
        self.inbound = Inbound::Idle;
        self.forget_output();
        count
    }

    /// Drops the answers that are due.
    pub(super) fn forget_output(&mut self) {
        self.resources.forget_responses();
        self.acknowledgement = None;
    }

    #[inline]
    pub(super) fn has_output(&self) -> bool {
        self.resources.has_response() || self.acknowledgement.is_some()
    }

    /// Handles a request packet.
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
        let sequence = psn::extend(packet.bth.psn, self.expected);
        if sequence > self.expected {
            self.receive_ahead(sequence, packet, setup, shared);
            return Ok(());
        }
        if sequence < self.expected {
            self.receive_duplicate(sequence, packet, setup, shared);
            return Ok(());
        }
        let gap = self.gap;
        if !self.receive_in_turn(packet, setup, shared, memory)? {
            return Ok(());
        }
        let overflow = std::mem::take(&mut self.overflow);
        while let Some((place, kept)) = self.reorder.take(self.expected, &mut shared.reorder) {
            let carried_out = self.receive_in_turn(&kept.packet(), setup, shared, memory);
            self.reorder.give_back(place, kept, &mut shared.reorder);
            if !carried_out? {
                return Ok(());
            }
        }
        // Another gap follows, and the peer has sent only the packet that was missing. What is missing now was lost
        // or not kept; without a report the peer would consider it received.
        if gap == Gap::Repair && self.expected < self.early {
            self.overflow = overflow;
            self.report_gap(Witness::Repeated, !self.reorder.is_empty());
        }
        Ok(())
    }

    /// Handles the request that is next in PSN order. Returns whether it was executed.
    fn receive_in_turn(
        &mut self,
        packet: &Packet<'_>,
        setup: &Setup,
        shared: &mut Shared,
        memory: &mut impl RegionMemory,
    ) -> Result<bool, Refused> {
        let earlier = self.acknowledgement;
        match self.execute(packet, setup, shared, memory) {
            Ok(packets) => {
                self.expected += u64::from(packets);
                self.gap = Gap::None;
                self.acknowledge(packet);
                if matches!(earlier, Some(Acknowledgement::Positive { .. })) {
                    shared.counters.ack_deferred += 1;
                }
                Ok(true)
            }
            Err(Refusal::Drop) => {
                // The packet is not lost but could not be accepted. No gap is reported; the peer's time-out
                // recovers.
                self.witness = Witness::None;
                Ok(false)
            }
            Err(Refusal::NotReady) => {
                shared.counters.send_rnr_err += 1;
                self.gap = Gap::NotReady;
                self.witness = Witness::None;
                // The peer sends everything again.
                self.reorder.clear(&mut shared.reorder);
                self.refuse(Syndrome::RnrNak { timer: setup.min_rnr_timer }, self.expected);
                Ok(false)
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

    /// Makes one packet of the oldest due answer. Returns false if the answer turned into a NAK.
    pub(super) fn transmit(
        &mut self,
        setup: &Setup,
        shared: &mut Shared,
        memory: &mut impl RegionMemory,
        out: &mut impl PacketSink,
    ) -> Result<bool, Refused> {
        let Some(response) = self.resources.response() else {
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
                packet.bth.acknowledge = shared.read_parts;
                emit(&packet, shared, out);
            }
            Body::Read(reth) => {
                let opcode = match (response.sent == 0, last) {
                    (true, true) => Opcode::ReadResponseOnly,
                    (true, false) => Opcode::ReadResponseFirst,
                    (false, false) => Opcode::ReadResponseMiddle,
                    (false, true) => Opcode::ReadResponseLast,
                };
                // The permission may have been revoked since the request arrived.
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
                packet.bth.acknowledge = shared.read_parts;
                emit(&packet, shared, out);
            }
        }
        self.resources.sent_one();
        Ok(true)
    }

    fn transmit_acknowledgement(&mut self, setup: &Setup, shared: &mut Shared, out: &mut impl PacketSink) {
        let (syndrome, sequence, kept) = match self.acknowledgement.take() {
            Some(Acknowledgement::Positive { sequence }) => (NO_CREDITS, sequence, false),
            Some(Acknowledgement::Negative { syndrome, sequence, kept }) => (syndrome, sequence, kept),
            None => unreachable!("only a responder with output transmits"),
        };
        let mut packet = Packet::new(setup.header(shared, Opcode::Acknowledge, sequence), &[]);
        packet.aeth = Some(Aeth { syndrome, msn: self.msn });
        packet.bth.acknowledge = kept;
        emit(&packet, shared, out);
    }

    /// A READ that was accepted can no longer be answered. The NAK has the PSN of the first missing response
    /// packet. For a duplicate, the requester may no longer wait for the response; then it ignores the NAK,
    /// and the connection continues.
    fn abandon_response(
        &mut self,
        response: Response,
        code: NakCode,
        shared: &mut Shared,
    ) -> Result<bool, Refused> {
        shared.count_sent_nak(code);
        let sequence = response.first + u64::from(response.sent);
        self.refuse(Syndrome::Nak(code), sequence);
        if response.fresh {
            self.resources.forget_responses();
            Err(Refused)
        } else {
            self.resources.forget_response();
            Ok(false)
        }
    }

    /// Updates the pending acknowledgement after a request was executed.
    #[inline]
    fn acknowledge(&mut self, packet: &Packet<'_>) {
        self.acknowledgement = match self.acknowledgement {
            // The pending NAK names a packet that has arrived since. But packets beyond it were dropped, so
            // the NAK now names the next missing packet.
            Some(Acknowledgement::Negative { kept, .. }) if self.expected < self.early => {
                self.gap = Gap::reported(kept);
                let syndrome = Syndrome::Nak(NakCode::PsnSequenceError);
                Some(Acknowledgement::Negative { syndrome, sequence: self.expected, kept })
            }
            // The response acknowledges the request.
            _ if asks_for_response(packet.bth.opcode) => None,
            None if !packet.bth.acknowledge => None,
            _ => Some(Acknowledgement::Positive { sequence: self.expected - 1 }),
        };
    }

    fn refuse(&mut self, syndrome: Syndrome, sequence: u64) {
        self.acknowledgement = Some(Acknowledgement::Negative { syndrome, sequence, kept: false });
    }

    /// Reports to the peer that the expected packet has not arrived.
    fn report_gap(&mut self, witness: Witness, kept: bool) {
        self.gap = Gap::reported(kept);
        self.witness = witness;
        let syndrome = Syndrome::Nak(NakCode::PsnSequenceError);
        self.acknowledgement = Some(Acknowledgement::Negative { syndrome, sequence: self.expected, kept });
    }

    /// Handles a request from beyond a gap. The first such request causes a report of the gap, and again if
    /// it arrives again. The request is kept if there is room.
    fn receive_ahead(&mut self, sequence: u64, packet: &Packet<'_>, setup: &Setup, shared: &mut Shared) {
        self.early = self.early.max(sequence + 1);
        shared.counters.out_of_seq_request += 1;
        let again = match self.witness {
            Witness::None => false,
            Witness::Packet(witness) => witness == sequence,
            Witness::Repeated => {
                sequence == self.expected + 1 || self.reorder.holds(sequence, &shared.reorder)
            }
        };
        let keeps = self.gap != Gap::NotReady && packet.payload.len() <= setup.mtu as usize;
        let kept = keeps
            && if self.overflow {
                self.reorder.holds(sequence, &shared.reorder)
            } else {
                self.reorder.keep(sequence, packet, &mut shared.reorder)
            };
        self.overflow |= keeps && !kept;
        if self.gap == Gap::None || again {
            self.report_gap(Witness::Packet(sequence), kept);
        } else if !kept {
            shared.counters.drop_out_of_sequence += 1;
        }
    }

    /// Handles a request that was executed before (clause 9.7.4.1.4, table 33): SENDs and WRITEs are only
    /// acknowledged again, READs are executed again, and atomics are answered from the saved result.
    fn receive_duplicate(&mut self, sequence: u64, packet: &Packet<'_>, setup: &Setup, shared: &mut Shared) {
        shared.counters.duplicate_request += 1;
        if !asks_for_response(packet.bth.opcode) {
            self.acknowledge_again(sequence);
        } else if !self.resources.repeat(sequence, packet.reth, setup) {
            shared.counters.drop_unknown_duplicate += 1;
        }
    }

    /// Acknowledges a duplicate, and later executed requests with it, but only up to the next READ or atomic.
    /// The requester repeats the duplicate, so it has received no response from beyond it (clause 9.7.5.1.3).
    fn acknowledge_again(&mut self, duplicate: u64) {
        let end = self.resources.first_behind(duplicate).unwrap_or(self.expected);
        let sequence = match self.acknowledgement {
            None => end - 1,
            Some(Acknowledgement::Positive { sequence }) => sequence.max(end - 1),
            // The pending NAK also acknowledges what was executed.
            Some(Acknowledgement::Negative { .. }) => return,
        };
        self.acknowledgement = Some(Acknowledgement::Positive { sequence });
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

/// The check that a peer's access must pass.
fn access(reth: &Reth, needs: AccessFlags, setup: &Setup) -> Request {
    Request {
        key: reth.rkey,
        domain: setup.domain,
        address: reth.address,
        length: u64::from(reth.length),
        needs,
    }
}

/// Checks a peer's access. The error is the code of the NAK to the peer.
#[inline]
fn check(reth: &Reth, needs: AccessFlags, setup: &Setup, shared: &mut Shared) -> Result<Grant, NakCode> {
    shared.check_remote(access(reth, needs, setup)).map_err(|_| NakCode::RemoteAccessError)
}

/// Reads the memory for one packet of a READ response.
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
    memory.read(grant.target, grant.place(part.address), part.length as usize).map_err(fault)
}

/// Whether the packet has exactly the extended headers that its opcode requires.
#[inline]
fn is_well_formed(packet: &Packet<'_>) -> bool {
    let opcode = packet.bth.opcode;
    packet.reth.is_some() == opcode.has_reth()
        && packet.atomic.is_some() == opcode.has_atomic()
        && packet.immediate.is_some() == opcode.has_immediate()
}

fn asks_for_response(opcode: Opcode) -> bool {
    opcode == Opcode::ReadRequest || opcode.is_atomic()
}
