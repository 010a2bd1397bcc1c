//! `weft bench rdma`: measures one verb, and compares the result with the limit of the link or of the
//! machine.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use weft_perftest::{
    Amount, Artifacts, Congestion, DataChecked, Directions, IncastBench, IncastResult, RdmaBench, RdmaError,
    RdmaOperation, RdmaResult, Waveform, plot_incast,
};
use weft_results::NicModel;
use weft_results::{World, write_whole};
use weft_sim::CostProfile;
use weft_time::{Duration, Instant};

use crate::failure::Failure;
use crate::ground::{Ground, Offers};
use crate::output::{self, Staging};
use crate::replay::CommandLine;
use crate::task::{Files, IS_GIVEN, QUICK, Task};
use crate::{faults, parse};

const ITERATIONS: u64 = 10_000;
const MTU: u32 = 4_096;

/// Time for which the clients of one server post work requests, in ms; and the same with `--quick`.
const INCAST_MS: u64 = 10;
const QUICK_INCAST_MS: u64 = 1;

/// The period of a waveform: 2,500 cycles from the first post, which is at 1 us. Each cycle takes several kilobytes.
const FST_FROM_US: u64 = 1;
const FST_US: u64 = 10;

/// The environment of measurements of verbs: a cable between the cards.
#[derive(Debug)]
pub(crate) struct RdmaGround;

impl Offers for RdmaGround {
    const PROFILES: &'static [CostProfile] = &CostProfile::ALL;
    const FAULTS: Option<&'static str> = Some(
        "The machines are `client` and `server`; times count from the start of the run. Only with --world sim",
    );
}

/// The run, and the files that only this bench has.
#[derive(Clone, Debug, Args)]
pub(crate) struct RdmaArguments {
    #[command(flatten)]
    options: RdmaOptions,
    /// Write one pcapng file per port into DIR, in sim
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// Plot rates and queue lengths over time as one HTML page, with --incast
    #[arg(long, value_name = "FILE.html", requires = "incast")]
    plot: Option<PathBuf>,
    /// Write a waveform (FST) of the first machine's gateware, with --nic rtl, from --fst-from-us to --fst-to-us;
    /// each cycle takes kilobytes
    #[arg(long, value_name = "FILE")]
    fst: Option<PathBuf>,
    /// Start of the waveform in µs of virtual time [default: 1, when the first work request is posted]
    #[arg(long, value_name = "US", requires = "fst", value_parser = clap::value_parser!(u64).range(..=600_000_000))]
    fst_from_us: Option<u64>,
    /// End of the waveform in µs of virtual time [default: 10 µs, which are 2500 cycles, after the start]
    #[arg(long, value_name = "US", requires = "fst", value_parser = clap::value_parser!(u64).range(..=600_000_000))]
    fst_to_us: Option<u64>,
}

/// Parameters of a run.
#[derive(Clone, Debug, PartialEq, Args)]
struct RdmaOptions {
    /// Simulator with virtual time (sim), or two real processes over loopback (net)
    #[arg(long, value_name = "sim|net", default_value = "sim", value_parser = parse::world)]
    world: World,
    /// NIC: soft (in software) or rtl (the gateware, simulated cycle by cycle; only with --world sim)
    #[arg(long, value_name = "soft|rtl", default_value = "soft", value_parser = parse::nic)]
    nic: NicModel,
    /// Verb: write, write_imm, send, send_imm, read, fetch_add or cmp_swap
    #[arg(long = "op", value_name = "VERB", default_value_t = RdmaOperation::Write)]
    operation: RdmaOperation,
    /// Message size in bytes [default: 65536; atomics: 8]
    #[arg(long, value_name = "N")]
    size: Option<u32>,
    /// Random message sizes, uniform from 1 byte to --size
    #[arg(long)]
    random_sizes: bool,
    /// Both machines are client and server, as with perftest's -b; sim only
    #[arg(long, conflicts_with = "nics")]
    bidirectional: bool,
    /// Ring of N machines, 2 to 16, each of which is a client of the next one; sim only
    #[arg(long, value_name = "N")]
    nics: Option<u32>,
    /// N clients, 2 to 32, WRITE to one server at the same time: one run without congestion control, one with
    /// DCQCN; sim only
    #[arg(long, value_name = "N", conflicts_with_all = ["nics", "bidirectional", "iterations", "faults"])]
    incast: Option<u32>,
    /// Congestion control with --incast [default: a run with each]
    #[arg(long, value_name = "none|dcqcn", requires = "incast", value_parser = parse::congestion)]
    congestion: Option<Congestion>,
    /// Number of queue pairs, 1 to 500; with --bidirectional or --nics, in each direction, 1 to 250
    #[arg(long, value_name = "N", default_value_t = 1)]
    qps: u32,
    /// Number of queue pairs with traffic [default: all]
    #[arg(long, value_name = "N")]
    busy_qps: Option<u32>,
    /// Path MTU in bytes: 256, 512, 1024, 2048 or 4096
    #[arg(long, value_name = "N", default_value_t = MTU)]
    mtu: u32,
    /// Outstanding work requests per queue pair [default: as many as make 512 KiB in sim (16 to 2048), 1 MiB in net
    /// (16 to 4096)]
    #[arg(long, value_name = "N")]
    tx_depth: Option<u32>,
    /// Number of messages of all queue pairs together; with --world net, in each repetition [default: 10000]
    #[arg(
        long,
        visible_alias = "ops",
        value_name = "N",
        conflicts_with = "duration_ms",
        default_value_if(QUICK, IS_GIVEN, "200")
    )]
    iterations: Option<u64>,
    /// Duration in ms instead of --iterations; with --world net, of each repetition
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    duration_ms: Option<u64>,
    #[command(flatten)]
    ground: Ground<RdmaGround>,
}

