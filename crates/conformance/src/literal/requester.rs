//! A requester that interprets acknowledgements literally, as Linux's soft RoCE does.

use std::collections::VecDeque;

use weft_verbs::QueuePairNumber;
use weft_wire::roce::{
    AtomicEth, Bth, Congestion, MASK_24, NakCode, Opcode, Packet, Reth, Syndrome, pad_bytes,
};

/// The initial content of a buffer, which shows bytes that no response has filled.
const POISON: u8 = 0xee;

/// The operation of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// WRITE of these bytes.
    Write(Vec<u8>),
    /// READ of this many bytes.
    Read(usize),
    /// FETCH ADD of this value to the word.
    Add(u64),
}

/// A request that the requester considers complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The id of the request.
    pub id: u64,
    /// The data read.
    pub buffer: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Entry {
    id: u64,
    operation: Operation,
    address: u64,
    first: u64,
    packets: u64,
    /// Packets that are acknowledged, or whose responses have arrived.
    done: u64,
    buffer: Vec<u8>,
}

impl Entry {
    fn end(&self) -> u64 {
        self.first + self.packets
    }

    const fn has_response(&self) -> bool {
        !matches!(self.operation, Operation::Write(_))
    }
}

/// The requester: its queue in the order of PSNs, and the next packet to send.
#[derive(Clone, Debug)]
pub struct Requester {
    destination: QueuePairNumber,
    rkey: u32,
    mtu: usize,
    queue: VecDeque<Entry>,
    next: u64,
    cursor: u64,
    sent: u64,
    /// The packet to which the requester went back last, while there is no progress since.
    went_back: Option<u64>,
    completed: Vec<Completion>,
    /// Number of times that the requester went back N.
    pub retries: u64,
}

impl Requester {
    /// Creates a requester that starts with `psn` and accesses memory with `rkey`.
    pub const fn new(destination: QueuePairNumber, rkey: u32, mtu: usize, psn: u32) -> Self {
        // The 64-bit sequence numbers start at 2^24 + `psn`, so that smaller ones exist.
        let next = psn as u64 + MASK_24 as u64 + 1;
        Self {
            destination,
            rkey,
            mtu,
            queue: VecDeque::new(),
            next,
            cursor: next,
            sent: next,
            went_back: None,
            completed: Vec::new(),
            retries: 0,
        }
    }

    /// Queues a request.
    pub fn post(&mut self, id: u64, address: u64, operation: Operation) {
        let (length, buffer) = match &operation {
            Operation::Write(bytes) => (bytes.len(), 0),
            Operation::Read(bytes) => (*bytes, *bytes),
            Operation::Add(_) => (8, 8),
        };
        let packets = length.div_ceil(self.mtu).max(1) as u64;
        let buffer = vec![POISON; buffer];
        self.queue.push_back(Entry { id, operation, address, first: self.next, packets, done: 0, buffer });
        self.next += packets;
    }

    /// The requests that have completed since the last call.
    pub fn take_completions(&mut self) -> Vec<Completion> {
        std::mem::take(&mut self.completed)
    }

    /// The oldest packet that has no answer.
    pub fn oldest(&self) -> u64 {
        self.queue.front().map_or(self.next, |entry| entry.first + entry.done)
    }

