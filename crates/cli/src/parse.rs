//! Parsers for values of options. The error of each parser names the valid values.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use weft_bench::rdt::TypeName;
use weft_bench::rounds::{GATES_MEMBERS_MAX, GATES_PROPOSAL_BYTES_MAX, GATES_WINDOW};
use weft_kv::ReadPolicy;
use weft_perftest::Congestion;
use weft_rdt::replica::FOLD_MAX;
use weft_results::NicModel;
use weft_results::World;
use weft_rounds::{MEMBERS_MAX, Quorums};
use weft_time::Duration;
use weft_waist::{NODES_MAX, NodeId, NodeSet};
use weft_workload::{MIN_VALUE_BYTES, Workload};

use crate::failure::Failure;

/// The longest run, in seconds.
const SECONDS_MAX: f64 = 600.0;
/// The longest values for which the stores of the benchmarks have room.
const VALUE_BYTES_MAX: usize = 1_024;
/// The most records. With long values, each node's table needs several KiB for each record.
const RECORDS_MAX: u64 = 1_000_000;
/// The most keys of a data type. For each key, each replica, its reference model and the distribution of accesses need
/// dozens of bytes.
const KEYS_MAX: usize = 10_000_000;

/// Rejects an option that needs the gateware if this program was built without it.
pub(crate) fn gateware() -> Result<(), String> {
    if weft_bench::GATEWARE {
        return Ok(());
    }
    Err("this weft was built without the gateware, which needs Verilator; `make build` builds it with it"
        .into())
}

/// `soft` or `rtl`.
pub(crate) fn nic(name: &str) -> Result<NicModel, String> {
    match name {
        "soft" => Ok(NicModel::Soft),
        "rtl" => gateware().map(|()| NicModel::Rtl),
        _ => Err(format!("there is no NIC `{name}`; choose soft or rtl (the gateware, cycle by cycle)")),
    }
}

/// `none` or `dcqcn`.
pub(crate) fn congestion(name: &str) -> Result<Congestion, String> {
    match name {
        "none" => Ok(Congestion::None),
        "dcqcn" => Ok(Congestion::Dcqcn),
        _ => Err(format!("there is no congestion control `{name}`; choose none or dcqcn")),
    }
}

/// `sim` or `net`.
pub(crate) fn world(name: &str) -> Result<World, String> {
    match name {
        "sim" => Ok(World::Sim),
        "net" => Ok(World::Net),
        _ => Err(format!("there is no world `{name}`; choose sim (virtual time) or net (real sockets)")),
    }
}

/// The name of a known workload.
pub(crate) fn workload(name: &str) -> Result<String, String> {
    Workload::parse(name).map(|workload| workload.name().to_owned()).map_err(|error| error.to_string())
}

/// Numbers of nodes, separated by commas.
pub(crate) fn node_set(text: &str) -> Result<NodeSet, String> {
    let node = |number: &str| number.trim().parse().ok().and_then(NodeId::new);
    let nodes: Option<NodeSet> = text.split(',').map(node).collect();
    nodes.ok_or_else(|| format!("nodes are numbers from 0 to {}, separated by commas, as 0,2", NODES_MAX - 1))
}

/// Number of nodes of a cluster.
pub(crate) fn nodes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(nodes) if (1..=NODES_MAX).contains(&nodes) => Ok(nodes),
        _ => Err(format!("a cluster has 1 to {NODES_MAX} nodes")),
    }
}

/// Number of nodes of rounds, a replicated log or a data type.
pub(crate) fn members(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(nodes) if (2..=MEMBERS_MAX).contains(&nodes) => Ok(nodes),
        _ => Err(format!("choose 2 to {MEMBERS_MAX} nodes")),
    }
}

/// The number of consensus instances in flight.
pub(crate) fn window(text: &str) -> Result<u64, String> {
    match text {
        "4" => Ok(4),
        "8" => Ok(8),
        _ => Err("a window has 4 or 8 instances".into()),
    }
}

