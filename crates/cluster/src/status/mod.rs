//! Status requests, which anybody may send to a node or a membership service.
//!
//! A request names a part of the status. It is padded to [`DATAGRAM_BYTES`], and no answer is longer: an attacker
//! who forges the source address of requests cannot use a node to amplify traffic (as RFC 9000, section 8.1,
//! requires for QUIC). Status requests change nothing at the node.

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
    /// A view has been published.
    Running,
    /// The last engine that held all data is gone: the data is lost.
    Halted,
}

/// Number of counters in a page.
pub const COUNTERS_PER_PAGE: usize = 8;

/// A part of a status that can be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatusPart {
    /// A node's [`NodeStatus`].
    Node,
    /// The [`EngineReport`] of the engine in this slot of a node's card.
    Engine(u8),
    /// Counters, starting with number `page` times [`COUNTERS_PER_PAGE`].
    Counters(u8),
    /// A membership service's [`ServiceStatus`].
    Service,
}

/// The answer to a status request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusAnswer {
    /// Answers [`StatusPart::Node`].
    Node(NodeStatus),
    /// Answers [`StatusPart::Engine`].
    Engine(EngineReport),
    /// Answers [`StatusPart::Counters`].
    Counters(CounterPage),
    /// Answers [`StatusPart::Service`].
    Service(ServiceStatus),
}

/// Status of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// Number of the node.
    pub node: NodeId,
    /// Incarnation of the node's engine.
    pub incarnation: Incarnation,
    /// How long its process has been running: whole milliseconds.
    pub uptime: Duration,
    /// The newest view that it has received.
    pub view: View,
    /// Length of a lease, and below the remaining time of the node's own: whole milliseconds, 0 if it has none.
    pub lease: Duration,
    /// See [`NodeStatus::lease`].
    pub lease_left: Duration,
    /// Why the membership service refuses the node at present.
    pub refusal: Option<Reason>,
    /// Number of engines of the node: each has an [`EngineReport`].
    pub engines: u8,
    /// Number of counters of the node, over all pages.
    pub counters: u16,
}

/// Status of an engine of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineReport {
    /// Slot in the card.
    pub slot: u8,
    /// Name in the configuration.
    pub name: Text,
    /// The engine's epoch and state.
    pub status: EngineStatus,
    /// Number of shards that the engine leads at this node, and below the number of all shards; both 0 if the
    /// engine has no leaders.
    pub leads: u32,
    /// See [`EngineReport::leads`].
    pub shards: u32,
    /// Number of clients with a session, and below the most there can be; both 0 if the engine keeps no sessions.
    pub sessions: u32,
    /// See [`EngineReport::sessions`].
    pub sessions_max: u32,
    /// The nodes for which a request waits at this moment.
    pub waits_for: NodeSet,
    /// The nodes for which a request has waited longer than a lease.
    pub stalled_for: NodeSet,
}

/// A page of counters, in the node's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterPage {
    /// Number of the page, counted from 0.
    pub page: u8,
    /// Names and values, at most [`COUNTERS_PER_PAGE`].
    pub counters: Vec<(Text, u64)>,
}

/// Status of a membership service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceStatus {
    /// Name of the cluster that the service manages.
    pub cluster: ClusterName,
    /// Phase of the cluster.
    pub phase: Phase,
    /// The newest published view.
    pub view: View,
    /// Number of nodes that hold the same data.
    pub replicas: u8,
    /// The keeper that holds the service; `None` if the service is one process.
    pub holder: Option<NodeId>,
    /// The keeper's term; 0 if the service is one process.
    pub term: u32,
    /// The service's record of each node.
    pub nodes: Vec<MemberStatus>,
}

/// The membership service's record of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// The node's incarnation in the newest view that had it.
    pub incarnation: Option<Incarnation>,
    /// Remaining time of its lease: whole milliseconds.
    pub lease_left: Duration,
    /// Time since its last heartbeat as a member: whole milliseconds; `None` if there was none.
    pub silent: Option<Duration>,
    /// The latest epoch that the node has reported.
    pub reported: Epoch,
}
