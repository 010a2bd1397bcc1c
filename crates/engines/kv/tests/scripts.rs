//! Golden scripts: each file in `tests/scripts` is a dialogue between clients and nodes with all messages.
//!
//! A line that begins with `>` is a command to the network; the lines below it are its results. Lines with `#` are
//! comments. `WEFT_UPDATE_SCRIPTS=1 cargo test -p weft-kv scripts::` writes the current results into the
//! scripts: read the difference before you commit it.
//!
//! ```text
//! > nodes 3                       three nodes in epoch 1
//! > put 0 c7 1 p0 red             client 7 sends its request 1 to node 0: put "red" to a key of partition 0
//! > get 1 c7 2 p0                 likewise: get, delete
//! > cas 0 c7 3 p0 0 red           expected version as 0 or epoch.number
//! > cad 0 c7 4 p0 1.1             compare and delete
//! > scan 0 c7 5 0                 list the keys, from slot 0 on
//! > deliver                       deliver all messages in flight and those sent in response, until none is left
//! > deliver 0-1                   deliver only the messages in flight from node 0 to node 1
//! > deliver 0-1 2                 deliver only the first two of these
//! > drop 0-1                      lose the messages in flight from node 0 to node 1
//! > keep 0-1                      hold them back ...
//! > release                       ... and put all that are held back in flight again
//! > duplicate 0-1                 duplicate each of them
//! > wait 3ms                      let time pass; timers fire
//! > view 2 full 1,2 joining 0 at 1,2   send nodes 1 and 2 the view of epoch 2
//! > lease 0 10us                  renew node 0's lease, to end in 10 us
//! > start 0                       restart node 0 with empty memory
//! > states 0,1                    print the states that nodes 0 and 1 report to their hosts
//! > counters                      print the counters of each node
//! > digests                       compare the data of all full members of the last view
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use crate::golden_scripts::{self, scripts_read_as_they_did};
use weft_kv::message::{Acknowledge, Commit, Kind, Reply, Request, Sealed, StateChunk, StateRequest, Write};
use weft_kv::{Kv, Operation, Parameters, Role, Status, partition};
use weft_time::{Duration, Instant};
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, Epoch, Event, Io, Memory, Message, NodeId, NodeSet, View,
};

struct Flight {
    from: usize,
    to: usize,
    kind: u8,
    payload: Vec<u8>,
}

struct Stage {
    now: Instant,
    nodes: Vec<(Kv, Memory, BTreeMap<u32, Instant>)>,
    view: View,
    flights: VecDeque<Flight>,
    kept: VecDeque<Flight>,
    output: String,
}

fn parameters() -> Parameters {
    let chunk_bytes = 32 + 392;
    Parameters { buckets: 256, ways: 2, value_bytes_max: 32, window: 4, chunk_bytes, ..Parameters::default() }
}

fn node(index: usize) -> NodeId {
    NodeId::new(index).unwrap()
}

/// The key named `p5` is the first key of partition 5, `p5b` the second, and so on.
fn key(name: &str) -> [u8; 8] {
    let digits = name[1..].trim_end_matches(|letter: char| letter.is_ascii_lowercase());
    let rank =
        name.bytes().last().filter(u8::is_ascii_lowercase).map_or(0, |letter| usize::from(letter - b'a'));
    let wanted: u32 = digits.parse().unwrap();
    (0u64..).map(u64::to_be_bytes).filter(|key| partition(key) == wanted).nth(rank).unwrap()
}

fn name(wanted: &[u8]) -> String {
    let place = partition(wanted);
    ["", "b", "c", "d"]
        .iter()
        .map(|letter| format!("p{place}{letter}"))
        .find(|name| key(name) == wanted)
        .unwrap_or_else(|| format!("{wanted:x?}"))
}

fn version(value: u64) -> String {
    if value == 0 { "0".into() } else { format!("{}.{}", value >> 40, value & 0xff_ffff_ffff) }
}

fn parse_version(text: &str) -> u64 {
    text.split_once('.')
        .map_or(0, |(epoch, number)| weft_kv::version(Epoch(epoch.parse().unwrap()), number.parse().unwrap()))
}

fn set(text: &str) -> NodeSet {
    text.split(',').filter_map(|index| index.parse().ok()).map(node).collect()
}

fn duration(text: &str) -> Duration {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
    let count = digits.parse().unwrap();
    match &text[digits.len()..] {
        "us" => Duration::from_us(count),
        "ms" => Duration::from_ms(count),
        unit => panic!("no unit {unit}"),
    }
}

