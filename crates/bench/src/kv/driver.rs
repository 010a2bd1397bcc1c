//! The clients of one machine or process. They run a workload, and record measurements and a history.
//!
//! The driver is sans-I/O, so simulated and real clusters use the same one.

use std::collections::VecDeque;

use weft_check::{Action, History, Operation, Outcome, Reply};
use weft_harness::ClientProgram;
use weft_kv::message::Reply as ReplyMessage;
use weft_kv::{Client, ClientParameters, ReadPolicy, Task};
use weft_results::histogram::Recorder;
use weft_time::{Duration, Instant};
use weft_waist::{NodeId, NodeSet};
use weft_workload::{ClientShare, Generator, Step, Workload, fill_value, fingerprint, key_of};
use weft_workload::{Limit, Load, Scheduler};

use super::journal::recorded;

/// Parameters of a driver.
#[derive(Clone, Debug)]
pub struct DriverParameters {
    /// Workload of its clients.
    pub workload: Workload,
    /// Load of its clients.
    pub load: Load,
    /// The share of the workload that this driver has among all.
    pub lane: ClientShare,
    /// Seed of keys, kinds of operations and arrival times.
    pub seed: u64,
    /// Identity of the first client; the other clients have the following numbers. No other client of the cluster may
    /// have one of them.
    pub first_client: u64,
    /// The nodes of the cluster.
    pub nodes: NodeSet,
    /// Nodes that clients send reads to.
    pub reads: ReadPolicy,
    /// Whether every second deletion is a get followed by a compare-and-delete, which the engine in gates
    /// does not have.
    pub compares_deletes: bool,
    /// Time until a client repeats an unanswered request.
    pub timeout: Duration,
    /// Time-out of a request.
    pub give_up: Duration,
}

/// Phase of the clients' work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Idle.
    Idle,
    /// Filling the store with this lane's share of the records.
    Load,
    /// The workload itself.
    Run {
        /// End of the phase.
        limit: Limit,
        /// Operations that were to start within this time are not measured.
        warm_up: Duration,
    },
    /// Reads this generator's share of all records once, so that the end of the history shows the final state.
    ReadBack,
}

/// The clients, their current phase, and their records.
pub struct Driver {
    parameters: DriverParameters,
    clients: Vec<DriverClient>,
    phase: Phase,
    scheduler: Scheduler,
    generator: Generator,
    /// The steps of loading and of reading back. The steps of the workload come from the generator.
    fixed: Box<dyn Iterator<Item = Step> + Send>,
    /// Clients that may have something to send.
    ready: VecDeque<u32>,
    /// A lower bound of the clients' deadlines.
    earliest: Instant,
    recorder: Recorder,
    history: History,
    completed: u64,
    highest_record: u64,
    value: Vec<u8>,
}

/// One client and its current step.
struct DriverClient {
    client: Client,
    job: Option<Job>,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    step: Step,
    intended: Instant,
    /// Time of the outstanding request. A step of several requests makes several operations.
    invoked: Instant,
    action: Action,
}

impl Driver {
    /// A driver in phase [`Phase::Idle`].
    pub fn new(parameters: DriverParameters) -> Self {
        let count = parameters.load.clients();
        let clients =
            (0..count).map(|index| DriverClient { client: client(&parameters, index), job: None }).collect();
        let begin = Instant::ZERO;
        // Each run brings its own load. Until then nothing arrives.
        let closed = Load::Closed { clients: count };
        Self {
            clients,
            phase: Phase::Idle,
            scheduler: Scheduler::new(closed, Limit::Operations(0), parameters.seed, begin),
            generator: parameters.workload.generator(parameters.seed, parameters.lane),
            fixed: Box::new(std::iter::empty()),
            ready: VecDeque::new(),
            earliest: Instant::FAR_FUTURE,
            recorder: Recorder::new(&Step::KINDS, begin, Duration::ZERO),
            history: History::new(),
            completed: 0,
            highest_record: parameters.workload.records(),
            value: vec![0; parameters.workload.value_bytes()],
            parameters,
        }
    }

