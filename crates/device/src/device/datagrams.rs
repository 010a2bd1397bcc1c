//! The unreliable services: sending, datagrams that arrive, and management datagrams.

use std::net::{IpAddr, Ipv4Addr};

use weft_rdma::{RegionMemory, Transmit, source_port};
use weft_verbs::{CompletionOpcode, CompletionStatus, QueuePairNumber};
use weft_wire::roce::{Congestion, DatagramPacket, Gid, Opcode, Service};

use super::{Bth, Completion, Device, Header, MASK_24, Operation, SendOperation};
use crate::ROUTE_HEADER_BYTES;
use crate::completion::WorkCompletion;
use crate::memory::{HostMemory, LISTS, ListAddress};
use crate::queue_pair::{Attributes, Receives, State};
use crate::unreliable::{self, Pending, Unreliable};

/// The queue pair of general services, through which connection managers communicate.
const GENERAL_SERVICES: u32 = 1;

/// The Q_Key of that queue pair (clause 10.2.4.2.5).
const GENERAL_SERVICES_KEY: u32 = 0x8001_0000;

/// The largest number of management datagrams that wait in a queue.
const MADS_MAX: usize = 4_096;

/// A management datagram: 256 bytes for queue pair 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mad {
    /// The peer that sent the datagram or is to receive it.
    pub peer: IpAddr,
    /// The content of the datagram.
    pub bytes: Vec<u8>,
}

impl<M: HostMemory> Device<M> {
    /// Queues a management datagram for queue pair 1 of the peer. If the queue is full, the datagram is
    /// dropped.
    pub fn send_mad(&mut self, mad: Mad) {
        if self.mads_out.len() < MADS_MAX {
            self.mads_out.push_back(mad);
        }
    }

    /// Whether management datagrams have arrived.
    pub fn has_mads(&self) -> bool {
        !self.mads_in.is_empty()
    }

    /// Takes the oldest management datagram that has arrived.
    pub fn poll_mad(&mut self) -> Option<Mad> {
        self.mads_in.pop_front()
    }

    pub(super) fn transmit_mad(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        let mad = self.mads_out.pop_front()?;
        let bth = Bth {
            opcode: Opcode::SendOnly,
            solicited: false,
            migration: false,
            pad: 0,
            partition_key: self.config.transport.partition_key,
            congestion: Congestion::default(),
            destination: GENERAL_SERVICES,
            acknowledge: false,
            psn: self.mad_psn,
        };
        self.mad_psn = (self.mad_psn + 1) & MASK_24;
        let (queue_key, source) = (GENERAL_SERVICES_KEY, GENERAL_SERVICES);
        DatagramPacket { bth, queue_key, source, immediate: None, payload: &mad.bytes }.emit(out);
        let number = QueuePairNumber(GENERAL_SERVICES);
        Some(self.transmit(mad.peer, number, number))
    }

    fn transmit(&self, destination: IpAddr, from: QueuePairNumber, to: QueuePairNumber) -> Transmit {
        Transmit { destination, source_port: source_port(from, to), queue_pair: from, type_of_service: 0 }
    }

