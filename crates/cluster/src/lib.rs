//! Configuration, membership, leases and epochs.
//!
//! The *membership service* decides who takes part: it publishes numbered views and grants leases. It is embedded
//! in one process of the cluster. Every node's host runs an [`Agent`], which holds the lease and hands the engine its
//! membership registers. Both are pure state machines: a world passes bytes and `now` in and carries bytes out, so the
//! simulator and the real-socket world run the same ones.
//!
//! ```text
//!   engine ←─ Configuration ─ Agent ── Heartbeat ──→ Server ─→ Service
//!          ── EngineStatus ─→       ←─ Grant,    ───        ─→ Durable (state file)
//!                                      Refusal,
//!                                      Notice
//! ```
//!
//! # Why a lease keeps a cut-off node harmless
//!
//! A node counts its lease from the time at which it *sent* the heartbeat; the service counts the same lease from the
//! later time at which it *received* it, and adds a margin for the two clocks' drift
//! ([`ServiceParameters::drift_ppm`]). So the lease ends at the node before it ends at the service, and a view without
//! the node is published only then, when the service hears another member that holds all data. Clocks need not agree on
//! the time, only on its rate.
//!
//! # Whose messages count
//!
//! Every message carries a number derived from the cluster's [name](ClusterName); a service answers a heartbeat of
//! another cluster by its own name, and the node says so and ends. A node that starts tells what its configuration must
//! have in common with those of the others ([`Profile`]); the service counts it if nobody contradicts, and else names
//! the first [`Difference`].
//!
//! # What a host promises
//!
//! - It reports a greater [`Incarnation`] only when the engine of the older one has stopped for good, and reports an
//!   engine as lost only when that serves nothing any more. The service still waits for the older lease to end, unless
//!   the older life has said so itself: a process may be started by mistake.
//! - It reads the clock *before* it sends a heartbeat, and the service's host reads its clock *after* it received one.
//! - The service's host saves what [`Server::take_unsaved`] gives it before it sends anything.

mod agent;
mod config;
mod durable;
mod hearing;
mod identity;
mod lease;
mod membership;
mod message;
#[cfg(feature = "planted-bugs")]
mod planted;
mod profile;
mod registry;
mod server;
mod service;
pub mod status;
mod text;

pub use agent::{Agent, AgentParameters, Misfit, ReceiveError};
pub use config::engines::{
    DEFAULT_REPLICAS, ENGINES_MAX, EngineConfig, EnginesConfig, KvConfig, LockConfig, LogConfig,
    ObjectConfig, RoundsConfig, TransactionsConfig,
};
pub use config::{
    ClusterConfig, ConfigError, CoresConfig, DEFAULT_DATAGRAM_PORT, DEFAULT_LEASE, DEFAULT_MTU_BYTES,
    METRICS_PORT, MembershipConfig, MembershipPlace, NoSuchNode, NodeConfig, PeerConfig, Peers, REDIS_PORT,
    ROCE_PORT, RedisConfig, ServeConfig, ServiceConfig, configuration_reference,
};
pub use durable::{Durable, DurableError, NodeRecord, Role};
pub use hearing::Hearing;
pub use identity::{ClusterId, ClusterName};
pub use lease::{LEASE_MAX, LEASE_MIN};
pub use membership::{Action, Incarnation, Membership, Reason};
pub use message::{Datagram, Heartbeat, MEMBERSHIP_PORT, Message, MessageError, Token, is_membership};
#[cfg(feature = "planted-bugs")]
pub use planted::PlantedBug;
pub use profile::{Difference, Holder, Profile};
pub use server::{Refused, Server, ServerCounters};
pub use service::{Answer, Grant, Service, ServiceParameters};
pub use status::Phase;
pub use text::Text;
