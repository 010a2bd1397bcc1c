//! The content of messages, and the check that it has arrived.
//!
//! Each message has a buffer; the buffers of a queue pair are used in turn. The bytes of a buffer are
//! computed from the seed, the queue pair and the buffer's index. At the beginning of each packet is a stamp,
//! which also depends on the number of the message. So the check detects packets of another message, another
//! offset or another run. Writing a message takes only one word per packet, so it does not slow down the
//! measured operation.

use serde::{Deserialize, Serialize};
use weft_gateware::Service;
use weft_rdma::RegionMemory;
use weft_service::{Direction, Flow, Services};
use weft_verbs::{Completion, CompletionOpcode, CompletionStatus, Target, WorkRequest};

use super::draw::mix;
use super::load::{Load, RdmaOperation};

/// The memory that contains all buffers.
pub(super) const TARGET: Target = Target::Host;

/// Number of bytes of a stamp.
const STAMP_BYTES: u64 = 8;

/// Identifies a message: its queue pair, counted among those under load, and its number on that queue pair.
/// Work requests have it as their tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageId {
    pub(super) flow: u32,
    pub(super) number: u64,
}

impl MessageId {
    const NUMBER_BITS: u32 = 48;

    pub(super) const fn tag(self) -> u64 {
        (self.flow as u64) << Self::NUMBER_BITS | self.number
    }

    pub(super) const fn of_tag(tag: u64) -> Self {
        Self { flow: (tag >> Self::NUMBER_BITS) as u32, number: tag & ((1 << Self::NUMBER_BITS) - 1) }
    }
}

/// Result of comparing the messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// Number of messages whose stamps, old values or immediate data were compared.
    pub messages: u64,
    /// Number of bytes that were compared individually.
    pub bytes: u64,
    /// Number of messages that were wrong.
    pub mismatches: u64,
    /// Description of the first wrong message.
    pub first: Option<String>,
}

impl Verification {
    fn expect(&mut self, right: bool, what: impl FnOnce() -> String) {
        self.messages += 1;
        if !right {
            self.mismatches += 1;
            self.first.get_or_insert_with(what);
        }
    }

    /// Adds the other side's result.
    pub(super) fn merge(&mut self, other: &Self) {
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.mismatches += other.mismatches;
        if self.first.is_none() {
            self.first.clone_from(&other.first);
        }
    }
}

/// Computes addresses and contents of the buffers.
#[derive(Clone, Copy, Debug)]
struct Pattern {
    load: Load,
}

impl Pattern {
    /// The index of a message's buffer among the buffers of its queue pair.
    fn slot(&self, number: u64) -> u64 {
        number % u64::from(self.load.depth)
    }

    /// The address of the buffer that a message is sent from, written to or read from.
    fn address(&self, message: MessageId) -> u64 {
        let slots = u64::from(message.flow) * u64::from(self.load.depth);
        (slots + self.slot(message.number)) * self.load.stride()
    }

    /// The address of the receive buffer of a message. Receive buffers come after all others.
    fn receive_address(&self, message: MessageId) -> u64 {
        let depth = u64::from(self.load.receive_depth());
        let slots = u64::from(message.flow) * depth + message.number % depth;
        self.buffers_bytes() + slots * self.load.stride()
    }

    fn buffers_bytes(&self) -> u64 {
        u64::from(self.load.busy) * u64::from(self.load.depth) * self.load.stride()
    }

    fn key(&self, flow: u32, number: u64) -> u64 {
        mix(self.load.seed ^ mix(u64::from(flow) << MessageId::NUMBER_BITS | number))
    }

    /// The stamp of the packet that begins at `offset`.
    fn stamp(&self, message: MessageId, offset: u64) -> [u8; 8] {
        mix(!self.key(message.flow, message.number) ^ offset).to_le_bytes()
    }

    /// Number of bytes of a message.
    fn size(&self, message: MessageId) -> usize {
        self.load.size_of(message.flow, message.number) as usize
    }