/// The window that the user has chosen, or the smallest for this number of nodes. An instance takes as many rounds as
/// nodes may fail, and two more, and each round begins an instance.
pub(crate) fn window_for(window: Option<u64>, nodes: usize) -> Result<u64, Failure> {
    let needed = Quorums::tolerated(nodes) as u64 + 2;
    match window {
        Some(window) if window < needed => Err(Failure::new(format!(
            "{nodes} nodes need {needed} rounds for an instance, more than a window of {window}; choose --window 8"
        ))),
        Some(window) => Ok(window),
        None => Ok(if needed <= 4 { 4 } else { 8 }),
    }
}

/// Number of replicas in a cluster that tolerates failures.
pub(crate) fn replicas(text: &str) -> Result<usize, String> {
    members(text).ok().filter(|nodes| *nodes >= 3).ok_or_else(|| format!("choose 3 to {MEMBERS_MAX} nodes"))
}

/// Skew of a Zipf distribution.
pub(crate) fn skew(text: &str) -> Result<f64, String> {
    let skew = text.parse().ok().filter(|skew| (0.0..=2.0).contains(skew));
    skew.ok_or_else(|| "choose a skew from 0 to 2".into())
}

/// The name of a data type that has keys.
pub(crate) fn keyed_type(text: &str) -> Result<TypeName, String> {
    let name: TypeName = text.parse()?;
    if name.class() == "keyed" {
        Ok(name)
    } else {
        Err(format!("{name} has no keys; choose ycsb or smallbank"))
    }
}

/// The number of updates that are folded into one message.
pub(crate) fn fold(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(calls) if (1..=FOLD_MAX).contains(&calls) => Ok(calls),
        _ => Err(format!("give 1 to {FOLD_MAX} updates")),
    }
}

/// Nanoseconds that are a whole number of clock cycles.
pub(crate) fn cycles(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(ns) if ns.is_multiple_of(4) && (32..=1_000_000).contains(&ns) => Ok(ns),
        _ => Err("give 32 to 1000000 ns, a multiple of 4: whole cycles of 250 MHz".into()),
    }
}

/// Rejects sizes that are too large for the engines in gateware.
pub(crate) fn fit_into_gates(nic: NicModel, nodes: usize, window: u64, bytes: usize) -> Result<(), Failure> {
    let (nodes_max, bytes_max) = (GATES_MEMBERS_MAX, GATES_PROPOSAL_BYTES_MAX);
    if nic == NicModel::Rtl && (nodes > nodes_max || window != GATES_WINDOW || bytes > bytes_max) {
        return Err(Failure::new(format!(
            "engines in gates have a window of {GATES_WINDOW}, up to {nodes_max} nodes and proposals of {bytes_max} bytes; choose --nic soft for more"
        )));
    }
    Ok(())
}

/// A whole number, at least one.
pub(crate) fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("give a whole number, at least 1".into()),
    }
}

/// Number of records or accounts of a data type; its maximum bounds the memory that they need.
pub(crate) fn keys(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(keys) if (1..=KEYS_MAX).contains(&keys) => Ok(keys),
        _ => Err(format!("give 1 to {KEYS_MAX} keys")),
    }
}

/// Length of values in bytes, within the range of the benchmarks' stores.
pub(crate) fn value_bytes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes) if (MIN_VALUE_BYTES..=VALUE_BYTES_MAX).contains(&bytes) => Ok(bytes),
        _ => Err(format!(
            "give {MIN_VALUE_BYTES} to {VALUE_BYTES_MAX} bytes: shorter values could not all differ"
        )),
    }
}

/// Number of records; its maximum bounds the memory that they need.
pub(crate) fn records(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(records) if (1..=RECORDS_MAX).contains(&records) => Ok(records),
        _ => Err(format!("give 1 to {RECORDS_MAX} records")),
    }
}

/// The nodes at which clients read.
pub(crate) fn reads(name: &str) -> Result<ReadPolicy, String> {
    match name {
        "any" => Ok(ReadPolicy::AnyReplica),
        "leader" => Ok(ReadPolicy::Leader),
        _ => Err(format!("there are no reads at `{name}`; choose any (every full replica) or leader")),
    }
}

