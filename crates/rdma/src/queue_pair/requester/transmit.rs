//! Making request packets.

use weft_time::Instant;
use weft_verbs::{AccessFlags, CompletionStatus, Operation};
use weft_wire::roce::{AtomicEth, Opcode, Packet, Reth};

use super::{Cursor, Entry, Fault, Requester, check_local, part_of};
use crate::memory::RegionMemory;
use crate::queue_pair::{Setup, emit};
use crate::shared::Shared;
use crate::sink::PacketSink;

impl Requester {
    /// Makes the next packet. Returns false if it cannot be made.
    pub(in crate::queue_pair) fn transmit(
        &mut self,
        now: Instant,
        setup: &Setup,
        shared: &mut Shared,
        memory: &mut impl RegionMemory,
        out: &mut impl PacketSink,
    ) -> Result<bool, Fault> {
        let (index, packet) = self.next_packet();
        let entry = *self.entries.get(index).expect("only a ready requester transmits");
        let sequence = entry.first + u64::from(packet);
        let mut part = part_of(&entry, packet, setup.mtu);
        let repair = std::mem::take(&mut self.repair);
        if repair && self.peer_repairs && matches!(entry.request.operation, Operation::Read { .. }) {
            let missing = self.early.missing(sequence, entry.packets - packet);
            part.length = (u64::from(missing) * u64::from(setup.mtu)).min(part.length.into()) as u32;
        }
        let needs =
            if entry.request.operation.has_response() { AccessFlags::LOCAL_WRITE } else { AccessFlags::NONE };
        let Ok(grant) = check_local(part, needs, setup, shared) else {
            return self.fail(index, CompletionStatus::LocalProtectionError, shared);
        };
        let payload: &[u8] = match grant {
            Some(grant) if !entry.request.operation.has_response() => {
                match memory.read(grant.target, grant.place(part.address), part.length as usize) {
                    Ok(payload) => payload,
                    Err(_) => {
                        return self.fail(index, CompletionStatus::LocalQueuePairOperationError, shared);
                    }
                }
            }
            _ => &[],
        };

        let last = packet + 1 == entry.packets;
        let again = sequence < self.sent;
        if repair {
            // A repair does not move the cursor.
        } else if entry.request.operation.has_response() {
            if !self.is_awaited() {
                self.awaited.push_back(self.cursor.serial);
            }
            // A READ takes the sequence numbers of all its response packets at once.
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
        let mut packet_out = Packet::new(setup.header(shared, opcode(&entry, packet), sequence), payload);
        let ends = last || entry.request.operation.has_response();
        self.since_request = self.since_request.saturating_add(1);
        if repair
            || ends && entry.request.signaled
            || self.since_request >= self.acknowledge_interval(shared)
            || !self.ready(setup)
        {
            packet_out.bth.acknowledge = true;
            self.since_request = 0;
        }
        let has_response = entry.request.operation.has_response();
        let asks = packet_out.bth.acknowledge || has_response;
        let first_to_ask = asks && self.asked <= self.unacknowledged;
        if asks {
            self.asked = self.asked.max(if has_response { entry.end() } else { sequence + 1 });
            if !again || repair && self.first_repair {
                self.round_trip.sent(now, sequence);
            }
        }
        if self.timer.is_none() || first_to_ask {
            self.wait_for_acknowledgement(now, setup);
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

    /// After how many packets an acknowledgement is requested: at least four times per window. So even after
    /// the window was halved, the requester does not wait for an acknowledgement that it has not requested.
    #[inline]
    fn acknowledge_interval(&self, shared: &Shared) -> u32 {
        shared.acknowledge_interval.min(self.window() / 4).max(1)
    }

    /// A request cannot be made: the one at the cursor, or the oldest. It fails after all earlier ones have
    /// completed, so that completions keep their order.
    fn fail(&mut self, index: usize, status: CompletionStatus, shared: &mut Shared) -> Result<bool, Fault> {
        shared.counters.send_err += 1;
        if index == 0 {
            return Err(status.into());
        }
        self.failed = Some(status.into());
        Ok(false)
    }
}

#[inline]
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
