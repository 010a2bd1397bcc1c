//! The driver's state of a queue pair: its attributes, and its outstanding requests.

use std::collections::VecDeque;

use weft_verbs::{
    AccessFlags, ApiError, Completion, CompletionOpcode, CompletionStatus, Operation, QueuePairAttributes,
    QueuePairNumber, QueuePairState, ReadyToReceive, ReadyToSend, ReceiveRequest, WorkRequest,
};

use crate::{engine_package, package};

/// The longest message of the specification, 2^31 bytes (clause 9.3.3.1).
const MESSAGE_BYTES_MAX: u32 = 1 << 31;

/// The most packets of one message, as in the soft transport.
const MESSAGE_PACKETS_MAX: u32 = 1 << 22;

/// Requests of the host that the gateware holds at a time. The other slots of the send queue are for the
/// card's own answers.
const SENDS_MAX: usize = (package::SEND_QUEUE_DEPTH - engine_package::REPLIES) as usize;

/// At least one request in this many is signaled, so that the driver learns when the queue has room.
const SIGNAL_EVERY: usize = package::SEND_QUEUE_DEPTH as usize / 4;

/// Set in the tags of receive requests.
const RECEIVE_TAG: u64 = 1 << 63;

/// The tag's bits below this one number the requests; those above it count how often the queue pair was
/// reset.
const GENERATION_SHIFT: u32 = 32;

/// Set in the tags of the card's own requests, and in no others.
pub(crate) const REPLY_TAG: u64 = 1 << 63;

/// A request that the gateware has, or that waits for room in the gateware.
#[derive(Clone, Copy, Debug)]
struct Posted {
    id: u64,
    opcode: CompletionOpcode,
    signaled: bool,
}

/// A queue of requests: those that the gateware has, followed by those that wait for room.
#[derive(Debug)]
struct Queue<R> {
    posted: VecDeque<Posted>,
    /// Number of the first request that the gateware has.
    first: u32,
    waiting: VecDeque<R>,
    depth: usize,
}

impl<R> Queue<R> {
    fn new(depth: u32) -> Self {
        Self { posted: VecDeque::new(), first: 0, waiting: VecDeque::new(), depth: depth as usize }
    }

    fn len(&self) -> usize {
        self.posted.len() + self.waiting.len()
    }

    fn check_room(&self) -> Result<(), ApiError> {
        if self.len() == self.depth { Err(ApiError::QueueFull(self.depth)) } else { Ok(()) }
    }

    /// Records a request for the gateware. Returns its number.
    fn begin(&mut self, posted: Posted) -> u32 {
        let number = self.first.wrapping_add(self.posted.len() as u32);
        self.posted.push_back(posted);
        number
    }

    /// Removes the request with this number, and all before it, which succeeded without a completion of their
    /// own.
    fn end(&mut self, number: u32) -> Option<Posted> {
        let index = number.wrapping_sub(self.first) as usize;
        let ended = *self.posted.get(index)?;
        self.posted.drain(..=index);
        self.first = number.wrapping_add(1);
        Some(ended)
    }

    fn clear(&mut self) -> usize {
        let forgotten = self.len();
        self.posted.clear();
        self.waiting.clear();
        forgotten
    }
}

/// What a completion of the gateware means for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The completion for the user, unless only the driver needed it.
    pub(crate) completion: Option<Completion>,
    /// Number of requests that this completion ends.
    pub(crate) requests: usize,
}

/// The driver's state of one queue pair.
#[derive(Debug)]
pub(crate) struct QueuePair {
    pub(crate) number: QueuePairNumber,
    pub(crate) attributes: QueuePairAttributes,
    pub(crate) state: QueuePairState,
    pub(crate) access: AccessFlags,
    pub(crate) receive: Option<ReadyToReceive>,
    pub(crate) send: Option<ReadyToSend>,
    generation: u32,
    sends: Queue<WorkRequest>,
    receives: Queue<ReceiveRequest>,
    /// Requests since the last one that was signaled to the gateware.
    unsignaled: usize,
}