    /// Creates one packet for a queue pair of an unreliable service.
    pub(super) fn transmit_unreliable(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        loop {
            let index = self.senders.pop_front()?;
            let Some(queue_pair) = self.queue_pairs[index].as_mut() else { continue };
            let Attributes { destination, destination_qp_num, path_mtu, queue_key, .. } =
                queue_pair.attributes;
            let (number, send_queue) = (queue_pair.number, queue_pair.send_queue);
            let datagram = queue_pair.service == Service::UnreliableDatagram;
            let Some(sender) = queue_pair.unreliable.as_mut() else { continue };
            let Some(pending) = sender.sends.front().copied() else { continue };
            let done = sender.done;
            let path_mtu = if datagram { self.config.path_mtu } else { path_mtu.min(self.config.path_mtu) };
            let mtu = path_mtu.bytes();
            let length = (pending.length - done).min(mtu);
            let header = Header {
                number,
                destination: destination_qp_num,
                partition_key: self.config.transport.partition_key,
                psn: sender.next,
                queue_key,
            };
            let address = ListAddress { queue: send_queue, slot: pending.slot, offset: done }.pack();
            let payload = self.memory.read(LISTS, address, length as usize);
            let payload = if length == 0 { Ok(&[][..]) } else { payload };
            let peer = unreliable::destination(&pending.operation, destination);
            let (Ok(payload), Some(peer)) = (payload, peer) else {
                self.end_send(number, &pending, CompletionStatus::LocalProtectionError);
                self.fail_unreliable(number);
                continue;
            };
            unreliable::emit(&pending, done, &header, payload, out);
            let to = match pending.operation {
                SendOperation::Datagram { queue_pair, .. } => queue_pair,
                SendOperation::Connected(_) => destination_qp_num,
            };
            let transmit = self.transmit(peer, QueuePairNumber(number), QueuePairNumber(to));
            let sender = self.queue_pairs[index].as_mut()?.unreliable.as_mut()?;
            sender.next = (sender.next + 1) & MASK_24;
            sender.done = done + length;
            if sender.done == pending.length {
                self.end_send(number, &pending, CompletionStatus::Success);
            }
            let sender = self.queue_pairs[index].as_ref()?.unreliable.as_ref()?;
            if !sender.sends.is_empty() {
                self.senders.push_back(index);
            }
            return Some(transmit);
        }
    }

    /// Completes the oldest request of a send queue.
    fn end_send(&mut self, number: u32, pending: &Pending, status: CompletionStatus) {
        if let Ok(queue_pair) = self.find_mut(number)
            && let Some(sender) = &mut queue_pair.unreliable
        {
            sender.sends.pop_front();
            sender.done = 0;
        }
        if status == CompletionStatus::Success && !pending.signaled {
            return;
        }
        let opcode = match pending.operation {
            SendOperation::Connected(Operation::Write { .. }) => CompletionOpcode::Write,
            _ => CompletionOpcode::Send,
        };
        let queue_pair = QueuePairNumber(number);
        let id = pending.slot as u64;
        let (bytes, immediate, vendor_error) = (0, None, 0);
        self.complete(Completion { id, status, opcode, bytes, immediate, queue_pair, vendor_error }, false);
    }

    pub(super) fn modify_unreliable(&mut self, number: u32, from: State, next: &Attributes) {
        let index = self.index(number);
        let Ok(queue_pair) = self.find_mut(number) else { return };
        let Some(unreliable) = &mut queue_pair.unreliable else { return };
        match (from, next.state) {
            (_, State::Reset) => {
                **unreliable = Unreliable::new();
                self.senders.retain(|&sender| sender != index);
            }
            (State::Init, State::ReadyToReceive) => unreliable.expected = next.rq_psn & MASK_24,
            (State::ReadyToReceive, State::ReadyToSend) => unreliable.next = next.sq_psn & MASK_24,
            (_, State::Error) => {
                queue_pair.attributes.state = State::Error;
                self.flush_unreliable(number);
            }
            _ => {}
        }
    }

    /// Puts a queue pair of an unreliable service into ERROR.
    pub(super) fn fail_unreliable(&mut self, number: u32) {
        let Ok(queue_pair) = self.find_mut(number) else { return };
        queue_pair.attributes.state = State::Error;
        self.flush_unreliable(number);
    }

    /// Flushes all requests of a queue pair of an unreliable service.
    pub(super) fn flush_unreliable(&mut self, number: u32) {
        let index = self.index(number);
        loop {
            let Ok(queue_pair) = self.find_mut(number) else { return };
            let Some(unreliable) = &mut queue_pair.unreliable else { return };
            unreliable.abandon();
            if let Some(pending) = unreliable.sends.front().copied() {
                self.end_send(number, &pending, CompletionStatus::WorkRequestFlushed);
            } else if let Some(slot) = unreliable.spare.take().or_else(|| unreliable.receives.pop_front()) {
                let completion = Completion {
                    id: slot as u64,
                    status: CompletionStatus::WorkRequestFlushed,
                    opcode: CompletionOpcode::Receive,
                    bytes: 0,
                    immediate: None,
                    queue_pair: QueuePairNumber(number),
                    vendor_error: 0,
                };
                self.complete(completion, false);
            } else {
                break;
            }
        }
        self.senders.retain(|&sender| sender != index);
    }

