//! Shared parts of campaigns and measurements of all engines: simulated clusters, clients in closed loops, fault
//! campaigns.
//!
//! A [`Cluster`] is a simulated world of nodes, of the membership service with its stored state, and of
//! clients. Each node's host runs the shipped program ([`NodeHost`] around `weft_node::Node`), so that
//! campaigns test that program. An engine's campaign gives a [`Builder`], which makes nodes and tells which
//! crashes the protocol tolerates. A crash loses everything that a killed process loses; the membership
//! service restarts with its state file.
//!
//! A [`Campaign`] makes one run for each seed. An engine's part is a [`Subject`]: it makes the cluster of a
//! run with its load, a [`Trial`], tells when it serves again, and judges what was recorded. Runs of several
//! seeds are made on several threads, and their figures are added in the order of the seeds, so the result does not
//! depend on the number of threads. [`Findings`] has the violations, each with the command that repeats the run.
//!
//! [`Cluster::shipped`] needs no builder: its nodes are assembled as `weft start` does, with any of the
//! shipped engines or with one of any other type. A [`Contender`] is all that this needs of an engine: the
//! engine, a client with one outstanding call at a time, and a check of the answers. [`OnNodes`] is the subject
//! of its campaigns, and a [`Contest`] measures it under the same conditions as all others.

pub mod activity;
mod campaign;
pub mod capture;
mod clients;
mod closed_loops;
mod cluster;
mod contender;
mod contest;
mod counts;
mod findings;
pub mod gateware;
mod host;
mod jobs;
mod keepers;
mod keys;
mod membership;
mod node_campaign;
mod partings;
mod planted;
pub mod progress;
mod shipped;
mod soft_nic;
mod station;

pub use campaign::{Campaign, CampaignResult, LiveWithin, Subject, Times, Trial};
pub use clients::{CALLED_SLOT, ClientMachine, ClientProgram};
pub use closed_loops::{Caller, ClosedLoops, Ended, Pace, READ, Turn, UPDATE};
pub use cluster::{
    Builder, Cluster, ClusterDirector, ClusterMachine, ClusterShape, MachineOf, NoClients, SimulatedNode,
    running,
};
pub use contender::{Contender, ContenderCluster};
pub use contest::{AnyContender, CLIENTS_BEGIN, Contest, Load, Standing};
pub use counts::{add_counts, faults_of};
pub use findings::{Findings, Violation};
pub use host::{NodeHost, NodeProgram, SimulatedHalf, StatusChange, Views};
pub use keepers::{CoordinatorMachine, KeeperMachine};
pub use keys::{KeyHolder, Keys, MACHINES_IN_GATES, Sealed, SealedClients, SharedKeys, Watch};
pub use membership::{Disk, MembershipMachine, SharedDisk};
pub use node_campaign::{DRIFT_PPM, LEASE, NODE_TIMES, NodeFigures, OnNodes};
#[cfg(feature = "planted-bugs")]
pub use planted::NodeBug;
pub use planted::Planted;
pub use shipped::{Assemble, ClusterOf, MakeEngines, OneEngine, ShippedNodes, ShippedParameters};
pub use soft_nic::{no_queue_pairs, soft_nic};
pub use station::{
    ClusterHost, DATAGRAM_BYTES, address, clock, datagram_bytes, hardware, incarnation, node_id, peers,
};
