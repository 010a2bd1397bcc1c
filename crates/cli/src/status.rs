//! `weft status`: shows the state of a running cluster's nodes and of its membership service.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use weft_client::{ClusterStatus, NodeOverview, state_name, status};
use weft_cluster::status::{EngineReport, ServiceStatus};
use weft_cluster::{ClusterConfig, Phase};
use weft_net::Stop;
use weft_results::table::{Column, Table, grouped};
use weft_time::Duration;
use weft_waist::{NodeSet, View};

use crate::client::CONFIG;
use crate::failure::{Failure, Verdict};
use crate::output::{self, Json};

/// Escape sequence that moves a terminal's cursor to the top left and clears the screen (ECMA-48: CUP and
/// ED).
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Which cluster, and how to show it.
#[derive(Clone, Debug, Args)]
pub(crate) struct StatusArguments {
    /// Configuration file of the cluster
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    config: PathBuf,
    /// Time to wait for answers, in ms
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    give_up_ms: u64,
    /// Also show the counters of all nodes, except those that are 0; the JSON always has all counters
    #[arg(long)]
    counters: bool,
    /// Show the status again every second until SIGINT; on a terminal it replaces the last one
    #[arg(long)]
    watch: bool,
    /// Write the status as JSON to FILE (- for standard output); with --watch one line each time
    #[arg(long, value_name = "FILE")]
    json: Option<Json>,
}

impl StatusArguments {
    /// Fetches the status and shows it. If something is wrong with the cluster, the exit code says so.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        output::check_json(self.json.as_ref())?;
        let config = ClusterConfig::load(&self.config)?;
        if !self.watch {
            let (text, object, verdict) = self.ask(&config)?;
            output::deliver(self.json.as_ref(), || format!("{object:#}\n"), &text)?;
            return Ok(verdict);
        }
        let stop = Stop::on_signals()?;
        let is_terminal = io::stdout().is_terminal();
        loop {
            let (text, object, verdict) = self.ask(&config)?;
            match &self.json {
                Some(json) => output::deliver(Some(json), || format!("{object}\n"), "")?,
                None if is_terminal => output::print(&format!("{CLEAR}{text}"))?,
                None => output::print(&format!("{text}\n"))?,
            }
            if stop.wait(Duration::from_secs(1))? {
                return Ok(verdict);
            }
        }
    }

    fn ask(&self, config: &ClusterConfig) -> Result<(String, Value, Verdict), Failure> {
        let status = status(config, Duration::from_ms(self.give_up_ms))?;
        let problems = status.problems(config);
        let verdict = if problems.is_empty() { Verdict::Good } else { Verdict::Unwell };
        Ok((text(config, &status, &problems, self.counters), to_json(config, &status, &problems), verdict))
    }
}

fn text(config: &ClusterConfig, status: &ClusterStatus, problems: &[String], counters: bool) -> String {
    let mut text = format!("cluster {}: {}\n\n", config.name, headline(status));
    text += &nodes(config, status).to_string();
    text += "\n";
    text += &engines(status).to_string();
    if counters {
        text += "\n";
        text += &counter_table(status).to_string();
    }
    text += "\n";
    match problems {
        [] => text += "all is well\n",
        problems => problems.iter().for_each(|problem| text += &format!("wrong: {problem}\n")),
    }
    text
}

fn headline(status: &ClusterStatus) -> String {
    let Some(ServiceStatus { phase, view, replicas, holder, term, .. }) = &status.service else {
        return "the membership service does not answer".to_owned();
    };
    let held =
        holder.map(|holder| format!("; node {} holds the membership service in term {term}", holder.index()));
    let phase = match phase {
        Phase::Bootstrapping { .. } => "no view yet".to_owned(),
        Phase::Halted => "halted".to_owned(),
        Phase::Running => format!(
            "epoch {}, full {}, joining {}, {replicas} replicas",
            view.epoch.0,
            set(view.full),
            set(view.joining)
        ),
    };
    phase + &held.unwrap_or_default()
}

fn nodes(config: &ClusterConfig, status: &ClusterStatus) -> Table {
    let mut table = Table::new([
        Column::words("node"),
        Column::words("address"),
        Column::words("in the view"),
        Column::numbers("epoch", ""),
        Column::numbers("lease left", "ms"),
        Column::numbers("up", "s"),
        Column::words("engines full"),
        Column::words("incarnation"),
    ]);
    for ((node, peer), overview) in config.peers.iter().zip(&status.nodes) {
        let view = status.service.as_ref().map(|service| service.view);
        let view = view.or(overview.as_ref().map(|overview| overview.status.view)).unwrap_or_default();
        let place = place(view, NodeSet::EMPTY.with(node));
        let (number, address) = (node.index().to_string(), peer.datagram_place().to_string());
        let Some(NodeOverview { status, engines, .. }) = overview else {
            let none = String::new;
            table.row([
                number,
                address,
                place.to_owned(),
                none(),
                none(),
                none(),
                "no answer".to_owned(),
                none(),
            ]);
            continue;
        };
        let full = engines.iter().filter(|engine| state_name(engine.status.state) == "full").count();
        table.row([
            number,
            address,
            place.to_owned(),
            status.view.epoch.0.to_string(),
            grouped(milliseconds(status.lease_left)),
            grouped(milliseconds(status.uptime) / 1_000),
            format!("{full} of {}", engines.len()),
            status.incarnation.to_string(),
        ]);
    }
    table
}

/// The role of a node in a view.
fn place(view: View, node: NodeSet) -> &'static str {
    if !view.full.intersection(node).is_empty() {
        "full"
    } else if !view.joining.intersection(node).is_empty() {
        "joining"
    } else {
        "no"
    }
}