/// Result of the measurement: of one verb, or of many clients with one server.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Found {
    /// One verb.
    Verb(Box<RdmaResult>),
    /// Many clients of one server.
    Incast(Box<IncastResult>),
}

impl Task for RdmaArguments {
    type Found = Found;

    const KIND: &'static str = "bench rdma";
    const HGRM: Option<fn(&Found) -> String> = Some(|found| match found {
        Found::Verb(result) => result.latencies.to_hgrm(),
        Found::Incast(_) => unreachable!("refused before the run"),
    });
    const PERFETTO: Option<fn(&Found) -> Vec<u8>> = Some(|found| match found {
        Found::Verb(result) => result.trace.clone().unwrap_or_default(),
        Found::Incast(_) => unreachable!("refused before the run"),
    });

    fn work(&self) -> Result<Found, Failure> {
        self.work_for(&Files::default())
    }

    fn work_for(&self, files: &Files<Self>) -> Result<Found, Failure> {
        let artifacts = self.artifacts(files.perfetto.is_some());
        if let Some(clients) = self.options.incast {
            if files.hgrm.is_some() {
                return Err(Failure::new("--incast measures rates; leave out --hgrm"));
            }
            let quick_ms = files.is_quick.then_some(QUICK_INCAST_MS);
            let duration_ms = self.options.duration_ms.or(quick_ms);
            let options = RdmaOptions { duration_ms, ..self.options.clone() };
            return Self { options, ..self.clone() }.incast(clients, artifacts);
        }
        let mut bench = RdmaBench { artifacts, ..self.options.bench()? };
        bench.check()?;
        self.check_files()?;
        let capture = self.pcap.as_deref().map(Staging::new).transpose()?;
        bench.artifacts.capture = capture.as_ref().map(|staging| staging.path().to_owned());
        let mut result = bench.run().map_err(|error| match error {
            RdmaError::Plan(error) => self.options.ground.at_plan(error),
            error => error.into(),
        })?;
        if let Some(staging) = capture {
            staging.publish()?;
        }
        result.replay = self.options.command().to_string();
        Ok(Found::Verb(Box::new(result)))
    }

    fn to_text(&self, found: &Found) -> String {
        let (text, replay) = match found {
            Found::Verb(result) => (result.to_text(), &result.replay),
            Found::Incast(result) => (result.to_text(), &result.replay),
        };
        format!("{text}{}repeat  {replay}\n", self.written())
    }

    fn holds(&self, found: &Found) -> bool {
        match found {
            Found::Verb(result) => result.checked == DataChecked::Verified,
            Found::Incast(result) => result.is_right(),
        }
    }
}

impl RdmaArguments {
    fn artifacts(&self, trace: bool) -> Artifacts {
        let from = self.fst_from_us.unwrap_or(FST_FROM_US);
        let until = self.fst_to_us.unwrap_or(from + FST_US);
        let at = |us| Instant::ZERO + Duration::from_us(us);
        Artifacts {
            capture: self.pcap.clone(),
            trace,
            waveform: self.fst.clone().map(|path| Waveform { path, from: at(from), until: at(until) }),
        }
    }

    /// Rejects paths that cannot be written.
    fn check_files(&self) -> Result<(), Failure> {
        [&self.fst, &self.plot].into_iter().flatten().try_for_each(|path| output::check_file(path))
    }

    /// A line for each file that the run itself has written.
    fn written(&self) -> String {
        let files = [("captures", &self.pcap), ("waveform", &self.fst), ("rates and queues", &self.plot)];
        let given = files.into_iter().filter_map(|(title, path)| Some((title, path.as_ref()?)));
        given.map(|(title, path)| format!("written {} ({title})\n", path.display())).collect()
    }