    /// For a message of this many bytes, the offset of each packet, and the number of bytes of its stamp that
    /// fit.
    fn stamps(&self, bytes: usize) -> impl Iterator<Item = (u64, usize)> + use<> {
        let offsets = (0..bytes as u64).step_by(self.load.mtu as usize);
        offsets.map(move |offset| (offset, STAMP_BYTES.min(bytes as u64 - offset) as usize))
    }

    /// Writes a message, or as much of it as fits in the buffer.
    fn fill(&self, message: MessageId, buffer: &mut [u8]) {
        let key = self.key(message.flow, self.slot(message.number));
        for (index, word) in buffer.chunks_mut(8).enumerate() {
            let bytes = mix(key.wrapping_add(index as u64)).to_le_bytes();
            word.copy_from_slice(&bytes[..word.len()]);
        }
        for (offset, length) in self.stamps(buffer.len()) {
            let stamp = self.stamp(message, offset);
            buffer[offset as usize..][..length].copy_from_slice(&stamp[..length]);
        }
    }

    /// Writes the stamps, by which a message differs from the previous message in the same buffer.
    fn write_stamps(&self, message: MessageId, bytes: usize, memory: &mut dyn RegionMemory, address: u64) {
        for (offset, length) in self.stamps(bytes) {
            Self::store(memory, address + offset, &self.stamp(message, offset)[..length]);
        }
    }

    fn stamps_hold(&self, message: MessageId, buffer: &[u8]) -> bool {
        self.stamps(buffer.len()).all(|(offset, length)| {
            buffer[offset as usize..][..length] == self.stamp(message, offset)[..length]
        })
    }

    /// Whether the buffer contains the message. Compares every byte.
    fn holds(&self, message: MessageId, buffer: &[u8], expected: &mut Vec<u8>) -> bool {
        self.holds_through(None, message, buffer, expected)
    }

    /// Whether the buffer contains what these services make of the message. Compares every byte.
    fn holds_through(
        &self,
        services: Option<&Services>,
        message: MessageId,
        buffer: &[u8],
        expected: &mut Vec<u8>,
    ) -> bool {
        expected.resize(buffer.len(), 0);
        self.fill(message, expected);
        if let Some(services) = services {
            services.pass(FLOW, 0, expected);
        }
        *expected == buffer
    }

    /// What the tap of these services, which are new, reads after the first `sent` messages of a queue pair.
    fn reading(&self, flow: u32, sent: u64, mut services: Services) -> u64 {
        let mut bytes = Vec::new();
        for number in 0..sent {
            let message = MessageId { flow, number };
            bytes.resize(self.size(message), 0);
            self.fill(message, &mut bytes);
            for (index, packet) in (0..).zip(bytes.chunks_mut(self.load.mtu as usize)) {
                let verdict = services.pass(FLOW, index * u64::from(self.load.mtu), packet);
                services.accept(FLOW, verdict);
            }
        }
        services.reading(FLOW)
    }

    fn buffer(memory: &mut dyn RegionMemory, address: u64, bytes: usize) -> &[u8] {
        memory.read(TARGET, address, bytes).expect("the memory is as large as the load needs")
    }

    fn store(memory: &mut dyn RegionMemory, address: u64, bytes: &[u8]) {
        memory.write(TARGET, address, bytes).expect("the memory is as large as the load needs");
    }

    /// Writes the message whose number is the buffer's index to every buffer of every queue pair.
    fn fill_all(&self, memory: &mut dyn RegionMemory) {
        let mut buffer = vec![0; self.load.size as usize];
        for flow in 0..self.load.busy {
            for number in 0..u64::from(self.load.depth) {
                let message = MessageId { flow, number };
                self.fill(message, &mut buffer);
                Self::store(memory, self.address(message), &buffer);
            }
        }
    }
}

/// Number of bytes of memory that one side of `load` needs.
pub(super) fn memory_bytes(load: &Load) -> u64 {
    let receive = u64::from(load.busy) * u64::from(load.receive_depth()) * load.stride();
    Pattern { load: *load }.buffers_bytes() + if load.operation.is_send() { receive } else { 0 }
}

