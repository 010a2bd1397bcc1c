//! Handling of packets that arrive on connections.

use std::net::IpAddr;

use weft_rdma::RegionMemory;
use weft_time::Instant;
use weft_verbs::{AccessFlags, Completion, CompletionOpcode, CompletionStatus, QueuePairNumber};
use weft_wire::roce::{MASK_24, Packet, Reth, Service};

use super::Device;
use crate::Event;
use crate::memory::{HostMemory, LISTS, ListAddress, PROGRAM};
use crate::queue_pair::{Receives, State};
use crate::unreliable::Inbound;

impl<M: HostMemory> Device<M> {
    pub(super) fn receive_reliable(&mut self, now: Instant, source: IpAddr, packet: &[u8]) {
        let Ok(packet) = Packet::parse(packet) else {
            self.dropped += 1;
            return;
        };
        let number = packet.bth.destination;
        let refused = self.transport.counters().sent_access_error;
        self.transport.receive(now, source, &packet, &mut self.memory);
        self.drain(packet.bth.solicited);
        if !packet.bth.opcode.is_request() {
            return;
        }
        let Ok(queue_pair) = self.find_mut(number) else { return };
        let receives = queue_pair.receives;
        if queue_pair.attributes.state == State::ReadyToReceive && !queue_pair.established {
            queue_pair.established = true;
            self.events.push_back(Event::Established(number));
        }
        if let Receives::Shared(shared) = receives {
            self.check_limit(shared);
        }
        if self.notice_error(number) {
            let access = self.transport.counters().sent_access_error != refused;
            self.events.push_back(if access {
                Event::AccessError(number)
            } else {
                Event::RequestError(number)
            });
        }
    }

    /// Handles a packet of an unreliable connection.
    pub(super) fn receive_connected(&mut self, source: IpAddr, packet: &[u8]) {
        if self.take_connected(source, packet).is_none() {
            self.dropped += 1;
        }
    }

    /// Handles a packet of an unreliable connection. Returns `None` if the packet is dropped.
    fn take_connected(&mut self, source: IpAddr, packet: &[u8]) -> Option<()> {
        let packet = Packet::parse_unreliable(packet).ok()?;
        let number = packet.bth.destination;
        let queue_pair = self.find_mut(number).ok()?;
        let attributes = queue_pair.attributes;
        let ready = matches!(
            attributes.state,
            State::ReadyToReceive | State::ReadyToSend | State::SendQueueDrained | State::SendQueueError
        );
        let connected = queue_pair.service == Service::UnreliableConnection
            && attributes.destination == Some(source)
            && packet.bth.partition_key & 0x7fff == 0x7fff;
        if !ready || !connected || packet.payload.len() > attributes.path_mtu.bytes() as usize {
            return None;
        }
        let opcode = packet.bth.opcode;
        let receiver = queue_pair.unreliable.as_mut()?;
        if packet.bth.psn != receiver.expected {
            receiver.abandon();
        }
        receiver.expected = (packet.bth.psn + 1) & MASK_24;
        if opcode.starts_message() {
            receiver.abandon();
        }
        let inbound = receiver.inbound;
        let length = packet.payload.len() as u32;
        let last = opcode.ends_message();
        if opcode.is_send() {
            let (slot, done) = match inbound {
                Inbound::Send { slot, done } => (slot, done),
                _ if opcode.starts_message() => (self.take_receive(number)?, 0),
                _ => return None,
            };
            let receiver = self.find_mut(number).ok()?.unreliable.as_mut()?;
            receiver.inbound = Inbound::Send { slot, done: done + length };
            if !self.deliver(number, slot, done, packet.payload) {
                return None;
            }
            if last {
                self.end_receive(number, slot, CompletionOpcode::Receive, done + length, &packet);
            }
        } else {
            let (reth, done) = match (packet.reth, inbound) {
                (Some(reth), _) => (reth, 0),
                (None, Inbound::Write { reth, done }) => (reth, done),
                _ => return None,
            };
            self.store_write(number, reth, done, &packet)?;
            let receiver = self.find_mut(number).ok()?.unreliable.as_mut()?;
            receiver.inbound = Inbound::Write { reth, done: done + length };
            if last {
                receiver.inbound = Inbound::Idle;
                if packet.immediate.is_some() {
                    let slot = self.take_receive(number)?;
                    let opcode = CompletionOpcode::ReceiveWriteWithImmediate;
                    self.end_receive(number, slot, opcode, reth.length, &packet);
                }
            }
        }
        Some(())
    }

