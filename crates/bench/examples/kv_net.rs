//! Measures the key-value store over real sockets, process by process.
//!
//!     cargo run --release -p weft-bench --example kv_net -- put 64 128 1000000

use std::error::Error;
use std::path::Path;

use weft_bench::kv::real::{CLIENT_COMMAND, Kill, MEMBERSHIP_COMMAND, NODE_COMMAND, RealBench, client_main};
use weft_bench::kv::simulated::BenchLimit;
use weft_bench::load::Load;
use weft_bench::workload::Workload;
use weft_cluster::{NodeConfig, ServiceConfig};
use weft_kv::ReadPolicy;
use weft_net::{Stop, run_membership, run_node};
use weft_time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut out = std::io::stdout();
    match words.as_slice() {
        [NODE_COMMAND, "--config", path] => {
            Ok(run_node(&NodeConfig::load(Path::new(path))?, Stop::on_signals()?, &mut out)?)
        }
        [MEMBERSHIP_COMMAND, "--config", path] => {
            Ok(run_membership(&ServiceConfig::load(Path::new(path))?, Stop::on_signals()?, &mut out)?)
        }
        [CLIENT_COMMAND, "--config", path] => Ok(client_main(Path::new(path))?),
        [workload, value_bytes, clients, operations, rest @ ..] => {
            let number =
                |place: usize, default: u64| rest.get(place).map_or(Ok(default), |word| word.parse::<u64>());
            let kill = number(3, 0)?;
            let bench = RealBench {
                nodes: number(0, 3)? as u32,
                workload: Workload::parse(workload)?.with_value_bytes(value_bytes.parse()?)?,
                load: Load::Closed { clients: clients.parse()? },
                client_processes: number(1, 1)? as u32,
                limit: BenchLimit::Operations(operations.parse()?),
                warm_up: Duration::from_ms(200),
                seed: 7,
                reads: ReadPolicy::AnyReplica,
                kill: (kill > 0).then(|| Kill {
                    node: 1,
                    after: Duration::from_ms(kill),
                    restart: Some(Duration::from_ms(2 * kill)),
                }),
                lease: Duration::from_ms(500),
                spin: Duration::from_us(number(2, 50)?),
                replay: String::new(),
            };
            let run = bench.run(Stop::on_signals()?, |_| {})?;
            if std::env::var_os("COUNTERS").is_some() {
                run.counters.iter().for_each(|line| println!("{line}"));
            }
            for mark in &run.result.marks {
                println!("{:>10} us  {}", mark.at_ns / 1_000, mark.label);
            }
            let result = &run.result;
            println!(
                "{:>9.0} ops/s  p50 {:>7.1} us  p99 {:>7.1} us  p99.9 {:>7.1} us  {:?}  lost {:?}  of {}",
                result.throughput_ops_per_s,
                result.p50_ns as f64 / 1e3,
                result.p99_ns as f64 / 1e3,
                result.p999_ns as f64 / 1e3,
                result.checked,
                result.lost_acknowledged_writes,
                result.operations
            );
            Ok(())
        }
        _ => Err(
            "give workload, value bytes, clients, operations [nodes [client processes [spin us [kill ms]]]]"
                .into(),
        ),
    }
}
