//! `weft bench cuda`: RDMA into memory that a GPU reads.

use clap::Args;
use weft_perftest::cuda::{CudaBench, CudaResult};

use crate::envelope::Basis;
use crate::failure::Failure;
use crate::replay::CommandLine;
use crate::task::{IS_GIVEN, QUICK, Task};

const GPU: u32 = 0;
const SIZE: u32 = 65_536;
const MESSAGES: u64 = 20_000;
const DEPTH: u32 = 32;
const LATENCY_MESSAGES: u64 = 2_000;
const ROUND_BYTES: u32 = 65_536;
const ROUNDS: u64 = 20_000;

/// What is measured, and what not.
const DEFINITIONS: &str = "\
Two software NICs exchange frames over loopback UDP sockets. The region written to lies in ordinary host memory \
(host), in pinned host memory that the GPU reads over PCIe (mapped), or on the GPU, reached by asynchronous copies of \
the driver (device). Every byte passes through the host's processor and memory: no NIC accesses the GPU directly. In \
each round the data are written first. Then a flag is set, either by another WRITE or by the host program after it \
has polled the completion. A GPU kernel polls the flag and then compares all data of the round.";

/// Parameters of the measurement.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = DEFINITIONS)]
pub(crate) struct CudaOptions {
    /// Index of the GPU
    #[arg(long, value_name = "N", default_value_t = GPU, value_parser = clap::value_parser!(u32).range(0..=63))]
    gpu: u32,
    /// Message size in bytes
    #[arg(long, value_name = "N", default_value_t = SIZE, value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    size: u32,
    /// Number of messages in each run
    #[arg(long, value_name = "N", default_value_t = MESSAGES, default_value_if(QUICK, IS_GIVEN, "500"), value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    messages: u64,
    /// Number of outstanding messages
    #[arg(long, value_name = "N", default_value_t = DEPTH, value_parser = clap::value_parser!(u32).range(1..=128))]
    depth: u32,
    /// Number of 64-byte messages, one outstanding at a time, that measure the round-trip time
    #[arg(long, value_name = "N", default_value_t = LATENCY_MESSAGES, default_value_if(QUICK, IS_GIVEN, "100"), value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    latency_messages: u64,
    /// Bytes that are written, and compared by the kernel, in each round of the ordering check
    #[arg(long, value_name = "N", default_value_t = ROUND_BYTES, value_parser = round_bytes)]
    round_bytes: u32,
    /// Number of rounds of the ordering check, for each kind of memory and each way to notify the kernel
    #[arg(long, value_name = "N", default_value_t = ROUNDS, default_value_if(QUICK, IS_GIVEN, "200"), value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rounds: u64,
    /// Run with a known bug, which must be found
    #[cfg(feature = "planted-bugs")]
    #[arg(long, value_name = "NAME", hide = true)]
    planted_bug: Option<weft_perftest::cuda::PlantedBug>,
}

/// Bytes of a round: four WRITEs of whole words, each longer than a flag.
fn round_bytes(text: &str) -> Result<u32, String> {
    let bytes =
        text.parse().ok().filter(|bytes: &u32| (256..=1_048_576).contains(bytes) && bytes.is_multiple_of(16));
    bytes.ok_or_else(|| "choose a multiple of 16 from 256 to 1048576".into())
}

impl Task for CudaOptions {
    type Found = CudaResult;

    const KIND: &'static str = "bench cuda";
    const BASIS: Basis = Basis::Real;

    fn work(&self) -> Result<CudaResult, Failure> {
        let bench = CudaBench {
            gpu: self.gpu,
            size_bytes: self.size,
            messages: self.messages,
            depth: self.depth,
            latency_messages: self.latency_messages,
            round_bytes: self.round_bytes,
            rounds: self.rounds,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
        };
        Ok(bench.run()?)
    }

    fn to_text(&self, result: &CudaResult) -> String {
        format!("{}\nrepeat  {}\n", result.to_text(), self.command())
    }

    fn holds(&self, result: &CudaResult) -> bool {
        result.is_right()
    }
}

impl CudaOptions {
    /// The command that repeats the measurement.
    fn command(&self) -> CommandLine {
        let line = CommandLine::new("weft bench cuda")
            .unless(GPU, "--gpu", self.gpu)
            .option("--size", self.size)
            .option("--messages", self.messages)
            .unless(DEPTH, "--depth", self.depth)
            .unless(LATENCY_MESSAGES, "--latency-messages", self.latency_messages)
            .unless(ROUND_BYTES, "--round-bytes", self.round_bytes)
            .option("--rounds", self.rounds);
        #[cfg(feature = "planted-bugs")]
        let line = line.given("--planted-bug", self.planted_bug.map(weft_perftest::cuda::PlantedBug::name));
        line
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cuda {
        #[command(flatten)]
        options: CudaOptions,
    }

    #[test]
    fn the_command_that_repeats_it_says_all_of_it() {
        for line in [
            "cuda --size 65536 --messages 20000 --rounds 20000",
            "cuda --gpu 1 --size 4096 --messages 9 --depth 2 --latency-messages 3 --round-bytes 1024 --rounds 5",
        ] {
            let options = Cuda::try_parse_from(line.split(' ')).unwrap().options;
            assert_eq!(options.command().to_string(), format!("weft bench {line}"));
        }
        assert!(Cuda::try_parse_from(["cuda", "--round-bytes", "1000"]).is_err());
    }
}
