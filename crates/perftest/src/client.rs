//! The client's program: decides which message to post when, and evaluates completions. It is the same in all
//! worlds.

use std::collections::VecDeque;

use weft_results::histogram::Latencies;
use weft_time::{Duration, Instant};
use weft_verbs::{Completion, CompletionStatus, LocalBuffer, QueuePairNumber, RemoteAddress, WorkRequest};

use super::connection::Connection;
use super::load::{Amount, Load};
use super::payload::{ClientMemory, MessageId};

/// The state of one queue pair under load.
#[derive(Clone, Copy, Debug)]
struct Flow {
    queue_pair: QueuePairNumber,
    posted: u64,
    /// Number of messages up to the last one that was posted with a visible completion.
    signaled: u64,
    completed: u64,
}

/// Phase of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The load: all queue pairs are kept full.
    Load,
    /// The end of the load: a queue pair whose last request has no visible completion gets one more request.
    Drain,
    /// The client waits until the other clients have finished their load.
    Held,
    /// The latency measurement: one message at a time on the first queue pair.
    Latency,
    Done,
}

/// Keeps queue pairs busy, then sends single messages, and counts.
#[derive(Debug)]
pub(super) struct Client {
    load: Load,
    connection: Connection,
    flows: Vec<Flow>,
    /// During the load, the queue pairs that are not full, in the order in which they get the next message.
    ready: VecDeque<u32>,
    phase: Phase,
    /// Number of messages that the load may still post.
    left: u64,
    begin: Option<Instant>,
    end: Instant,
    /// Whether the latency measurement waits until [`Client::release`] is called.
    held: bool,
    /// Number of completions of each queue pair at the time when the first one ran out of work. `None` before
    /// that.
    shares: Option<Vec<u64>>,
    measured: Duration,
    messages: u64,
    bytes: u64,
    latency_left: u64,
    posted_at: Instant,
    latencies: Latencies,
    failure: Option<String>,
}