/// A message in the notation of the scripts.
fn describe(kind: u8, payload: &[u8]) -> String {
    let text = |value: &[u8]| {
        if value.is_empty() { String::new() } else { format!(" {:?}", String::from_utf8_lossy(value)) }
    };
    if kind == Kind::Reply as u8 {
        let reply = Reply::parse(payload).unwrap();
        let status = match reply.status {
            Status::Ok => "ok".into(),
            status => format!("{status:?}"),
        };
        let (client, request) = (reply.client, reply.request);
        return format!("c{client}/{request} {status} {}{}", version(reply.version), text(reply.value));
    }
    if kind == Kind::Write as u8 {
        let write = Write::parse(payload, 8).unwrap();
        let what = match write.operation {
            Operation::Put => "put",
            Operation::Delete => "delete",
            Operation::CompareAndSet => "cas",
            Operation::CompareAndDelete => "cad",
            Operation::Get | Operation::Scan | Operation::Backup => unreachable!(),
        };
        let status = if write.status == Status::Ok { String::new() } else { format!(" {:?}", write.status) };
        let (epoch, number, client, request) = (write.epoch.0, write.number, write.client, write.request);
        let (key, value, committed) = (name(write.key), text(write.value), write.committed);
        return format!(
            "write {epoch}.{number} c{client}/{request} {what} {key}{value}{status} committed {committed}"
        );
    }
    if kind == Kind::Acknowledge as u8 {
        let message = Acknowledge::parse(payload).unwrap();
        let flags = [if message.gap { " gap" } else { "" }, if message.asks { " asks" } else { "" }].concat();
        return format!(
            "accepted {}.{} committed {}{flags}",
            message.epoch.0, message.accepted, message.committed
        );
    }
    if kind == Kind::Commit as u8 {
        let message = Commit::parse(payload).unwrap();
        return format!("committed {}.{}", message.epoch.0, message.committed);
    }
    if kind == Kind::Sealed as u8 {
        let sealed = Sealed::parse(payload).unwrap();
        let accepted: Vec<_> = sealed.base_members.iter().map(|node| sealed.accepted[node.index()]).collect();
        return format!(
            "sealed for {}: epoch {} {accepted:?}, heard {:?}",
            sealed.epoch.0, sealed.base.0, sealed.heard
        );
    }
    if kind == Kind::StateRequest as u8 {
        let request = StateRequest::parse(payload).unwrap();
        return format!("wants {:?} from {}", request.what, request.from);
    }
    let chunk = StateChunk::parse(payload).unwrap();
    let StateChunk { what, from, next, tag, records, .. } = chunk;
    let next = if next == u32::MAX { "the end".into() } else { next.to_string() };
    let last = if chunk.last { ", last" } else { "" };
    format!("{what:?} from {from} to {next}: {} bytes as of {tag}{last}", records.len())
}

impl Stage {
    fn new() -> Self {
        Self {
            now: Instant::ZERO,
            nodes: Vec::new(),
            view: View::default(),
            flights: VecDeque::new(),
            kept: VecDeque::new(),
            output: String::new(),
        }
    }

    fn handle(&mut self, index: usize, event: Event<'_>) {
        let (kv, memory, timers) = &mut self.nodes[index];
        let mut effects = Effects::default();
        let before = kv.role();
        kv.handle(self.now, event, &mut Io { effects: &mut effects, memory });
        if kv.role() != before {
            writeln!(self.output, "{index} is {:?} in {}", kv.role(), kv.status().epoch).unwrap();
        }
        for effect in effects.iter() {
            match effect {
                Effect::Send { to, kind, payload } => {
                    for to in to.iter().map(NodeId::index) {
                        let payload = effects.message(*kind, payload).payload.to_vec();
                        writeln!(self.output, "{index} -> {to}  {}", describe(*kind, &payload)).unwrap();
                        self.flights.push_back(Flight { from: index, to, kind: *kind, payload });
                    }
                }
                Effect::Reply { kind, payload, .. } => {
                    let payload = effects.message(*kind, payload).payload;
                    writeln!(self.output, "{index} answers {}", describe(*kind, payload)).unwrap();
                }
                Effect::SetTimer { tag, at } => drop(timers.insert(*tag, *at)),
                Effect::Post { .. }
                | Effect::Access { .. }
                | Effect::Connect { .. }
                | Effect::HostRead { .. }
                | Effect::HostWrite { .. } => {
                    panic!("this engine has no queue pairs and leaves the host's memory alone")
                }
            }
        }
    }

    /// Removes messages in flight: all, those of one link, or a number of them.
    fn take(&mut self, words: &[&str]) -> VecDeque<Flight> {
        let link = words.first().map(|link| {
            let (from, to) = link.split_once('-').unwrap();
            (from.parse::<usize>().unwrap(), to.parse::<usize>().unwrap())
        });
        let mut most = words.get(1).map_or(usize::MAX, |count| count.parse().unwrap());
        let (taken, left) = std::mem::take(&mut self.flights).into_iter().partition(|flight| {
            let takes = most > 0 && link.is_none_or(|link| link == (flight.from, flight.to));
            most -= usize::from(takes);
            takes
        });
        self.flights = left;
        taken
    }

    fn arrive(&mut self, flight: Flight) {
        let message = Message { kind: flight.kind, payload: &flight.payload };
        self.handle(flight.to, Event::Deliver { from: node(flight.from), message, last: true });
    }

    fn configure(&mut self, index: usize, lease: Duration) {
        let configuration =
            Configuration { node: node(index), view: self.view, lease_until: self.now + lease };
        self.handle(index, Event::Configure(configuration));
    }

