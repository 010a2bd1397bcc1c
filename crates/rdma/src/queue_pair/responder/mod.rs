//! The responder: carries out the peer's requests in the order of their PSNs and answers them.
//!
//! Answers leave in the order of their PSNs too: first the responses of READs and atomics that are due, then the one
//! acknowledgement that may be pending. Since an acknowledgement speaks for everything before it, a
//! later one takes the place of an earlier one: that is all the coalescing there is.

mod carry_out;
mod resources;

use std::collections::VecDeque;

use weft_wire::roce::{Aeth, MASK_24, NakCode, Opcode, Packet, Reth, Syndrome};

use super::{Setup, emit};
use crate::completion::{Completion, CompletionOpcode, CompletionStatus};
use crate::memory::RegionMemory;
use crate::region::{AccessFlags, Grant, Request};
use crate::shared::Shared;
use crate::work::ReceiveRequest;
use crate::{ApiError, psn};
use resources::{Body, Resources, Response};

/// The credit count code that says "credits are not used" (clause 9.7.7.2.4).
const NO_CREDITS: Syndrome = Syndrome::Ack { credits: 31 };

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acknowledgement {
    /// Of everything up to and with a PSN, which is never that of a READ or atomic: there are requesters that take the
    /// acknowledgement of such a PSN for the response itself.
    Positive {
        sequence: u64,
    },
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
    resources: Resources,
    acknowledgement: Option<Acknowledgement>,
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
            resources: Resources::default(),
            acknowledgement: None,
        }
    }

    /// Begins a connection whose first request has the PSN `rq_psn`.
    pub(super) fn start(&mut self, rq_psn: u32, resources: usize) {
        self.expected = psn::initial(rq_psn);
        self.msn = 0;
        self.inbound = Inbound::Idle;
        self.gap_reported = false;
        self.dropped = self.expected;
        self.forget_output();
        self.resources.start(resources);
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
        self.resources.forget_responses();
        self.acknowledgement = None;
    }

    #[inline]
    pub(super) fn has_output(&self) -> bool {
        self.resources.has_response() || self.acknowledgement.is_some()
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
                if matches!(earlier, Some(Acknowledgement::Positive { .. })) {
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
                emit(&packet, shared, out);
            }
        }
        self.resources.sent_one();
        Ok(true)
    }

    fn transmit_acknowledgement(&mut self, setup: &Setup, shared: &mut Shared, out: &mut Vec<u8>) {
        let (syndrome, sequence) = match self.acknowledgement.take() {
            Some(Acknowledgement::Positive { sequence }) => (NO_CREDITS, sequence),
            Some(Acknowledgement::Negative { syndrome, sequence }) => (syndrome, sequence),
            None => unreachable!("only a responder with output transmits"),
        };
        let mut packet = Packet::new(setup.header(shared, Opcode::Acknowledge, sequence), &[]);
        packet.aeth = Some(Aeth { syndrome, msn: self.msn });
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
        self.refuse(Syndrome::Nak(code), sequence);
        if response.fresh {
            self.resources.forget_responses();
            Err(Refused)
        } else {
            self.resources.forget_response();
            Ok(false)
        }
    }

    /// Brings the acknowledgement that is due in line with a request that was just carried out.
    #[inline]
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
            _ => Some(Acknowledgement::Positive { sequence: self.expected - 1 }),
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
            self.acknowledge_again(sequence);
        } else if !self.resources.repeat(sequence, packet.reth, setup) {
            shared.counters.drop_unknown_duplicate += 1;
        }
    }

    /// Acknowledges a duplicate, and with it what was carried out behind it, but only up to the next READ or atomic:
    /// the requester that sends this again has had no response from behind it (clause 9.7.5.1.3).
    fn acknowledge_again(&mut self, duplicate: u64) {
        let end = self.resources.first_behind(duplicate).unwrap_or(self.expected);
        let sequence = match self.acknowledgement {
            None => end - 1,
            Some(Acknowledgement::Positive { sequence }) => sequence.max(end - 1),
            // A refusal that is still due says as much about what was carried out.
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

/// The check that a peer's access needs.
fn access(reth: &Reth, needs: AccessFlags, setup: &Setup) -> Request {
    Request {
        key: reth.rkey,
        domain: setup.domain,
        address: reth.address,
        length: u64::from(reth.length),
        needs,
    }
}

/// Checks a peer's access; the error is what the peer is told.
#[inline]
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

/// Whether the packet has exactly the extended headers that its opcode calls for.
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
