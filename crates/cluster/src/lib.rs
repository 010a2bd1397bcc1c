//! Configuration, membership, leases and epochs.
//!
//! The *membership service* decides which nodes are members: it publishes numbered views and grants leases. It is
//! embedded in one process of the cluster. On every node's host an [`Agent`] holds the lease and sets the engine's
//! membership registers. Both are pure state machines: the caller passes in received bytes and the time, and sends
//! the bytes that they return. So the simulator and the program on real sockets run the same code.
//!
//! ```text
//!   engine ←─ Configuration ─ Agent ── Heartbeat ──→ Server ─→ Service
//!          ── EngineStatus ─→       ←─ Grant,    ───        ─→ Durable (state file)
//!                                      Refusal,
//!                                      Notice
//! ```
//!
//! The service is one process with a state file, or is held by one of several [`Keeper`]s, with its state in a
//! register on coordinators.
//!
//! # Why a lease makes a partitioned node harmless
//!
//! A node counts its lease from the time at which it *sent* the heartbeat. The service counts the same lease from
//! the later time at which it *received* the heartbeat, and adds a margin for the drift of the two clocks
//! ([`ServiceParameters::drift_ppm`]). So the lease ends at the node before it ends at the service. The service
//! publishes a view without the node only after that, and only once it has received a heartbeat of another member
//! that holds all data. Clocks need not agree on the time, only on its rate.
//!
//! # Which messages count
//!
//! Every message carries a number derived from the cluster's [name](ClusterName). A service answers a heartbeat of
//! another cluster with its own name, and the node reports that and ends. A node that starts sends the parts of
//! its configuration that must be equal at all nodes ([`Profile`]). The service accepts the node if no other
//! node's profile differs, and otherwise answers with the first [`Difference`].
//!
//! # What a host guarantees
//!
//! - A host reports a greater [`Incarnation`] only when the engine of the older one has stopped for good, and
//!   reports an engine as lost only when that engine serves no requests any more. The service still waits until
//!   the older incarnation's lease has ended, unless that incarnation has itself reported that it is lost: a
//!   process may be started by mistake.
//! - A node's host reads the clock *before* it sends a heartbeat, and the service's host reads its clock *after*
//!   it has received one.
//! - The service's host stores the snapshot that [`Server::take_unsaved`] returns, and then calls [`Server::stored`].
//!   Until then the server keeps back what depends on it.

mod agent;
mod beacons;
mod config;
mod durable;
mod identity;
mod keeper;
mod lease;
mod membership;
mod message;
mod place;
#[cfg(feature = "planted-bugs")]
mod planted;
mod profile;
mod record;
mod registry;
mod server;
mod service;
pub mod status;
mod text;

pub use agent::{Agent, AgentParameters, Mismatch, ReceiveError};
pub use beacons::Beacons;
pub use config::engines::{
    DEFAULT_REPLICAS, ENGINES_MAX, EngineConfig, EnginesConfig, KvConfig, LockConfig, LogConfig,
    ObjectConfig, RoundsConfig, TransactionsConfig,
};
pub use config::{
    ClusterConfig, ConfigError, CoresConfig, DEFAULT_DATAGRAM_PORT, DEFAULT_LEASE, DEFAULT_MTU_BYTES,
    MEMBERSHIP_PORT, METRICS_PORT, MembershipConfig, MembershipPlace, NoSuchNode, NodeConfig, PeerConfig,
    Peers, REDIS_PORT, ROCE_PORT, RedisConfig, SEAL_BYTES, SecurityConfig, ServeConfig, ServiceConfig,
    Tables, configuration_reference,
};
pub use durable::{Durable, DurableError, NodeRecord, Role};
pub use identity::{ClusterId, ClusterName};
pub use keeper::{Keeper, KeeperParameters};
pub use lease::{LEASE_MAX, LEASE_MIN};
pub use membership::{Action, Incarnation, Membership, Reason};
pub use message::{Datagram, Heartbeat, Message, MessageError, Token, is_membership};
pub use place::{Family, Host, HostName, NoPlace, Place};
#[cfg(feature = "planted-bugs")]
pub use planted::PlantedBug;
pub use profile::{Difference, Holder, Profile};
pub use server::{Origin, Refused, Server, ServerCounters};
pub use service::{Answer, Grant, Service, ServiceParameters};
pub use status::Phase;
pub use text::Text;
