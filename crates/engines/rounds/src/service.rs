//! The service above an algorithm: it takes proposals from clients and passes decisions to subscribers.

use std::collections::VecDeque;

use weft_waist::{Caller, Io, Message};

use crate::algorithm::Decision;
use crate::message::{Answer, Call, Phase, Status, Value};
use crate::parameters::Parameters;

/// A service that uses a stream of decisions: pure, of bounded size, with all memory allocated when it is made.
pub trait Service {
    /// A service that is not started yet, with all the memory that it will need.
    fn new(parameters: &Parameters) -> Self;

    /// The node starts or restarts: `first` is the first instance whose decisions it will get; `founding` if it is
    /// the first of the cluster.
    fn start(&mut self, node: usize, first: u64, founding: bool, io: &mut Io<'_>);

    /// Handles a call, in whatever phase the node is.
    ///
    /// # Errors
    /// The status with which to refuse the call.
    fn call(
        &mut self,
        caller: Caller,
        message: Message<'_>,
        context: &Context,
        io: &mut Io<'_>,
    ) -> Result<(), Status>;

    /// Handles a message that the same service of another node has sent outside the rounds. Returns whether it
    /// knows the kind.
    fn deliver(&mut self, from: usize, message: Message<'_>, context: &Context, io: &mut Io<'_>) -> bool {
        let _ = (from, message, context, io);
        false
    }

    /// Writes the node's proposal for `instance` and returns its length in bytes; 0 for none.
    fn propose(&mut self, instance: u64, proposal: &mut [u8]) -> usize;

    /// Handles the next decision. Decisions come in the same order at all nodes.
    fn decide(&mut self, decision: &Decision<'_>, context: &Context, io: &mut Io<'_>);

    /// All decisions of `instance` have been reported. No further proposal can be decided in it.
    fn close(&mut self, instance: u64, context: &Context, io: &mut Io<'_>);

    /// Handles that the node stops. Its pending proposals may or may not be decided by the others.
    fn stop(&mut self, context: &Context, io: &mut Io<'_>);
}

/// State of the node that answers report.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Number of this node.
    pub node: usize,
    /// Phase of this node.
    pub phase: Phase,
    /// Epoch of the node's current members.
    pub epoch: u16,
    /// The current members.
    pub members: crate::Members,
}

impl Context {
    /// Whether a node in this phase accepts proposals.
    ///
    /// # Errors
    /// The status with which to refuse them.
    pub fn takes_proposals(&self) -> Result<(), Status> {
        match self.phase {
            Phase::Running => Ok(()),
            Phase::Fenced => Err(Status::Fenced),
            _ => Err(Status::NotRunning),
        }
    }

    /// Sends the answer to a call. `number` is an instance or a round.
    pub fn answer(&self, to: Caller, status: Status, number: u64, io: &mut Io<'_>) {
        let answer = Answer { status, phase: self.phase, epoch: self.epoch, members: self.members, number };
        io.effects.reply(to, Call::Answer as u8, &[&answer.encode()]);
    }
}

/// A bounded queue of clients' proposals that wait for a round, first come first served.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    value_bytes: usize,
    capacity: usize,
    /// Callers, and lengths of their proposals. The proposals are in `bytes`, `value_bytes` apart, starting with
    /// slot `place`.
    callers: VecDeque<(Caller, usize)>,
    bytes: Vec<u8>,
    place: usize,
}

impl Queue {
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            value_bytes: parameters.value_bytes,
            capacity: parameters.queue,
            callers: VecDeque::with_capacity(parameters.queue),
            bytes: vec![0; parameters.queue * parameters.value_bytes],
            place: 0,
        }
    }

    /// Appends a proposal.
    ///
    /// # Errors
    /// The queue is full.
    pub fn push(&mut self, caller: Caller, proposal: &[u8]) -> Result<(), Status> {
        if self.callers.len() == self.capacity {
            return Err(Status::Busy);
        }
        let at = (self.place + self.callers.len()) % self.capacity * self.value_bytes;
        self.bytes[at..at + proposal.len()].copy_from_slice(proposal);
        self.callers.push_back((caller, proposal.len()));
        Ok(())
    }

    /// The first proposal and its caller.
    pub fn front(&self) -> Option<(Caller, &[u8])> {
        let (caller, length) = *self.callers.front()?;
        let at = self.place * self.value_bytes;
        Some((caller, &self.bytes[at..at + length]))
    }

    /// Removes the first proposal.
    pub fn pop(&mut self) {
        if self.callers.pop_front().is_some() {
            self.place = (self.place + 1) % self.capacity;
        }
    }
}

