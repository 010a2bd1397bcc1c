//! `weft bench compare`: compares engines, over the number of clients.

use clap::Args;
use weft_bench::compare::{CompareBench, CompareError, Comparison, EngineName};
use weft_harness::Contest;
use weft_harness::progress::Progress;
use weft_sim::{CostProfile, NetworkProfile};
use weft_time::Duration;

use crate::failure::Failure;
use crate::ground::{ENGINE_PROFILES, Ground, NETWORKS, Offers};
use crate::parse;
use crate::replay::CommandLine;
use crate::task::{IS_GIVEN, QUICK, Task};

const ENGINES: &str = "kv,smr,rdt";
const NODES: usize = 3;
const CLIENTS: &str = "1,2,4,8,16,32,64,128";
const VALUE_BYTES: usize = 64;
const LENGTH: Duration = Duration::from_ms(2);
const WARM_UP: Duration = Duration::from_us(200);
/// The most clients: accounts, sessions and locks are allocated for this number.
const CLIENTS_MAX: u32 = 256;

/// Definitions and method of the measurements.
const DEFINITIONS: &str = "\
Every engine runs in simulated nodes, which are those of `weft start` with their leases and the membership service, \
under the same network, timing model, fault plan and seed. The clients share one machine without processing delay. \
Each client has one outstanding call and makes the next when it is answered, so the number of clients is the number \
of outstanding calls. Throughput counts successful calls.

Engines differ in what an update does, in how many replicas have it when it is acknowledged, and in what a read may \
return: the first table of the output states this. The command fails if an engine does not support an option that was \
given. Checks: kv is linearizable; the log has each acknowledged append at one index, in an order that respects real \
time; all replicas of the data type converge to the acknowledged calls; balances are exact; tokens of locks grow.

To add your own engine, see `Your own engine in an hour` in CONTRIBUTING.md.";

/// The environment that all engines share.
#[derive(Debug)]
pub(crate) struct CompareGround;

impl Offers for CompareGround {
    const NETWORKS: &'static [NetworkProfile] = NETWORKS;
    const PROFILES: &'static [CostProfile] = ENGINE_PROFILES;
    const FAULTS: Option<&'static str> = Some(
        "Every engine runs under the same plan. Its times count from the start of the nodes; clients start at 20000 µs",
    );
}

/// Parameters of the comparison.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct CompareOptions {
    /// Engines, separated by commas: kv (NIC-KV's protocol), smr (Mu), rdt (SafarDB), txn (Xenic), lock
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = ENGINES)]
    engines: Vec<EngineName>,
    /// Number of nodes of each cluster, 3 to 16
    #[arg(long, value_name = "N", default_value_t = NODES, value_parser = nodes)]
    nodes: usize,
    /// Numbers of clients, ascending, 1 to 256
    #[arg(long, value_name = "LIST", default_value = CLIENTS, default_value_if(QUICK, IS_GIVEN, "1,8"), value_parser = clients)]
    clients: Clients,
    /// Percentage of calls that update; the others read
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u8).range(0..=100))]
    updates: u8,
    /// Value size in bytes, for engines whose calls carry a value: kv and smr [default: 64]
    #[arg(long, value_name = "N", value_parser = parse::value_bytes)]
    value_bytes: Option<usize>,
    /// Virtual seconds of each measurement [default: 0.002]
    #[arg(long, value_name = "S", value_parser = parse::seconds, default_value_if(QUICK, IS_GIVEN, "0.0005"))]
    seconds: Option<Duration>,
    #[command(flatten)]
    ground: Ground<CompareGround>,
}

fn nodes(text: &str) -> Result<usize, String> {
    parse::nodes(text).ok().filter(|nodes| *nodes >= 3).ok_or_else(|| "choose 3 to 16 nodes".to_owned())
}

/// Numbers of clients, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Clients(Vec<u32>);

impl std::fmt::Display for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
    }
}

