//! Results of the measurements, beside the paper's figures.

mod runs;
#[cfg(test)]
mod tests;
mod text;
mod ways;

use std::collections::BTreeMap;

use serde::Serialize;
use weft_kv::Operation;

pub use runs::{LossRun, NodesRun, Placed, SaturationRun, SizeRun};
#[cfg(test)]
pub(super) use tests::example;

use weft_results::table::{Column, Table, grouped, microseconds, three_digits, with_prefix};
use weft_results::{Checked, RunResult};

use self::ways::{LeaderWriteNs, LeaderWriteParts, ReadNs, ReplicationPath, WayNs, WriteNs, leader_parts};
use super::hbm::HbmAccess;
use super::occupancy::Occupancy;
use super::passages::{LeaderWrite, Passage};
use super::saturation::Saturation;
use super::{CYCLE_NS, MEMORY, NicKvBench, PAPER_NODES, paper};

/// A row of one of the paper's tables.
#[derive(Clone, Debug, Serialize)]
struct Row {
    row: String,
    unit: &'static str,
    /// `None` if it was not measured.
    ours: Option<f64>,
    /// The figure with acknowledgements after the memory access, if it differs.
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

/// All results. The order of the fields is their order in the file.
#[derive(Clone, Debug, Serialize)]
pub struct NicKvResult {
    bench: &'static str,
    nic: &'static str,
    cycle_ns: u64,
    value_bytes: u32,
    seed: u64,
    quick: bool,
    /// Whether the histories of the simulated clusters are linearizable. That all answers had the right values was
    /// checked during the measurements.
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
    /// Cycles on idle cards, by value size.
    pub sizes: Vec<SizeRun>,
    /// Latencies of the transport into HBM, by message size.
    pub hbm: Vec<HbmAccess>,
    tables: BTreeMap<&'static str, PaperTable>,
    /// Highest throughputs of a node.
    pub saturation: Vec<SaturationRun>,
    /// Latency at different throughputs.
    pub curve: Vec<SaturationRun>,
    /// Writes in clusters of 2 to 8 nodes.
    pub nodes: Vec<NodesRun>,
    /// Runs whose links lose frames.
    pub loss: Vec<LossRun>,
    /// The engine on the NIC and on the host.
    pub software: Vec<Placed>,
    /// Memory accesses of reads, as the table fills.
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

    /// Derives the summary from the measurements.
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
}

/// The rows that compare a table of the paper, one for each of its cells.
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
