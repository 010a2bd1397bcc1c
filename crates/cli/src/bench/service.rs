//! `weft bench service`: measures the cost of a service on a card's data path, and what it finds.

use std::path::{Path, PathBuf};

use clap::Args;
use weft_perftest::service::{Declaration, ServiceBench, ServiceName, ServiceResult};
use weft_results::NicModel;
use weft_time::Duration;

use crate::failure::Failure;
use crate::parse;
use crate::replay::CommandLine;
use crate::task::{Files, Task};

const PIPELINE: &str = "criteo";
const ROWS: u32 = 400;
const SIZE: u32 = 4_096;
const QPS: u32 = 32;
const MTU: u32 = 4_096;
const SEED: u64 = 7;

/// Length of each run: of the soft card in real time, of the gateware in virtual time; and the same with `--quick`.
const SOFT: Duration = Duration::from_ms(200);
const QUICK_SOFT: Duration = Duration::from_ms(20);
const RTL: Duration = Duration::from_ms(1);
const QUICK_RTL: Duration = Duration::from_us(20);

/// Help text: what is measured.
const DEFINITIONS: &str = "\
WRITEs arrive at a card whose receive path has the service, and the same WRITEs at the same card without it. The \
throughput without it is the limit; with PSP, whose frames are 40 bytes longer, the limit is the wire. With --nic soft, \
both kinds of runs alternate between two processes over UDP sockets. With --nic rtl, two Verilated cards are on a \
simulated link of 100 Gb/s, and the added latency is counted in cycles of 4 ns. The receiver's memory and taps are \
compared with those of the service in Rust, which are computed separately. With several sizes, the figures are those of \
the last one; the points have all, and `weft report` draws them.";

/// Parameters of the measurement.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct ServiceOptions {
    /// Service: psp (encryption of frames; only with --nic rtl), inspect (detection of executable code), preprocess
    /// (rows of raw values to the input features of a recommender model), count (of bytes) or xor
    #[arg(long, value_name = "NAME")]
    service: ServiceName,
    /// NIC: soft (in software) or rtl (the gateware, simulated cycle by cycle)
    #[arg(long, value_name = "soft|rtl", default_value = "soft", value_parser = parse::nic)]
    nic: NicModel,
    /// Pipeline of operators: criteo (for rows of the Criteo data set), balboa (that of the BALBOA paper) or a TOML
    /// file (docs/services.md); for preprocess
    #[arg(long, value_name = "NAME|FILE.toml", default_value = PIPELINE)]
    pipeline: String,
    /// Message sizes in bytes [default: 4096; preprocess: that of --rows]
    #[arg(long, value_name = "N[,N...]", value_delimiter = ',', conflicts_with = "rows")]
    size: Vec<u32>,
    /// Number of rows in a message, for preprocess
    #[arg(long, value_name = "N", default_value_t = ROWS, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    rows: u32,
    /// Number of queue pairs, 1 to 500
    #[arg(long, value_name = "N", default_value_t = QPS)]
    qps: u32,
    /// Path MTU in bytes: 256, 512, 1024, 2048 or 4096
    #[arg(long, value_name = "N", default_value_t = MTU)]
    mtu: u32,
    /// Number of messages in each run [default: as many as take 200 ms, with --nic rtl 1 ms of the wire]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    messages: Option<u64>,
    /// Folder of packets that inspect judges, as tools/inspection/export.py writes them (docs/inspection.md)
    #[arg(long, value_name = "DIR")]
    packets: Option<PathBuf>,
    /// Seed of the payload
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,
}

/// The pipeline with this name: a preset, or one that a file declares.
fn pipeline(name: &str) -> Result<Declaration, Failure> {
    let path = Path::new(name);
    if path.extension().is_none() {
        return Ok(Declaration::preset(name)?);
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::at(path, format!("cannot be read ({error}); name a pipeline in TOML")))?;
    let declaration = Declaration { name: name.to_owned(), text };
    declaration.pipeline().map_err(|error| Failure::at(path, error))?;
    Ok(declaration)
}

impl Task for ServiceOptions {
    type Found = ServiceResult;

    const KIND: &'static str = "bench service";

    fn work(&self) -> Result<ServiceResult, Failure> {
        self.work_for(&Files::default())
    }

    fn work_for(&self, files: &Files<Self>) -> Result<ServiceResult, Failure> {
        let pipeline = pipeline(&self.pipeline)?;
        let sizes_bytes = match self.service {
            _ if !self.size.is_empty() => self.size.clone(),
            ServiceName::Preprocess => vec![self.rows * pipeline.pipeline()?.row_bytes() as u32],
            _ => vec![SIZE],
        };
        let bench = ServiceBench {
            service: self.service,
            nic: self.nic,
            pipeline,
            sizes_bytes,
            queue_pairs: self.qps,
            mtu_bytes: self.mtu,
            messages: self.messages,
            time: self.time(files.is_quick),
            packets: self.packets.clone(),
            seed: self.seed,
        };
        Ok(bench.run()?)
    }

    fn to_text(&self, result: &ServiceResult) -> String {
        let is_quick = result.time == self.time(true);
        format!("{}\nrepeat  {}\n", result.to_text(), self.command(is_quick))
    }

    fn holds(&self, result: &ServiceResult) -> bool {
        result.intact
    }
}

impl ServiceOptions {
    /// The length of a run.
    const fn time(&self, is_quick: bool) -> Duration {
        match (self.nic, is_quick) {
            (NicModel::Soft, false) => SOFT,
            (NicModel::Soft, true) => QUICK_SOFT,
            (NicModel::Rtl, false) => RTL,
            (NicModel::Rtl, true) => QUICK_RTL,
        }
    }

    /// The command that repeats the measurement.
    fn command(&self, is_quick: bool) -> CommandLine {
        let sizes: Vec<_> = self.size.iter().map(u32::to_string).collect();
        CommandLine::new("weft bench service")
            .option("--service", self.service)
            .unless(NicModel::Soft, "--nic", self.nic)
            .unless(PIPELINE.to_owned(), "--pipeline", self.pipeline.clone())
            .given("--size", (!sizes.is_empty()).then(|| sizes.join(",")))
            .unless(ROWS, "--rows", self.rows)
            .unless(QPS, "--qps", self.qps)
            .unless(MTU, "--mtu", self.mtu)
            .given("--messages", self.messages)
            .given("--packets", self.packets.as_ref().map(|folder| folder.display().to_string()))
            .flag("--quick", is_quick && self.messages.is_none())
            .option("--seed", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Service {
        #[command(flatten)]
        options: ServiceOptions,
    }

    #[test]
    fn the_command_that_repeats_it_says_all_of_it() {
        for line in [
            "service --service preprocess --seed 7",
            "service --service preprocess --pipeline rows.toml --rows 9 --qps 1 --messages 5 --seed 1",
            "service --service inspect --size 64,4096 --mtu 1024 --packets drawn --seed 7",
            "service --service psp --nic rtl --size 64 --seed 7",
        ] {
            if weft_bench::GATEWARE || !line.contains("--nic rtl") {
                let options = Service::try_parse_from(line.split(' ')).unwrap().options;
                assert_eq!(
                    options.command(line.contains("--quick")).to_string(),
                    format!("weft bench {line}")
                );
            }
        }
        for wrong in ["--service inspct", "--service xor --size 64 --rows 3", "--service xor --size 64,x"] {
            assert!(Service::try_parse_from(["service"].into_iter().chain(wrong.split(' '))).is_err());
        }
        assert!(pipeline("crito").is_err() && pipeline("nowhere.toml").is_err());
    }
}
