//! Tests Weft against `rdma_rxe` of Debian's kernel in a guest, over a network that loses, duplicates and
//! reorders packets.
//!
//! `tests/rxe/run.sh` builds the guest and starts this program.

mod batch;
mod faults;
mod guest;
mod random;
mod sockets;
mod trial;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};

use batch::{Batch, Kind, MEMORY_BYTES};
use faults::{Rates, Tally};
use guest::Guest;
use random::Random;
use trial::{Outcome, Trial};
use weft_net::Clock;
use world::{Trouble, World};

/// Weft against Linux's soft RoCE in a guest
#[derive(Debug, Parser)]
struct Arguments {
    /// What Weft's NIC is made of; `sockets` as `tests/rxe/unprivileged.sh` runs it
    #[arg(long, value_enum, default_value = "soft")]
    nic: Made,
    /// Over IPv6, with `--nic sockets` alone
    #[arg(long)]
    ipv6: bool,
    /// Random messages of all kinds from both ends, at each loss
    #[arg(long, default_value_t = 1_000)]
    messages: u64,
    /// Losses in per cent of the packets, for the random messages
    #[arg(long, value_delimiter = ',', default_value = "0,1,5,10")]
    loss: Vec<u32>,
    /// WRITEs by Linux with a READ behind each, and as many with an atomic
    #[arg(long, default_value_t = 200)]
    pairs: u64,
    /// Loss in per cent for the pairs
    #[arg(long, default_value_t = 10)]
    pairs_loss: u32,
    /// Reordered packets, in thousandths
    #[arg(long, default_value_t = 20)]
    reordering: u32,
    /// Doubled packets, in thousandths
    #[arg(long, default_value_t = 10)]
    duplication: u32,
    /// Acknowledgement time-out of both ends: 4.096 us times two to this power
    #[arg(long, default_value_t = 14)]
    timeout: u8,
    /// What all random numbers follow from; what is lost also depends on the real order of packets
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the guest lies
    #[arg(long, default_value = ".tools/rxe")]
    image: PathBuf,
    /// Write the results to this file, `-` for the standard output in place of the table
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Made {
    Soft,
    /// The gateware, Verilated
    Rtl,
    /// A card behind an ordinary UDP socket, by a user without capabilities
    Sockets,
}

/// A line of the table.
#[derive(Debug, serde::Serialize)]
struct Row {
    workload: &'static str,
    loss_percent: u32,
    seconds: f64,
    #[serde(flatten)]
    outcome: Outcome,
    /// Counts of the network, in the directions to Linux and to Weft.
    network: [Tally; 2],
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Trouble(trouble)) => {
            eprintln!("error: {trouble}");
            ExitCode::from(2)
        }
    }
}

/// Runs the test. Returns whether all results were right.
fn run(arguments: &Arguments) -> Result<bool, Trouble> {
    if arguments.ipv6 && arguments.nic != Made::Sockets {
        return Err(Trouble("--ipv6 goes with --nic sockets: the frames of other NICs are of IPv4".into()));
    }
    let clock = Clock::starting_now();
    let mut user = None;
    let nic = match arguments.nic {
        Made::Sockets => {
            let (nic, named) = world::sockets(MEMORY_BYTES, arguments.seed, clock, arguments.ipv6)?;
            user = Some(named);
            nic
        }
        Made::Soft => world::soft(MEMORY_BYTES, arguments.seed),
        #[cfg(feature = "gateware")]
        Made::Rtl => world::rtl(MEMORY_BYTES, arguments.seed),
        #[cfg(not(feature = "gateware"))]
        Made::Rtl => return Err(Trouble("--nic rtl needs a build with --features gateware".into())),
    };
    let guest = Guest::start(&arguments.image, &world::LINUX.to_string(), 1500)?;
    let mut trial = Trial::new(
        World::new(nic, guest, arguments.seed, clock)?,
        arguments.timeout,
        world::addresses(arguments.ipv6),
    )?;
    let kernel = trial.kernel()?;
    let quiet = arguments.json.as_ref().is_some_and(|path| path.as_os_str() == "-");
    if !quiet {
        println!("Linux {kernel} in a guest, {:?} NIC, seed {}", arguments.nic, arguments.seed);
        if let Some(user) = user {
            println!("Weft's process is of user {user} and has no capability");
        }
        println!(
            "{:<16} {:>5} {:>9} {:>6} {:>6} {:>8} {:>9} {:>8} {:>8}",
            "workload", "loss", "messages", "wrong", "lost", "strayed", "packets", "dropped", "seconds"
        );
    }
    let mut rows = Vec::new();
    let mixed = arguments.loss.iter().map(|loss| ("mixed", *loss, arguments.messages));
    let pairs = ["write-then-read", "write-then-atomic"]
        .map(|name| (name, arguments.pairs_loss, 2 * arguments.pairs));
    for (workload, loss, messages) in mixed.chain(pairs) {
        if messages == 0 {
            continue;
        }
        let row = measure(&mut trial, arguments, workload, loss, messages)?;
        if !quiet {
            print_row(&row);
        }
        rows.push(row);
    }
    if let Some(path) = &arguments.json {
        let nic = format!("{:?}", arguments.nic).to_lowercase();
        let counters = trial.counters();
        let all = serde_json::json!({
            "kernel": kernel, "nic": nic, "user": user, "ipv6": arguments.ipv6, "seed": arguments.seed, "timeout": arguments.timeout,
            "reordering_per_mille": arguments.reordering, "duplication_per_mille": arguments.duplication,
            "rows": rows, "weft_counters": counters,
        });
        let text = serde_json::to_string_pretty(&all).expect("numbers and texts");
        if quiet {
            println!("{text}");
        } else {
            std::fs::write(path, text + "\n")?;
        }
    }
    Ok(rows.iter().all(|row| row.outcome.wrong + row.outcome.lost + row.outcome.strayed == 0))
}

fn measure(
    trial: &mut Trial,
    arguments: &Arguments,
    workload: &'static str,
    loss: u32,
    messages: u64,
) -> Result<Row, Trouble> {
    let mut random = Random::new(arguments.seed ^ u64::from(loss) << 32);
    let mut outcome = Outcome::default();
    trial.connect(&mut random)?;
    trial.world().set_faults(Rates {
        loss: loss * 10,
        duplication: arguments.duplication,
        reordering: arguments.reordering,
    });
    let begin = Instant::now();
    while outcome.messages < messages {
        let batch = match workload {
            "mixed" => Batch::mixed(&mut random),
            "write-then-read" => Batch::pairs(&mut random, Kind::Read),
            _ if random.chance(500) => Batch::pairs(&mut random, Kind::FetchAdd),
            _ => Batch::pairs(&mut random, Kind::CompareSwap),
        };
        trial.run(&batch, &mut random, &mut outcome)?;
    }
    let network = trial.world().tallies();
    Ok(Row { workload, loss_percent: loss, seconds: begin.elapsed().as_secs_f64(), outcome, network })
}

fn print_row(row: &Row) {
    let packets = row.network.iter().map(|tally| tally.packets).sum::<u64>();
    let dropped = row.network.iter().map(|tally| tally.lost).sum::<u64>();
    let Outcome { messages, wrong, lost, strayed, .. } = row.outcome;
    println!(
        "{:<16} {:>3} % {messages:>9} {wrong:>6} {lost:>6} {strayed:>8} {packets:>9} {dropped:>8} {:>8.1}",
        row.workload, row.loss_percent, row.seconds
    );
    for (cause, count) in &row.outcome.causes {
        println!("    {count} x {cause}");
    }
}