fn engines(status: &ClusterStatus) -> Table {
    let mut table = Table::new([
        Column::words("engine"),
        Column::words("node"),
        Column::words("state"),
        Column::numbers("epoch", ""),
        Column::words("leads"),
        Column::words("clients"),
        Column::words("waits for"),
    ]);
    let overviews: Vec<_> = status.nodes.iter().flatten().collect();
    let slots = overviews.iter().map(|overview| overview.engines.len()).max().unwrap_or(0);
    for slot in 0..slots {
        for overview in &overviews {
            let Some(engine) = overview.engines.get(slot) else { continue };
            table.row([
                engine.name.to_string(),
                overview.status.node.index().to_string(),
                state_name(engine.status.state).to_owned(),
                engine.status.epoch.0.to_string(),
                of(engine.leads, engine.shards),
                of(engine.sessions, engine.sessions_max),
                waits(engine),
            ]);
        }
    }
    table
}

/// The nodes for which an engine waits. If it has waited for longer than a lease, the text says that it
/// stalls.
fn waits(engine: &EngineReport) -> String {
    if !engine.stalled_for.is_empty() {
        format!("{} (stalls)", set(engine.stalled_for))
    } else if !engine.waits_for.is_empty() {
        set(engine.waits_for)
    } else {
        String::new()
    }
}

fn counter_table(status: &ClusterStatus) -> Table {
    let mut table =
        Table::new([Column::words("node"), Column::words("counter"), Column::numbers("count", "")]);
    for overview in status.nodes.iter().flatten() {
        for (name, count) in overview.counters.iter().filter(|(_, count)| *count > 0) {
            table.row([overview.status.node.index().to_string(), name.to_string(), grouped(*count)]);
        }
    }
    table
}

fn of(some: u32, all: u32) -> String {
    if all == 0 { String::new() } else { format!("{some} of {all}") }
}

fn set(nodes: NodeSet) -> String {
    let numbers: Vec<_> = nodes.iter().map(|node| node.index().to_string()).collect();
    if numbers.is_empty() { "-".to_owned() } else { numbers.join(",") }
}

const fn milliseconds(time: Duration) -> u64 {
    time.as_ns() / 1_000_000
}

fn indices(nodes: NodeSet) -> Vec<usize> {
    nodes.iter().map(|node| node.index()).collect()
}

fn to_json(config: &ClusterConfig, status: &ClusterStatus, problems: &[String]) -> Value {
    let nodes = config.peers.iter().zip(&status.nodes).map(|((node, peer), overview)| {
        let mut object = json!({
            "node": node.index(),
            "address": peer.datagram_place().to_string(),
            "answers": overview.is_some(),
        });
        if let Some(overview) = overview {
            let Value::Object(fields) = overview_json(overview) else {
                unreachable!("it is made as an object")
            };
            object.as_object_mut().expect("it is made as an object").extend(fields);
        }
        object
    });
    json!({
        "cluster": config.name.as_str(),
        "well": problems.is_empty(),
        "problems": problems,
        "membership": service_json(config, status.service.as_ref()),
        "nodes": nodes.collect::<Vec<_>>(),
    })
}

fn view_json(view: View) -> Value {
    json!({ "epoch": view.epoch.0, "full": indices(view.full), "joining": indices(view.joining) })
}

fn service_json(config: &ClusterConfig, service: Option<&ServiceStatus>) -> Value {
    let holder = service.and_then(|service| service.holder).map(|holder| holder.index());
    let address = holder.map_or_else(
        || config.membership.address.to_string(),
        |holder| config.membership_places()[holder].to_string(),
    );
    let Some(service) = service else { return json!({ "address": address, "answers": false }) };
    let (phase, missing) = match service.phase {
        Phase::Bootstrapping { missing } => ("bootstrapping", indices(missing)),
        Phase::Running => ("running", Vec::new()),
        Phase::Halted => ("halted", Vec::new()),
    };
    let members = service.nodes.iter().enumerate().map(|(node, member)| {
        json!({
            "node": node,
            "incarnation": member.incarnation.map(weft_cluster::Incarnation::get),
            "lease_left_ms": milliseconds(member.lease_left),
            "silent_ms": member.silent.map(milliseconds),
            "reported_epoch": member.reported.0,
        })
    });
    json!({
        "address": address,
        "answers": true,
        "phase": phase,
        "missing": missing,
        "view": view_json(service.view),
        "replicas": service.replicas,
        "holder": holder,
        "term": holder.map(|_| service.term),
        "nodes": members.collect::<Vec<_>>(),
    })
}

fn overview_json(overview: &NodeOverview) -> Value {
    let NodeOverview { status, engines, counters } = overview;
    let engines = engines.iter().map(|engine| {
        json!({
            "slot": engine.slot,
            "engine": engine.name.as_str(),
            "state": state_name(engine.status.state),
            "epoch": engine.status.epoch.0,
            "leads": engine.leads,
            "shards": engine.shards,
            "sessions": engine.sessions,
            "sessions_max": engine.sessions_max,
            "waits_for": indices(engine.waits_for),
            "stalled_for": indices(engine.stalled_for),
        })
    });
    // Several engines of one kind have counters of the same names; these are added.
    let mut sums = serde_json::Map::new();
    for (name, count) in counters {
        let sum = sums.get(name.as_str()).and_then(Value::as_u64).unwrap_or(0);
        sums.insert(name.to_string(), (sum + count).into());
    }
    json!({
        "incarnation": status.incarnation.get(),
        "uptime_ms": milliseconds(status.uptime),
        "view": view_json(status.view),
        "lease_ms": milliseconds(status.lease),
        "lease_left_ms": milliseconds(status.lease_left),
        "waits": status.refusal.map(|reason| reason.to_string()),
        "engines": engines.collect::<Vec<_>>(),
        "counters": sums,
    })
}
