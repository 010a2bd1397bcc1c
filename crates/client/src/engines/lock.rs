//! Locks with fencing tokens.

use std::time;

use weft_lock::{Client, Name, Outcome, Task};
use weft_time::Duration;

use super::{Handle, UNEXPECTED_ANSWER, refused};
use crate::identity::new_identity;
use crate::requests::Requests;
use crate::{Error, Pending};

pub(crate) enum LockRequests {}

impl Requests for LockRequests {
    type Half = Client;
    type Request = Task;
    type Reply = Outcome;

    fn message_bytes(_: &Task) -> usize {
        weft_session::Message::OVERHEAD + Task::BYTES_MAX
    }

    fn task(task: &Task) -> Task {
        *task
    }

    fn reply(outcome: Outcome, after: Duration) -> Result<Outcome, Error> {
        match outcome {
            Outcome::Full => Err(Error::Refused("as many locks are held as the cluster is configured for")),
            Outcome::BadRequest => Err(UNEXPECTED_ANSWER),
            Outcome::Unknown => Err(Error::Unknown { after }),
            outcome => Ok(outcome),
        }
    }
}

/// A lock that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Fencing token: later holders of any lock get larger ones. A resource that a lock protects refuses tokens
    /// smaller than the largest it has seen.
    pub token: u64,
    /// The time to live. Each renewal grants it again.
    pub ttl: time::Duration,
    /// Until when the caller holds the lock, by its own clock. This may be in the past if the answer was late.
    pub until: time::Instant,
}

impl Lease {
    /// Time for which the caller still holds the lock.
    pub fn remaining(&self) -> time::Duration {
        self.until.saturating_duration_since(time::Instant::now())
    }
}

/// Outcome of an acquisition or a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The caller holds the lock.
    Granted(Lease),
    /// Another client holds the lock.
    Held(Holder),
}

/// Holder of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The fencing token that the holder was granted.
    pub token: u64,
    /// How long it will hold the lock, unless it renews or releases it.
    pub remaining: time::Duration,
}

const fn real(duration: Duration) -> time::Duration {
    time::Duration::from_nanos(duration.as_ns())
}

/// A handle of a cluster's locks. Up to 16 calls are outstanding at a time; further ones are queued.
#[derive(Clone, Debug)]
pub struct Locks {
    pub(crate) handle: Handle<LockRequests>,
}

impl Locks {
    /// Makes a call in the terms of the engine. Its outcome is never one that is an [`Error`], and times in it are of
    /// the client's own clock.
    pub fn call(&self, task: Task) -> Pending<Outcome> {
        self.handle.ask(task, Ok)
    }

    /// Makes a call for the lock of this name. `read` converts the reply. It gets the time at which the call
    /// started, from which leases count.
    fn ask<T: Send + 'static>(
        &self,
        name: &str,
        task: impl FnOnce(Name) -> Task,
        read: impl FnOnce(time::Instant, Outcome) -> Result<T, Error> + Send + 'static,
    ) -> Pending<T> {
        let begun = time::Instant::now();
        match Name::new(name.as_bytes()) {
            Some(name) => self.handle.ask(task(name), move |outcome| read(begun, outcome)),
            None => refused(Error::Invalid(format!(
                "the name of a lock has 1 to {} bytes, and this one has {}",
                weft_lock::NAME_BYTES_MAX,
                name.len()
            ))),
        }
    }

    /// Acquires a lock for a time to live of 100 microseconds to an hour. If another client holds the lock, the
    /// call returns at once.
    pub fn acquire(&self, name: &str, ttl: time::Duration) -> Pending<Acquired> {
        let ttl = Duration::from_us(u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX / 1_000_000));
        let (least, most) = (weft_lock::TTL_MIN, weft_lock::TTL_MAX);
        if !(least..=most).contains(&ttl) {
            return refused(Error::Invalid(format!("a time to live is {least} to {most}, not {ttl}")));
        }
        let owner = new_identity();
        self.ask(
            name,
            |name| Task::Acquire { name, owner, ttl },
            |begun, outcome| match outcome {
                Outcome::Granted { token, ttl, .. } => Ok(Acquired::Granted(lease(begun, token, ttl))),
                Outcome::Held { token, remaining } => {
                    Ok(Acquired::Held(Holder { token, remaining: real(remaining) }))
                }
                _ => Err(UNEXPECTED_ANSWER),
            },
        )
    }

    /// Renews the lock of the holder with this token for another time to live. Returns `None` if that holder has
    /// lost the lock.
    pub fn renew(&self, name: &str, token: u64) -> Pending<Option<Lease>> {
        self.ask(
            name,
            |name| Task::Renew { name, token },
            |begun, outcome| match outcome {
                Outcome::Granted { token, ttl, .. } => Ok(Some(lease(begun, token, ttl))),
                Outcome::Lost => Ok(None),
                _ => Err(UNEXPECTED_ANSWER),
            },
        )
    }

    /// Releases a lock. Returns false if the holder with this token had already lost it.
    pub fn release(&self, name: &str, token: u64) -> Pending<bool> {
        self.ask(
            name,
            |name| Task::Release { name, token },
            |_, outcome| match outcome {
                Outcome::Free => Ok(true),
                Outcome::Lost => Ok(false),
                _ => Err(UNEXPECTED_ANSWER),
            },
        )
    }

    /// The holder of a lock, if there is one.
    pub fn query(&self, name: &str) -> Pending<Option<Holder>> {
        self.ask(
            name,
            |name| Task::Query { name },
            |_, outcome| match outcome {
                Outcome::Held { token, remaining } => Ok(Some(Holder { token, remaining: real(remaining) })),
                Outcome::Free => Ok(None),
                _ => Err(UNEXPECTED_ANSWER),
            },
        )
    }
}

fn lease(begun: time::Instant, token: u64, ttl: Duration) -> Lease {
    Lease { token, ttl: real(ttl), until: begun + real(weft_lock::usable(ttl)) }
}
