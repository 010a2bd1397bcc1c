//! Shared parts of campaigns and measurements of all engines: simulated clusters, clients in closed loops, fault
//! campaigns.
//!
//! A [`Cluster`] is a simulated world of nodes, of the membership service with its stored state, and of
//! clients. Each node's host runs the shipped program ([`NodeHost`] around `weft_node::Node`), so that
//! campaigns test that program. An engine's campaign gives a [`Builder`], which makes nodes and tells which
//! crashes the protocol tolerates. A crash loses everything that a killed process loses; the membership
//! service restarts with its state file.
//!
//! [`Cluster::shipped`] needs no builder: its nodes are assembled as `weft start` does, with any of the
//! shipped engines. A [`NodeCampaign`] runs a [`Subject`] on them: an engine, its clients, and the check of
//! the answers that they get.
//!
//! A [`Contender`] is the smallest interface: an engine of any type, a client with one outstanding call at a
//! time, and a check. A [`Contest`] measures it under the same conditions as all others, and
//! [`AnyContender::campaign`] runs a fault campaign of it.
//!
//! A campaign makes and checks one run for each seed; [`Findings`] collects the violations, each with the
//! command that repeats the run.

pub mod activity;
mod campaign;
pub mod capture;
mod clients;
mod closed_loops;
mod cluster;
mod contest;
pub mod gateware;
mod host;
mod keys;
mod membership;
mod node_campaign;
mod partings;
mod planted;
pub mod progress;
mod shipped;
mod station;

pub use campaign::{Findings, Judgement, Violation, add_faults, add_live_within, faults_of, random_plan};
pub use clients::{CALLED_SLOT, ClientMachine, ClientProgram};
pub use closed_loops::{Caller, ClosedLoops, Ended, Pace, READ, Turn, UPDATE};
pub use cluster::{
    Builder, Cluster, ClusterDirector, ClusterMachine, ClusterShape, MachineOf, NoClients, node_id, running,
};
pub use contest::{AnyContender, CLIENTS_BEGIN, Contender, ContenderCluster, Contest, Load, Standing};
pub use host::{NodeHost, SimulatedHalf, StatusChange, Views, incarnation};
pub use keys::{KeyHolder, Keys, Sealed, SealedClients, SharedKeys, Watch};
pub use membership::{Disk, MembershipMachine, SharedDisk};
pub use node_campaign::{DRIFT_PPM, LEASE, NodeCampaign, NodeCampaignResult, Subject};
pub use partings::{PartedCluster, Partings};
#[cfg(feature = "planted-bugs")]
pub use planted::NodeBug;
pub use planted::Planted;
pub use shipped::{Assemble, ClusterOf, FaultTimes, MakeEngines, OneEngine, ShippedNodes, ShippedParameters};
pub use station::{ClusterHost, DATAGRAM_BYTES, address, clock, datagram_bytes, hardware, peers};