/// The client's memory: buffers that are sent, and buffers in which data from the server arrive.
#[derive(Debug)]
pub(super) struct ClientMemory {
    pattern: Pattern,
    /// For each queue pair, the number of messages that have been checked.
    seen: Vec<u64>,
    expected: Vec<u8>,
    verification: Verification,
}

impl ClientMemory {
    pub(super) fn new(load: Load, memory: &mut dyn RegionMemory) -> Self {
        let pattern = Pattern { load };
        if !load.operation.is_atomic() {
            pattern.fill_all(memory);
        }
        Self {
            pattern,
            seen: vec![0; load.busy as usize],
            expected: Vec::new(),
            verification: Verification::default(),
        }
    }

    /// Address of message `message`, the same on both sides.
    pub(super) fn address(load: &Load, message: MessageId) -> u64 {
        Pattern { load: *load }.address(message)
    }

    pub(super) fn verification(&self) -> &Verification {
        &self.verification
    }

    /// Prepares the buffer of a request: writes the right stamps if the buffer is sent, and wrong ones if
    /// data arrive there.
    pub(super) fn prepare(&self, memory: &mut dyn RegionMemory, request: &WorkRequest) {
        let message = MessageId::of_tag(request.id);
        let address = self.pattern.address(message);
        let bytes = request.local.length as usize;
        match self.pattern.load.operation {
            RdmaOperation::Read => {
                // The server's buffers do not change, and the next message that uses this one expects the
                // same bytes.
                let number = self.pattern.slot(message.number);
                self.pattern.write_stamps(MessageId { number: !number, ..message }, bytes, memory, address);
            }
            RdmaOperation::FetchAdd | RdmaOperation::CmpSwap => Pattern::store(memory, address, &[0xff; 8]),
            _ => self.pattern.write_stamps(message, bytes, memory, address),
        }
    }

    /// Handles the completion of a request, which also completes all earlier requests of its queue pair:
    /// checks the data that have arrived.
    pub(super) fn complete(&mut self, memory: &mut dyn RegionMemory, completion: &Completion) {
        let last = MessageId::of_tag(completion.id);
        let first = std::mem::replace(&mut self.seen[last.flow as usize], last.number + 1);
        let Self { pattern, expected, verification, .. } = self;
        if completion.status != CompletionStatus::Success {
            return;
        }
        for number in first..=last.number {
            let message = MessageId { number, ..last };
            let address = pattern.address(message);
            let buffer = Pattern::buffer(memory, address, pattern.size(message));
            match pattern.load.operation {
                RdmaOperation::Read => {
                    let read = MessageId { number: pattern.slot(number), ..message };
                    let right = if number.is_multiple_of(pattern.load.compare_every) {
                        verification.bytes += buffer.len() as u64;
                        pattern.holds(read, buffer, expected)
                    } else {
                        pattern.stamps_hold(read, buffer)
                    };
                    verification.expect(right, || format!("READ {message:?} brought other bytes"));
                }
                RdmaOperation::FetchAdd | RdmaOperation::CmpSwap => {
                    let right = buffer == number.to_le_bytes();
                    verification.expect(right, || format!("{message:?} found {buffer:x?} in its word"));
                }
                _ => {}
            }
        }
    }
}

/// The flow whose settings the services have with which results are compared.
const FLOW: Flow = Flow { queue_pair: 0, direction: Direction::Receive };

/// The server's memory: buffers that the client writes, sends to or reads.
#[derive(Debug)]
pub(super) struct ServerMemory {
    pattern: Pattern,
    expected: Vec<u8>,
    verification: Verification,
    /// The services that are on the server's path.
    service: Option<Service>,
}

impl ServerMemory {
    pub(super) fn new(load: Load, memory: &mut dyn RegionMemory, service: Option<Service>) -> Self {
        assert!(
            service.is_none() || load.operation == RdmaOperation::Write,
            "services are compared with WRITEs"
        );
        let pattern = Pattern { load };
        if load.operation == RdmaOperation::Read {
            pattern.fill_all(memory);
        }
        Self { pattern, expected: Vec::new(), verification: Verification::default(), service }
    }

