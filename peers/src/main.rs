//! Closed-loop load for the replicated stores that Weft is compared with.
//!
//! `weft-peers redis` and `weft-peers etcd` start the servers themselves, on loopback and in memory. Their clients
//! write uniformly chosen records, each client one write at a time; then the program prints throughput and latencies. A
//! write counts when it is replicated: in Redis when both replicas have acknowledged it, in etcd when a majority of the
//! three members has it in its log. All clients share one thread of one process, to leave the machine to the servers.

mod etcd;
mod load;
mod measure;
mod redis;
mod server;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::load::{Load, Wait};
use crate::measure::Measurement;
use crate::server::PeerError;

#[derive(Parser)]
#[command(version, about = "Closed-loop replicated writes against Redis or etcd", max_term_width = 110)]
struct Arguments {
    #[command(subcommand)]
    peer: Peer,
}

#[derive(Subcommand)]
enum Peer {
    /// One master and two replicas; a write is SET, then WAIT until both replicas have acknowledged
    Redis(Common),
    /// A server that runs already and speaks as Redis does: the same writes as to Redis
    Resp {
        #[command(flatten)]
        common: Common,
        /// Its address and port
        #[arg(long)]
        address: std::net::SocketAddr,
    },
    /// Three members with their data on tmpfs; a write is a Put at the leader
    Etcd {
        #[command(flatten)]
        common: Common,
        /// HTTP/2 connections that the clients share
        #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
        connections: u32,
    },
}

#[derive(Args)]
struct Common {
    /// Clients, each with one write outstanding
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: u32,
    /// Writes that a client sends before it waits for all of them (Redis, resp)
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pipeline: u32,
    /// Writes of a pipeline behind which WAIT is sent (Redis, resp)
    #[arg(long, value_enum, default_value_t = Wait::Last)]
    wait: Wait,
    /// Bytes of each value
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    value_bytes: u32,
    /// Measured seconds; one second of warm-up comes before
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Records that are written to, uniformly chosen
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    records: u64,
    /// Write the result as JSON to this file, or to standard output with "-"
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Common {
    fn load(&self) -> Load {
        Load {
            clients: self.clients,
            pipeline: self.pipeline,
            wait: self.wait,
            value_bytes: self.value_bytes,
            seconds: self.seconds,
            records: self.records,
        }
    }
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            // Only the first line of clap's message is printed; --help has the remaining lines.
            eprintln!("{}", error.to_string().lines().next().unwrap_or_default());
            return ExitCode::from(2);
        }
        Err(help) => help.exit(),
    };
    let (measured, json) = match &arguments.peer {
        Peer::Redis(common) => (redis::measure(&common.load()), &common.json),
        Peer::Resp { common, address } => (redis::measure_at(&common.load(), *address), &common.json),
        Peer::Etcd { common, connections } => (etcd::measure(&common.load(), *connections), &common.json),
    };
    let reported = measured.and_then(|measurement| report(&measurement, json.as_deref()));
    match reported {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Prints the line for people and, if the user wants it, the JSON. If the JSON goes to standard output, the line goes
/// to standard error.
fn report(measurement: &Measurement, json: Option<&Path>) -> Result<(), PeerError> {
    let Some(path) = json else {
        println!("{measurement}");
        return Ok(());
    };
    let text = serde_json::to_string_pretty(measurement).expect("plain fields") + "\n";
    let written = if path == Path::new("-") {
        eprintln!("{measurement}");
        std::io::stdout().write_all(text.as_bytes())
    } else {
        println!("{measurement}");
        std::fs::write(path, text)
    };
    written.map_err(|source| PeerError::Result { path: path.to_owned(), source })
}