    fn start(&mut self, index: usize) {
        let memory = Memory::new(parameters().memory_bytes());
        let fresh = (Kv::new(parameters()), memory, BTreeMap::new());
        if index < self.nodes.len() {
            self.nodes[index] = fresh;
        } else {
            self.nodes.push(fresh);
        }
    }
}

impl golden_scripts::Stage for Stage {
    fn command(&mut self, words: &[&str]) {
        match words[0] {
            "nodes" => {
                let count = words[1].parse().unwrap();
                self.view = View { epoch: Epoch(1), full: NodeSet::first(count), joining: NodeSet::EMPTY };
                for index in 0..count {
                    self.start(index);
                    self.configure(index, Duration::from_secs(10));
                }
            }
            "put" | "get" | "delete" | "cas" | "cad" | "scan" => {
                let to: usize = words[1].parse().unwrap();
                let key = if words[0] == "scan" { [0; 8] } else { key(words[4]) };
                let (operation, expected, value) = match words[0] {
                    "put" => (Operation::Put, 0, words[5]),
                    "get" => (Operation::Get, 0, ""),
                    "delete" => (Operation::Delete, 0, ""),
                    "cad" => (Operation::CompareAndDelete, parse_version(words[5]), ""),
                    "scan" => (Operation::Scan, words[4].parse().unwrap(), ""),
                    _ => (Operation::CompareAndSet, parse_version(words[5]), words[6]),
                };
                let (client, request) = (words[2][1..].parse().unwrap(), words[3].parse().unwrap());
                let value = value.as_bytes();
                let header = Request { operation, client, request, expected, key: &key, value }.header();
                let payload = [&header[..], &key, value].concat();
                let message = Message { kind: Kind::Request as u8, payload: &payload };
                self.handle(to, Event::Call { caller: Caller::Host(0), message, last: true });
            }
            "deliver" => match words.get(1) {
                None => {
                    while let Some(flight) = self.flights.pop_front() {
                        self.arrive(flight);
                    }
                }
                Some(_) => {
                    for flight in self.take(&words[1..]) {
                        self.arrive(flight);
                    }
                }
            },
            "drop" => drop(self.take(&words[1..])),
            "keep" => {
                let taken = self.take(&words[1..]);
                self.kept.extend(taken);
            }
            "release" => self.flights.extend(std::mem::take(&mut self.kept)),
            "duplicate" => {
                for flight in self.take(&words[1..]) {
                    for _ in 0..2 {
                        let Flight { from, to, kind, ref payload } = flight;
                        self.flights.push_back(Flight { from, to, kind, payload: payload.clone() });
                    }
                }
            }
            "wait" => {
                let until = self.now + duration(words[1]);
                loop {
                    let timers = self.nodes.iter().enumerate();
                    let due = timers
                        .flat_map(|(index, node)| node.2.iter().map(move |(&tag, &at)| (at, index, tag)))
                        .min();
                    let Some((at, index, tag)) = due.filter(|&(at, ..)| at <= until) else { break };
                    self.now = self.now.max(at);
                    self.nodes[index].2.remove(&tag);
                    self.handle(index, Event::Timer { tag });
                }
                self.now = until;
            }
            "view" => {
                let field = |name| {
                    let place = words.iter().position(|word| *word == name);
                    set(place.and_then(|place| words.get(place + 1)).unwrap_or(&""))
                };
                self.view = View {
                    epoch: Epoch(words[1].parse().unwrap()),
                    full: field("full"),
                    joining: field("joining"),
                };
                for index in field("at").iter() {
                    self.configure(index.index(), Duration::from_secs(10));
                }
            }
            "lease" => self.configure(words[1].parse().unwrap(), duration(words[2])),
            "start" => self.start(words[1].parse().unwrap()),
            "digests" => {
                let current = |kv: &Kv| kv.role() == Role::Full && kv.status().epoch == self.view.epoch;
                let full = self.nodes.iter().filter(|node| current(&node.0));
                let digests: Vec<_> = full.map(|node| node.0.state_digest(&node.1)).collect();
                let equal = digests.iter().all(|digest| *digest == digests[0]);
                let count = digests.len();
                writeln!(self.output, "{count} full members {}", if equal { "agree" } else { "differ" })
                    .unwrap();
            }
            "states" => {
                for index in set(words[1]).iter().map(NodeId::index) {
                    writeln!(self.output, "{index} is {}", self.nodes[index].0.status().state).unwrap();
                }
            }
            "counters" => {
                for (index, (engine, ..)) in self.nodes.iter().enumerate() {
                    let counted = engine.counters().into_iter().filter(|(_, count)| *count > 0);
                    let counted: Vec<_> = counted.map(|(name, count)| format!("{name} {count}")).collect();
                    writeln!(self.output, "{index} has counted {}", counted.join(", ")).unwrap();
                }
            }
            word => panic!("no command {word}"),
        }
    }

    fn output(&mut self) -> &mut String {
        &mut self.output
    }
}

#[test]
fn scripts_read_as_they_did_before() {
    scripts_read_as_they_did(14, Stage::new);
}
