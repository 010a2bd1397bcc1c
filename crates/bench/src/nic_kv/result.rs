//! What came of the measurements, beside the paper's figures.

use std::collections::BTreeMap;

use serde::Serialize;
use weft_kv::Operation;

use super::hbm::HbmAccess;
use super::occupancy::Occupancy;
use super::passages::{LeaderWrite, Passage};
use super::saturation::Saturation;
use super::{CYCLE_NS, MEMORY, NicKvBench, PAPER_NODES, paper};
use crate::result::{Checked, RunResult};
use crate::table::{Column, Table, grouped, microseconds, three_digits, with_prefix};

/// Cycles of the operations with values of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeRun {
    /// Bytes of the value.
    pub bytes: u32,
    /// A read at a follower.
    pub read: Passage,
    /// A write, acknowledged at acceptance.
    pub write: LeaderWrite,
    /// A write, acknowledged when it is in memory.
    pub write_after_memory: LeaderWrite,
}

/// A node under load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SaturationRun {
    /// Which load, in words.
    pub load: String,
    /// `get` or `put`.
    pub operation: &'static str,
    /// Nodes of the cluster.
    pub nodes: usize,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// What the node's way out can carry: answers, and copies for followers, each in a frame of its own.
    pub limit_operations_per_s: f64,
    /// Of that limit.
    pub fraction_of_limit: f64,
    /// What the node did.
    #[serde(flatten)]
    pub measured: Saturation,
}

impl SaturationRun {
    pub(super) fn new(
        load: &str,
        operation: Operation,
        nodes: usize,
        value_bytes: u32,
        limit: f64,
        measured: Saturation,
    ) -> Self {
        Self {
            load: load.into(),
            operation: if operation == Operation::Get { "get" } else { "put" },
            nodes,
            value_bytes,
            limit_operations_per_s: limit,
            fraction_of_limit: measured.operations_per_s / limit,
            measured,
        }
    }
}

/// A cluster of so many nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodesRun {
    /// How many.
    pub nodes: usize,
    /// A write on idle cards, acknowledged at acceptance.
    pub write: LeaderWrite,
    /// Leader writes under load.
    pub saturation: Option<SaturationRun>,
}

impl NodesRun {
    /// A leader write with the paper's MACs and without network: until the last copy has its acknowledgement.
    fn leader_write_ns(&self, bytes: u32) -> u64 {
        leader_parts(&self.write, bytes).total + self.write.copies_cycles * CYCLE_NS
    }
}

/// A cluster whose links lose frames.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LossRun {
    /// Share of frames that each link loses.
    pub loss_per_link: f64,
    /// Frames lost.
    pub frames_lost: u64,
    /// Operations measured.
    pub operations: u64,
    /// Per second.
    pub throughput_ops_per_s: f64,
    /// Half of the operations took at most this.
    pub p50_ns: u64,
    /// 99 % of the operations took at most this.
    pub p99_ns: u64,
    /// Whether the history is linearizable.
    pub checked: Checked,
    /// Acknowledged writes that a later read did not see.
    pub lost_acknowledged_writes: u64,
}

impl LossRun {
    pub(super) fn new(loss: f64, result: &RunResult) -> Self {
        Self {
            loss_per_link: loss,
            frames_lost: result.faults.get("loss").copied().unwrap_or_default(),
            operations: result.operations,
            throughput_ops_per_s: result.throughput_ops_per_s,
            p50_ns: result.p50_ns,
            p99_ns: result.p99_ns,
            checked: result.checked,
            lost_acknowledged_writes: result.lost_acknowledged_writes.unwrap_or_default(),
        }
    }
}

/// One client, with the engine on the NIC or on the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Placed {
    /// `nic` or `host`.
    pub engine_on: &'static str,
    /// Half of the gets took at most this.
    pub get_p50_ns: u64,
    /// Half of the puts, to the key's leader, took at most this.
    pub put_p50_ns: u64,
    /// Operations measured.
    pub operations: u64,
    /// Whether the history is linearizable.
    pub checked: Checked,
}

impl Placed {
    pub(super) fn new(engine_on: &'static str, result: &RunResult) -> Self {
        let p50 = |kind| result.by_operation.get(kind).map_or(0, |of| of.latency.summary.p50_ns);
        Self {
            engine_on,
            get_p50_ns: p50("get"),
            put_p50_ns: p50("put"),
            operations: result.operations,
            checked: result.checked,
        }
    }
}

