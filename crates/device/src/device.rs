//! The device: its objects, and how packets and completions pass between them.

mod datagrams;
mod objects;
mod receive;

use std::collections::VecDeque;
use std::net::IpAddr;

use weft_rdma::{Counters, SharedReceiveQueueNumber, Transmit, Transport};
use weft_time::Instant;
use weft_verbs::{
    AccessFlags, Completion, CompletionOpcode, CompletionStatus, LocalBuffer, Modify, Operation, PathMtu,
    ProtectionDomain, QueuePairNumber, QueuePairState, ReadyToReceive, ReadyToSend, ReceiveRequest,
    RegionKeys, WorkRequest,
};
use weft_wire::roce::{Bth, MASK_24, Service};

use crate::completion::{CompletionQueue, CompletionQueueNumber, Notify, Pushed, WorkCompletion};
use crate::memory::{HostMemory, ListAddress, Memory};
use crate::queue_pair::{Attributes, Change, QueuePair, Receives, State};
use crate::unreliable::{self, Header, Pending};
use crate::work::{Element, SendOperation, SendRequest};
use crate::{DeviceError, Event};

pub use datagrams::Mad;

/// Sizes and limits of a device.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// The device's address, to which peers send.
    pub address: IpAddr,
    /// The largest payload of one packet.
    pub path_mtu: PathMtu,
    /// Configuration of the transport. The numbers of queue pairs and regions must be powers of two.
    pub transport: weft_rdma::Config,
}

/// Attributes for the creation of a queue pair: `ibv_qp_init_attr`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names are those of verbs")]
pub struct QueuePairInit {
    pub service: Service,
    pub domain: ProtectionDomain,
    pub send_completions: CompletionQueueNumber,
    pub receive_completions: CompletionQueueNumber,
    /// The shared receive queue; `None` if the queue pair has a receive queue of its own.
    pub shared: Option<usize>,
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
    pub sq_sig_all: bool,
}

/// A region of the program's memory: the parameters of `ibv_reg_mr_iova2`.
#[derive(Clone, Copy, Debug)]
pub struct MemoryRegion {
    /// Protection domain of the region.
    pub domain: ProtectionDomain,
    /// Address of the first byte in the program.
    pub address: u64,
    /// Address of the first byte that requests use.
    pub iova: u64,
    /// Number of bytes.
    pub length: u64,
    /// Operations that are allowed on the region.
    pub access: AccessFlags,
}

/// Attributes of a shared receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedReceiveInfo {
    /// Number of requests that the queue can hold.
    pub depth: u32,
    /// The queue raises an event when it has fewer requests than this; zero if it raises none.
    pub limit: u32,
}

#[derive(Debug)]
struct Domain {
    /// The region that contains posted requests, for the transport.
    lists: RegionKeys,
    users: usize,
}

#[derive(Debug)]
struct SharedReceive {
    number: SharedReceiveQueueNumber,
    domain: ProtectionDomain,
    queue: usize,
    limit: u32,
    users: usize,
}

/// An RDMA device. See the crate's documentation for the contract.
#[derive(Debug)]
pub struct Device<M> {
    config: DeviceConfig,
    transport: Transport,
    memory: Memory<M>,
    domains: Vec<Option<Domain>>,
    completion_queues: Vec<Option<CompletionQueue>>,
    shared: Vec<Option<SharedReceive>>,
    /// The queue pairs, by the index in their numbers.
    queue_pairs: Vec<Option<QueuePair>>,
    /// Queue pairs of the unreliable services that have something to send, each at most once.
    senders: VecDeque<usize>,
    /// Whether the unreliable services have the next turn to send.
    senders_turn: bool,
    mads_in: VecDeque<Mad>,
    mads_out: VecDeque<Mad>,
    mad_psn: u32,
    events: VecDeque<Event>,
    /// Number of send queues that are being drained.
    draining: usize,
    dropped: u64,
}

