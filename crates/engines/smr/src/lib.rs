//! Replicated logs over one-sided verbs: Mu.
//!
//! A leader replicates by writing into the memory of the followers, whose engines need not do anything for it.
//! This is safe because of *permission*: each replica lets exactly one other write to its log. It sets the access
//! rights of the queue pair on which that one makes its requests. PROTOCOL.md says why the protocol is correct.
//!
//! - [`Pulse`] detects which replicas are alive: the lowest of these leads.
//! - [`Group`] is one replica of one log. A new leader requests the permission to write from all others (a
//!   datagram). Each of them revokes the permission of the former leader, grants the new one, and sends an answer.
//!   With the permissions of a majority, the new leader READs how far the logs are, WRITEs a higher *proposal* to
//!   them, and READs the undecided part of the logs. For each slot it adopts the entry of the highest proposal.
//!   Then it leads: it WRITEs its entries to each follower whose permission it has, in order and many at a time.
//!   An entry that a majority has, the leader included, is decided; then it is applied, and only then answered. As
//!   long as the leader keeps the permissions of a majority, no further prepare phase is needed (Mu, section 4.2:
//!   omitting the prepare phase).
//! - [`Log`] is an engine with one group: a replicated log as a service.
//!
//! An engine that embeds groups passes in the resources that they use ([`Ports`]) and its replicated state
//! ([`StateMachine`]).
//!
//! The origin is Mu (Aguilera et al., OSDI 2020) as SafarDB implements it on a card (sections 4.3 and 4.4). Where
//! both are silent or unsafe, this protocol differs: see PROTOCOL.md.

pub mod client;
mod counters;
mod group;
mod layout;
pub mod link;
pub mod log;
mod machine;
pub mod message;
mod parameters;
mod pulse;
pub mod slot;

pub use counters::Counters;
pub use group::{CALL_LOG, Group, Refusal, Role, Timeline};
pub use link::Wiring;
pub use log::{Log, LogParameters};
pub use machine::{Ports, StateMachine};
pub use parameters::{Delivery, NODES_MAX, Parameters, ParametersError, PlantedBug};
pub use pulse::{GROUPS_MAX, Heads, Pulse, PulseParameters};
