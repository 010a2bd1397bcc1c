//! A program with a data type of its own: it defines the type, serves it on three nodes, and calls it.
//!
//!     cargo run --release -p weft-net --example own_type
//!
//! The three nodes are threads of this process, each with its own ports on loopback. On separate machines, each
//! node is a program that calls [`run_node`] with its own part of the configuration, as `weft start` does.
//! docs/own-types.md explains this example step by step.

mod stock;

use std::net::Ipv4Addr;
use std::thread;

use weft_client::{Client, Cluster, Update};
use weft_cluster::ClusterConfig;
use weft_net::{Stop, run_node};
use weft_node::Registry;
use weft_time::Duration;
use weft_waist::NodeId;

type Failure = Box<dyn std::error::Error>;

const NODES: usize = 3;

/// The cluster's configuration. The addresses depend on the process number, so that several examples can run at
/// once.
fn config() -> Result<ClusterConfig, Failure> {
    let base = u32::from(Ipv4Addr::new(127, 96, 0, 0)) + ((std::process::id() % (1 << 18)) << 3);
    let address = |node: usize| Ipv4Addr::from(base + 1 + node as u32);
    let mut text = format!("[membership]\naddress = \"{}:4794\"\nnode = 0\n", address(0));
    for node in 0..NODES {
        text += &format!("[[node]]\naddress = \"{}\"\n", address(node));
    }
    text += "[[object]]\nname = \"shop\"\ntype = \"stock\"\n";
    Ok(ClusterConfig::parse(&text)?)
}

/// Starts the nodes, calls the object, and stops the nodes. A test calls this function, too.
pub fn main() -> Result<(), Failure> {
    let config = config()?;
    let stop = Stop::new()?;
    let kind = stock::stock()?;
    let nodes = (0..NODES).filter_map(NodeId::new).map(|node| config.node(node));
    let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
    thread::scope(|scope| {
        for node in &nodes {
            // On the nodes: registers the type under the name that the configuration uses.
            let (registry, stop) = (Registry::new().with_type("stock", kind.clone()), &stop);
            scope.spawn(move || {
                if let Err(error) = run_node(node, &registry, stop) {
                    eprintln!("node {}: {error}", node.node.index());
                    stop.request();
                }
            });
        }
        let called = call(&config);
        stop.request();
        called
    })
}

fn call(config: &ClusterConfig) -> Result<(), Failure> {
    // On the client: registers the definition under the same name.
    let cluster = Cluster { give_up: Duration::from_secs(10), ..Cluster::from(config) };
    let client = Client::open(&cluster.with_type("stock", stock::definition()))?;
    let shop = client.object("shop")?.at(0)?;
    println!("restock 5: {:?}", shop.update("restock", &[5]).wait()?);
    // All sales are made at one replica, which has its own restocks. Sales conflict with each other, so a log
    // decides their order.
    for (amount, expected) in [(3, Update::Done), (3, Update::Refused), (2, Update::Done)] {
        let sold = shop.update("sell", &[amount]).wait()?;
        println!("sell {amount}: {sold:?}");
        if sold != expected {
            return Err("that is not what the invariant allows".into());
        }
    }
    let [stored, sold] = [shop.query("stored", &[]).wait()?, shop.query("sold", &[]).wait()?];
    println!("stored {stored}, sold {sold}");
    if (stored, sold) == (0, 5) { Ok(()) } else { Err("the queries do not know what was sold".into()) }
}
