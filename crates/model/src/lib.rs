//! Model checking of the consensus that [`weft_rounds`] runs, and of the published algorithm from which it was
//! derived.
//!
//! Synchronous rounds run against an adversary that loses messages. [`explore`] tries all behaviours of the
//! adversary with a few nodes, using the explicit-state checker stateright; [`random`] draws schedules for more
//! nodes. Both drive a [`Protocol`]: [`Shipped`] is the state machine that ships, not a model of it; [`Printed`]
//! is Algorithm 3 as printed in the detPU thesis; a [`Variant`] has a deliberate bug. After every round each
//! [`Property`] of the [`Cluster`] is checked. A run that violates one is minimised and printed round by round
//! ([`Schedule`]). [`pipeline`] checks many instances in flight; [`suite`] is what `weft check rounds` runs.
//!
//! [`kv`], [`smr`] and [`register`] check the key-value store, the replicated log and the register of the coordinators
//! in the same way, without rounds; [`exhaustive`] has their result. [`rdt`] lets a solver prove which coordination the
//! methods of replicated data types need.

mod adversary;
mod cluster;
pub mod exhaustive;
pub mod explore;
pub mod kv;
pub mod pipeline;
mod printed;
mod property;
mod protocol;
pub mod random;
pub mod rdt;
pub mod register;
mod schedule;
mod search;
mod shipped;
pub mod smr;
pub mod suite;
mod variant;
pub mod violation;

pub use adversary::Adversary;
pub use cluster::Cluster;
pub use printed::{Printed, PrintedMessage, PrintedNode};
pub use property::Property;
pub use protocol::{NODES_MAX, Protocol, Quorums, View, all_of, nodes_of};
pub use schedule::{Counterexample, Schedule};
pub use shipped::Shipped;
pub use variant::{Bug, Variant, VariantMessage, VariantNode};
