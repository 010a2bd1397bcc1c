//! The replicated log, Mu's protocol: an append is answered when a majority has it in memory. A read returns
//! an older entry, because the log has no reads that see every append.

use std::collections::BTreeMap;
use std::rc::Rc;

use weft_harness::{Caller, Contender, ContenderCluster, Ended, MakeEngines, UPDATE};
use weft_node::EngineChoice;
use weft_smr::client::{Client, ClientParameters, Outcome, Task};
use weft_smr::log::LogParameters;
use weft_time::Instant;
use weft_workload::Random;

use super::{GIVE_UP, PAUSE, REPEAT};

/// Maximum size of an entry's content, in bytes, for which the slots of the log have room.
pub(super) const CONTENT_BYTES_MAX: usize = 512;
/// A read chooses one of this number of latest entries.
const READ_BACK: u64 = 64;
/// Bytes of a slot beside the content.
const SLOT_OVERHEAD: usize = 64;

/// The log engine as a contender.
#[derive(Clone, Copy, Debug)]
pub struct LogContender {
    /// Bytes of an entry's content.
    pub value_bytes: usize,
}

/// Identity of an append: origin of the client and sequence number.
type AppendId = (u64, u64);

/// An acknowledged append.
#[derive(Clone, Copy, Debug)]
struct Appended {
    append: AppendId,
    index: u64,
    begun: Instant,
    answered: Instant,
}

/// Answers that a client has received.
#[derive(Clone, Debug, Default)]
struct Told {
    appended: Vec<Appended>,
    /// Entries that the client has read: index and append.
    read: Vec<(u64, AppendId)>,
    wrong: Vec<String>,
}

/// One client of the log.
pub struct LogCaller {
    origin: u64,
    /// The content of each of its entries.
    content: Vec<u8>,
    begun: Instant,
    /// Number of appends begun. The client numbers them from 1.
    appends: u64,
    random: Random,
    told: Told,
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

    fn client(&self, number: u32, nodes: usize) -> (Client, LogCaller) {
        let origin = u64::from(number) + 1;
        let parameters = ClientParameters {
            timeout: REPEAT,
            timeout_max: REPEAT * 8,
            pause: PAUSE,
            give_up: GIVE_UP,
            ..ClientParameters::new(origin, nodes)
        };
        let caller = LogCaller {
            origin,
            content: content(origin, self.value_bytes),
            begun: Instant::ZERO,
            appends: 0,
            random: Random::new(origin, number),
            told: Told::default(),
        };
        (Client::new(parameters), caller)
    }

    fn judge(&self, cluster: &ContenderCluster<Self>) -> Vec<String> {
        let clients = cluster.drivers().flat_map(|(_, clients)| clients.callers());
        judge(clients.map(|caller| &caller.told))
    }
}

/// Violations in the answers of all clients. All readers must get the same append at an index; an
/// acknowledged append must not occur at a smaller index than the acknowledged one; and an append that was
/// begun after another was answered must have a greater index.
fn judge<'a>(clients: impl Iterator<Item = &'a Told>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut places: BTreeMap<u64, AppendId> = BTreeMap::new();
    let mut acknowledged = BTreeMap::new();
    let mut read = Vec::new();
    for told in clients {
        wrong.extend(told.wrong.iter().cloned());
        for appended in &told.appended {
            if places.insert(appended.index, appended.append).is_some() {
                wrong.push(format!("two appends were told that they stand at {}", appended.index));
            }
            acknowledged.insert(appended.append, *appended);
        }
        read.extend_from_slice(&told.read);
    }
    for (index, append) in read {
        let there = *places.entry(index).or_insert(append);
        if there != append {
            wrong.push(format!("append {append:?} was read at {index}, where {there:?} stands"));
        }
        // A new leader may repeat an append. The smallest index counts.
        if acknowledged.get(&append).is_some_and(|appended| index < appended.index) {
            wrong.push(format!("append {append:?} was acknowledged behind {index}, where it stands too"));
        }
    }
    let by_index: BTreeMap<u64, Appended> = acknowledged.values().map(|one| (one.index, *one)).collect();
    // No entry at a greater index may have been answered before this append began.
    let mut earliest_answer = Instant::FAR_FUTURE;
    for (index, appended) in by_index.iter().rev() {
        if earliest_answer < appended.begun {
            wrong.push(format!("the append at {index} was begun after a later one was answered"));
        }
        earliest_answer = earliest_answer.min(appended.answered);
    }
    wrong
}

