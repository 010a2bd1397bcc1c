//! Paths through cards, in nanoseconds, beside the paper's.

use super::*;

/// The path of an operation through one card, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct WayNs {
    pub(super) total: u64,
    pub(super) mac: u64,
    pub(super) replication: u64,
    pub(super) memory: u64,
    pub(super) mac_receive: u64,
    pub(super) replication_receive: u64,
    pub(super) replication_transmit: u64,
    pub(super) mac_transmit: u64,
}

impl WayNs {
    pub(super) fn new(passage: Passage, mac_receive: u64, mac_transmit: u64) -> Self {
        let Passage { receive_cycles, memory_cycles, transmit_cycles } = passage;
        let mac = mac_receive + mac_transmit;
        let [receive, memory, transmit] =
            [receive_cycles, memory_cycles, transmit_cycles].map(|cycles| cycles * CYCLE_NS);
        Self {
            total: mac + receive + memory + transmit,
            mac,
            replication: receive + transmit,
            memory,
            mac_receive,
            replication_receive: receive,
            replication_transmit: transmit,
            mac_transmit,
        }
    }

    pub(super) const fn paper(way: paper::Way) -> Self {
        Self {
            total: way.total(),
            mac: way.mac(),
            replication: way.replication(),
            memory: way.memory,
            mac_receive: way.mac_receive,
            replication_receive: way.replication_receive,
            replication_transmit: way.replication_transmit,
            mac_transmit: way.mac_transmit,
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ReadNs {
    #[serde(flatten)]
    pub(super) ours: WayNs,
    pub(super) paper: WayNs,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct WriteNs {
    /// Path if followers acknowledge at acceptance.
    #[serde(flatten)]
    pub(super) ours: WayNs,
    pub(super) after_memory: WayNs,
    pub(super) paper: WayNs,
}

/// A write at a leader, in nanoseconds. The parts of the leader and of the follower include their MACs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct LeaderWriteParts {
    pub(super) total: u64,
    pub(super) leader: u64,
    pub(super) replica: u64,
    pub(super) acknowledge: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) network: Option<u64>,
    pub(super) mac: u64,
    pub(super) replication_leader: u64,
    pub(super) replication_replica: u64,
    pub(super) replication_acknowledge: u64,
    pub(super) memory: u64,
}

impl LeaderWriteParts {
    pub(super) const fn with_network(self) -> Self {
        let network = paper::leader_write::NETWORK;
        Self { total: self.total + network, network: Some(network), ..self }
    }

    pub(super) const fn paper() -> Self {
        use paper::leader_write::{ACKNOWLEDGE, LEADER, REPLICA, WITHOUT_NETWORK};
        let mac = paper::WRITE.mac();
        Self {
            total: WITHOUT_NETWORK,
            leader: LEADER,
            replica: REPLICA,
            acknowledge: ACKNOWLEDGE,
            network: None,
            mac: 3 * mac,
            replication_leader: LEADER - mac,
            replication_replica: paper::WRITE.replication(),
            replication_acknowledge: ACKNOWLEDGE - mac,
            memory: paper::WRITE.memory,
        }
    }
}

/// The parts of a leader's write. As in the paper, each of the three passages has the MAC times of a write: a
/// frame with the value in, and 71 ns out.
pub(super) fn leader_parts(write: &LeaderWrite, bytes: u32) -> LeaderWriteParts {
    let way = |passage| WayNs::new(passage, paper::mac_receive(bytes), paper::MAC_SHORT);
    let (leader, replica, acknowledge) = (way(write.leader), way(write.replica), way(write.acknowledge));
    LeaderWriteParts {
        total: leader.total + replica.total + acknowledge.total,
        leader: leader.total,
        replica: replica.total,
        acknowledge: acknowledge.total,
        network: None,
        mac: leader.mac + replica.mac + acknowledge.mac,
        replication_leader: leader.replication,
        replication_replica: replica.replication,
        replication_acknowledge: acknowledge.replication,
        memory: replica.memory,
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct LeaderWriteNs {
    /// Parts if followers acknowledge at acceptance.
    #[serde(flatten)]
    pub(super) ours: LeaderWriteParts,
    pub(super) after_memory: LeaderWriteParts,
    pub(super) paper: LeaderWriteParts,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) paper_network_column: Option<u64>,
}

/// Replication in total, in nanoseconds: everything but MAC and memory.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ReplicationPath {
    pub(super) read: u64,
    pub(super) write: u64,
    pub(super) write_after_memory: u64,
    pub(super) paper_read: u64,
    pub(super) paper_write: u64,
}