    /// Begins a phase.
    ///
    /// # Panics
    /// If the previous phase has not finished.
    pub fn begin(&mut self, now: Instant, phase: Phase) {
        assert!(self.is_finished(now), "phases follow one another");
        let Self { parameters, .. } = self;
        let workload = parameters.workload;
        let closed = Load::Closed { clients: parameters.load.clients() };
        let (load, limit, warm_up) = match phase {
            Phase::Idle => (closed, Limit::Operations(0), Duration::ZERO),
            Phase::Load => {
                self.fixed = Box::new(workload.load_steps(parameters.lane));
                (
                    closed,
                    Limit::Operations(workload.load_steps(parameters.lane).count() as u64),
                    Duration::ZERO,
                )
            }
            Phase::Run { limit, warm_up } => (parameters.load, limit, warm_up),
            Phase::ReadBack => {
                let records = self.highest_record;
                let share = workload
                    .with_records(records.max(1))
                    .expect("as many as were written")
                    .load_steps(parameters.lane);
                let steps: Vec<Step> = share.map(|step| Step::Get { record: step.record() }).collect();
                let count = steps.len() as u64;
                self.fixed = Box::new(steps.into_iter());
                (closed, Limit::Operations(count), Duration::ZERO)
            }
        };
        self.phase = phase;
        self.scheduler = Scheduler::new(load, limit, parameters.seed, now);
        if matches!(phase, Phase::Run { .. }) {
            self.recorder = Recorder::new(&Step::KINDS, now, warm_up);
        }
        self.start(now);
    }

    /// Whether the phase has ended.
    pub fn is_finished(&self, now: Instant) -> bool {
        self.scheduler.is_finished(now)
    }

    /// Operations of the current run that have ended.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// One above the highest record number that this driver has written.
    pub fn highest_record(&self) -> u64 {
        self.highest_record
    }

    /// Lets [`Phase::ReadBack`] cover records that other drivers have inserted.
    pub fn extend_records(&mut self, highest_record: u64) {
        self.highest_record = self.highest_record.max(highest_record);
    }

    /// Handles a message from a node.
    pub fn receive(&mut self, now: Instant, kind: u8, payload: &[u8]) {
        let Ok(reply) = ReplyMessage::parse(payload) else { return };
        let Some(index) = reply.client.checked_sub(self.parameters.first_client) else { return };
        let Some(slot) = self.clients.get_mut(index as usize) else { return };
        let index = index as u32;
        let Ok(completion) = slot.client.receive(now, kind, payload) else { return };
        match completion {
            Some(completion) => self.complete(now, index, completion.outcome),
            None => self.schedule(index),
        }
        self.start(now);
    }