/// The name of a read policy, which [`reads`] parses back.
pub(crate) fn reads_name(reads: ReadPolicy) -> &'static str {
    match reads {
        ReadPolicy::Leader => "leader",
        ReadPolicy::AnyReplica | ReadPolicy::Prefer(_) => "any",
    }
}

/// Finds a planted bug of replicated data types by its name.
#[cfg(feature = "planted-bugs")]
pub(crate) fn planted_rdt_bug(name: &str) -> Result<weft_rdt::replica::PlantedBug, String> {
    use weft_rdt::replica::PlantedBug;
    PlantedBug::ALL.into_iter().find(|bug| bug.name() == name).ok_or_else(|| {
        let names = PlantedBug::ALL.map(PlantedBug::name).join(", ");
        format!("there is no planted bug `{name}`; choose one of {names}")
    })
}

/// Finds a planted bug of the locks by its name.
#[cfg(feature = "planted-bugs")]
pub(crate) fn planted_lock_bug(name: &str) -> Result<weft_lock::PlantedBug, String> {
    weft_lock::PlantedBug::ALL.into_iter().find(|bug| bug.name() == name).ok_or_else(|| {
        let names = weft_lock::PlantedBug::ALL.map(weft_lock::PlantedBug::name).join(", ");
        format!("there is no planted bug `{name}`; choose one of {names}")
    })
}

/// Finds a planted bug of the rounds by its name.
#[cfg(feature = "planted-bugs")]
pub(crate) fn planted_rounds_bug(name: &str) -> Result<weft_rounds::PlantedBug, String> {
    weft_rounds::PlantedBug::ALL.into_iter().find(|bug| bug.name() == name).ok_or_else(|| {
        let names = weft_rounds::PlantedBug::ALL.map(weft_rounds::PlantedBug::name).join(", ");
        format!("there is no planted bug `{name}`; choose one of {names}")
    })
}

/// Finds a planted bug of the replicated log by its name.
#[cfg(feature = "planted-bugs")]
pub(crate) fn planted_smr_bug(name: &str) -> Result<weft_smr::PlantedBug, String> {
    weft_smr::PlantedBug::ALL.into_iter().find(|bug| bug.name() == name).ok_or_else(|| {
        let names = weft_smr::PlantedBug::ALL.map(weft_smr::PlantedBug::name).join(", ");
        format!("there is no planted bug `{name}`; choose one of {names}")
    })
}

/// Finds a planted bug of transactions by its name.
#[cfg(feature = "planted-bugs")]
pub(crate) fn planted_txn_bug(name: &str) -> Result<weft_txn::PlantedBug, String> {
    weft_txn::PlantedBug::ALL.into_iter().find(|bug| bug.name() == name).ok_or_else(|| {
        let names = weft_txn::PlantedBug::ALL.map(weft_txn::PlantedBug::name).join(", ");
        format!("there is no planted bug `{name}`; choose one of {names}")
    })
}

/// Finds a planted bug of the node around the engines by its name.
#[cfg(feature = "planted-bugs")]
pub(crate) fn planted_node_bug(name: &str) -> Result<weft_harness::NodeBug, String> {
    weft_harness::NodeBug::ALL.into_iter().find(|bug| bug.name() == name).ok_or_else(|| {
        let names = weft_harness::NodeBug::ALL.map(weft_harness::NodeBug::name).join(", ");
        format!("there is no planted bug `{name}`; choose one of {names}")
    })
}

/// Finds a planted bug between an engine and its disk by its name.
#[cfg(feature = "planted-bugs")]
pub(crate) fn planted_disk_bug(name: &str) -> Result<weft_bench::kv::simulated::DiskBug, String> {
    use weft_bench::kv::simulated::DiskBug;
    DiskBug::all().find(|bug| bug.name() == name).ok_or_else(|| {
        let names = DiskBug::all().map(DiskBug::name).collect::<Vec<_>>().join(", ");
        format!("there is no planted bug `{name}`; choose one of {names}")
    })
}