impl<M: HostMemory> Device<M> {
    /// A device without objects.
    ///
    /// # Panics
    /// If the size of one of its tables is not a power of two.
    pub fn new(config: DeviceConfig, host: M) -> Self {
        let places = config.transport.max_queue_pairs;
        assert!(places.is_power_of_two(), "the index is the low bits of a number");
        Self {
            transport: Transport::new(config.transport.clone()),
            memory: Memory::new(host, config.transport.max_regions),
            domains: Vec::new(),
            completion_queues: Vec::new(),
            shared: Vec::new(),
            queue_pairs: (0..places).map(|_| None).collect(),
            senders: VecDeque::new(),
            senders_turn: false,
            mads_in: VecDeque::new(),
            mads_out: VecDeque::new(),
            mad_psn: 0,
            events: VecDeque::new(),
            draining: 0,
            dropped: 0,
            config,
        }
    }

    /// The configuration that the device was created with.
    pub fn config(&self) -> &DeviceConfig {
        &self.config
    }

    /// The program's memory.
    pub fn host(&mut self) -> &mut M {
        &mut self.memory.host
    }

    /// The transport's counters.
    pub fn counters(&self) -> &Counters {
        self.transport.counters()
    }

    /// Number of dropped packets of the unreliable services.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn index(&self, number: u32) -> usize {
        number as usize & (self.queue_pairs.len() - 1)
    }

    fn find(&self, number: u32) -> Option<&QueuePair> {
        self.queue_pairs[self.index(number)].as_ref().filter(|queue_pair| queue_pair.number == number)
    }

    fn find_mut(&mut self, number: u32) -> Result<&mut QueuePair, DeviceError> {
        let index = self.index(number);
        let queue_pair = self.queue_pairs[index].as_mut().filter(|queue_pair| queue_pair.number == number);
        queue_pair.ok_or(DeviceError::Unknown("queue pair"))
    }

    /// Changes a queue pair.
    ///
    /// # Errors
    /// If there is no such queue pair, the transition is not allowed, or an attribute is missing or out of
    /// range.
    pub fn modify_queue_pair(&mut self, number: u32, change: Change) -> Result<(), DeviceError> {
        self.notice_error(number);
        let queue_pair = self.find_mut(number)?;
        let (service, from) = (queue_pair.service, queue_pair.attributes.state);
        let to = change.check(service, from)?;
        let mut next = queue_pair.attributes;
        change.merge(&mut next);
        next.state = to;
        if service == Service::ReliableConnection {
            self.modify_transport(number, from, &next, change.access.is_some())?;
        } else {
            self.modify_unreliable(number, from, &next);
        }
        let queue_pair = self.find_mut(number)?;
        if to == State::Reset {
            next = Attributes::default();
            queue_pair.held.clear();
        }
        let was_draining = queue_pair.attributes.draining;
        next.draining = to == State::SendQueueDrained && (was_draining || from != to);
        queue_pair.attributes = next;
        let shares = matches!(queue_pair.receives, Receives::Shared(_));
        self.draining = self.draining + usize::from(next.draining) - usize::from(was_draining);
        match (from, to) {
            (State::Error, State::Error) => {}
            (_, State::Error) => {
                self.flush_held(number);
                if shares {
                    self.events.push_back(Event::LastRequestReached(number));
                }
            }
            (_, State::Reset) => self.forget_completions(number),
            (State::SendQueueDrained, State::ReadyToSend) => self.post_held(number)?,
            _ => {}
        }
        self.drain(false);
        Ok(())
    }

    fn modify_transport(
        &mut self,
        number: u32,
        from: State,
        next: &Attributes,
        access: bool,
    ) -> Result<(), DeviceError> {
        let name = QueuePairNumber(number);
        match (from, next.state) {
            (_, State::Reset) => self.transport.modify_queue_pair(name, Modify::Reset)?,
            (_, State::Error) => self.transport.modify_queue_pair(name, Modify::Error)?,
            (_, State::Init) => {
                self.transport.modify_queue_pair(name, Modify::Init { access: next.access })?;
            }
            (State::Init, State::ReadyToReceive) => {
                let destination = next.destination.ok_or(DeviceError::Invalid("the path has no address"))?;
                let path = ReadyToReceive {
                    destination,
                    destination_qp_num: QueuePairNumber(next.destination_qp_num),
                    rq_psn: next.rq_psn & MASK_24,
                    path_mtu: next.path_mtu.min(self.config.path_mtu),
                    max_dest_rd_atomic: next.max_dest_rd_atomic,
                    min_rnr_timer: next.min_rnr_timer & 31,
                };
                if access {
                    self.transport.modify_queue_pair(name, Modify::Access(next.access))?;
                }
                self.transport.modify_queue_pair(name, Modify::ReadyToReceive(path))?;
            }
            (State::ReadyToReceive, State::ReadyToSend) => {
                let limits = ReadyToSend {
                    sq_psn: next.sq_psn & MASK_24,
                    timeout: next.timeout & 31,
                    retry_cnt: next.retry_cnt & 7,
                    rnr_retry: next.rnr_retry & 7,
                    max_rd_atomic: next.max_rd_atomic,
                };
                if access {
                    self.transport.modify_queue_pair(name, Modify::Access(next.access))?;
                }
                self.transport.modify_queue_pair(name, Modify::ReadyToSend(limits))?;
            }
            _ if access => self.transport.modify_queue_pair(name, Modify::Access(next.access))?,
            _ => {}
        }
        Ok(())
    }

    /// The attributes of a queue pair.
    ///
    /// # Errors
    /// If there is no such queue pair.
    pub fn query_queue_pair(&mut self, number: u32) -> Result<Attributes, DeviceError> {
        self.notice_error(number);
        Ok(self.find_mut(number)?.attributes)
    }

    /// If the transport has put a queue pair into ERROR, puts it into ERROR here, too. Returns whether the
    /// state has changed.
    fn notice_error(&mut self, number: u32) -> bool {
        let failed = self.transport.state(QueuePairNumber(number)) == Some(QueuePairState::Error);
        let Ok(queue_pair) = self.find_mut(number) else { return false };
        let reliable = queue_pair.service == Service::ReliableConnection;
        if !failed || !reliable || queue_pair.attributes.state == State::Error {
            return false;
        }
        let was_draining = std::mem::take(&mut queue_pair.attributes.draining);
        queue_pair.attributes.state = State::Error;
        let shares = matches!(queue_pair.receives, Receives::Shared(_));
        self.draining -= usize::from(was_draining);
        self.flush_held(number);
        if shares {
            self.events.push_back(Event::LastRequestReached(number));
        }
        true
    }

    /// Completes requests that were held back, with a "flushed" status.
    fn flush_held(&mut self, number: u32) {
        let Ok(queue_pair) = self.find_mut(number) else { return };
        for request in std::mem::take(&mut queue_pair.held) {
            self.complete(flushed(number, &request), false);
        }
    }

    /// Posts the requests that were held back while the send queue was drained.
    fn post_held(&mut self, number: u32) -> Result<(), DeviceError> {
        for request in std::mem::take(&mut self.find_mut(number)?.held) {
            if self.transport.post_send(Instant::ZERO, QueuePairNumber(number), request).is_err() {
                self.complete(flushed(number, &request), false);
            }
        }
        Ok(())
    }

    /// Queues a request on a send queue.
    ///
    /// # Errors
    /// If there is no such queue pair, its state does not allow the request, a queue is full, or the request
    /// can never be executed.
    pub fn post_send(
        &mut self,
        now: Instant,
        number: u32,
        request: &SendRequest<'_>,
    ) -> Result<(), DeviceError> {
        let index = self.index(number);
        let Self { queue_pairs, memory, transport, domains, .. } = self;
        let queue_pair = queue_pairs[index]
            .as_mut()
            .filter(|queue_pair| queue_pair.number == number)
            .ok_or(DeviceError::Unknown("queue pair"))?;
        let queue = memory.queues[queue_pair.send_queue].as_mut().expect("a queue pair has a send queue");
        let length = queue.check(request.elements, request.inline)?;
        let slot = queue.next_slot()?;
        if !unreliable::carries(queue_pair.service, &request.operation) {
            return Err(DeviceError::Invalid("the service has no such operation"));
        }
        let signaled = request.signaled || queue_pair.all_signaled;
        let address = ListAddress { queue: queue_pair.send_queue, slot, offset: 0 }.pack();
        let state = queue_pair.attributes.state;
        if request.inline {
            // The bytes are copied first, so that a memory fault leaves no request in the queue.
            let host = &mut memory.host;
            queue
                .fill_inline(length, |buffer| copy_elements(host, request.elements, buffer))
                .map_err(|_| DeviceError::Fault)?;
        }
        match request.operation {
            SendOperation::Connected(operation) if queue_pair.service == Service::ReliableConnection => {
                let lists = &domains[queue.domain.0 as usize].as_ref().expect("it is in use").lists;
                let local = LocalBuffer { address, length, lkey: lists.lkey };
                let work = WorkRequest {
                    id: slot as u64,
                    operation,
                    local,
                    signaled,
                    fence: request.fence,
                    solicited: request.solicited,
                };
                if state == State::SendQueueDrained {
                    if queue_pair.held.len() == queue.depth() {
                        return Err(DeviceError::QueueFull);
                    }
                    queue_pair.held.push(work);
                } else {
                    transport.post_send(now, QueuePairNumber(number), work)?;
                }
            }
            operation => {
                match state {
                    State::ReadyToSend | State::Error => {}
                    _ => return Err(DeviceError::Invalid("the queue pair is not ready to send")),
                }
                let datagram = queue_pair.service == Service::UnreliableDatagram;
                if datagram && length > self.config.path_mtu.bytes() {
                    return Err(DeviceError::MessageTooLong);
                }
                let sender = queue_pair.unreliable.as_mut().expect("it is of an unreliable service");
                if sender.sends.len() == queue.depth() {
                    return Err(DeviceError::QueueFull);
                }
                let solicited = request.solicited;
                sender.sends.push_back(Pending { slot, operation, length, signaled, solicited });
                if sender.sends.len() == 1 {
                    self.senders.push_back(index);
                }
            }
        }
        if request.inline {
            queue.keep_inline(request.id, length);
        } else {
            queue.keep(request.id, request.elements);
        }
        if state == State::Error {
            self.flush_unreliable(number);
            self.drain(false);
        }
        Ok(())
    }

    /// Queues a request on the receive queue of a queue pair.
    ///
    /// # Errors
    /// If there is no such queue pair, it is in RESET or uses a shared receive queue, or a queue is full.
    pub fn post_receive(&mut self, number: u32, id: u64, elements: &[Element]) -> Result<(), DeviceError> {
        let index = self.index(number);
        let Self { queue_pairs, memory, transport, domains, .. } = self;
        let queue_pair = queue_pairs[index]
            .as_mut()
            .filter(|queue_pair| queue_pair.number == number)
            .ok_or(DeviceError::Unknown("queue pair"))?;
        let Receives::Own(at) = queue_pair.receives else {
            return Err(DeviceError::Invalid("the queue pair shares its receive queue"));
        };
        let queue = memory.queues[at].as_mut().expect("a queue pair has a receive queue");
        let length = queue.check(elements, false)?;
        let slot = queue.next_slot()?;
        let state = queue_pair.attributes.state;
        match &mut queue_pair.unreliable {
            None => {
                let lists = &domains[queue.domain.0 as usize].as_ref().expect("it is in use").lists;
                let address = ListAddress { queue: at, slot, offset: 0 }.pack();
                let local = LocalBuffer { address, length, lkey: lists.lkey };
                transport.post_receive(QueuePairNumber(number), ReceiveRequest { id: slot as u64, local })?;
            }
            Some(_) if state == State::Reset => {
                return Err(DeviceError::Invalid("the queue pair is in RESET"));
            }
            Some(receiver) => {
                let taken = receiver.receives.len() + usize::from(receiver.holds_receive());
                if taken >= queue.depth() {
                    return Err(DeviceError::QueueFull);
                }
                receiver.receives.push_back(slot);
            }
        }
        queue.keep(id, elements);
        if state == State::Error {
            self.flush_unreliable(number);
            self.drain(false);
        }
        Ok(())
    }

    /// Handles a packet from `source`, from its base transport header to its pad bytes. The caller has
    /// verified the ICRC.
    pub fn receive(&mut self, now: Instant, source: IpAddr, packet: &[u8]) {
        match Service::of(packet) {
            Some(Service::ReliableConnection) => self.receive_reliable(now, source, packet),
            Some(Service::UnreliableConnection) => self.receive_connected(source, packet),
            Some(Service::UnreliableDatagram) => self.receive_datagram(source, packet),
            None => self.dropped += 1,
        }
    }

    /// Appends the next packet, without ICRC, to `out` and returns its destination. Returns `None` if there
    /// is nothing to send now.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(transmit) = self.transmit_mad(out) {
            return Some(transmit);
        }
        self.senders_turn = !self.senders_turn;
        if self.senders_turn
            && let Some(transmit) = self.transmit_unreliable(out)
        {
            return Some(transmit);
        }
        if let Some(transmit) = self.transport.poll_transmit(now, &mut self.memory, out) {
            return Some(transmit);
        }
        let transmit = self.transmit_unreliable(out);
        if transmit.is_none() {
            // Moves completions of requests that could not be sent.
            self.drain(false);
        }
        transmit
    }

    /// The latest time at which [`Device::handle_deadline`] must be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.transport.next_deadline()
    }

    /// Handles all deadlines up to `now`.
    pub fn handle_deadline(&mut self, now: Instant) {
        self.transport.handle_deadline(now);
        self.drain(false);
    }

    /// Takes the oldest completion of a queue.
    #[inline]
    pub fn poll(&mut self, number: CompletionQueueNumber) -> Option<WorkCompletion> {
        self.completion_queues.get_mut(number.0)?.as_mut()?.pop()
    }

    /// Number of completions in a queue.
    pub fn completions(&self, number: CompletionQueueNumber) -> usize {
        let queue = self.completion_queues.get(number.0).and_then(Option::as_ref);
        queue.map_or(0, CompletionQueue::len)
    }

    /// Whether a completion queue has overrun. Also `true` if there is no such queue.
    pub fn is_broken(&self, number: CompletionQueueNumber) -> bool {
        let queue = self.completion_queues.get(number.0).and_then(Option::as_ref);
        queue.is_none_or(CompletionQueue::is_broken)
    }

    /// Requests an event for the next completion of a queue.
    pub fn request_notification(&mut self, number: CompletionQueueNumber, notify: Notify) {
        if let Some(Some(queue)) = self.completion_queues.get_mut(number.0) {
            queue.request(notify);
        }
    }

    /// Whether an event has been requested for any completion queue.
    pub fn is_armed(&self) -> bool {
        self.completion_queues.iter().flatten().any(CompletionQueue::is_armed)
    }

    /// Takes the oldest event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Moves the transport's completions to the completion queues. `solicited`: whether the packet that just
    /// arrived has its solicited-event bit set.
    fn drain(&mut self, solicited: bool) {
        while let Some(completion) = self.transport.poll_completion() {
            self.complete(completion, solicited);
        }
        if self.draining > 0 {
            self.note_drained();
        }
    }

    /// Completes a request whose tag is its slot.
    fn complete(&mut self, completion: Completion, solicited: bool) {
        let Completion { id: slot, mut status, opcode, bytes, immediate, queue_pair, vendor_error } =
            completion;
        let Ok(owner) = self.find_mut(queue_pair.0) else { return };
        let received =
            matches!(opcode, CompletionOpcode::Receive | CompletionOpcode::ReceiveWriteWithImmediate);
        let (completions, queue) = if received {
            (owner.receive_completions, owner.receives)
        } else {
            (owner.send_completions, Receives::Own(owner.send_queue))
        };
        let queue = self.work_queue(queue);
        let (id, violation) = self.memory.queue(queue).end(slot as usize);
        if violation && status == CompletionStatus::LocalQueuePairOperationError {
            status = CompletionStatus::LocalProtectionError;
        }
        let queue_pair = queue_pair.0;
        let completion =
            WorkCompletion { id, status, opcode, bytes, immediate, queue_pair, source: None, vendor_error };
        self.push(completions, completion, solicited);
        if status != CompletionStatus::Success {
            self.notice_error(queue_pair);
        }
    }

    fn work_queue(&self, receives: Receives) -> usize {
        match receives {
            Receives::Own(queue) => queue,
            Receives::Shared(at) => self.shared[at].as_ref().expect("it is in use").queue,
        }
    }

    fn push(&mut self, queue: usize, completion: WorkCompletion, solicited: bool) {
        let Some(Some(completions)) = self.completion_queues.get_mut(queue) else { return };
        match completions.push(completion, solicited) {
            Pushed::Quiet => {}
            Pushed::Notify => self.events.push_back(Event::Completion(CompletionQueueNumber(queue))),
            Pushed::Overrun => {
                self.events.push_back(Event::CompletionQueueError(CompletionQueueNumber(queue)));
            }
        }
    }

    fn forget_completions(&mut self, number: u32) {
        self.transport.forget_completions(QueuePairNumber(number));
        for queue in self.completion_queues.iter_mut().flatten() {
            queue.forget(number);
        }
    }

    /// Reports the send queues that have been drained.
    fn note_drained(&mut self) {
        for index in 0..self.queue_pairs.len() {
            let Some(queue_pair) = self.queue_pairs[index].as_mut() else { continue };
            if !queue_pair.attributes.draining {
                continue;
            }
            let left = match &queue_pair.unreliable {
                Some(sender) => sender.sends.len(),
                None => {
                    let information = self.transport.query_queue_pair(QueuePairNumber(queue_pair.number));
                    information.map_or(0, |information| information.send_queued)
                }
            };
            if left == 0 {
                queue_pair.attributes.draining = false;
                self.draining -= 1;
                if queue_pair.attributes.drained_event {
                    self.events.push_back(Event::SendQueueDrained(queue_pair.number));
                }
            }
        }
    }
}

/// The completion, with a "flushed" status, of a request that was never sent.
fn flushed(number: u32, request: &WorkRequest) -> Completion {
    Completion {
        id: request.id,
        status: CompletionStatus::WorkRequestFlushed,
        opcode: request.operation.completion_opcode(),
        bytes: 0,
        immediate: None,
        queue_pair: QueuePairNumber(number),
        vendor_error: 0,
    }
}

/// Copies the program's memory that a list names, by address only, without checking keys.
fn copy_elements<M: HostMemory>(
    host: &mut M,
    elements: &[Element],
    buffer: &mut [u8],
) -> Result<(), weft_rdma::MemoryFault> {
    let mut rest = buffer;
    for element in elements {
        let (part, behind) = rest.split_at_mut(element.length as usize);
        host.load(element.address, part)?;
        rest = behind;
    }
    Ok(())
}
