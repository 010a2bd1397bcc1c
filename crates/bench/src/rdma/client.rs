//! The client's program: which message to post when, and what its completions say. Knows no world.

use std::collections::VecDeque;

use weft_rdma::{Completion, CompletionStatus, LocalBuffer, QueuePairNumber, RemoteAddress, WorkRequest};
use weft_time::{Duration, Instant};

use super::connection::Connection;
use super::load::{Amount, Load};
use super::payload::{ClientMemory, MessageId};
use crate::histogram::Latencies;

/// One queue pair that works.
#[derive(Clone, Copy, Debug)]
struct Flow {
    queue_pair: QueuePairNumber,
    posted: u64,
    /// Everything before this number ends with a completion that is visible.
    signaled: u64,
    completed: u64,
}

/// How far the client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// All queue pairs are kept full.
    Load,
    /// Nothing more is posted but what makes the last completions visible.
    Drain,
    /// One message at a time, on the first queue pair.
    Latency,
    Done,
}

/// Keeps queue pairs busy, then sends single messages, and counts.
#[derive(Debug)]
pub(super) struct Client {
    load: Load,
    connection: Connection,
    flows: Vec<Flow>,
    /// In the load: queue pairs that are not full, in the order of their turns.
    ready: VecDeque<u32>,
    phase: Phase,
    /// Messages that the load may still post.
    left: u64,
    begin: Option<Instant>,
    end: Instant,
    /// What each queue pair had completed when the load ended, and when all of it had.
    shares: Vec<u64>,
    measured: Duration,
    messages: u64,
    latency_left: u64,
    posted_at: Instant,
    latencies: Latencies,
    failure: Option<String>,
}

/// What a client has measured.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    /// Messages of the load.
    pub(super) messages: u64,
    /// From the first post to the last completion of the load.
    pub(super) measured: Duration,
    /// For each queue pair that works, the messages completed when the last was posted.
    pub(super) shares: Vec<u64>,
    /// Of the single messages.
    pub(super) latencies: Latencies,
    /// Everything that was sent on each queue pair.
    pub(super) sent: Vec<u64>,
}

impl Client {
    pub(super) fn new(load: Load, connection: Connection) -> Self {
        let flow =
            |number| Flow { queue_pair: connection.queue_pair(number), posted: 0, signaled: 0, completed: 0 };
        Self {
            flows: (0..load.busy).map(flow).collect(),
            ready: (0..load.busy).collect(),
            phase: Phase::Load,
            left: if let Amount::Messages(messages) = load.amount { messages } else { u64::MAX },
            begin: None,
            end: Instant::FAR_FUTURE,
            shares: Vec::new(),
            measured: Duration::ZERO,
            messages: 0,
            latency_left: load.latency_messages,
            posted_at: Instant::ZERO,
            latencies: Latencies::new(),
            failure: None,
            connection,
            load,
        }
    }

    /// Whether there is nothing more to do, or something has failed.
    pub(super) fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Messages completed so far.
    pub(super) fn completed(&self) -> u64 {
        self.flows.iter().map(|flow| flow.completed).sum()
    }

    /// What was measured.
    ///
    /// # Errors
    /// Why it was not.
    pub(super) fn finish(self) -> Result<Measurement, String> {
        self.failure.map_or(Ok(()), Err)?;
        let sent = self.flows.iter().map(|flow| flow.posted).collect();
        let Self { messages, measured, shares, latencies, .. } = self;
        Ok(Measurement { messages, measured, shares, latencies, sent })
    }

    /// The next request to post, and where. Ask until there is none.
    pub(super) fn next_request(&mut self, now: Instant) -> Option<(QueuePairNumber, WorkRequest)> {
        if self.begin.is_none() {
            self.begin = Some(now);
            if let Amount::Time(time) = self.load.amount {
                self.end = now + time;
            }
        }
        if self.phase == Phase::Load && (now >= self.end || self.left == 0) {
            self.shares = self.flows.iter().map(|flow| flow.completed).collect();
            self.phase = Phase::Drain;
            self.ready = (0..self.load.busy).collect();
            self.end_drain(now);
        }
        match self.phase {
            Phase::Load => self.next_of_load(),
            Phase::Drain => self.next_of_drain(),
            Phase::Latency if self.flows[0].posted == self.flows[0].completed => {
                self.posted_at = now;
                Some(self.post(0, true))
            }
            Phase::Latency | Phase::Done => None,
        }
    }