/// The measurements of a client.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    /// Number of messages of the load.
    pub(super) messages: u64,
    /// Time from the first post to the last completion of the load.
    pub(super) measured: Duration,
    /// Number of bytes of those messages.
    pub(super) bytes: u64,
    /// For each queue pair under load, the number of messages that completed while all of them had work:
    /// until no messages were left to post and the first queue pair had completed all of its messages.
    pub(super) shares: Vec<u64>,
    /// Latencies of the single messages.
    pub(super) latencies: Latencies,
    /// Number of messages that were sent on each queue pair in total.
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
            held: false,
            shares: None,
            measured: Duration::ZERO,
            messages: 0,
            bytes: 0,
            latency_left: load.latency_messages,
            posted_at: Instant::ZERO,
            latencies: Latencies::new(),
            failure: None,
            connection,
            load,
        }
    }

    /// Makes the latency measurement wait until all clients have finished their load.
    pub(super) fn hold(mut self) -> Self {
        self.held = true;
        self
    }

    /// Whether the load has ended, or something has failed.
    pub(super) fn is_through(&self) -> bool {
        matches!(self.phase, Phase::Held | Phase::Latency | Phase::Done)
    }

    /// Starts the latency measurement, after all clients have finished their load.
    pub(super) fn release(&mut self) {
        self.held = false;
        if self.phase == Phase::Held {
            self.begin_latency();
        }
    }

    /// Whether nothing is left to do, or something has failed.
    pub(super) fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Number of messages completed so far.
    pub(super) fn completed(&self) -> u64 {
        self.flows.iter().map(|flow| flow.completed).sum()
    }

    /// The measurements.
    ///
    /// # Errors
    /// If the measurement failed. The error contains the reason.
    pub(super) fn finish(self) -> Result<Measurement, String> {
        self.failure.map_or(Ok(()), Err)?;
        let sent = self.flows.iter().map(|flow| flow.posted).collect();
        let Self { messages, bytes, measured, latencies, .. } = self;
        let shares = self.shares.unwrap_or_default();
        Ok(Measurement { messages, bytes, measured, shares, latencies, sent })
    }

    /// The next request to post, and its queue pair. Call this until it returns `None`.
    pub(super) fn next_request(&mut self, now: Instant) -> Option<(QueuePairNumber, WorkRequest)> {
        if self.begin.is_none() {
            self.begin = Some(now);
            if let Amount::Time(time) = self.load.amount {
                self.end = now + time;
            }
        }
        if self.phase == Phase::Load && (now >= self.end || self.left == 0) {
            self.phase = Phase::Drain;
            self.share();
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
            Phase::Held | Phase::Latency | Phase::Done => None,
        }
    }

    fn next_of_load(&mut self) -> Option<(QueuePairNumber, WorkRequest)> {
        let depth = u64::from(self.load.depth);
        let number = *self.ready.front()?;
        let flow = self.flows[number as usize];
        let fills = flow.posted + 1 - flow.completed == depth;
        // Queue pairs take turns, so that even a short load uses all of them.
        self.ready.pop_front();
        if !fills {
            self.ready.push_back(number);
        }
        self.left -= 1;
        let signaled = fills || self.left == 0 || (flow.posted + 1).is_multiple_of(self.load.signal_every());
        Some(self.post(number, signaled))
    }

    /// One more message for a queue pair whose last message has no visible completion.
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
        let Connection { local_key, local_base, remote_key, remote_base, .. } = self.connection;
        let remote = RemoteAddress { address: remote_base + there, rkey: remote_key };
        let length = load.size_of(message.flow, message.number);
        let local = LocalBuffer { address: local_base + address, length, lkey: local_key };
        let request = WorkRequest::new(message.tag(), load.operation.request(message.number, remote), local);
        (flow.queue_pair, WorkRequest { signaled, ..request })
    }

    /// Handles the completion of a request, which also completes all earlier requests of its queue pair.
    pub(super) fn handle(&mut self, now: Instant, completion: &Completion) {
        let MessageId { flow: number, number: message } = MessageId::of_tag(completion.id);
        if completion.status != CompletionStatus::Success {
            let status = completion.status.name();
            self.fail(format!("message {message} of queue pair {number} ended with {status}"));
            return;
        }
        let flow = &mut self.flows[number as usize];
        // Messages must complete once and in order, so each completion must be for a later message than the
        // one before.
        if !(flow.completed..flow.signaled).contains(&message) || flow.queue_pair != completion.queue_pair {
            self.fail(format!("message {message} of queue pair {number} completed out of turn"));
            return;
        }
        let was_full = flow.posted - flow.completed == u64::from(self.load.depth);
        flow.completed = message + 1;
        match self.phase {
            Phase::Load if was_full => self.ready.push_back(number),
            Phase::Drain => {
                self.share();
                self.end_drain(now);
            }
            Phase::Latency => {
                self.latencies.record(now.saturating_since(self.posted_at));
                self.latency_left -= 1;
                self.begin_latency();
            }
            _ => {}
        }
    }

    /// Records the completions of each queue pair if the first queue pair has just run out of work. Called
    /// when no messages are left to post.
    fn share(&mut self) {
        if self.shares.is_none() && self.flows.iter().any(|flow| flow.completed == flow.posted) {
            self.shares = Some(self.flows.iter().map(|flow| flow.completed).collect());
        }
    }

    /// Ends the load if everything that was posted has completed.
    fn end_drain(&mut self, now: Instant) {
        if self.flows.iter().all(|flow| flow.completed == flow.posted) {
            self.measured = now.saturating_since(self.begin.expect("something was posted"));
            self.messages = self.completed();
            let sizes = (0..).zip(&self.flows).map(|(number, flow)| {
                if !self.load.random_sizes {
                    return flow.completed * u64::from(self.load.size);
                }
                (0..flow.completed).map(|message| u64::from(self.load.size_of(number, message))).sum()
            });
            self.bytes = sizes.sum();
            self.begin_latency();
        }
    }

    fn begin_latency(&mut self) {
        self.phase = match self.latency_left {
            _ if self.held => Phase::Held,
            0 => Phase::Done,
            _ => Phase::Latency,
        };
    }

    /// Ends the run as failed. If it has failed before, the first reason is kept.
    pub(super) fn fail(&mut self, reason: String) {
        self.failure.get_or_insert(reason);
        self.phase = Phase::Done;
    }
}
