//! What runs of all engines share: fault campaigns, and the files and tables in which findings and measurements end.
//!
//! A [`Cluster`] is a simulated world of nodes, of the membership service with its stored state, and of clients. Each
//! node's host runs the program that ships ([`NodeHost`] around `weft_node::Node`), so what a campaign finds is found
//! in that program. An engine's campaign gives a [`Builder`]: how a node is made, and which crashes its protocol
//! tolerates. A crash takes all that a killed process loses; the membership service comes back with its state file.
//!
//! [`Cluster::shipped`] needs no builder: its nodes are put together as `weft start` does, with any of the engines that
//! ship, and a [`NodeCampaign`] runs a [`Subject`] on them: an engine, its clients, and what they must have been told.
//!
//! A [`Contender`] needs least: an engine of any type, its clients, one call at a time, and their judge. A [`Contest`]
//! measures it as all others are measured, and [`AnyContender::campaign`] is a campaign of it under faults.
//!
//! A campaign makes one run for each seed and judges it; [`Findings`] collects what is wrong, with the command that
//! repeats it.

pub mod activity;
mod campaign;
pub mod capture;
mod clients;
mod closed_loops;
mod cluster;
mod contest;
pub mod gateware;
pub mod histogram;
mod host;
mod keys;
mod membership;
pub mod merge;
mod nic_model;
mod node_campaign;
mod partings;
mod planted;
pub mod progress;
pub mod result;
mod shipped;
mod station;
pub mod table;

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
pub use nic_model::NicModel;
pub use node_campaign::{DRIFT_PPM, LEASE, NodeCampaign, NodeCampaignResult, Subject};
pub use partings::{PartedCluster, Partings};
#[cfg(feature = "planted-bugs")]
pub use planted::NodeBug;
pub use planted::Planted;
pub use shipped::{Assemble, ClusterOf, FaultTimes, MakeEngines, OneEngine, ShippedNodes, ShippedParameters};
pub use station::{ClusterHost, DATAGRAM_BYTES, address, clock, datagram_bytes, hardware, peers};