fn content(origin: u64, value_bytes: usize) -> Vec<u8> {
    vec![(origin - 1) as u8; value_bytes]
}

impl Caller for LogCaller {
    type Half = Client;

    /// A read chooses an index close to the client's latest append and not above it, because the log keeps only the
    /// latest entries.
    fn begin(&mut self, now: Instant, kind: usize) -> Task<'_> {
        self.begun = now;
        if kind == UPDATE {
            self.appends += 1;
            return Task::Append(&self.content);
        }
        let end = self.told.appended.last().map_or(0, |appended| appended.index);
        Task::Read(end.saturating_sub(self.random.below(READ_BACK)))
    }

    fn end(&mut self, now: Instant, outcome: Outcome<'_>) -> Ended {
        match outcome {
            Outcome::Appended { index } => {
                let append = (self.origin, self.appends);
                self.told.appended.push(Appended { append, index, begun: self.begun, answered: now });
                Ended::Done
            }
            Outcome::Entry { index, append } => {
                if append.content != content(append.origin, self.content.len()) {
                    self.told.wrong.push(format!("the entry at {index} is not what was appended"));
                }
                self.told.read.push((index, (append.origin, append.sequence)));
                Ended::Done
            }
            Outcome::NotYet { .. } | Outcome::Void | Outcome::Forgotten { .. } => Ended::Done,
            _ => Ended::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_time::Duration;

    use super::*;

    /// Answers of a client with these appends: begin, answer and index of each.
    fn appended(appends: &[(u64, u64, u64)]) -> Told {
        let at = |us| Instant::ZERO + Duration::from_us(us);
        let one = |(sequence, &(begun, answered, index)): (u64, &(u64, u64, u64))| Appended {
            append: (1, sequence),
            index,
            begun: at(begun),
            answered: at(answered),
        };
        Told { appended: (1..).zip(appends).map(one).collect(), ..Told::default() }
    }

    #[test]
    fn wrong_orders_are_seen() {
        let verdict = |appends: &[_]| judge([&appended(appends)].into_iter()).len();
        // Two concurrent appends may have either order.
        assert_eq!(verdict(&[(0, 10, 1), (5, 15, 0), (20, 30, 2)]), 0);
        assert_eq!(verdict(&[(0, 10, 1), (11, 15, 0)]), 1);
        assert_eq!(verdict(&[(0, 10, 1), (0, 15, 1)]), 1);
    }

    #[test]
    fn entries_that_change_or_stand_twice_are_seen() {
        let writer = appended(&[(0, 10, 4)]);
        let verdict = |read: &[(u64, AppendId)]| {
            let reader = Told { read: read.to_vec(), ..Told::default() };
            judge([&writer, &reader].into_iter()).len()
        };
        let (acknowledged, unknown) = ((1, 1), (2, 1));
        assert_eq!(verdict(&[(4, acknowledged), (3, unknown)]), 0);
        assert_eq!(verdict(&[(4, unknown)]), 1, "another stands where it was acknowledged");
        assert_eq!(verdict(&[(3, unknown), (3, (2, 2))]), 1, "two readers differ");
        assert_eq!(verdict(&[(3, acknowledged)]), 1, "it stood earlier");
        assert_eq!(verdict(&[(5, acknowledged)]), 0, "it was entered again");
    }
}
