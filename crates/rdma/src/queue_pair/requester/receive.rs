//! Handling of responses, acknowledgements and time-outs.

use weft_time::Instant;
use weft_verbs::{AccessFlags, CompletionStatus, LocalBuffer};
use weft_wire::roce::{NakCode, Opcode, Packet, Syndrome};

use super::{Early, Entry, Fault, Implied, Requester, Wait, check_local, part_of};
use crate::congestion::Loss;
use crate::memory::RegionMemory;
use crate::psn;
use crate::queue_pair::{Setup, rnr_timer};
use crate::shared::Shared;

/// The value of `rnr_retry` that means "no limit".
const RNR_RETRY_WITHOUT_LIMIT: u8 = 7;

impl Requester {
    /// Handles a response or an acknowledgement.
    pub(in crate::queue_pair) fn receive(
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
                let kept = packet.bth.acknowledge;
                self.receive_acknowledgement(now, sequence, aeth.syndrome, kept, setup, shared)
            }
            Opcode::AtomicAcknowledge => {
                let Some(original) = packet.atomic_ack else {
                    shared.counters.drop_malformed += 1;
                    return Ok(());
                };
                self.peer_repairs = packet.bth.acknowledge;
                self.receive_response(now, sequence, true, &original.to_le_bytes(), setup, shared, memory)
            }
            _ => {
                self.peer_repairs = packet.bth.acknowledge;
                self.receive_response(now, sequence, false, packet.payload, setup, shared, memory)
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one step of receive, split off for its length")]
    fn receive_acknowledgement(
        &mut self,
        now: Instant,
        sequence: u64,
        syndrome: Syndrome,
        kept: bool,
        setup: &Setup,
        shared: &mut Shared,
    ) -> Result<(), Fault> {
        // A negative acknowledgement confirms that everything before its PSN was executed.
        let end = if matches!(syndrome, Syndrome::Ack { .. }) { sequence + 1 } else { sequence };
        if matches!(syndrome, Syndrome::Nak(NakCode::InvalidRdRequest) | Syndrome::RnrNak { timer: 32.. }) {
            shared.counters.drop_reserved_syndrome += 1;
            return Ok(());
        }
        if self.advance(now, end, setup, shared)? {
            return self.go_back_for_response(now, None, shared);
        }
        let fault = |status| Fault { status, vendor_error: u32::from(syndrome.to_u8()) };
        match syndrome {
            Syndrome::Ack { .. } => Ok(()),
            Syndrome::RnrNak { timer } => {
                shared.counters.rcvd_rnr_err += 1;
                if setup.rnr_retry != RNR_RETRY_WITHOUT_LIMIT {
                    let Some(rest) = self.rnr_retries.checked_sub(1) else {
                        shared.counters.retry_rnr_exceeded_err += 1;
                        return Err(fault(CompletionStatus::ReceiverNotReadyRetryExceeded));
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
                // A responder that is not ready for a packet may also report a gap beyond that packet, as
                // Linux's soft RoCE does.
                if self.waits_for(Wait::ReceiverReady) {
                    return Ok(());
                }
                if kept {
                    return self.repair(now, shared);
                }
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
                if self.peer_repairs {
                    self.store_out_of_order(expected, sequence, atomic, payload, setup, shared, memory)?;
                    // If none can be stored, all must be sent again.
                    if !self.early.is_empty() {
                        return self.repair_response(now, expected, Some(sequence), shared);
                    }
                }
                // The peer is sending, but from before the requester went back. So the timer is restarted.
                // That stream ends, so the time-out still detects the loss of the repeated request.
                if self.has_gone_back_for(expected) && self.waits_for(Wait::Acknowledgement) {
                    self.wait_for_acknowledgement(now, setup);
                }
                return self.go_back_for_response(now, Some(sequence), shared);
            }
            // A response was received where an acknowledgement was expected.
            _ => {
                shared.counters.drop_malformed += 1;
                return Ok(());
            }
        }
        // A response acknowledges all requests before its own (clause 9.7.5.1.3).
        self.advance(now, sequence, setup, shared)?;
        let entry = self.entries[0];
        if !store(&entry, entry.received, atomic, payload, setup, shared, memory)? {
            return Ok(());
        }
        // If this response was requested again, so were those behind it up to the first early one or the end of
        // the READ: the missing ones are on their way.
        let covers_next = !self.early.is_empty()
            && !self.repair
            && self.has_gone_back_for(sequence)
            && entry.received + 1 < entry.packets;
        if covers_next {
            self.implied = Some(Implied { missing: sequence + 1, witness: None });
        }
        self.count_response();
        self.advance(now, sequence + 1, setup, shared)?;
        self.take_in(now, setup, shared)
    }

    /// Counts the expected response as received.
    fn count_response(&mut self) {
        let entry = &mut self.entries[0];
        entry.received += 1;
        if entry.received == entry.packets {
            self.awaited.pop_front();
        }
    }

    /// Counts responses that arrived out of order and are next now. Missing ones after them are requested.
    fn take_in(&mut self, now: Instant, setup: &Setup, shared: &mut Shared) -> Result<(), Fault> {
        while !self.early.is_empty() {
            let Some(due) = self.next_response().filter(|&due| self.early.take(due)) else { break };
            self.advance(now, due, setup, shared)?;
            self.count_response();
            self.advance(now, due + 1, setup, shared)?;
        }
        match self.next_response() {
            Some(missing) if self.peer_repairs && !self.early.is_empty() => {
                // The early response acknowledges the requests in front of the missing one.
                self.advance(now, missing, setup, shared)?;
                self.repair_response(now, missing, None, shared)
            }
            _ => Ok(()),
        }
    }

    /// Stores a response that arrived out of order, if its place in memory is known. An invalid response is
    /// not stored; it is requested again when it is the next one.
    #[allow(clippy::too_many_arguments, reason = "one step of receive, split off for its length")]
    fn store_out_of_order(
        &mut self,
        expected: u64,
        sequence: u64,
        atomic: bool,
        payload: &[u8],
        setup: &Setup,
        shared: &mut Shared,
        memory: &mut impl RegionMemory,
    ) -> Result<(), Fault> {
        if !Early::reaches(expected, sequence) || self.early.contains(sequence) {
            return Ok(());
        }
        let awaited = |serial: &u64| &self.entries[(serial - self.first_serial) as usize];
        let found = self.awaited.iter().map(awaited).find(|entry| sequence < entry.end());
        let Some(&entry) = found.filter(|entry| sequence >= entry.first) else {
            return Ok(());
        };
        // An earlier request still writes to the same memory. It must not overwrite this response, so this
        // one is not stored now.
        let mut earlier = self.awaited.iter().map(awaited).take_while(|earlier| earlier.first < entry.first);
        if earlier.any(|earlier| overlap(&earlier.request.local, &entry.request.local)) {
            return Ok(());
        }
        let packet = (sequence - entry.first) as u32;
        if fits(&entry, packet, atomic, payload, setup)
            && store(&entry, packet, atomic, payload, setup, shared, memory)?
        {
            self.early.note(sequence);
        }
        Ok(())
    }

    /// Handles a timer that has expired: the acknowledgement time-out, or the wait after a receiver-not-ready
    /// NAK.
    pub(in crate::queue_pair) fn handle_deadline(
        &mut self,
        now: Instant,
        shared: &mut Shared,
    ) -> Result<(), Fault> {
        match self.timer.filter(|&(_, at)| at <= now) {
            None => Ok(()),
            Some((Wait::ReceiverReady, _)) => {
                self.timer = None;
                Ok(())
            }
            Some((Wait::Acknowledgement, _)) => {
                shared.counters.ack_timeout += 1;
                // The missing response is noted, so that responses sent before the time-out do not cost
                // another retry.
                let missing = self.next_response();
                self.implied = missing.map(|missing| Implied { missing, witness: None });
                // Only full-length time-outs are retries that `retry_cnt` limits.
                if self.whole {
                    self.spend_retry(shared)?;
                } else {
                    self.round_trip.timed_out();
                }
                // Later responses have arrived, or are on their way, so only the missing ones are requested.
                if self.peer_repairs && missing == Some(self.unacknowledged) && !self.early.is_empty() {
                    self.begin_repair(now, Loss::TimeOut, shared);
                } else {
                    self.go_back(now, Loss::TimeOut, shared);
                }
                Ok(())
            }
        }
    }

    /// A later answer shows that a response is missing: an implied NAK (clause 9.7.5.2.7). Goes back once for
    /// each missing response, and once more when `response`, the first later one, arrives again. If that is
    /// lost too, the time-out recovers.
    fn go_back_for_response(
        &mut self,
        now: Instant,
        response: Option<u64>,
        shared: &mut Shared,
    ) -> Result<(), Fault> {
        if self.waits_for(Wait::ReceiverReady) {
            return Ok(());
        }
        let missing = self.unacknowledged;
        match &mut self.implied {
            Some(implied) if implied.missing == missing => {
                if implied.witness.is_none() {
                    implied.witness = response;
                    return Ok(());
                }
                if implied.witness != response {
                    return Ok(());
                }
            }
            implied => *implied = Some(Implied { missing, witness: response }),
        }
        shared.counters.implied_nak_seq_err += 1;
        self.retry(now, Loss::Gap, shared)
    }

    /// A response is missing, and the peer can send it without ending the stream. Requests it once; if that
    /// is lost, the time-out recovers.
    fn repair_response(
        &mut self,
        now: Instant,
        missing: u64,
        response: Option<u64>,
        shared: &mut Shared,
    ) -> Result<(), Fault> {
        if self.waits_for(Wait::ReceiverReady) || self.has_gone_back_for(missing) {
            return Ok(());
        }
        self.implied = Some(Implied { missing, witness: response });
        shared.counters.implied_nak_seq_err += 1;
        // Requests before the missing response are not acknowledged either. The peer reports what it lacks.
        if missing != self.unacknowledged {
            return Ok(());
        }
        self.repair(now, shared)
    }

    /// The peer lacks only the oldest unacknowledged packet: spends one retry and sends it again.
    fn repair(&mut self, now: Instant, shared: &mut Shared) -> Result<(), Fault> {
        self.spend_retry(shared)?;
        self.begin_repair(now, Loss::Gap, shared);
        Ok(())
    }

    fn begin_repair(&mut self, now: Instant, loss: Loss, shared: &mut Shared) {
        shared.counters.completer_retry_err += 1;
        self.tell_congestion_control(|control| control.on_loss(now, loss));
        self.round_trip.went_back();
        self.timer = None;
        // A requester that has already gone back sends the packet anyway.
        self.repair = self.next_to_send() > self.unacknowledged;
        self.first_repair = loss == Loss::Gap;
    }

    fn has_gone_back_for(&self, response: u64) -> bool {
        self.implied.is_some_and(|implied| implied.missing == response)
    }

    /// Spends one retry and goes back.
    fn retry(&mut self, now: Instant, loss: Loss, shared: &mut Shared) -> Result<(), Fault> {
        self.spend_retry(shared)?;
        self.go_back(now, loss, shared);
        Ok(())
    }

    fn spend_retry(&mut self, shared: &mut Shared) -> Result<(), Fault> {
        let Some(rest) = self.retries.checked_sub(1) else {
            shared.counters.retry_exceeded_err += 1;
            return Err(CompletionStatus::RetryExceeded.into());
        };
        self.retries = rest;
        Ok(())
    }

    /// Goes back to the oldest unacknowledged packet.
    fn go_back(&mut self, now: Instant, loss: Loss, shared: &mut Shared) {
        shared.counters.completer_retry_err += 1;
        self.tell_congestion_control(|control| control.on_loss(now, loss));
        self.rewind();
        self.timer = None;
    }
}

fn overlap(one: &LocalBuffer, other: &LocalBuffer) -> bool {
    let end = |buffer: &LocalBuffer| buffer.address.saturating_add(buffer.length.into());
    one.address < end(other) && other.address < end(one)
}

/// Whether a response has the kind and the length that packet `packet` of `entry` must have.
fn fits(entry: &Entry, packet: u32, atomic: bool, payload: &[u8], setup: &Setup) -> bool {
    let length = part_of(entry, packet, setup.mtu).length.min(setup.mtu);
    entry.request.operation.is_atomic() == atomic && payload.len() == length as usize
}

/// Stores the payload of a response in the request's local memory. Returns false if there was not enough
/// credit for it.
fn store(
    entry: &Entry,
    packet: u32,
    atomic: bool,
    payload: &[u8],
    setup: &Setup,
    shared: &mut Shared,
    memory: &mut impl RegionMemory,
) -> Result<bool, Fault> {
    if entry.request.operation.is_atomic() != atomic {
        return Err(CompletionStatus::BadResponse.into());
    }
    if !fits(entry, packet, atomic, payload, setup) {
        return Err(CompletionStatus::LocalLengthError.into());
    }
    let part = part_of(entry, packet, setup.mtu);
    let whole = LocalBuffer { length: payload.len() as u32, ..part };
    match check_local(whole, AccessFlags::LOCAL_WRITE, setup, shared) {
        Ok(Some(grant)) => {
            if !shared.spend_credits(grant.target, payload.len()) {
                return Ok(false);
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
    Ok(true)
}
