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

/// Phase of the cluster.
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

/// Part of a status that is asked for.
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

/// Status of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// The node.
    pub node: NodeId,
    /// In which life.
    pub incarnation: Incarnation,
    /// Since when its process runs: whole milliseconds.
    pub uptime: Duration,
    /// The newest view that it knows.
    pub view: View,
    /// Length of a lease, and the rest of the node's own: whole milliseconds, 0 if it has none.
    pub lease: Duration,
    /// See [`NodeStatus::lease`].
    pub lease_left: Duration,
    /// Reason for which the membership service refuses it now.
    pub refusal: Option<Reason>,
    /// Number of engines.
    pub engines: u8,
    /// Number of counters.
    pub counters: u16,
}

/// Status of an engine of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineReport {
    /// Slot in the card.
    pub slot: u8,
    /// Name in the configuration.
    pub name: Text,
    /// Its epoch and its state in that epoch.
    pub status: EngineStatus,
    /// Of how many shards it is the leader at this node, and how many there are; 0 of 0 where no node leads.
    pub leads: u32,
    /// See [`EngineReport::leads`].
    pub shards: u32,
    /// Number of clients with a session, and the most there can be; 0 of 0 if it keeps no sessions.
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
    /// The page.
    pub page: u8,
    /// At most [`COUNTERS_PER_PAGE`].
    pub counters: Vec<(Text, u64)>,
}

/// Status of a membership service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceStatus {
    /// Name of its cluster.
    pub cluster: ClusterName,
    /// Phase of the cluster.
    pub phase: Phase,
    /// The newest view.
    pub view: View,
    /// Number of nodes that hold the same data.
    pub replicas: u8,
    /// Of each node, what the service knows.
    pub nodes: Vec<MemberStatus>,
}

/// The membership service's knowledge of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// The life with which it is or was in the newest view that had it.
    pub incarnation: Option<Incarnation>,
    /// Rest of its lease: whole milliseconds.
    pub lease_left: Duration,
    /// For how long it was not heard: whole milliseconds; `None` if it never was as a member.
    pub silent: Option<Duration>,
    /// The latest epoch that its engines have reported.
    pub reported: Epoch,
}
