//! The metrics of a node.

use std::collections::BTreeMap;

use weft_cluster::ServerCounters;
use weft_cluster::status::{EngineReport, NodeStatus};
use weft_node::NodeEngine;
use weft_waist::{Engine, EngineState};

use crate::metrics::{Reading, Value};
use crate::{Address, Counters, UdpPort};

fn gauge(name: &str, help: &'static str, engine: Option<&str>, value: f64) -> Reading {
    Reading { name: name.to_owned(), help, engine: engine.map(str::to_owned), value: Value::Gauge(value) }
}

fn counter(name: String, help: &'static str, engine: Option<&str>, count: u64) -> Reading {
    Reading { name, help: help.trim(), engine: engine.map(str::to_owned), value: Value::Counter(count) }
}

/// Counters with their help, their names under a prefix.
fn counters(
    prefix: &str,
    list: impl IntoIterator<Item = (&'static str, u64)>,
    help: impl Fn(&str) -> &'static str,
) -> Vec<Reading> {
    let reading = |(name, count): (&str, u64)| counter(format!("{prefix}_{name}"), help(name), None, count);
    list.into_iter().map(reading).collect()
}

fn find(known: &[(&'static str, &'static str)], name: &str) -> &'static str {
    known.iter().find(|(counter, _)| *counter == name).map_or("", |(_, help)| help)
}

/// Metrics of the node as a whole. `is_full`: whether the node believes to be a full member.
pub(crate) fn of_node(status: &NodeStatus, is_full: bool) -> [Reading; 4] {
    [
        gauge("epoch", "Epoch of the newest view that the node knows.", None, status.view.epoch.0.into()),
        gauge("full", "Whether the node is a full member of that view.", None, f64::from(u8::from(is_full))),
        gauge(
            "lease_left_seconds",
            "How much is left of the node's lease.",
            None,
            status.lease_left.as_secs_f64(),
        ),
        gauge("uptime_seconds", "How long the process has been running.", None, status.uptime.as_secs_f64()),
    ]
}

/// Metrics of the card and its transport.
pub(crate) fn of_card(list: Vec<(&'static str, u64)>) -> Vec<Reading> {
    let known: Vec<_> = weft_nic::Card::<NodeEngine>::counter_help().collect();
    counters("card", list, |name| find(&known, name))
}

/// Metrics of a port; `name` identifies it.
pub(crate) fn of_port<A: Address>(name: &str, port: &UdpPort<A>) -> Vec<Reading> {
    let mut readings =
        counters(&format!("{name}_port"), port.counters().list(), |name| find(Counters::HELP, name));
    if let Some(sealed) = port.seal_counters() {
        let help = |name: &str| find(weft_seal::Counters::HELP, name);
        readings.extend(counters(&format!("{name}_port"), sealed.list(), help));
    }
    let drops = port.receive_buffer_drops().map_or(0, u64::from);
    let help = "Datagrams that the kernel dropped because nobody fetched them in time.";
    readings.push(counter(format!("{name}_port_receive_buffer_drops"), help, None, drops));
    readings
}

/// Metrics of the membership service that the node runs.
pub(crate) fn of_service(service: ServerCounters) -> Vec<Reading> {
    counters("membership", service.list(), |name| find(ServerCounters::HELP, name))
}

/// Metrics of an engine.
pub(crate) fn of_engine(engine: &NodeEngine, report: &EngineReport) -> Vec<Reading> {
    let name = Some(report.name.as_str());
    let is_full = u8::from(report.status.state == EngineState::Full);
    let stalled = report.stalled_for.len() as u32;
    let mut readings = vec![
        gauge("engine_full", "Whether the engine has all that it needs.", name, is_full.into()),
        gauge("engine_leads", "Shards that the engine leads at this node.", name, report.leads.into()),
        gauge("engine_clients", "Clients that the engine remembers.", name, report.sessions.into()),
        gauge(
            "engine_stalled_peers",
            "Nodes for which the engine has waited longer than a lease.",
            name,
            stalled.into(),
        ),
    ];
    let kind = match engine {
        NodeEngine::KeyValue(_) => "kv",
        NodeEngine::Transactions(_) => "transactions",
        NodeEngine::Log(_) => "log",
        NodeEngine::Object(_) => "object",
        NodeEngine::Rounds(_) => "rounds",
        NodeEngine::Lock(_) => "lock",
    };
    // Similar parts of an engine have counters of the same names, which are added up.
    let mut sums: BTreeMap<&'static str, u64> = BTreeMap::new();
    engine.counters().into_iter().for_each(|(name, count)| *sums.entry(name).or_default() += count);
    let own = sums.into_iter();
    readings.extend(own.map(|(counted, count)| {
        counter(format!("{kind}_{counted}"), engine.counter_help(counted), name, count)
    }));
    readings
}
