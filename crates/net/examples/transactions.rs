//! Seats of a theatre, reserved in transactions: how a procedure is written, served by three nodes, and called.
//!
//!     cargo run --release -p weft-net --example transactions
//!
//! The three nodes are threads of this process, each with its own ports on loopback. On separate machines or
//! processes, each node is a program that calls [`run_node`] with its own configuration, as `weft start` does.
//! docs/transactions.md describes the guarantees.

use std::net::Ipv4Addr;
use std::thread;

use weft_client::{Client, Cluster};
use weft_cluster::{ClusterConfig, NodeConfig};
use weft_net::transactions::Application;
use weft_net::{Stop, run_node};
use weft_node::Registry;
use weft_time::Duration;
use weft_txn::{Accesses, Context, Key, Mode, Outcome, Procedure, ProcedureId, Procedures, Request, Step};
use weft_waist::NodeId;

type Failure = Box<dyn std::error::Error>;

const NODES: usize = 3;
const SEATS: u64 = 100;
const FREE: u64 = 0;

/// Error codes: why a seat is not reserved.
const NO_SUCH_SEAT: u8 = 1;
const TAKEN: u8 = 2;

/// A procedure that reserves all seats in the request for one visitor, or none of them.
struct Reserve;

impl Procedure for Reserve {
    fn name(&self) -> &'static str {
        "reserve"
    }

    fn run(&self, context: &mut Context<'_>) -> Step {
        for index in 0..context.keys().len() {
            match context.value(index).and_then(|value| value.try_into().ok()).map(u64::from_le_bytes) {
                None => return Step::Abort(NO_SUCH_SEAT),
                Some(FREE) => {}
                Some(_) => return Step::Abort(TAKEN),
            }
        }
        let visitor = context.input().to_vec();
        (0..context.keys().len()).for_each(|index| context.write(index, &visitor));
        Step::Commit
    }
}

/// Each shard is a floor of the theatre.
struct Theatre;

impl Application for Theatre {
    fn procedures(&self) -> Procedures {
        Procedures::new(vec![Box::new(Reserve)])
    }

    fn objects(&self) -> u64 {
        SEATS
    }

    fn value_bytes(&self) -> usize {
        size_of::<u64>()
    }

    fn load(&self, shard: usize, put: &mut dyn FnMut(Key, &[u8])) {
        (0..SEATS).for_each(|seat| put(Key::new(shard, seat), &FREE.to_le_bytes()));
    }
}

fn reserve(visitor: u64, seats: &[(usize, u64)]) -> Request {
    let mut accesses = Accesses::default();
    for &(floor, seat) in seats {
        accesses.add(Key::new(floor, seat), Mode::Update).expect("a transaction has up to 64 keys");
    }
    Request { procedure: ProcedureId(0), input: visitor.to_le_bytes().to_vec(), accesses }
}

/// The configuration of each node.
fn configs() -> Result<Vec<NodeConfig>, Failure> {
    // The addresses depend on the process number, so that several examples can run at once.
    let base = u32::from(Ipv4Addr::new(127, 64, 0, 0)) + ((std::process::id() % (1 << 20)) << 2);
    let address = |node: usize| Ipv4Addr::from(base + node as u32);
    let mut text = format!("[membership]\naddress = \"{}:4794\"\nnode = 0\n", address(0));
    for node in 0..NODES {
        text += &format!("[[node]]\naddress = \"{}\"\n", address(node));
    }
    text += "[transactions]\nprocedures = \"theatre\"\nsize = 100\n";
    let cluster = ClusterConfig::parse(&text)?;
    let nodes = (0..NODES).filter_map(NodeId::new);
    Ok(nodes.map(|node| cluster.node(node)).collect::<Result<_, _>>()?)
}

fn main() -> Result<(), Failure> {
    let configs = configs()?;
    let stop = Stop::new()?;
    thread::scope(|scope| {
        for config in &configs {
            let (registry, stop) = (Registry::new().with_application(&Theatre), &stop);
            scope.spawn(move || {
                if let Err(error) = run_node(config, &registry, stop) {
                    eprintln!("node {}: {error}", config.node.index());
                    stop.request();
                }
            });
        }
        let called = call_all(&configs[0]);
        stop.request();
        called
    })
}

fn call_all(config: &NodeConfig) -> Result<(), Failure> {
    let cluster = Cluster { give_up: Duration::from_secs(10), ..Cluster::from(config) };
    let transactions = Client::open(&cluster)?.transactions()?;
    let wishes = [
        (7, vec![(0, 4), (0, 5)], Some(true)),
        (8, vec![(0, 5), (1, 6), (2, 7)], Some(false)),
        (8, vec![(0, 6), (1, 6), (2, 7)], Some(true)),
    ];
    for (visitor, seats, expected) in wishes {
        let ended = transactions.request(reserve(visitor, &seats)).wait()?;
        println!("visitor {visitor} wants {seats:?}: {ended:?}");
        let reserved = match ended.outcome {
            Outcome::Committed { .. } => Some(true),
            Outcome::Aborted { reason: TAKEN, .. } => Some(false),
            _ => None,
        };
        if reserved != expected {
            return Err("that is not what one transaction after the other gives".into());
        }
    }
    Ok(())
}