    pub(super) fn receive_address(load: &Load, message: MessageId) -> u64 {
        Pattern { load: *load }.receive_address(message)
    }

    /// Handles the completion of a receive request: checks its buffer. The request's tag is the expected
    /// message, because the messages of a queue pair arrive once each and in order.
    pub(super) fn complete(&mut self, memory: &mut dyn RegionMemory, completion: &Completion) {
        let message = MessageId::of_tag(completion.id);
        let Self { pattern, expected, verification, .. } = self;
        if completion.status != CompletionStatus::Success {
            return;
        }
        let load = &pattern.load;
        let has_immediate = matches!(load.operation, RdmaOperation::WriteImm | RdmaOperation::SendImm);
        let opcode = if load.operation.is_send() {
            CompletionOpcode::Receive
        } else {
            CompletionOpcode::ReceiveWriteWithImmediate
        };
        let mut right = completion.opcode == opcode
            && completion.bytes == load.size_of(message.flow, message.number)
            && completion.immediate == has_immediate.then_some(message.number as u32);
        if load.operation.is_send() {
            let buffer = Pattern::buffer(memory, pattern.receive_address(message), pattern.size(message));
            right &= if message.number.is_multiple_of(load.compare_every) {
                verification.bytes += buffer.len() as u64;
                pattern.holds(message, buffer, expected)
            } else {
                pattern.stamps_hold(message, buffer)
            };
        }
        verification.expect(right, || format!("the receive request of {message:?} got another message"));
    }

    /// Called at the end of the run: the client has sent `sent` messages on each queue pair. Compares all
    /// buffers whose final content is known, and with services what the tap of each queue pair reads.
    pub(super) fn finish(
        mut self,
        memory: &mut dyn RegionMemory,
        sent: &[u64],
        readings: &[u64],
    ) -> Verification {
        let software = self.service.as_ref().map(|service| service.in_software(FLOW));
        for ((flow, &sent), reading) in (0..).zip(sent).zip(readings) {
            let services = software.clone().expect("what reads is a service");
            let expected = self.pattern.reading(flow, sent, services);
            let right = *reading == expected;
            self.verification.expect(right, || {
                format!("the tap of queue pair {flow} reads {reading:#x} and not {expected:#x}")
            });
        }
        let Self { pattern, expected, verification, .. } = &mut self;
        let depth = u64::from(pattern.load.depth);
        for (flow, &sent) in (0..).zip(sent) {
            match pattern.load.operation {
                RdmaOperation::Write | RdmaOperation::WriteImm => {
                    for slot in 0..depth {
                        let number =
                            if slot < sent { slot + (sent - 1 - slot) / depth * depth } else { slot };
                        let message = MessageId { flow, number };
                        let bytes =
                            if slot < sent { pattern.size(message) } else { pattern.load.size as usize };
                        let buffer = Pattern::buffer(memory, pattern.address(message), bytes);
                        let right = if slot < sent {
                            pattern.holds_through(software.as_ref(), message, buffer, expected)
                        } else {
                            buffer.iter().all(|&byte| byte == 0)
                        };
                        verification.bytes += buffer.len() as u64;
                        verification.expect(right, || format!("the buffer of {message:?} holds other bytes"));
                    }
                }
                RdmaOperation::FetchAdd | RdmaOperation::CmpSwap => {
                    let address = pattern.address(MessageId { flow, number: 0 });
                    let word = Pattern::buffer(memory, address, pattern.load.size as usize);
                    verification.expect(word == sent.to_le_bytes(), || {
                        format!("the word of queue pair {flow} holds {word:x?} after {sent} operations")
                    });
                }
                RdmaOperation::Send | RdmaOperation::SendImm | RdmaOperation::Read => {}
            }
        }
        self.verification
    }
}