    fn next_of_load(&mut self) -> Option<(QueuePairNumber, WorkRequest)> {
        let depth = u64::from(self.load.depth);
        let number = *self.ready.front()?;
        let flow = self.flows[number as usize];
        let fills = flow.posted + 1 - flow.completed == depth;
        if fills {
            self.ready.pop_front();
        }
        self.left -= 1;
        let signaled = fills || self.left == 0 || (flow.posted + 1).is_multiple_of(self.load.signal_every());
        Some(self.post(number, signaled))
    }

    /// One more message where the last one would complete invisibly.
    fn next_of_drain(&mut self) -> Option<(QueuePairNumber, WorkRequest)> {
        let depth = u64::from(self.load.depth);
        while let Some(number) = self.ready.pop_front() {
            let flow = self.flows[number as usize];
            if flow.signaled < flow.posted {
                assert!(flow.posted - flow.completed < depth, "a full queue ends with a signaled request");
                return Some(self.post(number, true));
            }
        }
        None
    }

    fn post(&mut self, number: u32, signaled: bool) -> (QueuePairNumber, WorkRequest) {
        let load = &self.load;
        let flow = &mut self.flows[number as usize];
        let message = MessageId { flow: number, number: flow.posted };
        flow.posted += 1;
        if signaled {
            flow.signaled = flow.posted;
        }
        let address = ClientMemory::address(load, message);
        let word = MessageId { number: 0, ..message };
        let there = if load.operation.is_atomic() { ClientMemory::address(load, word) } else { address };
        let remote = RemoteAddress { address: there, rkey: self.connection.remote_key };
        let local = LocalBuffer { address, length: load.size, lkey: self.connection.local_key };
        let request = WorkRequest::new(message.tag(), load.operation.request(message.number, remote), local);
        (flow.queue_pair, WorkRequest { signaled, ..request })
    }

    /// A request has completed, and with it all that were posted before it on its queue pair.
    pub(super) fn handle(&mut self, now: Instant, completion: &Completion) {
        let MessageId { flow: number, number: message } = MessageId::of_tag(completion.id);
        if completion.status != CompletionStatus::Success {
            let status = completion.status.name();
            self.fail(format!("message {message} of queue pair {number} ended with {status}"));
            return;
        }
        let flow = &mut self.flows[number as usize];
        // Exactly once and in order: each completion is of a message behind the one before it.
        if !(flow.completed..flow.signaled).contains(&message) || flow.queue_pair != completion.queue_pair {
            self.fail(format!("message {message} of queue pair {number} completed out of turn"));
            return;
        }
        let was_full = flow.posted - flow.completed == u64::from(self.load.depth);
        flow.completed = message + 1;
        match self.phase {
            Phase::Load if was_full => self.ready.push_back(number),
            Phase::Drain => self.end_drain(now),
            Phase::Latency => {
                self.latencies.record(now.saturating_since(self.posted_at));
                self.latency_left -= 1;
                self.begin_latency();
            }
            _ => {}
        }
    }

    /// The load is over once all that was posted has completed.
    fn end_drain(&mut self, now: Instant) {
        if self.flows.iter().all(|flow| flow.completed == flow.posted) {
            self.measured = now.saturating_since(self.begin.expect("something was posted"));
            self.messages = self.completed();
            self.begin_latency();
        }
    }

    fn begin_latency(&mut self) {
        self.phase = if self.latency_left > 0 { Phase::Latency } else { Phase::Done };
    }

    /// Ends the run as failed; the first reason stays.
    pub(super) fn fail(&mut self, reason: String) {
        self.failure.get_or_insert(reason);
        self.phase = Phase::Done;
    }
}
