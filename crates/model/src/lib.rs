//! Model checking of the consensus that [`weft_rounds`] runs, and of the algorithm that it was made from.
//!
//! Synchronous rounds against an adversary that loses messages: [`explore`] tries everything it can do to a few
//! nodes, with the explicit-state checker stateright; [`random`] draws schedules for more. Both drive a [`Protocol`]:
//! [`Shipped`] is the state machine that runs, not a model of it; [`Printed`] is Algorithm 3 as the detPU thesis
//! prints it; a [`Variant`] has a bug on purpose. What must hold is a [`Property`] of the [`Cluster`] after every
//! round. A run that breaks one is made smaller and told round by round ([`Schedule`]). [`pipeline`] checks many
//! instances in flight; [`suite`] is what `weft check rounds` runs.
//!
//! Beside it, [`rdt`] has a solver prove what the methods of replicated data types need.

mod adversary;
mod cluster;
pub mod explore;
pub mod pipeline;
mod printed;
mod property;
mod protocol;
pub mod random;
pub mod rdt;
mod schedule;
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