impl QueuePair {
    pub(crate) fn new(number: QueuePairNumber, attributes: QueuePairAttributes, generation: u32) -> Self {
        Self {
            number,
            attributes,
            state: QueuePairState::Reset,
            access: AccessFlags::NONE,
            receive: None,
            send: None,
            generation,
            sends: Queue::new(attributes.max_send_wr),
            receives: Queue::new(attributes.max_recv_wr),
            unsignaled: 0,
        }
    }

    pub(crate) fn wrong_state(&self) -> ApiError {
        ApiError::WrongState { queue_pair: self.number, state: self.state }
    }

    pub(crate) fn send_queued(&self) -> usize {
        self.sends.len()
    }

    pub(crate) fn receive_queued(&self) -> usize {
        self.receives.len()
    }

    /// Drops all requests. Returns their number. Their completions still in flight will be ignored.
    pub(crate) fn clear(&mut self) -> usize {
        self.generation = (self.generation + 1) & 0x7fff_ffff;
        self.unsignaled = 0;
        self.sends.clear() + self.receives.clear()
    }

    /// The generation of the next queue pair with the same index.
    pub(crate) fn next_generation(&self) -> u32 {
        (self.generation + 1) & 0x7fff_ffff
    }

    /// Validates a work request as the soft transport does, and queues it.
    pub(crate) fn post_send(
        &mut self,
        request: WorkRequest,
        reserve: impl FnOnce() -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        match self.state {
            QueuePairState::ReadyToSend | QueuePairState::Error => {}
            _ => return Err(self.wrong_state()),
        }
        let length = request.local.length;
        let mtu = self.receive.map_or(1_024, |path| path.path_mtu.bytes());
        let (has_response, is_atomic) = match request.operation {
            Operation::FetchAdd { .. } | Operation::CompareSwap { .. } => (true, true),
            Operation::Read { .. } => (true, false),
            Operation::Send { .. } | Operation::Write { .. } => (false, false),
        };
        if is_atomic && length != 8 {
            return Err(ApiError::AtomicLength(length));
        }
        if length > MESSAGE_BYTES_MAX || length.div_ceil(mtu) > MESSAGE_PACKETS_MAX {
            return Err(ApiError::MessageTooLong(length));
        }
        if has_response && self.send.is_none_or(|limits| limits.max_rd_atomic == 0) {
            return Err(ApiError::NoReadResources);
        }
        self.sends.check_room()?;
        reserve()?;
        self.sends.waiting.push_back(request);
        Ok(())
    }

    /// Queues a receive request.
    pub(crate) fn post_receive(
        &mut self,
        request: ReceiveRequest,
        reserve: impl FnOnce() -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        if self.state == QueuePairState::Reset {
            return Err(self.wrong_state());
        }
        self.receives.check_room()?;
        reserve()?;
        self.receives.waiting.push_back(request);
        Ok(())
    }

    /// The next waiting work request, if the gateware has room for it.
    pub(crate) fn next_send(&mut self) -> Option<package::WorkRequest> {
        if self.sends.posted.len() >= SENDS_MAX {
            return None;
        }
        let request = self.sends.waiting.pop_front()?;
        let signaled = request.signaled || self.unsignaled + 1 >= SIGNAL_EVERY;
        self.unsignaled = if signaled { 0 } else { self.unsignaled + 1 };
        let opcode = request.operation.completion_opcode();
        let number = self.sends.begin(Posted { id: request.id, opcode, signaled: request.signaled });
        let tag = u64::from(self.generation) << GENERATION_SHIFT | u64::from(number);
        Some(work_request(self.index(), tag, signaled, &request))
    }

    /// The next waiting receive request, if the gateware has room for it.
    pub(crate) fn next_receive(&mut self) -> Option<package::ReceiveRequest> {
        if self.receives.posted.len() >= package::RECEIVE_QUEUE_DEPTH as usize {
            return None;
        }
        let request = self.receives.waiting.pop_front()?;
        let opcode = CompletionOpcode::Receive;
        let number = self.receives.begin(Posted { id: request.id, opcode, signaled: true });
        let tag = RECEIVE_TAG | u64::from(self.generation) << GENERATION_SHIFT | u64::from(number);
        Some(package::ReceiveRequest {
            qp: self.index(),
            id: tag,
            address: request.local.address,
            length: request.local.length,
            lkey: request.local.lkey,
        })
    }

