//! The client half: calls, and the time until which a granted lock is held.

use weft_session::{Body, CallId, ClientParameters, Ended, Malformed, Verdict};
use weft_time::{Duration, Instant};

use crate::message::{Answer, AnswerKind, Call};
#[cfg(feature = "planted-bugs")]
use crate::parameters::PlantedBug;

/// The fraction of a time to live by which a holder stops early, because clocks drift: two clocks with a
/// drift of up to 1,000 parts per million agree that the rest has not passed.
const CLOCK_MARGIN: u64 = 500;

/// Time for which a client holds a lock that was granted for `ttl`, counted from the begin of its call.
pub fn usable(ttl: Duration) -> Duration {
    ttl - ttl / CLOCK_MARGIN
}

/// A call of a client.
pub type Task = Call;

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The caller holds the lock, with this token, until this time on its clock. The time may be over already, if the
    /// answer has taken long: then the lock has to be renewed before it is used.
    Granted {
        /// The fencing token, which grows with every later holder.
        token: u64,
        /// Time to live on the leader's clock.
        ttl: Duration,
        /// End of the hold, counted from the begin of the call: [`usable`].
        until: Instant,
    },
    /// Another client holds the lock.
    Held {
        /// The holder's token.
        token: u64,
        /// Remaining time, unless the lock is renewed or released.
        remaining: Duration,
    },
    /// The lock is free: it was released, or a query found it free.
    Free,
    /// The caller does not hold the lock any more. Other clients may have held it since.
    Lost,
    /// The table of locks is full. The call had no effect.
    Full,
    /// The call is invalid for the cluster. It had no effect.
    BadRequest,
    /// No answer. The call may have taken effect or may still do so; a lock expires after its time to live.
    Unknown,
}

/// A call that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The call.
    pub call: CallId,
    /// Outcome of the call.
    pub outcome: Outcome,
}

/// A client of the locks, sans-I/O like [`weft_session::Client`], with the same methods. All calls are
/// idempotent, so they may be repeated: an acquisition is identified by its owner, a renewal or release by
/// its token.
#[derive(Clone, Debug)]
pub struct Client {
    session: weft_session::Client,
    /// Outstanding calls, with their begin.
    begun: Vec<(CallId, Instant)>,
    #[cfg(feature = "planted-bugs")]
    planted_bug: Option<PlantedBug>,
}

impl Client {
    /// A client without calls.
    ///
    /// # Panics
    /// As [`weft_session::Client::new`].
    pub fn new(parameters: ClientParameters) -> Self {
        Self {
            session: weft_session::Client::new(parameters),
            begun: Vec::new(),
            #[cfg(feature = "planted-bugs")]
            planted_bug: None,
        }
    }

    /// The same client with a planted bug.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub fn with_planted_bug(self, planted_bug: Option<PlantedBug>) -> Self {
        Self { planted_bug, ..self }
    }

    /// Begins a call. `None` if the maximum number of calls is outstanding.
    pub fn start(&mut self, now: Instant, task: &Task) -> Option<CallId> {
        let mut bytes = Vec::with_capacity(Call::BYTES_MAX);
        let kind = task.encode(&mut bytes) as u8;
        let call = self.session.start_repeatable(now, None, Body { kind, bytes: &bytes })?;
        self.begun.push((call, now));
        Some(call)
    }

    /// Handles a message from a node, and returns the call that it completes.
    ///
    /// # Errors
    /// The message is malformed.
    pub fn receive(
        &mut self,
        now: Instant,
        node: usize,
        message: (u8, &[u8]),
    ) -> Result<Option<Completion>, Malformed> {
        let judge = |body: Body<'_>| match Answer::parse(body.kind, body.bytes).map(|answer| answer.kind) {
            Some(AnswerKind::Elsewhere) => Verdict::Elsewhere,
            Some(AnswerKind::Busy) => Verdict::Later,
            _ => Verdict::Final,
        };
        let ended = self.session.receive(now, node, message, judge)?;
        Ok(ended.map(|completion| self.end(now, completion.call, completion.ended)))
    }

    /// When [`Client::handle_deadline`] must be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.session.next_deadline()
    }

    /// Handles due deadlines. Each call returns at most one completion, so it must be repeated until it
    /// returns `None`.
    pub fn handle_deadline(&mut self, now: Instant) -> Option<Completion> {
        let completion = self.session.handle_deadline(now)?;
        Some(self.end(now, completion.call, completion.ended))
    }

    /// The next message to send: appends its content to `out`, and returns the node and the kind.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.session.poll_transmit(out)
    }

    /// Start of the time to live: the begin of the call, independent of the arrival of the answer.
    #[cfg(not(feature = "planted-bugs"))]
    const fn counts_from(&self, _: Instant, begun: Instant) -> Instant {
        begun
    }

    /// The same, except with the planted bug.
    #[cfg(feature = "planted-bugs")]
    fn counts_from(&self, now: Instant, begun: Instant) -> Instant {
        if self.planted_bug == Some(PlantedBug::TtlFromAnswer) { now } else { begun }
    }

    fn end(&mut self, now: Instant, call: CallId, ended: Ended<'_>) -> Completion {
        let place = self.begun.iter().position(|(known, _)| *known == call).expect("what ends was begun");
        let (_, begun) = self.begun.swap_remove(place);
        let from = self.counts_from(now, begun);
        let outcome = match ended {
            // Another node may have begun the call, even if the last one has not.
            Ended::NotBegun | Ended::Unknown => Outcome::Unknown,
            Ended::Answer(body) => match Answer::parse(body.kind, body.bytes) {
                None => Outcome::BadRequest,
                Some(Answer { kind, token, time }) => match kind {
                    // The leader counts from a later time, so the lock ends later at the leader.
                    AnswerKind::Granted => Outcome::Granted { token, ttl: time, until: from + usable(time) },
                    AnswerKind::Held => Outcome::Held { token, remaining: time },
                    AnswerKind::Free => Outcome::Free,
                    AnswerKind::Lost => Outcome::Lost,
                    AnswerKind::Full => Outcome::Full,
                    AnswerKind::BadRequest | AnswerKind::Busy | AnswerKind::Elsewhere => Outcome::BadRequest,
                },
            },
        };
        Completion { call, outcome }
    }
}
