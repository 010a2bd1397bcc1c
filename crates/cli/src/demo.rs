//! `weft demo`: the tour. A simulated cluster loses a node in the middle of a workload and goes on; then the same
//! engine runs in real processes over UDP. Both histories are checked.
//!
//! On gateware, the tour begins with verbs between two NICs, and the cluster's NICs are the gateware too. The gateware
//! is computed cycle by cycle, so this tour is smaller and has no real processes.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use weft_bench::kv::simulated::CaptureWindow;
use weft_perftest::{Amount, DataChecked, RdmaBench, RdmaOperation, RdmaResult};
use weft_report::{DataTypes, OtherResults, Run, Transactions, page};
use weft_results::NicModel;
use weft_results::table::{Column, Table, microseconds};
use weft_results::{NeighbourFile, RunResult, World, write_whole};
use weft_sim::{Fault, FaultPlan};
use weft_time::{Duration, Instant};

use crate::bench::kv::KvOptions;
use crate::bench::node_nic::NodeNicOptions;
use crate::envelope::{Basis, enclose};
use crate::failure::{Failure, Verdict};
use crate::ground::Ground;
use crate::output::{self, Staging};
use crate::{parse, table, trace};

/// The node that crashes. Every node leads a share of the keys, so this one does too.
const VICTIM: &str = "node1";
const WORKLOAD: &str = "ycsb-a";

/// Files of the tour, beside one packet capture for each port.
const REPORT: &str = "report.html";
const PLAN: &str = "faults.toml";
const TRACE: &str = "sim.perfetto-trace";
const REPLAY: &str = "replay.sh";

/// Output directory and length of the tour.
#[derive(Clone, Debug, Args)]
pub(crate) struct DemoArguments {
    /// Folder for the report and all other files
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Seed of the simulated run
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
    /// Take a shorter tour of a few seconds
    #[arg(long)]
    quick: bool,
    /// NIC: soft (in software) or rtl (the gateware, simulated cycle by cycle, which takes one or two minutes)
    #[arg(long, value_name = "soft|rtl", default_value = "soft", value_parser = parse::nic)]
    nic: NicModel,
}

/// A verb that the tour on gateware shows.
struct Verb {
    operation: RdmaOperation,
    size_bytes: u32,
    queue_pairs: u32,
    messages: u64,
}

impl Verb {
    const fn new(operation: RdmaOperation, size_bytes: u32, queue_pairs: u32, messages: u64) -> Self {
        Self { operation, size_bytes, queue_pairs, messages }
    }
}

/// Small messages, whose limit is the card's message rate; long messages, whose limit is the line rate; and
/// an atomic.
const VERBS: [Verb; 5] = [
    Verb::new(RdmaOperation::Write, 64, 32, 40_000),
    Verb::new(RdmaOperation::Write, 65_536, 1, 100),
    Verb::new(RdmaOperation::Send, 4_096, 1, 1_000),
    Verb::new(RdmaOperation::Read, 4_096, 1, 1_000),
    Verb::new(RdmaOperation::FetchAdd, 8, 1, 300),
];
/// The short tour does this many times fewer operations of each verb.
const QUICK_DIVISOR: u64 = 10;

/// Times of the tour's events. In the simulated part they count from the start of the simulation.
struct Schedule {
    workload: Duration,
    /// Rate of operations for a cluster on gateware. It is below what the cluster could answer, so that the
    /// tour ends in about a minute.
    rtl_operations_per_s: f64,
    crash_us: u64,
    restart_us: u64,
    real: Duration,
}

impl Schedule {
    const WHOLE: Self = Self {
        workload: Duration::from_ms(120),
        rtl_operations_per_s: 250_000.0,
        crash_us: 45_000,
        restart_us: 85_000,
        real: Duration::from_secs(4),
    };
    const QUICK: Self = Self {
        workload: Duration::from_ms(40),
        rtl_operations_per_s: 50_000.0,
        crash_us: 12_000,
        restart_us: 28_000,
        real: Duration::from_secs(1),
    };

    fn plan(&self) -> FaultPlan {
        let machine = || VICTIM.to_owned();
        FaultPlan {
            faults: vec![
                Fault::Crash { at_us: self.crash_us, machine: machine() },
                Fault::Restart { at_us: self.restart_us, machine: machine() },
            ],
        }
    }

    /// The window of the packet capture: the last operations that the crashing node answers, and how the
    /// other nodes detect its crash.
    fn capture(&self) -> CaptureWindow {
        let at = |us| Instant::ZERO + Duration::from_us(us);
        CaptureWindow {
            from: at(self.crash_us - CAPTURE_BEFORE_US),
            until: at(self.crash_us + CAPTURE_AFTER_US),
        }
    }
}

