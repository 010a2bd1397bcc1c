//! Execution of a request packet that is next in PSN order.

use weft_verbs::{AccessFlags, Completion, CompletionOpcode, CompletionStatus, LocalBuffer};
use weft_wire::roce::{NakCode, Opcode, Packet, Reth};

use super::{Body, Inbound, Refusal, Responder, access, check};
use crate::memory::{Part, RegionMemory};
use crate::queue_pair::Setup;
use crate::region::{Grant, Request};
use crate::rpc::RpcWrite;
use crate::shared::Shared;

/// The longest message of the specification.
const MESSAGE_BYTES_MAX: u32 = 1 << 31;

impl Responder {
    /// Executes the packet. Returns how many sequence numbers it takes.
    pub(super) fn execute(
        &mut self,
        packet: &Packet<'_>,
        setup: &Setup,
        shared: &mut Shared,
        memory: &mut impl RegionMemory,
    ) -> Result<u32, Refusal> {
        let opcode = packet.bth.opcode;
        // A message must end before the next begins, and a MIDDLE or LAST packet must continue one.
        if opcode.starts_message() != (self.inbound == Inbound::Idle) {
            return Err(Refusal::Nak(NakCode::InvalidRequest));
        }
        self.marked &= !opcode.starts_message();
        match opcode {
            Opcode::SendFirst | Opcode::SendOnly | Opcode::SendOnlyWithImmediate => {
                self.execute_send(0, packet, setup, shared, memory)
            }
            Opcode::SendMiddle | Opcode::SendLast | Opcode::SendLastWithImmediate => match self.inbound {
                Inbound::Send { done } => self.execute_send(done, packet, setup, shared, memory),
                _ => Err(Refusal::Nak(NakCode::InvalidRequest)),
            },
            Opcode::WriteFirst | Opcode::WriteOnly | Opcode::WriteOnlyWithImmediate => {
                let reth = packet.reth.expect("the packet is well formed");
                // The whole range is checked first, so that a WRITE that exceeds its region stores nothing.
                let whole = if reth.length > 0 {
                    allow(setup, AccessFlags::REMOTE_WRITE, shared)?;
                    Some(check(&reth, AccessFlags::REMOTE_WRITE, setup, shared).map_err(Refusal::Nak)?)
                } else {
                    None
                };
                self.execute_write(reth, 0, whole, packet, setup, shared, memory)
            }
            Opcode::WriteMiddle | Opcode::WriteLast | Opcode::WriteLastWithImmediate => match self.inbound {
                Inbound::Write { reth, done } => {
                    self.execute_write(reth, done, None, packet, setup, shared, memory)
                }
                _ => Err(Refusal::Nak(NakCode::InvalidRequest)),
            },
            Opcode::ReadRequest => self.execute_read(packet, setup, shared),
            Opcode::CompareSwap | Opcode::FetchAdd => self.execute_atomic(packet, setup, shared, memory),
            _ => unreachable!("responses go to the requester"),
        }
    }

    fn execute_send(
        &mut self,
        done: u32,
        packet: &Packet<'_>,
        setup: &Setup,
        shared: &mut Shared,
        memory: &mut impl RegionMemory,
    ) -> Result<u32, Refusal> {
        let last = packet.bth.opcode.ends_message();
        check_payload_length(packet, setup)?;
        let receive = self.next_receive(shared).ok_or(Refusal::NotReady)?;
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
            let part = Part { queue_pair: setup.number, offset: done.into() };
            self.marked |= shared
                .store(grant, memory, address, part, packet.payload)
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
                vendor_error: self.mark(),
            });
        } else {
            self.inbound = Inbound::Send { done };
        }
        Ok(1)
    }

    /// `vendor_error` of the receive request that the message completes.
    fn mark(&self) -> u32 {
        if self.marked { Completion::MARKED } else { 0 }
    }

    /// `whole` is the grant for the whole of a WRITE that starts. Later packets are checked again, since the
    /// permission may have been revoked.
    #[allow(clippy::too_many_arguments, reason = "one step of carry_out, split off for its length")]
    fn execute_write(
        &mut self,
        reth: Reth,
        done: u32,
        whole: Option<Grant>,
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
        // A WRITE of no bytes needs no permission (clause 9.7.4.1.5). If it has permission, it may call an
        // engine.
        let grant = if whole.is_some() {
            whole
        } else if length > 0 {
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
        if consumes_receive && self.next_receive(shared).is_none() {
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
            let place = Part { queue_pair: setup.number, offset: done.into() };
            self.marked |= shared
                .store(grant, memory, part.address, place, packet.payload)
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
                vendor_error: self.mark(),
            });
        }
        Ok(1)
    }

    fn execute_read(
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

    fn execute_atomic(
        &mut self,
        packet: &Packet<'_>,
        setup: &Setup,
        shared: &mut Shared,
        memory: &mut impl RegionMemory,
    ) -> Result<u32, Refusal> {
        let atomic = packet.atomic.expect("the packet is well formed");
        self.claim_resource()?;
        allow(setup, AccessFlags::REMOTE_ATOMIC, shared)?;
        if !atomic.address.is_multiple_of(8) {
            return Err(Refusal::Nak(NakCode::InvalidRequest));
        }
        let word = Reth { address: atomic.address, rkey: atomic.rkey, length: 8 };
        let grant: Grant = check(&word, AccessFlags::REMOTE_ATOMIC, setup, shared).map_err(Refusal::Nak)?;
        let fault = |_| Refusal::Nak(NakCode::RemoteOperationalError);
        let bytes = memory.read(grant.target, grant.place(atomic.address), 8).map_err(fault)?;
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

    /// If a peer has more READs and atomics outstanding than agreed, its request is invalid.
    fn claim_resource(&self) -> Result<(), Refusal> {
        if self.resources.has_room() { Ok(()) } else { Err(Refusal::Nak(NakCode::InvalidRequest)) }
    }

    /// Queues the response to a READ or atomic, and keeps what is needed to answer duplicates.
    fn respond(&mut self, packets: u32, body: Body) {
        self.count_message();
        self.resources.keep(self.expected, packets, body);
    }
}

/// Checks the operations that the queue pair allows its peer.
fn allow(setup: &Setup, needs: AccessFlags, shared: &mut Shared) -> Result<(), Refusal> {
    if setup.access.contains(needs) {
        return Ok(());
    }
    shared.counters.violation_permission += 1;
    Err(Refusal::Nak(NakCode::InvalidRequest))
}

/// FIRST and MIDDLE packets must be full, LAST packets must not be empty, and no packet may exceed the path
/// MTU.
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
