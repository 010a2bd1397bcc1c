//! Golden scripts of replicated objects. Each script in `tests/scripts` is a conversation between replicas on
//! one of the three paths of a call.
//!
//! A line that begins with `>` is a command to the nodes. The lines below it are the resulting messages.
//! Lines with `#` are comments. `WEFT_UPDATE_SCRIPTS=1 cargo test -p weft-rdt scripts::` runs the
//! commands and writes the results into the scripts: review the difference before you commit it.
//!
//! ```text
//! > nodes 3 account          three founding replicas of an account
//! > call 1 deposit 5         node 1's host calls a method
//! > query 2 balance          node 2's host makes a query
//! > run 20                   20 us pass
//! > quiet 200                200 us pass, and nothing is printed
//! > crash 0                  node 0 crashes and loses its memory
//! > start 0                  node 0 restarts with empty memory
//! > cut 0 2, heal 0 2        messages from node 0 to node 2 are lost; they arrive again
//! ```
//!
//! `0 -> 1: x` is a datagram. `0 => 1: x` is a WRITE into node 1's memory, or a READ of it. `0 => 1,2` stands
//! for two of them. Heartbeats are not shown.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::cluster::network::overheard::{Lines, LogPlaces, Overheard, Words, call};
use crate::cluster::network::{Network, node, wiring};
use crate::cluster::small;
use crate::golden_scripts::{self, scripts_read_as_they_did};
use weft_rdt::replica::message::DATA;
use weft_rdt::replica::{Answer, Ask, Call, Replica, ReplicaParameters, Status};
use weft_rdt::{Arguments, Type};
use weft_smr::Group;
use weft_smr::log::Wire;
use weft_smr::slot::{OVERHEAD, word};
use weft_time::{Duration, Instant};
use weft_waist::{Configuration, Epoch, Event, NodeSet, View};

/// The purpose number of data connections in this network.
const DATA_PURPOSE: u8 = 14;
const SUMMARY_BYTES: usize = 64;
const HEADER_BYTES: usize = 320;
/// Bytes of a logged call that precede its vector.
const ORDERED_HEAD: usize = 64;

/// Describes messages about an object in words.
#[derive(Clone)]
struct ObjectWords {
    kind: Arc<Type>,
    nodes: usize,
    /// The layout of its first group's log, if it has one.
    log: LogPlaces,
}

impl ObjectWords {
    fn new(parameters: &ReplicaParameters) -> Self {
        let nodes = parameters.nodes;
        // The same sizes as the engine chooses: a logged call with its vector, and the overhead of a slot.
        let slot_bytes = (ORDERED_HEAD + 8 * nodes + 24 + OVERHEAD).next_multiple_of(64);
        let log = weft_smr::Parameters { nodes, slot_bytes, snapshot_bytes: 0, ..parameters.log.clone() };
        let logs = parameters.kind.group_count() * Group::memory_bytes(&log);
        let log = LogPlaces { base: parameters.memory_bytes() - logs, slots: log.slots, slot_bytes };
        Self { kind: parameters.kind.clone(), nodes, log }
    }

    fn called(&self, method: u8, arguments: &[u8]) -> String {
        let Some(method) = self.kind.definition().methods.get(usize::from(method)) else { return "?".into() };
        let argument = |place: usize| (word(arguments, 8 * place) as i64).to_string();
        let arguments: Vec<_> = (0..method.parameters.len()).map(argument).collect();
        format!("{}({})", method.name, arguments.join(", "))
    }

    /// Prints a vector: by origin summaries and entries, by group the log, 4 bytes each.
    fn vector(&self, bytes: &[u8]) -> String {
        let numbers: Vec<u32> =
            bytes.chunks_exact(4).map(|four| u32::from_be_bytes(four.try_into().unwrap())).collect();
        let part = |name: &str, from: usize, count: usize| {
            let part = numbers.get(from..from + count)?;
            let any = part.iter().any(|number| *number > 0);
            any.then(|| format!("{name} {part:?}"))
        };
        let parts = [
            part("summaries", 0, self.nodes),
            part("entries", self.nodes, self.nodes),
            part("log", 2 * self.nodes, 1),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { String::new() } else { format!(", after {}", parts.join(" and ")) }
    }

    fn ordered(&self, entry: &[u8]) -> String {
        match entry[0] {
            3 => format!("node {} begins to lead", entry[1]),
            what => {
                let called = self.called(entry[2], &entry[32..64]);
                let refused = if what == 2 { " refused" } else { "" };
                format!("{called}{refused} of {}{}", entry[1], self.vector(&entry[ORDERED_HEAD..]))
            }
        }
    }
}

impl Words for ObjectWords {
    fn datagram(&self, kind: u8, payload: &[u8]) -> Option<String> {
        Some(match kind {
            10 => "connect me".to_owned(),
            11 => "you are connected".to_owned(),
            12 => "these are the incarnations that I know of".to_owned(),
            13 => format!("decide {}", self.called(payload[1], &payload[24..])),
            14 => "you are behind".to_owned(),
            15 => "give me your state".to_owned(),
            16 => format!("my state has {} bytes", word(payload, 8)),
            kind => format!("kind {kind}"),
        })
    }

    fn answer(&self, token: u32, kind: u8, payload: &[u8]) -> Option<String> {
        let answer = Answer::parse(payload).ok().filter(|_| kind == Call::Answer as u8)?;
        Some(match answer.status {
            Status::Done if token == Call::Query as u32 => answer.value.to_string(),
            status => format!("{status:?}"),
        })
    }