    /// Measures many clients of one server.
    fn incast(&self, clients: u32, artifacts: Artifacts) -> Result<Found, Failure> {
        let options = &self.options;
        let mut bench = options.bench()?;
        bench.amount = Amount::Time(Duration::from_ms(options.duration_ms.unwrap_or(INCAST_MS)));
        bench.artifacts = artifacts;
        let congestion =
            options.congestion.map_or_else(|| vec![Congestion::None, Congestion::Dcqcn], |one| vec![one]);
        let bench = IncastBench { bench, clients, congestion, replay: options.command().to_string() };
        bench.check()?;
        self.check_files()?;
        let result = bench.run()?;
        if let Some(path) = &self.plot {
            write_whole(path, plot_incast(&result).as_bytes())?;
        }
        Ok(Found::Incast(Box::new(result)))
    }
}

impl RdmaOptions {
    fn directions(&self) -> Directions {
        match self.nics {
            Some(machines) => Directions::Ring(machines),
            None if self.bidirectional => Directions::Both,
            None => Directions::One,
        }
    }

    fn size(&self) -> u32 {
        let default = match self.operation {
            RdmaOperation::FetchAdd | RdmaOperation::CmpSwap => 8,
            _ => 65_536,
        };
        self.size.unwrap_or(default)
    }

    fn bench(&self) -> Result<RdmaBench, Failure> {
        if self.world == World::Net {
            self.ground.check_real()?;
        }
        if self.nic == NicModel::Rtl && self.ground.profile.is_some() {
            return Err(Failure::new(
                "the gateware takes its own time; leave --profile out or choose --nic soft",
            ));
        }
        let bench = RdmaBench {
            world: self.world,
            nic: self.nic,
            operation: self.operation,
            size_bytes: self.size(),
            random_sizes: self.random_sizes,
            direction: self.directions(),
            queue_pairs: self.qps,
            busy_queue_pairs: self.busy_qps,
            mtu_bytes: self.mtu,
            amount: match self.duration_ms {
                Some(time) => Amount::Time(Duration::from_ms(time)),
                None => Amount::Messages(self.iterations.unwrap_or(ITERATIONS)),
            },
            tx_depth: self.tx_depth,
            seed: self.ground.seed,
            profile: self.ground.profile().name.to_owned(),
            faults: self.ground.faults.as_deref().map(faults::plan).transpose()?,
            artifacts: Artifacts::default(),
        };
        bench.check()?;
        Ok(bench)
    }

    /// The command that repeats the run.
    fn command(&self) -> CommandLine {
        let Self {
            world,
            nic,
            operation,
            size: _,
            random_sizes,
            bidirectional,
            nics,
            incast,
            congestion,
            qps,
            busy_qps,
            mtu,
            tx_depth,
            iterations,
            duration_ms,
            ground,
        } = self;
        let line = CommandLine::new("weft bench rdma")
            .option("--world", world)
            .unless(NicModel::Soft, "--nic", *nic)
            .option("--op", operation)
            .option("--size", self.size())
            .flag("--random-sizes", *random_sizes)
            .flag("--bidirectional", *bidirectional)
            .given("--nics", *nics)
            .given("--incast", *incast)
            .given("--congestion", *congestion)
            .unless(1, "--qps", *qps)
            .given("--busy-qps", *busy_qps)
            .unless(MTU, "--mtu", *mtu)
            .given("--tx-depth", *tx_depth);
        let line = match duration_ms {
            Some(time) => line.option("--duration-ms", time),
            None if incast.is_some() => line.option("--duration-ms", INCAST_MS),
            None => line.option("--iterations", iterations.unwrap_or(ITERATIONS)),
        };
        ground.add_to(line)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Rdma {
        #[command(flatten)]
        arguments: RdmaArguments,
    }

    fn parse(line: &str) -> RdmaOptions {
        let parsed = Rdma::try_parse_from(line.split(' '));
        parsed.map(|rdma| rdma.arguments.options).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn the_command_that_repeats_a_run_says_all_of_it() {
        for line in [
            "rdma --world sim --op fetch_add --size 8 --qps 500 --busy-qps 32 --mtu 256 --tx-depth 9 --iterations 12 \
             --profile cores --faults plan.toml --seed 3",
            "rdma --world sim --nic rtl --op write --size 64 --iterations 9 --seed 7",
            "rdma --world sim --op read --size 64 --random-sizes --bidirectional --iterations 9 --seed 7",
            "rdma --world sim --op read --size 64 --nics 3 --iterations 9 --seed 7",
            "rdma --world net --op read --size 64 --duration-ms 20 --seed 7",
            "rdma --world sim --op write --size 65536 --incast 8 --congestion dcqcn --duration-ms 5 --seed 7",
        ] {
            if weft_bench::GATEWARE || !line.contains("--nic rtl") {
                assert_eq!(parse(line).command().to_string(), format!("weft bench {line}"));
            }
        }
    }

    #[test]
    fn atomics_have_their_size() {
        assert_eq!(parse("rdma --op cmp_swap").size(), 8);
        assert_eq!(parse("rdma").size(), 65_536);
    }
}
