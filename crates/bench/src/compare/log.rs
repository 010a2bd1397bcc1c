//! The replicated log, Mu's protocol: appends that a majority has in its memory. It has no reads that see every append.

use std::collections::BTreeMap;
use std::rc::Rc;

use weft_harness::{Caller, ClusterOf, Contender, Ended, MakeEngines};
use weft_node::EngineChoice;
use weft_smr::client::{Client, ClientParameters, Outcome, Task};
use weft_smr::log::LogParameters;
use weft_time::Instant;

use super::{GIVE_UP, PAUSE, REPEAT};

/// The longest content of an entry that the log's slots have room for, in bytes.
pub(super) const CONTENT_BYTES_MAX: usize = 512;
/// Bytes of a slot beside the content.
const SLOT_OVERHEAD: usize = 64;

/// The log.
#[derive(Clone, Copy, Debug)]
pub struct LogContender {
    /// Bytes of an entry's content.
    pub value_bytes: usize,
}

/// One client of the log, and what it was told.
pub struct LogCaller {
    client: Client,
    content: Vec<u8>,
    begun: Instant,
    /// When each acknowledged append was begun and answered, and where it stands.
    appended: Vec<(u64, u64, u64)>,
}

impl Contender for LogContender {
    type Assembly = MakeEngines;
    type Caller = LogCaller;

    const HOLDS: &'static str = "one order";

    fn assembly(&self, nodes: usize, clients: u32) -> MakeEngines {
        let mut parameters = LogParameters::default().with_nodes(nodes);
        parameters.sessions = parameters.sessions.max(clients as usize);
        let slot = (self.value_bytes + SLOT_OVERHEAD).next_multiple_of(64);
        parameters.group.slot_bytes = parameters.group.slot_bytes.max(slot);
        Rc::new(move || vec![EngineChoice::Log(parameters.clone())])
    }

    fn caller(&self, number: u32, nodes: usize) -> LogCaller {
        let parameters = ClientParameters {
            timeout: REPEAT,
            timeout_max: REPEAT * 8,
            pause: PAUSE,
            give_up: GIVE_UP,
            ..ClientParameters::new(u64::from(number) + 1, nodes)
        };
        LogCaller {
            client: Client::new(parameters),
            content: vec![number as u8; self.value_bytes],
            begun: Instant::ZERO,
            appended: Vec::new(),
        }
    }

    /// Each place has one append, and an append that was begun after another was answered stands behind it.
    fn judge(&self, cluster: &ClusterOf<Self>) -> Vec<String> {
        let clients = cluster.drivers().flat_map(|(_, clients)| clients.callers());
        judge(clients.flat_map(|caller| caller.appended.iter().copied()))
    }
}

/// What is wrong with appends, each by the times of its call and its answer and by its index.
fn judge(appended: impl Iterator<Item = (u64, u64, u64)>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut by_index = BTreeMap::new();
    for (begun, answered, index) in appended {
        if by_index.insert(index, (begun, answered)).is_some() {
            wrong.push(format!("two appends were told that they stand at {index}"));
        }
    }
    // Nothing behind an entry may have been answered before the entry's append began.
    let mut earliest_answer = u64::MAX;
    for (index, (begun, answered)) in by_index.iter().rev() {
        if earliest_answer < *begun {
            wrong.push(format!("the append at {index} was begun after a later one was answered"));
        }
        earliest_answer = earliest_answer.min(*answered);
    }
    wrong
}

impl LogCaller {
    fn end(&mut self, now: Instant, outcome: Outcome<'_>) -> Ended {
        match outcome {
            Outcome::Appended { index } => {
                self.appended.push((self.begun.as_ps(), now.as_ps(), index));
                Ended::Done
            }
            _ => Ended::Failed,
        }
    }
}

impl Caller for LogCaller {
    fn begin(&mut self, now: Instant, _: bool) {
        self.begun = now;
        self.client.start(now, Task::Append(&self.content)).expect("a client has one call under way");
    }

    fn receive(&mut self, now: Instant, node: usize, (kind, payload): (u8, &[u8])) -> Option<Ended> {
        let outcome = self.client.receive(now, node, kind, payload).ok()??.outcome;
        Some(self.end(now, outcome))
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.client.next_deadline()
    }

    fn handle_deadline(&mut self, now: Instant) -> Option<Ended> {
        let outcome = self.client.handle_deadline(now)?.outcome;
        Some(self.end(now, outcome))
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.client.poll_transmit(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_orders_are_seen() {
        let verdict = |appended: &[(u64, u64, u64)]| judge(appended.iter().copied()).len();
        // Two that overlap may stand in either order.
        assert_eq!(verdict(&[(0, 10, 1), (5, 15, 0), (20, 30, 2)]), 0);
        assert_eq!(verdict(&[(0, 10, 1), (11, 15, 0)]), 1);
        assert_eq!(verdict(&[(0, 10, 1), (0, 15, 1)]), 1);
    }
}
