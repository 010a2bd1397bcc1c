//! Taking responses, acknowledgements and time-outs.

use weft_time::Instant;
use weft_wire::roce::{NakCode, Opcode, Packet, Syndrome};

use super::{Fault, Requester, Wait, check_local, part_of};
use crate::completion::CompletionStatus;
use crate::congestion::Loss;
use crate::memory::RegionMemory;
use crate::psn;
use crate::queue_pair::{Setup, rnr_timer};
use crate::region::AccessFlags;
use crate::shared::Shared;
use crate::work::LocalBuffer;

/// The value of `rnr_retry` that means "no limit".
const RNR_RETRY_WITHOUT_LIMIT: u8 = 7;

impl Requester {
    /// Takes a response or an acknowledgement.
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
                // A responder may report the gap behind the packet for which it is not ready, as Linux's soft RoCE
                // does.
                if self.waits_for(Wait::ReceiverReady) {
                    return Ok(());
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
                // The stream is alive, though stale. It ends, so a request for the missing response that is lost is
                // still found.
                if self.implied == Some(expected) && self.waits_for(Wait::Acknowledgement) {
                    self.wait_for_acknowledgement(now, setup);
                }
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
                // What is left of an older stream of responses must not cost another retry.
                self.implied = self.next_response();
                self.retry(now, Loss::TimeOut, shared)
            }
        }
    }

    /// A later answer shows that a response is missing: an implied NAK (clause 9.7.5.2.7). Goes back once;
    /// if that is lost too, the time-out helps.
    fn go_back_for_response(&mut self, now: Instant, shared: &mut Shared) -> Result<(), Fault> {
        if self.implied == Some(self.unacknowledged) || self.waits_for(Wait::ReceiverReady) {
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
        self.tell_congestion_control(|control| control.on_loss(now, loss));
        self.rewind();
        self.timer = None;
        Ok(())
    }
}
