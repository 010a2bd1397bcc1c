//! Queue pairs of the unreliable services. They send packets once and never request retransmission.

use std::collections::VecDeque;
use std::net::IpAddr;

use weft_verbs::{Operation, RemoteAddress};
use weft_wire::roce::{Bth, Congestion, DatagramPacket, MASK_24, Opcode, Packet, Reth, Service};

use crate::work::SendOperation;

/// A request that has not been sent completely.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) slot: usize,
    pub(crate) operation: SendOperation,
    pub(crate) length: u32,
    pub(crate) signaled: bool,
    pub(crate) solicited: bool,
}

/// The message of which the next packet is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inbound {
    Idle,
    Send { slot: usize, done: u32 },
    Write { reth: Reth, done: u32 },
}

#[derive(Debug)]
pub(crate) struct Unreliable {
    pub(crate) sends: VecDeque<Pending>,
    /// Number of bytes of the oldest request that have been sent.
    pub(crate) done: u32,
    /// PSN of the next packet to send.
    pub(crate) next: u32,
    /// Slots of posted receive requests, unless the receive queue is shared.
    pub(crate) receives: VecDeque<usize>,
    /// PSN of the next packet that is expected.
    pub(crate) expected: u32,
    pub(crate) inbound: Inbound,
    /// A receive request that was taken for a message whose remaining packets were lost. The next message
    /// uses it.
    pub(crate) spare: Option<usize>,
}

impl Unreliable {
    pub(crate) fn new() -> Self {
        Self {
            sends: VecDeque::new(),
            done: 0,
            next: 0,
            receives: VecDeque::new(),
            expected: 0,
            inbound: Inbound::Idle,
            spare: None,
        }
    }

    /// Whether a receive request has been taken but has not completed.
    pub(crate) fn holds_receive(&self) -> bool {
        self.spare.is_some() || matches!(self.inbound, Inbound::Send { .. })
    }

    /// Discards the message that is being received.
    pub(crate) fn abandon(&mut self) {
        if let Inbound::Send { slot, .. } = self.inbound {
            self.spare = Some(slot);
        }
        self.inbound = Inbound::Idle;
    }
}

/// The fields of a packet other than its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) number: u32,
    pub(crate) destination: u32,
    pub(crate) partition_key: u16,
    pub(crate) psn: u32,
    pub(crate) queue_key: u32,
}

impl Header {
    fn bth(&self, opcode: Opcode, destination: u32, solicited: bool) -> Bth {
        Bth {
            opcode,
            solicited,
            migration: true,
            pad: 0,
            partition_key: self.partition_key,
            congestion: Congestion::default(),
            destination,
            acknowledge: false,
            psn: self.psn & MASK_24,
        }
    }
}

/// Encodes the next packet of a request, of which the first `done` bytes have been sent. `payload` contains
/// the bytes that follow.
pub(crate) fn emit(pending: &Pending, done: u32, header: &Header, payload: &[u8], out: &mut Vec<u8>) {
    let first = done == 0;
    let last = done + payload.len() as u32 == pending.length;
    let solicited = last && pending.solicited;
    match pending.operation {
        SendOperation::Datagram { queue_pair, queue_key, immediate, .. } => {
            let queue_key = if queue_key >> 31 == 0 { queue_key } else { header.queue_key };
            let bth = header.bth(Opcode::SendOnly, queue_pair, solicited);
            DatagramPacket { bth, queue_key, source: header.number, immediate, payload }.emit(out);
        }
        SendOperation::Connected(operation) => {
            let (immediate, remote) = match operation {
                Operation::Send { immediate } => (immediate, None),
                Operation::Write { remote, immediate } => (immediate, Some(remote)),
                _ => unreachable!("an unreliable connection has no READs and atomics"),
            };
            let opcode = opcode(remote.is_some(), first, last, immediate.is_some());
            let mut packet = Packet::new(header.bth(opcode, header.destination, solicited), payload);
            packet.immediate = immediate.filter(|_| last);
            packet.reth = remote.filter(|_| first).map(|RemoteAddress { address, rkey }| Reth {
                address,
                rkey,
                length: pending.length,
            });
            packet.emit_unreliable(out);
        }
    }
}

fn opcode(write: bool, first: bool, last: bool, immediate: bool) -> Opcode {
    match (write, first, last, immediate) {
        (false, true, true, false) => Opcode::SendOnly,
        (false, true, true, true) => Opcode::SendOnlyWithImmediate,
        (false, true, false, _) => Opcode::SendFirst,
        (false, false, false, _) => Opcode::SendMiddle,
        (false, false, true, false) => Opcode::SendLast,
        (false, false, true, true) => Opcode::SendLastWithImmediate,
        (true, true, true, false) => Opcode::WriteOnly,
        (true, true, true, true) => Opcode::WriteOnlyWithImmediate,
        (true, true, false, _) => Opcode::WriteFirst,
        (true, false, false, _) => Opcode::WriteMiddle,
        (true, false, true, false) => Opcode::WriteLast,
        (true, false, true, true) => Opcode::WriteLastWithImmediate,
    }
}

/// The destination address of the packets of a request.
pub(crate) fn destination(operation: &SendOperation, connected: Option<IpAddr>) -> Option<IpAddr> {
    match operation {
        SendOperation::Datagram { destination, .. } => Some(*destination),
        SendOperation::Connected(_) => connected,
    }
}

/// Whether a service supports an operation.
pub(crate) fn carries(service: Service, operation: &SendOperation) -> bool {
    match (service, operation) {
        (Service::ReliableConnection, SendOperation::Connected(_)) => true,
        (Service::UnreliableConnection, SendOperation::Connected(operation)) => {
            matches!(operation, Operation::Send { .. } | Operation::Write { .. })
        }
        (Service::UnreliableDatagram, SendOperation::Datagram { .. }) => true,
        _ => false,
    }
}
