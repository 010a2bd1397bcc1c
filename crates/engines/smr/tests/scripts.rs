//! Golden scripts of the replicated log: each file in `tests/scripts` is a dialogue between replicas, with their
//! work requests and permissions.
//!
//! A line that begins with `>` is a command to the nodes; the lines below it are its results. Lines with `#` are
//! comments. `WEFT_UPDATE_SCRIPTS=1 cargo test -p weft-smr scripts::` writes the current results into the
//! scripts: read the difference before you commit it.
//!
//! ```text
//! > nodes 3                  start three founders
//! > append 0 red             node 0's host appends "red"
//! > many 0 20                node 0's host makes 20 appends, one after the other; the output is discarded
//! > run 20                   20 us pass
//! > quiet 200                200 us pass; the output is discarded
//! > crash 0                  node 0 crashes and loses its memory
//! > start 0                  node 0 restarts with empty memory
//! > states                   print the state of each node
//! ```
//!
//! `0 -> 1: x` is a datagram, `0 => 1: x` a WRITE into node 1's memory, or a READ of it; `0 => 1,2` are two of them.
//! Heartbeats are not shown.

use std::fmt::Write as _;

use crate::golden_scripts::{self, scripts_read_as_they_did};
use crate::network::overheard::{Lines, LogPlaces, Overheard, Words, call};
use crate::network::{Network, node, wiring};
use weft_smr::log::{Answer, Append, Call, Log, LogParameters, Status, Wire};
use weft_smr::message::PULSE;
use weft_smr::slot::word;
use weft_smr::{Delivery, Parameters, Pulse, PulseParameters};
use weft_time::{Duration, Instant};
use weft_waist::{Configuration, Epoch, Event, NodeSet, View};

const SLOTS: u64 = 16;
const SLOT_BYTES: usize = 128;
const WINDOW: u64 = 4;

fn parameters(nodes: usize) -> LogParameters {
    LogParameters {
        group: Parameters {
            nodes,
            slots: SLOTS,
            slot_bytes: SLOT_BYTES,
            window: WINDOW as _,
            delivery: Delivery::WriteThrough,
            ..Parameters::default()
        },
        pulse: PulseParameters { nodes, period: Duration::from_us(2), ..PulseParameters::default() },
        poll: Duration::from_us(1),
        sessions: 4,
    }
}

/// Describes messages and memory of a log.
#[derive(Clone)]
struct LogWords(LogPlaces);

impl Words for LogWords {
    fn datagram(&self, kind: u8, _: &[u8]) -> Option<String> {
        Some(format!("kind {kind}"))
    }

    fn answer(&self, _: u32, kind: u8, payload: &[u8]) -> Option<String> {
        if kind == Call::Entry as u8 {
            let append = Append::parse(&payload[8..]).ok()?;
            return Some(format!(
                "entry {} is {:?}",
                word(payload, 0),
                String::from_utf8_lossy(append.content)
            ));
        }
        if kind == Call::Restored as u8 {
            return Some(format!("its state is that before entry {}", word(payload, 0)));
        }
        let answer = Answer::parse(payload).ok()?;
        match answer.status {
            Status::Ok => Some(format!("appended as entry {}", answer.index)),
            Status::NotLeader => Some(format!("node {:?} leads", answer.leader)),
            status => Some(format!("{status:?}")),
        }
    }

    fn written(&self, _: u8, address: usize, bytes: &[u8]) -> Option<String> {
        let entry = |entry: &[u8]| match Append::parse(entry) {
            Ok(append) => format!("{:?}", String::from_utf8_lossy(append.content)),
            Err(_) => "?".to_owned(),
        };
        self.0.written(address, bytes, entry)
    }

    fn read(&self, _: u8, address: usize, length: usize) -> Option<String> {
        self.0.read(address, length)
    }
}