    /// The next packet to send.
    pub fn transmit(&mut self) -> Option<Packet<'_>> {
        let sequence = self.cursor;
        let entry = self.queue.iter().find(|entry| (entry.first..entry.end()).contains(&sequence))?;
        let index = sequence - entry.first;
        self.cursor = if entry.has_response() { entry.end() } else { sequence + 1 };
        self.sent = self.sent.max(self.cursor);
        let done = index as usize * self.mtu;
        let address = entry.address + done as u64;
        let (first, last) = (index == 0, sequence + 1 == entry.end());
        let opcode = match (&entry.operation, first, last) {
            (Operation::Read(_), ..) => Opcode::ReadRequest,
            (Operation::Add(_), ..) => Opcode::FetchAdd,
            (Operation::Write(_), true, true) => Opcode::WriteOnly,
            (Operation::Write(_), true, false) => Opcode::WriteFirst,
            (Operation::Write(_), false, true) => Opcode::WriteLast,
            (Operation::Write(_), false, false) => Opcode::WriteMiddle,
        };
        let bth = Bth {
            opcode,
            solicited: false,
            migration: true,
            pad: 0,
            partition_key: 0xffff,
            congestion: Congestion::default(),
            destination: self.destination.0,
            acknowledge: last || entry.has_response(),
            psn: sequence as u32 & MASK_24,
        };
        let rkey = self.rkey;
        let mut packet = Packet::new(bth, &[]);
        match &entry.operation {
            Operation::Write(bytes) => {
                packet.payload = &bytes[done..bytes.len().min(done + self.mtu)];
                packet.bth.pad = pad_bytes(packet.payload.len());
                packet.reth = first.then_some(Reth { address, rkey, length: bytes.len() as u32 });
            }
            Operation::Read(bytes) => {
                packet.reth = Some(Reth { address, rkey, length: (bytes - done) as u32 });
            }
            Operation::Add(add) => {
                packet.atomic = Some(AtomicEth { address, rkey, swap_or_add: *add, compare: 0 });
            }
        }
        Some(packet)
    }

    /// Processes an acknowledgement or response.
    ///
    /// # Errors
    /// The peer sent a NAK.
    pub fn receive(&mut self, packet: &Packet<'_>) -> Result<(), String> {
        let before = self.oldest();
        let ahead = packet.bth.psn.wrapping_sub(before as u32) & MASK_24;
        let sequence = before + u64::from(ahead);
        if ahead > MASK_24 / 2 || sequence >= self.sent {
            return Ok(());
        }
        // Any response acknowledges the WRITEs before its PSN, and shows that an earlier response is missing.
        while self.queue.front().is_some_and(|entry| entry.end() <= sequence) {
            if self.queue[0].has_response() {
                self.go_back_once();
                return Ok(());
            }
            self.complete();
        }
        let entry = self.queue.front_mut().expect("what was sent is in the queue");
        let answered = sequence + 1 - entry.first;
        match (packet.bth.opcode, packet.aeth.map(|aeth| aeth.syndrome)) {
            (Opcode::Acknowledge, Some(Syndrome::Ack { .. })) => {
                // This is the literal interpretation: an acknowledgement of the last PSN completes any
                // request.
                if answered == entry.packets {
                    self.complete();
                } else if !entry.has_response() {
                    entry.done = answered;
                }
            }
            (Opcode::Acknowledge, Some(Syndrome::Nak(NakCode::PsnSequenceError))) => {
                if !entry.has_response() {
                    entry.done = entry.done.max(answered - 1);
                }
                self.go_back_once();
            }
            (Opcode::Acknowledge, syndrome) => return Err(format!("refused: {syndrome:?}")),
            (opcode, _) if entry.has_response() && answered == entry.done + 1 => {
                let original = packet.atomic_ack.map(u64::to_le_bytes);
                let data = original.as_ref().map_or(packet.payload, |bytes| &bytes[..]);
                let from = entry.done as usize * self.mtu;
                let place = entry.buffer.get_mut(from..from + data.len());
                place.ok_or_else(|| format!("too long: {opcode:?}"))?.copy_from_slice(data);
                entry.done = answered;
                if answered == entry.packets {
                    self.complete();
                }
            }
            _ => {}
        }
        if self.oldest() > before && self.went_back != Some(self.oldest()) {
            self.went_back = None;
        }
        Ok(())
    }

    /// Handles a time-out.
    pub fn time_out(&mut self) {
        self.retries += 1;
        self.cursor = self.oldest();
        self.went_back = Some(self.cursor);
    }

    fn go_back_once(&mut self) {
        if self.went_back != Some(self.oldest()) {
            self.time_out();
        }
    }

    fn complete(&mut self) {
        let entry = self.queue.pop_front().expect("there is a request to complete");
        self.cursor = self.cursor.max(entry.end());
        self.completed.push(Completion { id: entry.id, buffer: entry.buffer });
    }
}
