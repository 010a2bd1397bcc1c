//! One register, replicated on three or five coordinators, that any number of proposers read and compare-and-set.
//!
//! The protocol is CASPaxos (Rystsov, [arXiv 1802.07000](https://arxiv.org/abs/1802.07000)): Paxos in which each
//! operation runs both phases on the whole value. There is no log and no leader, so nothing has to be elected,
//! truncated or transferred. A coordinator stores one value and one promise. Any majority of the coordinators
//! answers.
//!
//! ```text
//!   Proposer ── Prepare, Accept, Query ──→ Coordinator ─→ Acceptor (state file)
//!            ←─ Promise, Accepted,      ──
//!               Refused, Report
//! ```
//!
//! Both ends are pure state machines: the caller passes in received bytes and the time, and sends what they return.
//!
//! # The protocol
//!
//! A value has a [version](Value::version), which each compare-and-set increments. A proposer chooses a
//! [`Ballot`] that is greater than all that it has seen, and asks the coordinators to promise that they accept
//! nothing of lower ballots. When a majority has promised, the proposer takes the value with the greatest ballot
//! that one of them has accepted. If its version is the expected one, the proposer offers the new value with the
//! next version; otherwise it offers the value itself. When a majority has accepted the offer, the operation ends.
//!
//! A majority that accepts one ballot has *chosen* its value. Any later ballot meets a member of that majority, and
//! offers the same value, or one that follows from it. So the chosen values form a chain: versions never decrease,
//! and each version has one value.
//!
//! # An attempt that fails
//!
//! A proposer that was refused, or not answered, tries again with a greater ballot. Its earlier offer may still be
//! chosen, because another proposer may find it. So the next attempt looks first: if it finds its own value, it
//! offers that value again; if it finds the expected version, its earlier offer was not chosen, and cannot be any
//! more. If it finds a version beyond its own, it cannot tell, and the operation is [`Outcome::Unknown`].
//!
//! # What a host guarantees
//!
//! - A coordinator's host stores the state that [`Coordinator::take_unsaved`] returns before it sends anything. A
//!   coordinator that has lost its state does not come back under its number: it would forget its promises.
//! - The process of a proposer has an [incarnation](ProposerId::incarnation) that no other process with its number
//!   had. So ballots differ, although proposers store nothing.

mod acceptor;
mod ballot;
mod coordinator;
mod message;
#[cfg(feature = "planted-bugs")]
mod planted;
mod proposer;
mod value;

pub use acceptor::{Acceptor, StateError};
pub use ballot::{Ballot, ProposerId};
pub use coordinator::{Coordinator, CoordinatorCounters};
pub use message::{Answer, Datagram, Message, MessageError, Request, is_register};
#[cfg(feature = "planted-bugs")]
pub use planted::PlantedBug;
pub use proposer::{Operation, Outcome, Proposer, ProposerParameters};
pub use value::{VALUE_BYTES_MAX, Value};

/// The most coordinators of a register.
pub const COORDINATORS_MAX: usize = 5;