    pub(super) fn receive_datagram(&mut self, source: IpAddr, packet: &[u8]) {
        if self.take_datagram(source, packet).is_none() {
            self.dropped += 1;
        }
    }

    /// Handles a datagram. Returns `None` if the packet is dropped.
    fn take_datagram(&mut self, source: IpAddr, bytes: &[u8]) -> Option<()> {
        let packet = DatagramPacket::parse(bytes).ok()?;
        let number = packet.bth.destination;
        if number == GENERAL_SERVICES {
            if packet.queue_key != GENERAL_SERVICES_KEY || self.mads_in.len() >= MADS_MAX {
                return None;
            }
            self.mads_in.push_back(Mad { peer: source, bytes: packet.payload.to_vec() });
            return Some(());
        }
        let queue_pair = self.find_mut(number).ok()?;
        let attributes = queue_pair.attributes;
        let ready = matches!(
            attributes.state,
            State::ReadyToReceive | State::ReadyToSend | State::SendQueueDrained | State::SendQueueError
        );
        let fits = queue_pair.service == Service::UnreliableDatagram
            && packet.queue_key == attributes.queue_key
            && packet.bth.partition_key & 0x7fff == 0x7fff;
        if !ready || !fits {
            return None;
        }
        let completions = queue_pair.receive_completions;
        let receives = queue_pair.receives;
        let slot = self.take_receive(number)?;
        let header = route_header(source, self.config.address, bytes.len());
        let begin = ROUTE_HEADER_BYTES as u32;
        if !self.deliver(number, slot, 0, &header) || !self.deliver(number, slot, begin, packet.payload) {
            return None;
        }
        let queue = self.work_queue(receives);
        let (id, _) = self.memory.queue(queue).end(slot);
        let completion = WorkCompletion {
            id,
            status: CompletionStatus::Success,
            opcode: CompletionOpcode::Receive,
            bytes: begin + packet.payload.len() as u32,
            immediate: packet.immediate,
            queue_pair: number,
            source: Some(packet.source),
            vendor_error: 0,
        };
        self.push(completions, completion, packet.bth.solicited);
        if let Receives::Shared(shared) = receives {
            self.check_limit(shared);
        }
        Some(())
    }
}

/// The 40 bytes in front of a received datagram: an IPv4 header in the second half, or an IPv6 header.
fn route_header(source: IpAddr, destination: IpAddr, packet_bytes: usize) -> [u8; ROUTE_HEADER_BYTES] {
    let udp_bytes = (8 + packet_bytes + 4) as u16;
    let mut header = [0; ROUTE_HEADER_BYTES];
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            header[20..].copy_from_slice(&ipv4_header(source, destination, 20 + udp_bytes));
        }
        _ => {
            header[0] = 0x60;
            header[4..6].copy_from_slice(&udp_bytes.to_be_bytes());
            header[6] = 17;
            header[7] = 64;
            header[8..24].copy_from_slice(&Gid::from(source).0);
            header[24..].copy_from_slice(&Gid::from(destination).0);
        }
    }
    header
}

fn ipv4_header(source: Ipv4Addr, destination: Ipv4Addr, total: u16) -> [u8; 20] {
    let mut header = [0; 20];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[6] = 0x40;
    header[8] = 64;
    header[9] = 17;
    header[12..16].copy_from_slice(&source.octets());
    header[16..].copy_from_slice(&destination.octets());
    let sum: u32 = header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_in_front_of_a_datagram_adds_up() {
        let header = route_header([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 20);
        let sum: u32 =
            header[20..].chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert_eq!(header[..20], [0; 20]);
    }
}
