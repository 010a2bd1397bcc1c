//! `weft demo`: the tour. A simulated cluster loses a node in the middle of a workload and goes on; then the same engine
//! runs in real processes over UDP. Both histories are checked.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use weft_bench::kv::simulated::CaptureWindow;
use weft_bench::report::{Run, page};
use weft_bench::result::{NeighbourFile, RunResult, World, write_whole};
use weft_sim::{Fault, FaultPlan};
use weft_time::{Duration, Instant};

use crate::bench::kv::KvOptions;
use crate::failure::{Failure, Verdict};
use crate::output::{self, Staging};
use crate::{table, trace};

/// Every node leads a share of the keys, and this one too.
const VICTIM: &str = "node1";
const WORKLOAD: &str = "ycsb-a";

/// Files of the tour, beside one capture for each port.
const REPORT: &str = "report.html";
const PLAN: &str = "faults.toml";
const TRACE: &str = "sim.perfetto-trace";
const REPLAY: &str = "replay.sh";

/// Where the tour goes and how long it takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct DemoArguments {
    /// The folder for the report and all files
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Decides the simulated run to the bit
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
    /// A shorter tour of a few seconds
    #[arg(long)]
    quick: bool,
}

/// When things happen in the tour. Times of the simulated part are since the beginning of its world.
struct Schedule {
    workload: Duration,
    crash_us: u64,
    restart_us: u64,
    real: Duration,
}

impl Schedule {
    const WHOLE: Self = Self {
        workload: Duration::from_ms(120),
        crash_us: 45_000,
        restart_us: 85_000,
        real: Duration::from_secs(4),
    };
    const QUICK: Self = Self {
        workload: Duration::from_ms(40),
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

    /// The last operations that the node answers, and how the others find that it is gone.
    fn capture(&self) -> CaptureWindow {
        let at = |us| Instant::ZERO + Duration::from_us(us);
        CaptureWindow {
            from: at(self.crash_us - CAPTURE_BEFORE_US),
            until: at(self.crash_us + CAPTURE_AFTER_US),
        }
    }
}

/// A hundred operations or so.
const CAPTURE_BEFORE_US: u64 = 20;
/// Until its lease has ended, after which a view without it can be published.
const CAPTURE_AFTER_US: u64 = 5_050;

impl DemoArguments {
    /// Takes the tour.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let schedule = if self.quick { Schedule::QUICK } else { Schedule::WHOLE };
        let staging = Staging::new(&self.out)?;
        let folder = staging.path();

        eprintln!(
            "1/2  simulator: three nodes run {WORKLOAD}; {VICTIM}, which leads a third of the keys, is killed"
        );
        let simulated = self.simulate(&schedule, folder)?;
        eprintln!("2/2  real sockets: three node processes run {WORKLOAD} over UDP on loopback");
        let real = self.run_real(&schedule, folder)?;

        let runs = [("simulated, a node killed", &simulated), ("real processes", &real)];
        let page_runs = runs.map(|(name, result)| Run { name, result, folder: "" });
        let title = "Weft: a replicated store that loses a node";
        write_whole(&folder.join(REPORT), page(title, &page_runs).as_bytes())?;
        let replay = format!(
            "#!/bin/sh\n# Repeats the simulated run bit for bit: the same log_hash as in sim.json.\nexec {}\n",
            simulated.replay
        );
        write_whole(&folder.join(REPLAY), replay.as_bytes())?;
        let files = names(folder)?;
        staging.publish()?;

        let text = format!(
            "\n{}\n  seed      {}\n  log hash  {}\n  repeat    {}\n  report    {}\n  files     {}\n",
            table::runs(runs),
            self.seed,
            simulated.log_hash.as_deref().unwrap_or_default(),
            simulated.replay,
            self.out.join(REPORT).display(),
            files.join(" "),
        );
        output::print(&text)?;
        let verdicts = [table::verdict(&simulated), table::verdict(&real)];
        Ok(if verdicts.contains(&Verdict::Violated) { Verdict::Violated } else { Verdict::Good })
    }

    fn simulate(&self, schedule: &Schedule, folder: &Path) -> Result<RunResult, Failure> {
        let plan = schedule.plan();
        write_whole(&folder.join(PLAN), plan.to_toml().as_bytes())?;
        let options = KvOptions {
            workload: WORKLOAD.into(),
            seconds: Some(schedule.workload),
            seed: self.seed,
            faults: Some(self.out.join(PLAN)),
            ..KvOptions::default()
        };
        let run = options.run_simulated(plan, Some((folder.to_owned(), schedule.capture())))?;
        let mut result = run.result;
        write_whole(&folder.join(TRACE), &trace::of(&result))?;
        write_whole(&folder.join("sim.hgrm"), run.latencies.to_hgrm().as_bytes())?;
        let captures = names(folder)?.into_iter().filter(|name| name.ends_with(".pcapng"));
        result.files =
            [("result as JSON", "sim.json"), ("Perfetto trace", TRACE), ("latency distribution", "sim.hgrm")]
                .into_iter()
                .chain([("fault plan", PLAN), ("the command that repeats it", REPLAY)])
                .map(|(title, path)| NeighbourFile { title: title.into(), path: path.into() })
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
            seed: self.seed,
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

/// The names of all files in a folder, in order.
fn names(folder: &Path) -> Result<Vec<String>, Failure> {
    let entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut names: Vec<_> =
        entries.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    Ok(names)
}