    fn index(&self) -> u16 {
        (u64::from(self.number.0) & (package::QUEUE_PAIRS - 1)) as u16
    }

    /// Converts a completion of the gateware into one for the user. `None` if its request was dropped by a
    /// reset.
    pub(crate) fn complete(&mut self, completion: &package::Completion) -> Option<Ended> {
        let is_receive = completion.id & RECEIVE_TAG != 0;
        let generation = (completion.id & !RECEIVE_TAG) >> GENERATION_SHIFT;
        if generation != u64::from(self.generation) {
            return None;
        }
        let number = completion.id as u32;
        let before = self.send_queued() + self.receive_queued();
        let posted = if is_receive { self.receives.end(number)? } else { self.sends.end(number)? };
        let status = status(completion.status);
        if status != CompletionStatus::Success {
            self.state = QueuePairState::Error;
        }
        let opcode = if is_receive && u64::from(completion.opcode) == 129 {
            CompletionOpcode::ReceiveWriteWithImmediate
        } else {
            posted.opcode
        };
        let told = posted.signaled || status != CompletionStatus::Success;
        Some(Ended {
            completion: told.then_some(Completion {
                id: posted.id,
                status,
                opcode,
                bytes: completion.bytes,
                immediate: completion.has_immediate.then_some(completion.immediate),
                queue_pair: self.number,
                vendor_error: completion.vendor_error.into(),
            }),
            requests: before - self.send_queued() - self.receive_queued(),
        })
    }
}

/// `ibv_wc_status`, by number.
///
/// # Panics
/// If the gateware reports an unknown status, which is a bug.
fn status(number: u8) -> CompletionStatus {
    use CompletionStatus::{
        BadResponse, LocalLengthError, LocalProtectionError, LocalQueuePairOperationError,
        ReceiverNotReadyRetryExceeded, RemoteAccessError, RemoteInvalidRequest, RemoteOperationError,
        RetryExceeded, Success, WorkRequestFlushed,
    };
    [
        Success,
        LocalLengthError,
        LocalQueuePairOperationError,
        LocalProtectionError,
        WorkRequestFlushed,
        BadResponse,
        RemoteInvalidRequest,
        RemoteAccessError,
        RemoteOperationError,
        RetryExceeded,
        ReceiverNotReadyRetryExceeded,
    ]
    .into_iter()
    .find(|status| status.number() == number)
    .unwrap_or_else(|| panic!("gateware: a completion has status {number}"))
}

/// A work request in the gateware's form.
pub(crate) fn work_request(qp: u16, tag: u64, signaled: bool, request: &WorkRequest) -> package::WorkRequest {
    let base = package::WorkRequest {
        qp,
        id: tag,
        signaled,
        fence: request.fence,
        solicited: request.solicited,
        local_address: request.local.address,
        length: request.local.length,
        lkey: request.local.lkey,
        ..package::WorkRequest::default()
    };
    let operation = |number: u64| number as u8;
    match request.operation {
        Operation::Send { immediate } => package::WorkRequest {
            operation: operation(package::OPERATION_SEND),
            has_immediate: immediate.is_some(),
            immediate: immediate.unwrap_or_default(),
            ..base
        },
        Operation::Write { remote, immediate } => package::WorkRequest {
            operation: operation(package::OPERATION_WRITE),
            has_immediate: immediate.is_some(),
            immediate: immediate.unwrap_or_default(),
            remote_address: remote.address,
            rkey: remote.rkey,
            ..base
        },
        Operation::Read { remote } => package::WorkRequest {
            operation: operation(package::OPERATION_READ),
            remote_address: remote.address,
            rkey: remote.rkey,
            ..base
        },
        Operation::FetchAdd { remote, add } => package::WorkRequest {
            operation: operation(package::OPERATION_FETCH_ADD),
            remote_address: remote.address,
            rkey: remote.rkey,
            swap_or_add: add,
            ..base
        },
        Operation::CompareSwap { remote, compare, swap } => package::WorkRequest {
            operation: operation(package::OPERATION_COMPARE_SWAP),
            remote_address: remote.address,
            rkey: remote.rkey,
            swap_or_add: swap,
            compare,
            ..base
        },
    }
}
