//! What anybody may ask a node or a membership service: how it is.
//!
//! A request names a part of the status. It is padded to [`DATAGRAM_BYTES`], and no answer is longer: whoever forges
//! the address of a request makes nobody send more than it sends itself (as RFC 9000, section 8.1, has it for QUIC).
//! Nothing that is asked or answered changes anything at the node.

mod codec;

use weft_time::Duration;
use weft_waist::{EngineStatus, Epoch, NodeId, NodeSet, View};

use crate::identity::ClusterName;
use crate::membership::{Incarnation, Reason};
use crate::text::Text;

pub use codec::{DATAGRAM_BYTES, NoStatus, StatusRequest, is_status};

/// Where the cluster stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The first view waits until these nodes have reported.
    Bootstrapping {
        /// Nodes that have not reported yet.
        missing: NodeSet,
    },
    /// There is a view.
    Running,
    /// The last engine that held all data is gone: the data is lost.
    Halted,
}

/// Counters of a page.
pub const COUNTERS_PER_PAGE: usize = 8;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatusPart {
    /// A node's [`NodeStatus`].
    Node,
    /// The [`EngineReport`] of the engine in this slot of a node's card.
    Engine(u8),
    /// Counters, from number `page` times [`COUNTERS_PER_PAGE`] on.
    Counters(u8),
    /// A membership service's [`ServiceStatus`].
    Service,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusAnswer {
    /// To [`StatusPart::Node`].
    Node(NodeStatus),
    /// To [`StatusPart::Engine`].
    Engine(EngineReport),
    /// To [`StatusPart::Counters`].
    Counters(CounterPage),
    /// To [`StatusPart::Service`].
    Service(ServiceStatus),
}

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// Which it is.
    pub node: NodeId,
    /// In which life.
    pub incarnation: Incarnation,
    /// Since when its process runs: whole milliseconds.
    pub uptime: Duration,
    /// The newest view that it knows.
    pub view: View,
    /// How long a lease lasts, and how much is left of its own: whole milliseconds, 0 if it has none.
    pub lease: Duration,
    /// See [`NodeStatus::lease`].
    pub lease_left: Duration,
    /// Why the membership service refuses it at present.
    pub refusal: Option<Reason>,
    /// How many engines it has.
    pub engines: u8,
    /// How many counters there are.
    pub counters: u16,
}

/// How an engine of a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineReport {
    /// Its slot in the card.
    pub slot: u8,
    /// What the configuration calls it.
    pub name: Text,
    /// How far it is in which epoch.
    pub status: EngineStatus,
    /// Of how many shards it is the leader at this node, and how many there are; 0 of 0 where no node leads.
    pub leads: u32,
    /// See [`EngineReport::leads`].
    pub shards: u32,
    /// How many clients it remembers, and how many at most; 0 of 0 if it remembers none.
    pub sessions: u32,
    /// See [`EngineReport::sessions`].
    pub sessions_max: u32,
    /// For whom something waits at this moment.
    pub waits_for: NodeSet,
    /// For whom it has waited longer than a lease.
    pub stalled_for: NodeSet,
}

/// Some counters, in the order that the node has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterPage {
    /// Which page.
    pub page: u8,
    /// At most [`COUNTERS_PER_PAGE`].
    pub counters: Vec<(Text, u64)>,
}

/// How a membership service is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceStatus {
    /// Whose it is.
    pub cluster: ClusterName,
    /// Where the cluster stands.
    pub phase: Phase,
    /// The newest view.
    pub view: View,
    /// How many nodes hold the same data.
    pub replicas: u8,
    /// Of each node, what the service knows.
    pub nodes: Vec<MemberStatus>,
}

/// What the membership service knows of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// The life with which it is or was in the newest view that had it.
    pub incarnation: Option<Incarnation>,
    /// How much is left of its lease: whole milliseconds.
    pub lease_left: Duration,
    /// For how long it was not heard: whole milliseconds; `None` if it never was as a member.
    pub silent: Option<Duration>,
    /// The latest epoch that its engines have reported.
    pub reported: Epoch,
}
