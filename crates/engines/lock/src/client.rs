//! The client's half: calls, and until when what was granted holds.

use weft_session::{Body, CallId, ClientParameters, Ended, Malformed, Verdict};
use weft_time::{Duration, Instant};

use crate::message::{Answer, AnswerKind, Call};
#[cfg(feature = "planted-bugs")]
use crate::parameters::PlantedBug;

/// What part of a time to live a holder does without, because clocks differ: two that gain or lose up to 1,000
/// millionths each agree about the rest.
const CLOCK_MARGIN: u64 = 500;

/// For how long a client that was granted a lock for `ttl` holds it, from when it began to ask.
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
        /// Grows with every later holder.
        token: u64,
        /// As the cluster counts.
        ttl: Duration,
        /// Counted from when the call was begun: [`usable`].
        until: Instant,
    },
    /// Somebody else holds it.
    Held {
        /// With this token.
        token: u64,
        /// For so long, unless it is renewed or released.
        remaining: Duration,
    },
    /// Nobody holds it: it was released, or a query found it free.
    Free,
    /// The caller does not hold it any more. If it has held it before, others may have held it since.
    Lost,
    /// As many locks are held as there can be. Nothing has happened.
    Full,
    /// The cluster does not take such a call. Nothing has happened.
    BadRequest,
    /// No answer. The call may have taken effect, or may still do so; a lock ends by itself.
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

/// A client of the locks. Pure, as [`weft_session::Client`] is, and used like that. All calls may be made twice without
/// harm: whoever acquires is told by its owner's number, whoever renews or releases by its token.
#[derive(Clone, Debug)]
pub struct Client {
    session: weft_session::Client,
    /// Calls under way, and when they were begun.
    begun: Vec<(CallId, Instant)>,
    #[cfg(feature = "planted-bugs")]
    planted_bug: Option<PlantedBug>,
}

impl Client {
    /// A client that has called nothing.
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

    /// The same client with a known bug.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub fn with_planted_bug(self, planted_bug: Option<PlantedBug>) -> Self {
        Self { planted_bug, ..self }
    }

    /// Begins a call. `None` if as many are under way as may be.
    pub fn start(&mut self, now: Instant, task: &Task) -> Option<CallId> {
        let mut bytes = Vec::with_capacity(Call::BYTES_MAX);
        let kind = task.encode(&mut bytes) as u8;
        let call = self.session.start_repeatable(now, None, Body { kind, bytes: &bytes })?;
        self.begun.push((call, now));
        Some(call)
    }

    /// Takes a message from a node; tells what has ended with it.
    ///
    /// # Errors
    /// The bytes are no message.
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

    /// Handles what is due. Ends one call at a time, so call it until it returns `None`.
    pub fn handle_deadline(&mut self, now: Instant) -> Option<Completion> {
        let completion = self.session.handle_deadline(now)?;
        Some(self.end(now, completion.call, completion.ended))
    }

    /// The next message to send: appends its content to `out`, and returns the node and the kind.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.session.poll_transmit(out)
    }

    /// A time to live begins with the call, whenever the answer arrives.
    #[cfg(not(feature = "planted-bugs"))]
    const fn counts_from(&self, _: Instant, begun: Instant) -> Instant {
        begun
    }

    /// The same, unless it is known to be wrong.
    #[cfg(feature = "planted-bugs")]
    fn counts_from(&self, now: Instant, begun: Instant) -> Instant {
        if self.planted_bug == Some(PlantedBug::TtlFromAnswer) { now } else { begun }
    }

    fn end(&mut self, now: Instant, call: CallId, ended: Ended<'_>) -> Completion {
        let place = self.begun.iter().position(|(known, _)| *known == call).expect("what ends was begun");
        let (_, begun) = self.begun.swap_remove(place);
        let from = self.counts_from(now, begun);
        let outcome = match ended {
            // An earlier node may have begun it even if the last one has not.
            Ended::NotBegun | Ended::Unknown => Outcome::Unknown,
            Ended::Answer(body) => match Answer::parse(body.kind, body.bytes) {
                None => Outcome::BadRequest,
                Some(Answer { kind, token, time }) => match kind {
                    // The leader counts from a later moment, so it ends the lock later.
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