fn clients(text: &str) -> Result<Clients, String> {
    let number = |text: &str| text.trim().parse().ok().filter(|clients| (1..=CLIENTS_MAX).contains(clients));
    let numbers: Option<Vec<u32>> = text.split(',').map(number).collect();
    numbers.filter(|numbers| numbers.is_sorted_by(|one, other| one < other)).map(Clients).ok_or_else(|| {
        format!("give numbers from 1 to {CLIENTS_MAX}, ascending, separated by commas, as 1,4,16")
    })
}

impl Task for CompareOptions {
    type Found = Comparison;

    const KIND: &'static str = "bench compare";

    fn work(&self) -> Result<Comparison, Failure> {
        let bench = self.bench()?;
        let mut progress = Progress::new("runs", (bench.engines.len() * bench.clients.len()) as u64);
        bench.run(self.command().to_string(), |done| progress.set(done)).map_err(|error| match error {
            CompareError::Plan(error) => self.ground.at_plan(error),
            error => error.into(),
        })
    }

    fn to_text(&self, result: &Comparison) -> String {
        result.to_text()
    }

    fn holds(&self, result: &Comparison) -> bool {
        result.checked == "holds"
    }
}

impl CompareOptions {
    fn bench(&self) -> Result<CompareBench, Failure> {
        Ok(CompareBench {
            engines: self.engines.clone(),
            contest: Contest {
                nodes: self.nodes,
                network: self.ground.network(),
                profile: self.ground.profile(),
                plan: self.ground.plan()?,
                length: self.seconds.unwrap_or(LENGTH),
                warm_up: WARM_UP,
                seed: self.ground.seed,
            },
            clients: self.clients.0.clone(),
            updates: self.updates,
            value_bytes: self.value_bytes.unwrap_or(VALUE_BYTES),
            has_value_bytes: self.value_bytes.is_some(),
        })
    }

    /// The command that repeats the comparison.
    fn command(&self) -> CommandLine {
        let engines: Vec<_> = self.engines.iter().map(|engine| engine.name()).collect();
        let line = CommandLine::new("weft bench compare")
            .option("--engines", engines.join(","))
            .unless(NODES, "--nodes", self.nodes)
            .unless(CLIENTS, "--clients", self.clients.to_string().as_str())
            .unless(100, "--updates", self.updates)
            .given("--value-bytes", self.value_bytes)
            .given("--seconds", self.seconds.map(parse::seconds_text));
        self.ground.add_to(line)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Compare {
        #[command(flatten)]
        options: CompareOptions,
    }

    fn parse(line: &str) -> Result<CompareOptions, clap::Error> {
        Compare::try_parse_from(line.split(' ')).map(|parsed| parsed.options)
    }

    #[test]
    fn the_command_that_repeats_it_says_all_of_it() {
        for line in [
            "compare --engines kv,smr,rdt --seed 7",
            "compare --engines kv,txn --nodes 5 --clients 1,64 --updates 5 --seconds 0.01 --network detpu --profile cores --seed 9",
        ] {
            assert_eq!(parse(line).unwrap().command().to_string(), format!("weft bench {line}"));
        }
    }

    #[test]
    fn engines_on_other_bases_are_refused() {
        for (line, says) in [
            ("compare --engines raft", "there is no engine `raft`"),
            ("compare --engines nic-kv", "the store in gates"),
            ("compare --clients 4,2", "ascending"),
            ("compare --clients 0", "from 1 to 256"),
            ("compare --nodes 2", "3 to 16 nodes"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(says), "{line}: {error}");
        }
        for (line, says) in [
            ("compare --engines kv,smr --updates 50", "give --updates 100, or leave smr out"),
            ("compare --engines kv,rdt --value-bytes 64", "rdt has calls without a value"),
            ("compare --engines kv,smr --value-bytes 1024", "entries of at most 512 bytes"),
            ("compare --engines kv,smr --nodes 9", "smr has at most 8 nodes"),
            ("compare --engines kv,txn", "give --profile cores"),
            ("compare --engines kv,rounds", "the pace of their period"),
        ] {
            let error = parse(line).unwrap().work().unwrap_err().to_string();
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