    /// Time at which [`Driver::handle_deadline`] must be called.
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let start = self.scheduler.next_start(now);
        let retry = (self.scheduler.outstanding() > 0).then_some(self.earliest);
        start.into_iter().chain(retry).min()
    }

    /// Starts due operations, repeats unanswered requests, and ends those that have timed out.
    pub fn handle_deadline(&mut self, now: Instant) {
        if now >= self.earliest {
            self.earliest = Instant::FAR_FUTURE;
            for index in 0..self.clients.len() as u32 {
                while let Some(completion) = self.clients[index as usize].client.handle_deadline(now) {
                    self.complete(now, index, completion.outcome);
                }
                self.schedule(index);
            }
        }
        self.start(now);
    }

    /// Returns the receiver and the kind of the next message to send, and appends its content to `payload`.
    pub fn poll_transmit(&mut self, payload: &mut Vec<u8>) -> Option<(NodeId, u8)> {
        while let Some(&index) = self.ready.front() {
            if let Some(message) = self.clients[index as usize].client.poll_transmit(payload) {
                return Some(message);
            }
            self.ready.pop_front();
        }
        None
    }

    /// Returns the measurements and the history. A request that is still outstanding may have taken effect, so its
    /// outcome is unknown.
    pub fn into_parts(mut self) -> (Recorder, History) {
        for index in 0..self.clients.len() {
            if let Some(job) = self.clients[index].job.take() {
                self.note(index, &job, None);
            }
        }
        (self.recorder, self.history)
    }

    /// Lets idle clients start due operations.
    fn start(&mut self, now: Instant) {
        while let Some(start) = self.scheduler.poll(now) {
            let step = match self.phase {
                Phase::Run { .. } => self.generator.step(),
                _ => self.fixed.next().expect("as many steps as the limit says"),
            };
            self.highest_record = self.highest_record.max(step.record() + 1);
            let action = match step {
                Step::Get { .. } | Step::ReadModifyWrite { .. } => Action::Get,
                Step::Put { value, .. } | Step::Insert { value, .. } => {
                    Action::Put { value: self.fill(value) }
                }
                Step::Delete { record } if self.parameters.compares_deletes && record % 2 == 1 => Action::Get,
                Step::Delete { .. } => Action::Delete,
            };
            self.ask(now, start.client, Job { step, intended: start.intended, invoked: now, action });
        }
    }

    /// Writes value number `value` into the buffer and returns its fingerprint.
    fn fill(&mut self, value: u64) -> u64 {
        fill_value(value, &mut self.value);
        fingerprint(&self.value)
    }

    /// Makes the request of a job. If the job has a value, it is in the buffer.
    fn ask(&mut self, now: Instant, index: u32, job: Job) {
        let key = key_of(job.step.record());
        let value = &self.value;
        let task = match job.action {
            Action::Get => Task::Get { key: &key },
            Action::Put { .. } => Task::Put { key: &key, value },
            Action::CompareAndSet { expected, .. } => Task::CompareAndSet { key: &key, expected, value },
            Action::Delete => Task::Delete { key: &key },
            Action::CompareAndDelete { expected } => Task::CompareAndDelete { key: &key, expected },
        };
        let slot = &mut self.clients[index as usize];
        slot.client.start(now, task).expect("a client has one request outstanding");
        slot.job = Some(job);
        self.schedule(index);
    }

    /// Records that a client may have something to send, and its next deadline.
    fn schedule(&mut self, index: u32) {
        self.ready.push_back(index);
        if let Some(deadline) = self.clients[index as usize].client.next_deadline() {
            self.earliest = self.earliest.min(deadline);
        }
    }

    /// Records a request that has ended, and continues or ends its step.
    fn complete(&mut self, now: Instant, index: u32, outcome: weft_kv::Outcome<'_>) {
        let slot = &mut self.clients[index as usize];
        let job = slot.job.take().expect("a client that completes has a job");
        let recorded = recorded(job.action, outcome);
        let reply = recorded.map(|outcome| Reply { returned_ns: now.as_ns(), outcome });
        self.note(index as usize, &job, reply);

        if let Step::ReadModifyWrite { value, .. } = job.step {
            let next = match recorded {
                Some(Outcome::Found { version, .. }) => {
                    Some(Action::CompareAndSet { expected: version, value: self.fill(value) })
                }
                Some(Outcome::NotFound) => {
                    Some(Action::CompareAndSet { expected: 0, value: self.fill(value) })
                }
                Some(Outcome::Mismatch { .. }) => Some(Action::Get),
                _ => None,
            };
            if let Some(action) = next {
                self.ask(now, index, Job { invoked: now, action, ..job });
                return;
            }
        }
        if let (Step::Delete { .. }, Action::Get, Some(Outcome::Found { version: expected, .. })) =
            (job.step, job.action, recorded)
        {
            let action = Action::CompareAndDelete { expected };
            self.ask(now, index, Job { invoked: now, action, ..job });
            return;
        }
        self.scheduler.complete(index);
        if let Step::Insert { record, .. } = job.step
            && matches!(recorded, Some(Outcome::Written { .. }))
        {
            self.generator.insert_acknowledged(record);
        }
        if matches!(self.phase, Phase::Run { .. }) {
            self.completed += 1;
            if matches!(recorded, None | Some(Outcome::Refused)) {
                self.recorder.record_failure(job.step.kind(), job.intended);
            } else {
                self.recorder.record(job.step.kind(), job.intended, now);
            }
        }
    }

    /// Writes a client's request into the history.
    fn note(&mut self, index: usize, job: &Job, reply: Option<Reply>) {
        let key = key_of(job.step.record());
        let client = self.clients[index].client.id() - self.parameters.first_client;
        let operation = Operation {
            client: client as u32 + self.client_base(),
            key: &key,
            invoked_ns: job.invoked.as_ns(),
            action: job.action,
            reply,
        };
        self.history.record(operation).expect("keys are short and time runs forward");
    }

    /// The number of a client in the history, unique over all drivers.
    fn client_base(&self) -> u32 {
        self.parameters.lane.index() * self.parameters.load.clients()
    }
}

impl ClientProgram for Driver {
    fn receive(&mut self, now: Instant, _: usize, (kind, payload): (u8, &[u8])) {
        self.receive(now, kind, payload);
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        self.next_deadline(now)
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.handle_deadline(now);
    }

    fn poll_transmit(&mut self, payload: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.poll_transmit(payload).map(|(node, kind)| (node.index(), kind))
    }
}

fn client(parameters: &DriverParameters, index: u32) -> Client {
    Client::new(ClientParameters {
        reads: parameters.reads,
        timeout: parameters.timeout,
        timeout_max: parameters.timeout.saturating_mul(8),
        pause: parameters.timeout / 8,
        give_up: parameters.give_up,
        ..ClientParameters::new(parameters.first_client + u64::from(index), parameters.nodes)
    })
}