    fn store_write(&mut self, number: u32, reth: Reth, done: u32, packet: &Packet<'_>) -> Option<()> {
        let queue_pair = self.find_mut(number).ok()?;
        let allowed = queue_pair.attributes.access.contains(AccessFlags::REMOTE_WRITE);
        let send_queue = queue_pair.send_queue;
        let length = packet.payload.len() as u32;
        let end = done.checked_add(length).filter(|&end| end <= reth.length)?;
        if packet.bth.opcode.ends_message() && end != reth.length {
            return None;
        }
        if length == 0 {
            return Some(());
        }
        let domain = self.memory.queue(send_queue).domain;
        let address = reth.address.wrapping_add(u64::from(done));
        let needs = AccessFlags::REMOTE_WRITE;
        let place = self.memory.remote(reth.rkey, address, length.into(), needs, domain)?;
        if !allowed {
            return None;
        }
        self.memory.write(PROGRAM, place, packet.payload).ok()
    }

    /// Takes the slot of the receive request for a message of an unreliable service.
    pub(super) fn take_receive(&mut self, number: u32) -> Option<usize> {
        let queue_pair = self.find_mut(number).ok()?;
        let receives = queue_pair.receives;
        let receiver = queue_pair.unreliable.as_mut()?;
        if let Some(slot) = receiver.spare.take() {
            return Some(slot);
        }
        match receives {
            Receives::Own(_) => receiver.receives.pop_front(),
            Receives::Shared(shared) => {
                let inner = self.shared[shared].as_ref()?.number;
                let request = self.transport.take_shared_receive(inner)?;
                self.check_limit(shared);
                Some(request.id as usize)
            }
        }
    }

    /// Copies a part of a message into its receive request. If that fails, the request completes in error,
    /// the queue pair goes to ERROR, and `false` is returned.
    pub(super) fn deliver(&mut self, number: u32, slot: usize, done: u32, payload: &[u8]) -> bool {
        let Some(queue_pair) = self.find(number) else { return false };
        let queue = self.work_queue(queue_pair.receives);
        let room = self.memory.queue(queue).length(slot);
        let status = if u64::from(done) + payload.len() as u64 > room {
            CompletionStatus::LocalLengthError
        } else if payload.is_empty()
            || self.memory.write(LISTS, ListAddress { queue, slot, offset: done }.pack(), payload).is_ok()
        {
            return true;
        } else {
            CompletionStatus::LocalProtectionError
        };
        if let Ok(queue_pair) = self.find_mut(number)
            && let Some(receiver) = &mut queue_pair.unreliable
        {
            receiver.inbound = Inbound::Idle;
        }
        self.complete(
            Completion {
                id: slot as u64,
                status,
                opcode: CompletionOpcode::Receive,
                bytes: 0,
                immediate: None,
                queue_pair: QueuePairNumber(number),
                vendor_error: 0,
            },
            false,
        );
        self.fail_unreliable(number);
        false
    }

    fn end_receive(
        &mut self,
        number: u32,
        slot: usize,
        opcode: CompletionOpcode,
        bytes: u32,
        packet: &Packet<'_>,
    ) {
        if let Ok(queue_pair) = self.find_mut(number)
            && let Some(receiver) = &mut queue_pair.unreliable
        {
            receiver.inbound = Inbound::Idle;
        }
        let completion = Completion {
            id: slot as u64,
            status: CompletionStatus::Success,
            opcode,
            bytes,
            immediate: packet.immediate,
            queue_pair: QueuePairNumber(number),
            vendor_error: 0,
        };
        self.complete(completion, packet.bth.solicited);
    }
}