/// Long enough for about a hundred operations.
const CAPTURE_BEFORE_US: u64 = 20;
/// Long enough for the crashed node's lease to end; after that a view without the node can be published.
const CAPTURE_AFTER_US: u64 = 5_050;

impl DemoArguments {
    /// Runs the tour.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        match self.nic {
            NicModel::Soft => self.run_soft(),
            NicModel::Rtl => self.run_rtl(),
        }
    }

    fn run_soft(&self) -> Result<Verdict, Failure> {
        let schedule = if self.quick { Schedule::QUICK } else { Schedule::WHOLE };
        let staging = Staging::new(&self.out)?;
        let folder = staging.path();

        eprintln!(
            "1/2  simulator: three nodes run {WORKLOAD}; {VICTIM}, which leads a third of the keys, is killed"
        );
        let simulated = self.simulate(&schedule, folder, &[])?;
        eprintln!("2/2  real sockets: three node processes run {WORKLOAD} over UDP on loopback");
        let real = self.run_real(&schedule, folder)?;

        let runs = [("simulated, a node killed", &simulated), ("real processes", &real)];
        let text = format!("\n{}", table::runs(runs));
        self.publish(staging, "Weft: a replicated store that loses a node", &text, &runs)?;
        let verdicts = [table::verdict(&simulated), table::verdict(&real)];
        Ok(if verdicts.contains(&Verdict::Violated) { Verdict::Violated } else { Verdict::Good })
    }

    /// Runs the tour on gateware.
    fn run_rtl(&self) -> Result<Verdict, Failure> {
        let schedule = if self.quick { Schedule::QUICK } else { Schedule::WHOLE };
        let staging = Staging::new(&self.out)?;
        let folder = staging.path();

        eprintln!("1/2  verbs: two NICs, each the gateware, Verilated and computed cycle by cycle");
        let verbs = self.run_verbs()?;
        let mut files = Vec::new();
        for verb in &verbs {
            let name = format!("rdma-{}-{}.json", verb.op, verb.size_bytes);
            let holds = verb.checked == DataChecked::Verified;
            let json = enclose("bench rdma", Basis::Simulated, holds, verb);
            write_whole(&folder.join(&name), json.as_bytes())?;
            files.push((format!("{} of {} bytes as JSON", verb.op, verb.size_bytes), name));
        }
        eprintln!(
            "2/2  cluster: three nodes with such NICs, engines in gates too, run {WORKLOAD};\n     \
             {VICTIM}, which leads a third of the keys, is killed and comes back with its NIC reset"
        );
        let cluster = self.simulate(&schedule, folder, &files)?;

        let runs = [("gateware NICs, a node killed", &cluster)];
        let text = format!("\n{}\n{}", verbs_table(&verbs), table::runs(runs));
        self.publish(staging, "Weft: a replicated store on gateware NICs loses a node", &text, &runs)?;
        let verified = verbs.iter().all(|verb| verb.checked == DataChecked::Verified);
        Ok(if verified { table::verdict(&cluster) } else { Verdict::Violated })
    }

    fn run_verbs(&self) -> Result<Vec<RdmaResult>, Failure> {
        let divisor = if self.quick { QUICK_DIVISOR } else { 1 };
        let run = |verb: &Verb| {
            let bench = RdmaBench {
                nic: NicModel::Rtl,
                operation: verb.operation,
                size_bytes: verb.size_bytes,
                queue_pairs: verb.queue_pairs,
                amount: Amount::Messages(verb.messages / divisor),
                seed: self.seed,
                ..RdmaBench::default()
            };
            Ok(bench.run()?)
        };
        VERBS.iter().map(run).collect()
    }

    /// Writes the files with which every tour ends, moves all files to their final folder, and prints what
    /// there is to see.
    fn publish(
        &self,
        staging: Staging,
        title: &str,
        text: &str,
        runs: &[(&str, &RunResult)],
    ) -> Result<(), Failure> {
        let folder = staging.path();
        let page_runs: Vec<_> = runs.iter().map(|(name, result)| Run { name, result, folder: "" }).collect();
        let (types, transactions) = (DataTypes::default(), Transactions::default());
        let page = page(title, &page_runs, &types, &transactions, &OtherResults::default());
        write_whole(&folder.join(REPORT), page.as_bytes())?;
        let (_, simulated) = runs[0];
        let replay = format!(
            "#!/bin/sh\n# Repeats the simulated run bit for bit: the same log_hash as in sim.json.\nexec {}\n",
            simulated.replay
        );
        write_whole(&folder.join(REPLAY), replay.as_bytes())?;
        let files = names(folder)?;
        staging.publish()?;
        let text = format!(
            "{text}\n  seed      {}\n  log hash  {}\n  repeat    {}\n  report    {}\n  files     {}\n",
            self.seed,
            simulated.log_hash.as_deref().unwrap_or_default(),
            simulated.replay,
            self.out.join(REPORT).display(),
            files.join(" "),
        );
        output::print(&text)
    }

    /// Runs the simulated part. `more` has further files for the report to list, each with its title.
    fn simulate(
        &self,
        schedule: &Schedule,
        folder: &Path,
        more: &[(String, String)],
    ) -> Result<RunResult, Failure> {
        let plan = schedule.plan();
        write_whole(&folder.join(PLAN), plan.to_toml().as_bytes())?;
        let mut options = KvOptions {
            nic: NodeNicOptions { nic: self.nic, ..NodeNicOptions::default() },
            workload: WORKLOAD.into(),
            seconds: Some(schedule.workload),
            ground: Ground { seed: self.seed, faults: Some(self.out.join(PLAN)), ..Ground::default() },
            ..KvOptions::default()
        };
        if self.nic == NicModel::Rtl {
            options.open_loop = Some(schedule.rtl_operations_per_s);
        }
        let run = options.run_simulated(plan, Some((folder.to_owned(), schedule.capture())))?;
        let mut result = run.result;
        write_whole(&folder.join(TRACE), &trace::of(&result))?;
        write_whole(&folder.join("sim.hgrm"), run.latencies.to_hgrm().as_bytes())?;
        let captures = names(folder)?.into_iter().filter(|name| name.ends_with(".pcapng"));
        result.files =
            [("result as JSON", "sim.json"), ("Perfetto trace", TRACE), ("latency distribution", "sim.hgrm")]
                .into_iter()
                .chain([("fault plan", PLAN), ("the command that repeats it", REPLAY)])
                .map(|(title, path)| (title.to_owned(), path.to_owned()))
                .chain(more.iter().cloned())
                .map(|(title, path)| NeighbourFile { title, path })
                .chain(captures.map(|path| NeighbourFile {
                    title: format!("capture {}", path.trim_end_matches(".pcapng")),
                    path,
                }))
                .collect();
        result.write(&folder.join("sim.json"))?;
        Ok(result)
    }

    fn run_real(&self, schedule: &Schedule, folder: &Path) -> Result<RunResult, Failure> {
        let options = KvOptions {
            world: World::Net,
            workload: WORKLOAD.into(),
            seconds: Some(schedule.real),
            ground: Ground { seed: self.seed, ..Ground::default() },
            processes: Some(2),
            ..KvOptions::default()
        };
        let run = options.run_real()?;
        let mut result = run.result;
        write_whole(&folder.join("net.hgrm"), run.latencies.to_hgrm().as_bytes())?;
        result.files = [("result as JSON", "net.json"), ("latency distribution", "net.hgrm")]
            .map(|(title, path)| NeighbourFile { title: title.into(), path: path.into() })
            .into();
        result.write(&folder.join("net.json"))?;
        Ok(result)
    }
}

/// A table with a line for each verb.
fn verbs_table(results: &[RdmaResult]) -> Table {
    let mut table = Table::new([
        Column::words("verb"),
        Column::numbers("bytes", ""),
        Column::numbers("queue pairs", ""),
        Column::numbers("rate", "M/s"),
        Column::numbers("goodput", "Gb/s"),
        Column::numbers("of the line", "%"),
        Column::numbers("p50", "µs"),
        Column::words("checked"),
    ]);
    for result in results {
        let checked = if result.checked == DataChecked::Verified { "data verified" } else { "DATA CORRUPT" };
        table.row([
            result.op.to_string(),
            result.size_bytes.to_string(),
            result.qps.to_string(),
            format!("{:.2}", result.messages_per_s / 1e6),
            format!("{:.2}", result.goodput_bits_per_s / 1e9),
            format!("{:.1}", 100.0 * result.fraction_of_limit),
            microseconds(result.p50_ns),
            checked.to_owned(),
        ]);
    }
    table
}

/// The names of all files in a folder, in order.
fn names(folder: &Path) -> Result<Vec<String>, Failure> {
    let entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut names: Vec<_> =
        entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    Ok(names)
}