struct Stage {
    network: Network<Overheard<Log, LogWords>>,
    parameters: LogParameters,
    epoch: u32,
    appended: u64,
    lines: Lines,
    output: String,
}

impl Stage {
    fn new(nodes: usize) -> Self {
        let mut stage = Self {
            network: Network::new(1, nodes),
            parameters: parameters(nodes),
            epoch: 1,
            appended: 0,
            lines: Lines::default(),
            output: String::new(),
        };
        (0..nodes).for_each(|index| stage.start(index));
        stage
    }

    fn nodes(&self) -> usize {
        self.parameters.group.nodes
    }

    fn start(&mut self, index: usize) {
        let overheard = Overheard {
            engine: Log::new(self.parameters.clone()),
            node: index,
            words: LogWords(LogPlaces {
                base: Pulse::memory_bytes(&self.parameters.pulse),
                slots: SLOTS,
                slot_bytes: SLOT_BYTES,
            }),
            lines: self.lines.clone(),
        };
        self.network.start(index, overheard, self.parameters.memory_bytes());
        let said = self.lines.borrow().len();
        for peer in (0..self.nodes()).filter(|peer| *peer != index) {
            for group in [0, PULSE] {
                let wire = Wire { group, peer, wiring: wiring(group.min(15), peer) };
                call(&mut self.network, index, 0, Call::Wire as u8, &wire.encode());
            }
        }
        call(&mut self.network, index, 0, Call::Subscribe as u8, &[]);
        // Lines about the wiring are dropped.
        self.lines.borrow_mut().truncate(said);
        let all = NodeSet::first(self.nodes());
        let this = NodeSet::EMPTY.with(node(index));
        let view = match self.epoch {
            1 => View { epoch: Epoch(1), full: all, joining: NodeSet::EMPTY },
            epoch => View { epoch: Epoch(epoch), full: all.without(node(index)), joining: this },
        };
        let configuration = Configuration { node: node(index), view, lease_until: Instant::FAR_FUTURE };
        self.network.handle(index, Event::Configure(configuration));
    }

    fn append(&mut self, node: usize, text: &str) {
        self.appended += 1;
        let append = Append { origin: 1, sequence: self.appended, content: text.as_bytes() };
        let payload = [&append.header()[..], text.as_bytes()].concat();
        call(&mut self.network, node, 1, Call::Append as u8, &payload);
    }

    fn run(&mut self, microseconds: u64) {
        let until = self.network.now + Duration::from_us(microseconds);
        self.network.run_until(until, |_| {});
        self.network.replies.clear();
    }
}

impl golden_scripts::Stage for Stage {
    fn command(&mut self, words: &[&str]) {
        let number = |word: &str| word.parse::<u64>().unwrap();
        match words {
            ["nodes", count] => {
                let output = std::mem::take(&mut self.output);
                *self = Self { output, ..Self::new(number(count) as usize) };
            }
            ["append", node, text] => self.append(number(node) as usize, text),
            ["many", node, count] => {
                for _ in 0..number(count) {
                    self.append(number(node) as usize, "and so on");
                    self.run(8);
                }
                self.lines.borrow_mut().clear();
            }
            ["run", microseconds] => self.run(number(microseconds)),
            ["quiet", microseconds] => {
                self.run(number(microseconds));
                self.lines.borrow_mut().clear();
            }
            ["crash", node] => self.network.crash(number(node) as usize),
            ["start", node] => {
                self.epoch += 1;
                self.start(number(node) as usize);
            }
            ["states"] => {
                for index in 0..self.nodes() {
                    let Some(node) = &self.network.nodes[index] else { continue };
                    let group = node.engine.engine.group();
                    let line = format!(
                        "{index} {:?}, {} applied, {}",
                        group.role(),
                        group.applied(),
                        if group.takes_part() { "takes part" } else { "does not take part" }
                    );
                    self.lines.borrow_mut().push(line);
                }
            }
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
    scripts_read_as_they_did(4, || Stage::new(1));
}
