//! The client half: calls, and the time until which a granted lock is held.

use weft_session::{Body, Calls, Ended, NewCall, SessionClient, Verdict};
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

/// A client of the locks.
pub type Client = SessionClient<LockCalls>;

/// The calls of the locks. All are idempotent, so they may be repeated: an acquisition is identified by its owner, a
/// renewal or release by its token.
#[derive(Clone, Copy, Debug, Default)]
pub struct LockCalls {
    /// Bug planted in the client.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<PlantedBug>,
}

impl LockCalls {
    /// Start of the time to live: the begin of the call, independent of the arrival of the answer.
    #[cfg(not(feature = "planted-bugs"))]
    const fn counts_from(self, _: Instant, begun: Instant) -> Instant {
        begun
    }

    /// The same, except with the planted bug.
    #[cfg(feature = "planted-bugs")]
    fn counts_from(self, now: Instant, begun: Instant) -> Instant {
        if self.planted_bug == Some(PlantedBug::TtlFromAnswer) { now } else { begun }
    }
}

impl Calls for LockCalls {
    type Task<'a> = Task;
    type Outcome<'a> = Outcome;
    /// The begin of the call.
    type Note = Instant;

    fn begin(&self, now: Instant, _: usize, task: Task, bytes: &mut Vec<u8>) -> NewCall<Instant> {
        NewCall { kind: task.encode(bytes) as u8, node: None, is_repeatable: true, note: now }
    }

    fn judge(body: Body<'_>) -> Verdict {
        match Answer::parse(body.kind, body.bytes).map(|answer| answer.kind) {
            Some(AnswerKind::Elsewhere) => Verdict::Elsewhere,
            Some(AnswerKind::Busy) => Verdict::Later,
            _ => Verdict::Final,
        }
    }

    fn end(&self, now: Instant, begun: Instant, ended: Ended<'_>) -> Outcome {
        // Another node may have begun the call, even if the last one has not.
        let Ended::Answer(body) = ended else { return Outcome::Unknown };
        let Some(Answer { kind, token, time }) = Answer::parse(body.kind, body.bytes) else {
            return Outcome::BadRequest;
        };
        match kind {
            // The leader counts from a later time, so the lock ends later at the leader.
            AnswerKind::Granted => {
                let until = self.counts_from(now, begun) + usable(time);
                Outcome::Granted { token, ttl: time, until }
            }
            AnswerKind::Held => Outcome::Held { token, remaining: time },
            AnswerKind::Free => Outcome::Free,
            AnswerKind::Lost => Outcome::Lost,
            AnswerKind::Full => Outcome::Full,
            AnswerKind::BadRequest | AnswerKind::Busy | AnswerKind::Elsewhere => Outcome::BadRequest,
        }
    }
}