    fn written(&self, purpose: u8, address: usize, bytes: &[u8]) -> Option<String> {
        if purpose != DATA_PURPOSE {
            return self.log.written(address, bytes, |entry| self.ordered(entry));
        }
        if bytes.len() == SUMMARY_BYTES {
            let method = self.kind.definition().methods[usize::from(bytes[17])].name;
            let slot = u32::from_be_bytes(bytes[20..24].try_into().unwrap());
            let (count, total) = (word(bytes, 0), word(bytes, 24) as i64);
            return Some(format!("summary {count}: {method} {total} in slot {slot}"));
        }
        let (called, vector) = (self.called(bytes[9], &bytes[24..56]), &bytes[56..bytes.len() - 8]);
        Some(format!("entry {} of my ring: {called}{}", word(bytes, 0), self.vector(vector)))
    }

    fn read(&self, purpose: u8, address: usize, length: usize) -> Option<String> {
        match (purpose, length) {
            (DATA_PURPOSE, HEADER_BYTES) => Some("its header".to_owned()),
            (DATA_PURPOSE, length) => Some(format!("{length} bytes of what it holds")),
            _ => self.log.read(address, length),
        }
    }
}

struct Stage {
    network: Network<Overheard<Replica, ObjectWords>>,
    parameters: ReplicaParameters,
    epoch: u32,
    sequences: u64,
    lines: Lines,
    output: String,
}

impl Stage {
    fn new(nodes: usize, name: &str) -> Self {
        let mut stage = Self {
            network: Network::new(1, nodes),
            parameters: small(name, nodes),
            epoch: 1,
            sequences: 0,
            lines: Lines::default(),
            output: String::new(),
        };
        (0..nodes).for_each(|index| stage.start(index));
        stage
    }

    fn start(&mut self, index: usize) {
        let overheard = Overheard {
            engine: Replica::new(self.parameters.clone()),
            node: index,
            words: ObjectWords::new(&self.parameters),
            lines: self.lines.clone(),
        };
        self.network.start(index, overheard, self.parameters.memory_bytes());
        let said = self.lines.borrow().len();
        for peer in (0..self.parameters.nodes).filter(|peer| *peer != index) {
            for group in self.parameters.purposes() {
                let purpose = if group == DATA { DATA_PURPOSE } else { group.min(15) };
                let wire = Wire { group, peer, wiring: wiring(purpose, peer) };
                call(&mut self.network, index, 0, Call::Wire as u8, &wire.encode());
            }
        }
        // The setup of connections is not printed.
        self.lines.borrow_mut().truncate(said);
        let all = NodeSet::first(self.parameters.nodes);
        let this = NodeSet::EMPTY.with(node(index));
        let view = match self.epoch {
            1 => View { epoch: Epoch(1), full: all, joining: NodeSet::EMPTY },
            epoch => View { epoch: Epoch(epoch), full: all.without(node(index)), joining: this },
        };
        let configuration = Configuration { node: node(index), view, lease_until: Instant::FAR_FUTURE };
        self.network.handle(index, Event::Configure(configuration));
    }

    fn ask(&mut self, node: usize, what: Call, method: usize, arguments: &[&str]) {
        self.sequences += 1;
        let mut all = Arguments::default();
        for (argument, word) in all.iter_mut().zip(arguments) {
            *argument = word.parse().unwrap();
        }
        let ask = Ask { sequence: self.sequences, method: method as u8, arguments: all };
        call(&mut self.network, node, what as u32, what as u8, &ask.encode());
    }

    fn run(&mut self, microseconds: usize) {
        let until = self.network.now + Duration::from_us(microseconds as u64);
        self.network.run_until(until, |_| {});
        self.network.replies.clear();
    }
}

impl golden_scripts::Stage for Stage {
    fn command(&mut self, words: &[&str]) {
        let number = |word: &str| word.parse::<usize>().unwrap();
        let definition = self.parameters.kind.clone();
        let definition = definition.definition();
        match words {
            ["nodes", count, name] => {
                let output = std::mem::take(&mut self.output);
                *self = Self { output, ..Self::new(number(count), name) };
            }
            ["call", node, method, arguments @ ..] => {
                let method = definition.method(method).unwrap();
                self.ask(number(node), Call::Invoke, method, arguments);
            }
            ["query", node, query, arguments @ ..] => {
                let query = definition.queries.iter().position(|known| known.name == *query).unwrap();
                self.ask(number(node), Call::Query, query, arguments);
            }
            ["run", microseconds] => self.run(number(microseconds)),
            ["quiet", microseconds] => {
                self.run(number(microseconds));
                self.lines.borrow_mut().clear();
            }
            ["crash", node] => self.network.crash(number(node)),
            ["start", node] => {
                self.epoch += 1;
                self.start(number(node));
            }
            ["cut", from, to] => drop(self.network.cut.insert((number(from), number(to)), true)),
            ["heal", from, to] => drop(self.network.cut.insert((number(from), number(to)), false)),
            words => panic!("no such command: {words:?}"),
        }
        for line in self.lines.borrow_mut().drain(..) {
            writeln!(self.output, "{line}").unwrap();
        }
    }

    fn output(&mut self) -> &mut String {
        &mut self.output
    }
}

#[test]
fn scripts_read_as_they_did_before() {
    scripts_read_as_they_did(4, || Stage::new(1, "g-counter"));
}
