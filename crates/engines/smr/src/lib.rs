//! Replicated logs over one-sided verbs: Mu.
//!
//! A leader replicates by writing into the memory of the others, which need not do anything for it. What makes that
//! safe is *permission*: each replica lets exactly one other write to its log, by what it allows on the queue pair on
//! which that one makes its requests. PROTOCOL.md says why it is right.
//!
//! - [`Pulse`] feels who is alive: the lowest of these leads.
//! - [`Group`] is one replica of one log. A new leader asks all others for the permission to write (a datagram). Each
//!   revokes that of the former leader, grants it and says so. With a majority the new one READs how far they are,
//!   WRITEs a higher *proposal* to them and READs what their logs hold beyond the decided; of each slot it adopts the
//!   entry of the highest proposal. Then it leads: it WRITEs its entries to each follower whose permission it has, in
//!   order and many at a time. What a majority has, itself included, is decided, and applied, and only then answered.
//!   No further prepare phase is needed while it keeps the permissions of a majority (Mu, section 4.2: omitting the
//!   prepare phase).
//! - [`Log`] is an engine with one group: a replicated log as a service.
//!
//! An engine that embeds groups passes in what they may touch ([`Ports`]) and its replicated state ([`StateMachine`]).
//!
//! The origin is Mu (Aguilera et al., OSDI 2020) as SafarDB puts it on a card (sections 4.3 and 4.4). Where both are
//! silent or unsafe this one differs: see PROTOCOL.md.

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