/// The plain service: it queues proposals, and sends decisions to a subscriber.
#[derive(Clone, Debug)]
pub struct Streams {
    value_bytes: usize,
    queue: Queue,
    /// Indexed by instance modulo the length: the caller whose proposal this node made in the instance.
    asked: Vec<Option<(u64, Caller)>>,
    subscriber: Option<Caller>,
}

impl Streams {
    fn index(&self, instance: u64) -> usize {
        (instance % self.asked.len() as u64) as usize
    }

    fn take_asked(&mut self, instance: u64) -> Option<Caller> {
        let index = self.index(instance);
        let (_, caller) = self.asked[index].take_if(|(asked, _)| *asked == instance)?;
        Some(caller)
    }
}

impl Service for Streams {
    fn new(parameters: &Parameters) -> Self {
        Self {
            value_bytes: parameters.value_bytes,
            queue: Queue::new(parameters),
            asked: vec![None; parameters.slots() as usize],
            subscriber: None,
        }
    }

    fn start(&mut self, _: usize, _: u64, _: bool, _: &mut Io<'_>) {}

    fn call(
        &mut self,
        caller: Caller,
        message: Message<'_>,
        context: &Context,
        io: &mut Io<'_>,
    ) -> Result<(), Status> {
        let length = message.payload.len();
        if message.kind == Call::Subscribe as u8 && length == 0 {
            self.subscriber = Some(caller);
            context.answer(caller, Status::Ok, 0, io);
            return Ok(());
        }
        if message.kind != Call::Propose as u8 || !(1..=self.value_bytes).contains(&length) {
            return Err(Status::BadRequest);
        }
        context.takes_proposals()?;
        self.queue.push(caller, message.payload)
    }

    fn propose(&mut self, instance: u64, proposal: &mut [u8]) -> usize {
        let Some((caller, bytes)) = self.queue.front() else { return 0 };
        let length = bytes.len();
        proposal[..length].copy_from_slice(bytes);
        self.queue.pop();
        let index = self.index(instance);
        self.asked[index] = Some((instance, caller));
        length
    }

    fn decide(&mut self, decision: &Decision<'_>, context: &Context, io: &mut Io<'_>) {
        let Decision { instance, proposer, proposal } = *decision;
        if let Some(subscriber) = self.subscriber {
            let value = Value { instance, proposer, proposal };
            io.effects.reply(subscriber, Call::Decided as u8, &[&value.header(), proposal.bytes]);
        }
        if proposer == context.node
            && !proposal.change
            && let Some(caller) = self.take_asked(instance)
        {
            context.answer(caller, Status::Ok, instance, io);
        }
    }

    fn close(&mut self, instance: u64, context: &Context, io: &mut Io<'_>) {
        if let Some(caller) = self.take_asked(instance) {
            context.answer(caller, Status::Dropped, instance, io);
        }
    }

    fn stop(&mut self, context: &Context, io: &mut Io<'_>) {
        let status = if context.phase == Phase::Fenced { Status::Fenced } else { Status::NotRunning };
        for asked in &mut self.asked {
            if let Some((instance, caller)) = asked.take() {
                context.answer(caller, status, instance, io);
            }
        }
        while let Some((caller, _)) = self.queue.front() {
            context.answer(caller, Status::NotRunning, 0, io);
            self.queue.pop();
        }
    }
}