/// Finds a planted bug of the key-value store by its name.
#[cfg(feature = "planted-bugs")]
pub(crate) fn planted_bug(name: &str) -> Result<weft_kv::PlantedBug, String> {
    let all = || {
        use weft_kv::PlantedBug;
        PlantedBug::ALL.into_iter().chain(PlantedBug::OF_DISKS).chain(PlantedBug::OF_LAG)
    };
    all().find(|bug| bug.name() == name).ok_or_else(|| {
        let names = all().map(weft_kv::PlantedBug::name).collect::<Vec<_>>().join(", ");
        format!("there is no planted bug `{name}`; choose one of {names}")
    })
}

/// A positive number of seconds, with decimals, rounded to whole nanoseconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= SECONDS_MAX => {
            Ok(Duration::from_ns(((seconds * 1e9).round() as u64).max(1)))
        }
        _ => Err(format!("give seconds, above 0 and at most {SECONDS_MAX}, such as 0.5")),
    }
}

/// A duration in seconds, which [`seconds`] parses back.
pub(crate) fn seconds_text(duration: Duration) -> String {
    let ns = duration.as_ns();
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Operations per second.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (1.0..=1e9).contains(&rate) => Ok(rate),
        _ => Err("give operations per second, 1 to 1000000000".into()),
    }
}

/// Percentages, in the order in which they are measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Percentages(pub(crate) Vec<u8>);

impl fmt::Display for Percentages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<_> = self.0.iter().map(u8::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

/// Parses percentages that are separated by commas.
pub(crate) fn percentages(text: &str) -> Result<Percentages, String> {
    let number = |number: &str| number.trim().parse().ok().filter(|number: &u8| *number <= 100);
    let numbers: Option<Vec<u8>> = text.split(',').map(number).collect();
    numbers
        .map(Percentages)
        .ok_or_else(|| "give per cent from 0 to 100, separated by commas, as 15,20,25".into())
}

/// Seeds from the first to the last, including both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seeds(pub(crate) RangeInclusive<u64>);

impl Seeds {
    /// Number of seeds.
    pub(crate) fn count(&self) -> u64 {
        (self.0.end() - self.0.start()).saturating_add(1)
    }
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let seed = |text: &str| {
            text.parse::<u64>().map_err(|_| {
                format!(
                    "`{text}` is not a seed; give a whole number from 0 to {}, or a range such as 1..200",
                    u64::MAX
                )
            })
        };
        let (first, last) = match text.split_once("..") {
            None => (seed(text)?, seed(text)?),
            Some((first, last)) => (seed(first)?, seed(last.strip_prefix('=').unwrap_or(last))?),
        };
        if first > last {
            return Err(format!("the range is empty, it ends before it begins; give {last}..{first}"));
        }
        Ok(Self(first..=last))
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.0.start(), self.0.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_seeds_include_both_ends() {
        for text in ["3..9", "3..=9"] {
            assert_eq!(text.parse(), Ok(Seeds(3..=9)));
        }
        assert_eq!("17".parse(), Ok(Seeds(17..=17)));
        assert_eq!(Seeds(17..=17).to_string().parse(), Ok(Seeds(17..=17)));
        for wrong in ["", "..", "1..", "..2", "9..3", "1...3", "-1", "1..x", "18446744073709551616"] {
            assert!(wrong.parse::<Seeds>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn seconds_survive_the_round_trip() {
        for ns in [1, 999, 120_000_000, 1_000_000_001, 600_000_000_000] {
            let duration = Duration::from_ns(ns);
            assert_eq!(seconds(&seconds_text(duration)), Ok(duration));
        }
        for wrong in ["0", "-1", "NaN", "inf", "601", "two", ""] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nics_are_named_as_results_name_them() {
        assert_eq!(nic(&NicModel::Soft.to_string()), Ok(NicModel::Soft));
        let rtl = nic(&NicModel::Rtl.to_string());
        if weft_bench::GATEWARE {
            assert_eq!(rtl, Ok(NicModel::Rtl));
        } else {
            assert!(rtl.unwrap_err().contains("without the gateware"));
        }
        assert!(nic("fpga").unwrap_err().contains("soft or rtl"));
    }
}
