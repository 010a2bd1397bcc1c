//! Golden scripts: each file in `tests/scripts` is a dialogue between nodes and hosts with all messages.
//!
//! A line that begins with `>` is a command to the nodes; the lines below it are its results. Lines with `#` are
//! comments. `WEFT_UPDATE_SCRIPTS=1 cargo test -p weft-rounds scripts::` writes the current results into the
//! scripts: read the difference before you commit it.
//!
//! ```text
//! > nodes 3                  start three founders in round 0, with a window of four
//! > propose 0 red            node 0's host proposes "red"
//! > leave 2                  node 2's host requests to leave
//! > round                    the messages in flight arrive, the round ends, the next one begins
//! > round lose 2-0 1-2       likewise, but the messages from 2 to 0 and from 1 to 2 are lost
//! > rounds 9                 nine rounds; print only the messages to hosts
//! > crash 1                  node 1 crashes
//! > join 1                   node 1 restarts with empty memory and requests admission
//! > states                   print the phase of each node and its members
//! ```
//!
//! A message of a round reads `0 -> 1,2: round 3 "red"  1: 012 012 ? suspects 2 locked decided 012`: its proposal,
//! then for each instance the row of each member that the sender knows.

use std::fmt::Write as _;

use crate::golden_scripts::{self, scripts_read_as_they_did};
use crate::lock_step::LockStep;
use weft_rounds::message::{Answer, Call, Change, Fetch, Proposal, Round, Value};
use weft_rounds::{Ckc, Members, Parameters, Record};

const WINDOW: u64 = 4;
const VALUE_BYTES: usize = 16;

fn set(members: Members) -> String {
    if members.is_empty() { "-".into() } else { members.iter().map(|node| node.to_string()).collect() }
}

fn proposal(proposal: &Proposal<'_>) -> String {
    match Change::parse(proposal.bytes) {
        Ok(change) if proposal.change => format!("add {} remove {}", set(change.add), set(change.remove)),
        _ => format!("{:?}", String::from_utf8_lossy(proposal.bytes)),
    }
}

fn describe(kind: u8, bytes: &[u8]) -> String {
    let mut text = String::new();
    match kind {
        1 => {
            let round = Round::parse(bytes, WINDOW as usize * Record::BYTES, VALUE_BYTES).unwrap();
            let head = round.head;
            write!(text, "round {} epoch {} of {}", head.round, head.epoch, set(head.members)).unwrap();
            if let Some((ahead, members)) = head.next {
                write!(text, ", in {ahead} of {}", set(members)).unwrap();
            }
            if !round.proposal.bytes.is_empty() {
                write!(text, " {}", proposal(&round.proposal)).unwrap();
            }
            for (place, record) in (0..).zip(round.area.chunks(Record::BYTES)) {
                let Some(record) = Record::parse(record) else { continue };
                let rows: Vec<_> = head.members.iter().map(|member| record.rows[member]).collect();
                let rows: Vec<_> =
                    rows.into_iter().map(|row| if row.is_empty() { "?".into() } else { set(row) }).collect();
                write!(text, "  {}: {}", head.round + place - WINDOW, rows.join(" ")).unwrap();
                if !record.suspected.is_empty() {
                    write!(text, " suspects {}", set(record.suspected)).unwrap();
                }
                if record.locked {
                    text.push_str(" locked");
                }
                if let Some(decision) = record.decision {
                    write!(text, " decided {}", set(decision)).unwrap();
                }
            }
        }
        2 => {
            let fetch = Fetch::parse(bytes).unwrap();
            write!(text, "fetch {} of {}", fetch.instance, set(fetch.wanted)).unwrap();
        }
        3 => {
            let value = Value::parse(bytes, VALUE_BYTES).unwrap();
            write!(text, "value {} of {}: {}", value.instance, value.proposer, proposal(&value.proposal))
                .unwrap();
        }
        4 => text.push_str("start"),
        5 => text.push_str("join"),
        _ => unreachable!("no such kind"),
    }
    text
}

struct Stage {
    group: LockStep<Ckc>,
    shown: usize,
    output: String,
}

impl Stage {
    fn new(nodes: usize) -> Self {
        let parameters =
            Parameters { window: WINDOW, value_bytes: VALUE_BYTES, silence: WINDOW, ..Parameters::default() };
        Self { group: LockStep::new(nodes, parameters), shown: 0, output: String::new() }
    }

    /// Writes the hosts' notifications, and with `messages` also the messages that are sent.
    fn show(&mut self, messages: bool) {
        for (node, _, kind, bytes) in &self.group.replies[self.shown..] {
            let line = if *kind == Call::Decided as u8 {
                let value = Value::parse(bytes, VALUE_BYTES).unwrap();
                format!("decided {} of {}: {}", value.instance, value.proposer, proposal(&value.proposal))
            } else {
                let answer = Answer::parse(bytes).unwrap();
                format!("{:?} {}", answer.status, answer.number)
            };
            writeln!(self.output, "{node} tells: {line}").unwrap();
        }
        self.shown = self.group.replies.len();
        if messages {
            let mut flights: Vec<(usize, Members, u8, &[u8])> = Vec::new();
            for (from, to, kind, bytes) in &self.group.flights {
                match flights.last_mut() {
                    Some(last) if (last.0, last.2, last.3) == (*from, *kind, &bytes[..]) => {
                        last.1 = last.1.with(*to)
                    }
                    _ => flights.push((*from, Members::only(*to), *kind, bytes)),
                }
            }
            for (from, to, kind, bytes) in flights {
                let to: Vec<_> = to.iter().map(|node| node.to_string()).collect();
                writeln!(self.output, "{from} -> {}: {}", to.join(","), describe(kind, bytes)).unwrap();
            }
        }
    }
}

impl golden_scripts::Stage for Stage {
    fn command(&mut self, words: &[&str]) {
        let number = |word: &str| word.parse::<usize>().unwrap();
        match words {
            ["nodes", count] => {
                *self = Self { output: std::mem::take(&mut self.output), ..Self::new(number(count)) }
            }
            ["propose", node, text] => {
                self.group.call(number(node), Call::Propose as u8, 0, text.as_bytes());
            }
            ["leave", node] => self.group.call(number(node), Call::Leave as u8, 0, &[]),
            ["rounds", count] => {
                self.group.rounds(number(count) as u64, |_, _| false);
                self.show(false);
                return;
            }
            ["round", rest @ ..] => {
                let links: Vec<_> = rest.iter().filter_map(|link| link.split_once('-')).collect();
                let links: Vec<_> = links.into_iter().map(|(from, to)| (number(from), number(to))).collect();
                self.group.rounds(1, |from, to| links.contains(&(from, to)));
                self.show(true);
                return;
            }
            ["crash", node] => self.group.nodes[number(node)] = None,
            ["join", node] => {
                self.group.join(number(node), 2);
                self.group.call(number(node), Call::Subscribe as u8, 0, &[]);
            }
            ["states"] => {
                for node in 0..self.group.nodes.len() {
                    if self.group.nodes[node].is_some() {
                        let members = set(self.group.members(node));
                        writeln!(self.output, "{node} {:?} among {members}", self.group.phase(node)).unwrap();
                    }
                }
            }
            words => panic!("no such command: {words:?}"),
        }
        self.show(false);
    }

    fn output(&mut self) -> &mut String {
        &mut self.output
    }
}

#[test]
fn scripts_read_as_they_did_before() {
    scripts_read_as_they_did(7, || Stage::new(1));
}