/// A way through one card, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct WayNs {
    total: u64,
    mac: u64,
    replication: u64,
    memory: u64,
    mac_receive: u64,
    replication_receive: u64,
    replication_transmit: u64,
    mac_transmit: u64,
}

impl WayNs {
    fn new(passage: Passage, mac_receive: u64, mac_transmit: u64) -> Self {
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

    const fn paper(way: paper::Way) -> Self {
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
struct ReadNs {
    #[serde(flatten)]
    ours: WayNs,
    paper: WayNs,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct WriteNs {
    /// Acknowledged at acceptance.
    #[serde(flatten)]
    ours: WayNs,
    after_memory: WayNs,
    paper: WayNs,
}

/// A leader write, in nanoseconds: the parts of the leader and of the follower with their MACs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct LeaderWriteParts {
    total: u64,
    leader: u64,
    replica: u64,
    acknowledge: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<u64>,
    mac: u64,
    replication_leader: u64,
    replication_replica: u64,
    replication_acknowledge: u64,
    memory: u64,
}

impl LeaderWriteParts {
    const fn with_network(self) -> Self {
        let network = paper::leader_write::NETWORK;
        Self { total: self.total + network, network: Some(network), ..self }
    }

    const fn paper() -> Self {
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

/// The paper counts the MAC of a write three times alike: a whole value in, and 71 ns out.
fn leader_parts(write: &LeaderWrite, bytes: u32) -> LeaderWriteParts {
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
struct LeaderWriteNs {
    /// Acknowledged at acceptance.
    #[serde(flatten)]
    ours: LeaderWriteParts,
    after_memory: LeaderWriteParts,
    paper: LeaderWriteParts,
    #[serde(skip_serializing_if = "Option::is_none")]
    paper_network_column: Option<u64>,
}

/// The whole of replication, in nanoseconds: all but MAC and memory.
#[derive(Clone, Copy, Debug, Serialize)]
struct ReplicationPath {
    read: u64,
    write: u64,
    write_after_memory: u64,
    paper_read: u64,
    paper_write: u64,
}

/// A row of one of the paper's tables.
#[derive(Clone, Debug, Serialize)]
struct Row {
    row: String,
    unit: &'static str,
    /// Nothing where it was not measured.
    ours: Option<f64>,
    /// With acknowledgements after the memory, where that is another figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    ours_after_memory: Option<f64>,
    paper: Option<f64>,
}

/// One of the paper's tables.
#[derive(Clone, Debug, Serialize)]
struct PaperTable {
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    rows: Vec<Row>,
}

/// All that was measured. The order of the fields is the order in the file.
#[derive(Clone, Debug, Serialize)]
pub struct NicKvResult {
    bench: &'static str,
    nic: &'static str,
    cycle_ns: u64,
    value_bytes: u32,
    seed: u64,
    quick: bool,
    /// Whether the histories of the simulated clusters are linearizable, and the values of all answers were right.
    pub checked: Checked,
    replay: String,
    machine: &'static str,
    memory_read_cycles: u64,
    memory_write_cycles: u64,
    paper_nodes: usize,
    read_ns: Option<ReadNs>,
    write_ns: Option<WriteNs>,
    leader_write_without_network_ns: Option<LeaderWriteNs>,
    leader_write_with_network_ns: Option<LeaderWriteNs>,
    replication_path_ns: Option<ReplicationPath>,
    /// Idle cards, by size of the value.
    pub sizes: Vec<SizeRun>,
    /// The transport, by size of the message.
    pub hbm: Vec<HbmAccess>,
    tables: BTreeMap<&'static str, PaperTable>,
    /// The most that a node carries out.
    pub saturation: Vec<SaturationRun>,
    /// Latency against throughput.
    pub curve: Vec<SaturationRun>,
    /// From 2 to 8 nodes.
    pub nodes: Vec<NodesRun>,
    /// Links that lose frames.
    pub loss: Vec<LossRun>,
    /// The engine on the NIC and on the host.
    pub software: Vec<Placed>,
    /// Accesses of memory as the table fills up.
    pub occupancy: Vec<Occupancy>,
}

const MACHINE: &str =
    "Verilated: the gateware's cycles at 250 MHz; MAC and memory are models with the paper's latencies";

const HOST_NOTE: &str =
    "not measured: the host's bus is a model here, without the descriptors of the paper's DMA engine";

impl NicKvResult {
    pub(super) fn new(bench: &NicKvBench) -> Self {
        Self {
            bench: "nic-kv",
            nic: "rtl",
            cycle_ns: CYCLE_NS,
            value_bytes: bench.value_bytes,
            seed: bench.seed,
            quick: bench.quick,
            checked: Checked::NotChecked,
            replay: bench.replay.clone(),
            machine: MACHINE,
            memory_read_cycles: MEMORY.read_cycles,
            memory_write_cycles: MEMORY.write_cycles,
            paper_nodes: PAPER_NODES,
            read_ns: None,
            write_ns: None,
            leader_write_without_network_ns: None,
            leader_write_with_network_ns: None,
            replication_path_ns: None,
            sizes: Vec::new(),
            hbm: Vec::new(),
            tables: BTreeMap::new(),
            saturation: Vec::new(),
            curve: Vec::new(),
            nodes: Vec::new(),
            loss: Vec::new(),
            software: Vec::new(),
            occupancy: Vec::new(),
        }
    }

    /// Computes what follows from the measurements.
    pub(super) fn conclude(&mut self) {
        let verdicts =
            self.loss.iter().map(|run| run.checked).chain(self.software.iter().map(|run| run.checked));
        let verdicts: Vec<Checked> = verdicts.collect();
        let any = |verdict| verdicts.contains(&verdict);
        let lost = self.loss.iter().any(|run| run.lost_acknowledged_writes > 0);
        self.checked = if any(Checked::NotLinearizable) || lost {
            Checked::NotLinearizable
        } else if any(Checked::Undecided) {
            Checked::Undecided
        } else if verdicts.is_empty() {
            Checked::NotChecked
        } else {
            Checked::Linearizable
        };
        if let Some(run) = self.sizes.iter().find(|run| run.bytes == self.value_bytes).copied() {
            self.conclude_passages(&run);
        }
        self.conclude_hbm();
        self.conclude_software();
        for table in &paper::HOST_TABLES {
            let rows = size_rows(table, |_, _| None);
            let title = format!("{} (the paper's)", table.title);
            self.tables.insert(table.number, PaperTable { title, note: Some(HOST_NOTE), rows });
        }
    }

    fn conclude_passages(&mut self, run: &SizeRun) {
        let bytes = run.bytes;
        let read = WayNs::new(run.read, paper::MAC_SHORT, paper::mac_transmit(bytes));
        let write = |passage| WayNs::new(passage, paper::mac_receive(bytes), paper::MAC_SHORT);
        let (accepted, stored) = (write(run.write.replica), write(run.write_after_memory.replica));
        let (paper_read, paper_write) = (WayNs::paper(paper::READ), WayNs::paper(paper::WRITE));
        let parts = (leader_parts(&run.write, bytes), leader_parts(&run.write_after_memory, bytes));
        let with_network = (parts.0.with_network(), parts.1.with_network());
        let paper_parts = LeaderWriteParts::paper();
        self.read_ns = Some(ReadNs { ours: read, paper: paper_read });
        self.write_ns = Some(WriteNs { ours: accepted, after_memory: stored, paper: paper_write });
        self.leader_write_without_network_ns = Some(LeaderWriteNs {
            ours: parts.0,
            after_memory: parts.1,
            paper: paper_parts,
            paper_network_column: None,
        });
        self.leader_write_with_network_ns = Some(LeaderWriteNs {
            ours: with_network.0,
            after_memory: with_network.1,
            paper: paper_parts.with_network(),
            paper_network_column: Some(paper::leader_write::NETWORK_COLUMN),
        });
        self.replication_path_ns = Some(ReplicationPath {
            read: read.replication,
            write: accepted.replication,
            write_after_memory: stored.replication,
            paper_read: paper_read.replication,
            paper_write: paper_write.replication,
        });

        let both = |row: &str, ours: u64, after: u64, paper: u64| Row {
            row: row.into(),
            unit: "ns",
            ours: Some(ours as f64),
            ours_after_memory: Some(after as f64),
            paper: Some(paper as f64),
        };
        let one =
            |row: &str, ours: u64, paper: u64| Row { ours_after_memory: None, ..both(row, ours, 0, paper) };
        let mut add = |number, title: &str, note, rows| {
            self.tables.insert(number, PaperTable { title: title.into(), note, rows });
        };
        let whole = vec![
            one("read", read.total, paper_read.total),
            one("read: MAC", read.mac, paper_read.mac),
            one("read: replication", read.replication, paper_read.replication),
            one("read: memory", read.memory, paper_read.memory),
            both("write", accepted.total, stored.total, paper_write.total),
            both("write: MAC", accepted.mac, stored.mac, paper_write.mac),
            both("write: replication", accepted.replication, stored.replication, paper_write.replication),
            both("write: memory", accepted.memory, stored.memory, paper_write.memory),
        ];
        add("5.7", "reads, and writes to replicas", None, whole);
        let (receive, transmit) = (read.replication_receive, read.replication_transmit);
        let fine = vec![
            one("read: MAC, in", read.mac_receive, paper_read.mac_receive),
            one("read: MAC, out", read.mac_transmit, paper_read.mac_transmit),
            one("read: replication, in", receive, paper_read.replication_receive),
            one("read: replication, out", transmit, paper_read.replication_transmit),
            one("read: memory", read.memory, paper_read.memory),
            both("write: MAC, in", accepted.mac_receive, stored.mac_receive, paper_write.mac_receive),
            both("write: MAC, out", accepted.mac_transmit, stored.mac_transmit, paper_write.mac_transmit),
            both(
                "write: replication, in",
                accepted.replication_receive,
                stored.replication_receive,
                paper_write.replication_receive,
            ),
            both(
                "write: replication, out",
                accepted.replication_transmit,
                stored.replication_transmit,
                paper_write.replication_transmit,
            ),
            both("write: memory", accepted.memory, stored.memory, paper_write.memory),
        ];
        let note =
            "a write that is acknowledged at acceptance waits for no memory: all its cycles stand under `in`";
        add("5.8", "reads, and writes to replicas, by part", Some(note), fine);
        let leader = vec![
            both("leader", parts.0.leader, parts.1.leader, paper_parts.leader),
            both("replica", parts.0.replica, parts.1.replica, paper_parts.replica),
            both("leader, write ack", parts.0.acknowledge, parts.1.acknowledge, paper_parts.acknowledge),
            both("without network", parts.0.total, parts.1.total, paper_parts.total),
            both(
                "with network",
                with_network.0.total,
                with_network.1.total,
                paper::leader_write::WITH_NETWORK,
            ),
            Row {
                ours: None,
                ours_after_memory: None,
                ..one("network, the paper's own column", 0, paper::leader_write::NETWORK_COLUMN)
            },
        ];
        let note = "the network is what the paper's two totals differ by, 576 ns; its column says 952 ns";
        add("5.9", "leader writes, one follower", Some(note), leader);
        let leader_path = |parts: &LeaderWriteParts| parts.replication_leader + parts.replication_acknowledge;
        let rows = [
            ("read", (read.replication, read.memory), None, paper::added::READ),
            (
                "write",
                (accepted.replication, accepted.memory),
                Some((stored.replication, stored.memory)),
                paper::added::WRITE,
            ),
            (
                "write to leader",
                (leader_path(&parts.0), parts.0.memory),
                Some((leader_path(&parts.1), parts.1.memory)),
                paper::added::LEADER_WRITE,
            ),
        ];
        let rows = rows.into_iter().flat_map(|(name, ours, after, paper)| {
            let value = |of: fn((u64, u64)) -> u64, part: &str| Row {
                row: format!("{name}: {part}"),
                unit: "ns",
                ours: Some(of(ours) as f64),
                ours_after_memory: after.map(|after| of(after) as f64),
                paper: Some(of(paper) as f64),
            };
            [
                value(|(replication, _)| replication, "replication"),
                value(|(_, memory)| memory, "memory"),
                value(|(replication, memory)| replication + memory, "total added"),
            ]
        });
        let rows = rows.collect();
        let note = "as in the paper, a write to a leader has the leader's two ways and the replica's memory";
        add("5.11", "latency added by replication and memory", Some(note), rows);
    }

    fn conclude_hbm(&mut self) {
        if self.hbm.is_empty() {
            return;
        }
        let accesses = self.hbm.clone();
        let of = |bytes: u32| accesses.iter().find(|access| access.bytes == bytes);
        let value = |column: &str, bytes: u32| {
            let access = of(bytes)?;
            let gateware = |all: u64, memory: u64| (all - memory) * CYCLE_NS;
            let write = gateware(access.write_cycles, access.write_memory_cycles);
            let read = gateware(access.read_cycles, access.read_memory_cycles);
            let (write_memory, read_memory) =
                (access.write_memory_cycles * CYCLE_NS, access.read_memory_cycles * CYCLE_NS);
            Some(match column {
                "write" => paper::mac_receive(bytes) + write + write_memory,
                "read" => paper::mac_transmit(bytes) + read + read_memory,
                "write: MAC" => paper::mac_receive(bytes),
                "write: mover" => write,
                "write: HBM" => write_memory,
                "read: HBM" => read_memory,
                "read: mover" => read,
                "read: MAC" => paper::mac_transmit(bytes),
                other => unreachable!("{other} is no column"),
            })
        };
        let note = "ours: the MAC is the paper's, HBM the model's (a write's last word to its response, a read's address to its first \
                    word), the mover RDMA WRITE and READ in gates, all words included; a WRITE ends with its acknowledgement";
        for table in &paper::HBM_TABLES {
            let rows = size_rows(table, value);
            let title = table.title.into();
            self.tables.insert(table.number, PaperTable { title, note: Some(note), rows });
        }
    }

    fn conclude_software(&mut self) {
        let [hardware, software] = &self.software[..] else { return };
        let us = |ns: u64| Some(ns as f64 / 1e3);
        let row = |row: &str, ours, paper| Row {
            row: row.into(),
            unit: "us",
            ours,
            ours_after_memory: None,
            paper: Some(paper),
        };
        let total = |way: paper::Way| way.total() as f64 / 1e3;
        let rows = vec![
            row("read: software", us(software.get_p50_ns), paper::software_us::READ),
            row("read: hardware", us(hardware.get_p50_ns), total(paper::READ)),
            row("write to replica: software", None, paper::software_us::WRITE),
            row("write to replica: hardware", None, total(paper::WRITE)),
            row("write to leader: software", us(software.put_p50_ns), paper::software_us::LEADER_WRITE),
            row(
                "write to leader: hardware",
                us(hardware.put_p50_ns),
                paper::leader_write::WITHOUT_NETWORK as f64 / 1e3,
            ),
        ];
        let note = "ours: what a client sees in a cluster of three behind a switch, links included; software is the same \
                    protocol on the host behind the same card; clients do not see writes to replicas";
        let title = "replication in software and in hardware".into();
        self.tables.insert("5.13", PaperTable { title, note: Some(note), rows });
    }

    /// The result for people.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "nic-kv  values of {} bytes, {MACHINE}\n        a follower acknowledges at acceptance into its window; \
             `after memory`: when the write is in memory too\n",
            self.value_bytes
        );
        for number in ["5.7", "5.8", "5.9", "5.11", "5.13"] {
            if let Some(table) = self.tables.get(number) {
                text += &format!("\ntable {number}: {}\n{}", table.title, table.to_text());
            }
        }
        for table in &paper::HBM_TABLES {
            text += &self.tables.get(table.number).map_or(String::new(), |ours| ours.by_size_text(table));
        }
        text += &format!("\ntables 5.1, 5.2, 5.5 and 5.6 {HOST_NOTE}; the paper's figures are in the JSON\n");
        text += &self.sizes_text();
        text += &loads_text("saturation", &self.saturation);
        text += &loads_text("latency against throughput", &self.curve);
        text += &self.nodes_text();
        text += &self.loss_text();
        text += &self.occupancy_text();
        text
    }

    fn sizes_text(&self) -> String {
        if self.sizes.is_empty() {
            return String::new();
        }
        let mut table = Table::new([
            Column::numbers("value", "bytes"),
            Column::numbers("read", ""),
            Column::numbers("its memory", ""),
            Column::numbers("leader", ""),
            Column::numbers("replica", ""),
            Column::numbers("write ack", ""),
            Column::numbers("replica, after memory", ""),
            Column::numbers("its memory", ""),
        ]);
        for run in &self.sizes {
            let stored = run.write_after_memory.replica;
            table.row(
                [
                    u64::from(run.bytes),
                    run.read.replication_cycles(),
                    run.read.memory_cycles,
                    run.write.leader.replication_cycles(),
                    run.write.replica.replication_cycles(),
                    run.write.acknowledge.replication_cycles(),
                    stored.replication_cycles(),
                    stored.memory_cycles,
                ]
                .map(grouped),
            );
        }
        format!("\nreplication on idle cards, in cycles of {CYCLE_NS} ns, without MAC and memory\n{table}")
    }

    fn occupancy_text(&self) -> String {
        if self.occupancy.is_empty() {
            return String::new();
        }
        let mut table = Table::new([
            Column::numbers("slots used", "%"),
            Column::numbers("keys", ""),
            Column::numbers("puts refused", ""),
            Column::numbers("hits", ""),
            Column::numbers("in one access", "%"),
            Column::numbers("misses", ""),
        ]);
        for row in &self.occupancy {
            table.row([
                three_digits(100.0 * row.occupancy),
                grouped(row.keys),
                grouped(row.refused_full),
                grouped(row.hits),
                three_digits(100.0 * row.share_in_one_access),
                grouped(row.misses),
            ]);
        }
        format!("\na table that fills up: every value was the one written, every miss was told\n{table}")
    }

    fn nodes_text(&self) -> String {
        if self.nodes.is_empty() {
            return String::new();
        }
        let mut table = Table::new([
            Column::numbers("nodes", ""),
            Column::numbers("leader write", "ns"),
            Column::numbers("leader", "cycles"),
            Column::numbers("first to last copy", "cycles"),
            Column::numbers("replica", "cycles"),
            Column::numbers("write ack", "cycles"),
            Column::numbers("saturated", "writes/s"),
            Column::numbers("of the limit", "%"),
        ]);
        for run in &self.nodes {
            let load = run.saturation.as_ref();
            table.row([
                run.nodes.to_string(),
                grouped(run.leader_write_ns(self.value_bytes)),
                run.write.leader.replication_cycles().to_string(),
                run.write.copies_cycles.to_string(),
                run.write.replica.replication_cycles().to_string(),
                run.write.acknowledge.replication_cycles().to_string(),
                load.map_or("-".into(), |load| with_prefix(load.measured.operations_per_s)),
                load.map_or("-".into(), |load| three_digits(100.0 * load.fraction_of_limit)),
            ]);
        }
        format!("\nleader writes of {} bytes by nodes, without network\n{table}", self.value_bytes)
    }

    fn loss_text(&self) -> String {
        if self.loss.is_empty() {
            return String::new();
        }
        let mut table = Table::new([
            Column::numbers("loss per link", "%"),
            Column::numbers("frames lost", ""),
            Column::numbers("operations", ""),
            Column::numbers("throughput", "ops/s"),
            Column::numbers("p50", "µs"),
            Column::numbers("p99", "µs"),
            Column::words("checked"),
        ]);
        for run in &self.loss {
            table.row([
                format!("{}", 100.0 * run.loss_per_link),
                grouped(run.frames_lost),
                grouped(run.operations),
                with_prefix(run.throughput_ops_per_s),
                microseconds(run.p50_ns),
                microseconds(run.p99_ns),
                run.checked.to_string(),
            ]);
        }
        format!("\nlosses, ycsb-a, three nodes with engines in gates, 16 clients\n{table}")
    }
}

impl PaperTable {
    /// A table by size: a line for each size, and of each column first ours, then the paper's.
    fn by_size_text(&self, paper: &paper::SizeTable) -> String {
        let mut columns = vec![Column::numbers("bytes", "")];
        for column in paper.columns {
            columns.extend([Column::numbers(column.column, ""), Column::numbers("paper", "")]);
        }
        let mut table = Table::new(columns);
        let rows = self.rows.len() / paper.columns.len();
        for (at, bytes) in paper::SIZES.iter().enumerate().take(rows) {
            let cell = |value: Option<f64>| value.map_or("-".into(), |ns| grouped(ns as u64));
            let of_size = self.rows.iter().skip(at).step_by(rows);
            let cells = of_size.flat_map(|row| [cell(row.ours), cell(row.paper)]);
            table.row([grouped(u64::from(*bytes))].into_iter().chain(cells));
        }
        let note = self.note.unwrap_or_default();
        format!("\ntable {}: {}, in ns\n{table}  {note}\n", paper.number, self.title)
    }

    fn to_text(&self) -> String {
        let has_modes = self.rows.iter().any(|row| row.ours_after_memory.is_some());
        let unit = self.rows.first().map_or("", |row| row.unit);
        let mut columns = vec![Column::words(""), Column::numbers("weft", unit)];
        columns.extend(has_modes.then(|| Column::numbers("after memory", unit)));
        columns.push(Column::numbers("paper", unit));
        let mut table = Table::new(columns);
        let cell = |value: Option<f64>| match value {
            None => "-".to_owned(),
            Some(value) if value.fract() == 0.0 && unit == "ns" => grouped(value as u64),
            Some(value) => three_digits(value),
        };
        for row in &self.rows {
            let mut cells = vec![row.row.clone(), cell(row.ours)];
            cells.extend(has_modes.then(|| cell(row.ours_after_memory)));
            cells.push(cell(row.paper));
            table.row(cells);
        }
        match self.note {
            Some(note) => format!("{table}  {note}\n"),
            None => table.to_string(),
        }
    }
}

fn loads_text(title: &str, loads: &[SaturationRun]) -> String {
    if loads.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        Column::words("load"),
        Column::numbers("value", "bytes"),
        Column::numbers("nodes", ""),
        Column::numbers("outstanding", ""),
        Column::numbers("throughput", "ops/s"),
        Column::numbers("of the limit", "%"),
        Column::numbers("p50", "ns"),
        Column::numbers("p99", "ns"),
    ]);
    for load in loads {
        table.row([
            load.load.clone(),
            load.value_bytes.to_string(),
            load.nodes.to_string(),
            load.measured.outstanding.to_string(),
            with_prefix(load.measured.operations_per_s),
            three_digits(100.0 * load.fraction_of_limit),
            grouped(load.measured.p50_ns),
            grouped(load.measured.p99_ns),
        ]);
    }
    format!("\n{title}: one node on 100 Gb/s, frames' time on the wire included\n{table}")
}

/// The rows of a table by size, a row for each of its cells.
fn size_rows(table: &paper::SizeTable, ours: impl Fn(&str, u32) -> Option<u64>) -> Vec<Row> {
    let cells = table.columns.iter().flat_map(|column| {
        let cells = paper::SIZES.iter().zip(column.ns);
        cells.map(|(&bytes, &ns)| (column.column, bytes, ns))
    });
    let row = |(column, bytes, ns): (&str, u32, u64)| Row {
        row: format!("{column}, {bytes} bytes"),
        unit: "ns",
        ours: ours(column, bytes).map(|ns| ns as f64),
        ours_after_memory: None,
        paper: Some(ns as f64),
    };
    cells.map(row).collect()
}

#[cfg(test)]
pub(super) fn example() -> NicKvResult {
    let bench = NicKvBench {
        value_bytes: 1_024,
        quick: true,
        seed: 7,
        parts: Vec::new(),
        replay: "weft bench nic-kv --seed 7".into(),
    };
    let passage = |receive_cycles, memory_cycles, transmit_cycles| Passage {
        receive_cycles,
        memory_cycles,
        transmit_cycles,
    };
    let write = |replica| LeaderWrite {
        leader: passage(20, 0, 0),
        copies_cycles: 0,
        replica,
        acknowledge: passage(18, 0, 0),
        whole_cycles: 90,
    };
    let measured = Saturation {
        outstanding: 1,
        operations: 10,
        measured_ns: 10_000,
        refused: 0,
        repeated: 0,
        operations_per_s: 1e6,
        wire_bytes_out_per_operation: 1_154.0,
        link_out_share: 0.09,
        p50_ns: 900,
        p99_ns: 1_000,
    };
    let load = SaturationRun::new("gets", Operation::Get, 1, 1_024, 1e7, measured);
    let mut result = NicKvResult::new(&bench);
    result.sizes = vec![SizeRun {
        bytes: 1_024,
        read: passage(13, 94, 9),
        write: write(passage(22, 0, 0)),
        write_after_memory: write(passage(12, 96, 9)),
    }];
    result.hbm = vec![HbmAccess {
        bytes: 128,
        write_cycles: 120,
        write_memory_cycles: 96,
        read_cycles: 130,
        read_memory_cycles: 94,
    }];
    result.saturation = vec![load.clone()];
    result.curve = vec![load];
    result.nodes = vec![NodesRun { nodes: 2, write: write(passage(22, 0, 0)), saturation: None }];
    result.loss = vec![LossRun {
        loss_per_link: 0.01,
        frames_lost: 3,
        operations: 100,
        throughput_ops_per_s: 1e6,
        p50_ns: 3_000,
        p99_ns: 100_000,
        checked: Checked::Linearizable,
        lost_acknowledged_writes: 0,
    }];
    let placed = |engine_on, get_p50_ns, put_p50_ns| Placed {
        engine_on,
        get_p50_ns,
        put_p50_ns,
        operations: 10,
        checked: Checked::Linearizable,
    };
    result.software = vec![placed("nic", 1_500, 3_000), placed("host", 9_000, 20_000)];
    result.conclude();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_promised_keys_are_there() {
        let json: serde_json::Value = serde_json::from_str(&crate::result::to_json(&example())).unwrap();
        assert_eq!(
            (&json["bench"], &json["nic"], &json["cycle_ns"]),
            (&"nic-kv".into(), &"rtl".into(), &4.into())
        );
        assert_eq!(json["checked"], "linearizable");
        // 71 + 154 for the MAC, 22 cycles, 376 for the memory.
        assert_eq!(json["read_ns"]["total"], 71 + 154 + 88 + 376);
        assert_eq!(json["read_ns"]["paper"]["total"], 873);
        assert_eq!(json["write_ns"]["total"], 188 + 88);
        assert_eq!(json["write_ns"]["after_memory"]["total"], 188 + 84 + 384);
        assert_eq!(json["write_ns"]["paper"]["total"], 856);
        let without = &json["leader_write_without_network_ns"];
        assert_eq!(without["total"], 3 * 188 + (20 + 22 + 18) * 4);
        assert_eq!(without["after_memory"]["total"], 3 * 188 + (20 + 21 + 18) * 4 + 384);
        assert_eq!(without["paper"]["total"], 1_776);
        let with = &json["leader_write_with_network_ns"];
        assert_eq!(with["total"], without["total"].as_u64().unwrap() + 576);
        assert_eq!((&with["paper"]["total"], &with["paper_network_column"]), (&2_352.into(), &952.into()));
        assert_eq!(
            (&json["replication_path_ns"]["read"], &json["replication_path_ns"]["write"]),
            (&88.into(), &88.into())
        );
        for number in ["5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "5.8", "5.9", "5.11", "5.13"] {
            let rows = json["tables"][number]["rows"].as_array().unwrap();
            assert!(rows.iter().all(|row| row["paper"].as_f64().is_some()), "{number}");
        }
        for key in ["saturation", "curve", "nodes", "loss", "software", "sizes", "hbm"] {
            assert!(!json[key].as_array().unwrap().is_empty(), "{key}");
        }
    }

    #[test]
    fn the_papers_column_adds_up() {
        let paper = LeaderWriteParts::paper();
        let replication =
            paper.replication_leader + paper.replication_replica + paper.replication_acknowledge;
        assert_eq!(paper.mac + replication + paper.memory, paper.total);
        assert_eq!(paper.with_network().total, 2_352);
    }

    #[test]
    fn people_see_both_columns() {
        let text = example().to_text();
        for expected in ["table 5.7", "table 5.13", "1,776", "after memory", "not measured", "losses"] {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
        }
        assert_eq!(text.lines().filter(|line| line.starts_with("table 5.3")).count(), 1);
        // Of 128 bytes: the MAC's 73, 24 cycles of gateware, 96 of memory; and the paper's.
        let line =
            text.lines().find(|line| line.trim_start().starts_with("128 ")).expect("a line of table 5.3");
        assert_eq!(line.split_whitespace().collect::<Vec<_>>()[..3], ["128", "553", "261"]);
    }

    #[test]
    fn a_lost_write_is_a_violation() {
        let mut result = example();
        result.loss[0].lost_acknowledged_writes = 1;
        result.conclude();
        assert_eq!(result.checked, Checked::NotLinearizable);
    }
}
