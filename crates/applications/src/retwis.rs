//! Retwis: the transactions of a small clone of Twitter (TAPIR's `retwisClient`; Zhang et al., "Building consistent
//! transactions with inconsistent replication", SOSP 2015), with the sizes of Xenic (5.4): values of 64 bytes, a Zipf
//! distribution with exponent 0.5, and half of the transactions read-only.
//!
//! ```text
//!  5 %  add-user    reads and writes one key, writes two more
//! 15 %  follow      reads and writes two keys
//! 30 %  post-tweet  reads and writes three keys, writes two more
//! 50 %  timeline    reads one to ten keys
//! ```
//!
//! In TAPIR a transaction may draw the same key twice; here the keys of a transaction differ.

use weft_txn::{
    ANSWER_MAX, Accesses, Context, Key, Mode, Outcome, Procedure, ProcedureId, Procedures, Request, Step,
};

use super::input::Writer;
use super::zipf::Zipf;
use super::{Audit, Call, Client, Repeating, Workload, random_of_client};

/// Keys of each server in Xenic's evaluation (5.4).
pub const KEYS: u64 = 1_000_000;
/// Bytes of a value.
pub const VALUE_BYTES: usize = 64;
/// Exponent of the Zipf distribution of keys.
const EXPONENT: f64 = 0.5;
/// The most keys of a timeline.
const TIMELINE_MAX: u64 = 10;
/// How many bytes of each value a timeline returns: ten whole values do not fit into an answer.
const ANSWERED: usize = ANSWER_MAX / TIMELINE_MAX as usize;

/// Reason of an abort: a key does not exist.
pub const NO_KEY: u8 = 1;

const KINDS: [&str; 4] = ["add-user", "follow", "post-tweet", "timeline"];
/// For each kind: its share of the transactions in per cent, the number of keys that it reads and writes, and
/// the number of keys that it only writes.
const MIX: [(u64, usize, usize); 4] = [(5, 1, 2), (15, 2, 0), (30, 3, 2), (50, 0, 0)];

/// The workload.
#[derive(Clone, Copy, Debug)]
pub struct Retwis {
    shards: u64,
    keys: u64,
}

impl Retwis {
    /// The workload on `shards` servers with `keys` keys each ([`KEYS`] in the paper).
    ///
    /// # Panics
    /// If there are fewer than ten keys in all.
    pub fn new(shards: usize, keys: u64) -> Self {
        assert!(shards as u64 * keys >= TIMELINE_MAX, "{shards} shards with {keys} keys");
        Self { shards: shards as u64, keys }
    }

    /// The key of a popularity rank; rank 1 is the most popular. Popular keys are spread over all shards.
    fn key(&self, rank: u64) -> Key {
        Key::new(((rank - 1) % self.shards) as usize, (rank - 1) / self.shards)
    }
}

/// A value that identifies its writer.
fn value(writer: u64, key: Key) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    let mut word = writer ^ key.bits().rotate_left(32);
    for chunk in value.chunks_exact_mut(8) {
        chunk.copy_from_slice(&word.to_le_bytes());
        word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
    value
}

impl Workload for Retwis {
    fn name(&self) -> &'static str {
        "retwis"
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn procedures(&self) -> Procedures {
        let mut procedures: Vec<Box<dyn Procedure>> = Vec::new();
        for name in &KINDS[..3] {
            procedures.push(Box::new(Post { name }));
        }
        procedures.push(Box::new(Timeline));
        Procedures::new(procedures)
    }

    fn load(&self, shard: usize, put: &mut dyn FnMut(Key, &[u8])) {
        for local in 0..self.keys {
            let key = Key::new(shard, local);
            put(key, &value(0, key));
        }
    }

    fn client(&self, node: usize, lane: u32, seed: u64) -> Box<dyn Client> {
        let mut random = random_of_client(node, lane, seed);
        let retwis = *self;
        let zipf = Zipf::new(self.shards * self.keys, EXPONENT);
        let mut writer = (node as u64 + 1) << 52 | u64::from(lane) << 40;
        Box::new(Repeating::new(move |_: Option<&Outcome>| {
            let mut share = random.below(100);
            let kind =
                MIX.iter().position(|(part, ..)| share.checked_sub(*part).map(|rest| share = rest).is_none());
            let kind = kind.expect("the mix makes a hundred");
            let (_, updates, writes) = MIX[kind];
            let reads = if updates == 0 { 1 + random.below(TIMELINE_MAX) as usize } else { 0 };
            let mut accesses = Accesses::default();
            while accesses.as_slice().len() < updates + writes + reads {
                let key = retwis.key(zipf.draw(&mut random));
                let mode = match accesses.as_slice().len() {
                    _ if reads > 0 => Mode::Read,
                    index if index < updates => Mode::Update,
                    _ => Mode::Write,
                };
                if accesses.as_slice().iter().all(|access| access.key != key) {
                    accesses.add(key, mode).expect("ten keys");
                }
            }
            writer += 1;
            let input = Writer::default().u64(writer).0.clone();
            let request = Request { procedure: ProcedureId(kind as u16), input, accesses };
            Call { request, kind, begins: true }
        }))
    }

    fn audit(&self) -> Box<dyn Audit> {
        Box::new(Count { keys: self.shards * self.keys, found: 0, findings: Vec::new() })
    }
}

/// Reads the keys that are read and written, and writes the same number into all keys. As in TAPIR, the written values
/// do not depend on the values read.
struct Post {
    name: &'static str,
}

impl Procedure for Post {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&self, context: &mut Context<'_>) -> Step {
        let Ok(writer) = context.input().try_into().map(u64::from_le_bytes) else {
            return Step::Abort(NO_KEY);
        };
        for index in 0..context.keys().len() {
            let access = context.keys()[index];
            if access.mode == Mode::Update && context.value(index).is_none() {
                return Step::Abort(NO_KEY);
            }
            context.write(index, &value(writer, access.key));
        }
        Step::Commit
    }
}

/// Reads all keys, and returns the beginning of each value.
struct Timeline;

impl Procedure for Timeline {
    fn name(&self) -> &'static str {
        KINDS[3]
    }

    fn run(&self, context: &mut Context<'_>) -> Step {
        let mut answer = [0; ANSWER_MAX];
        let mut filled = 0;
        for index in 0..context.keys().len() {
            let Some(value) = context.value(index) else { return Step::Abort(NO_KEY) };
            let part = &value[..value.len().min(ANSWERED)];
            let Some(place) = answer.get_mut(filled..filled + part.len()) else { break };
            place.copy_from_slice(part);
            filled += part.len();
        }
        context.answer(&answer[..filled]);
        Step::Commit
    }
}

/// Checks that no key was added or removed, and that each value was written by one transaction.
struct Count {
    keys: u64,
    found: u64,
    findings: Vec<String>,
}

impl Audit for Count {
    fn committed(&mut self, _: &Request, _: &[u8]) {}

    fn unknown(&mut self, _: &Request) {}

    fn object(&mut self, key: Key, found: &[u8]) {
        self.found += 1;
        let whole = found.first_chunk::<8>().is_some_and(|first| {
            let writer = u64::from_le_bytes(*first) ^ key.bits().rotate_left(32);
            found == value(writer, key)
        });
        if !whole {
            self.findings.push(format!("{key} holds what nobody writes"));
        }
    }

    fn findings(&mut self) -> Vec<String> {
        if self.found != self.keys {
            self.findings.push(format!("there are {} keys in place of {}", self.found, self.keys));
        }
        std::mem::take(&mut self.findings)
    }
}

#[cfg(test)]
mod tests {
    use super::super::serial::testing::{Run, transcript};
    use super::*;

    #[test]
    fn values_stay_whole_and_a_torn_one_shows() {
        let retwis = Retwis::new(3, 100);
        assert_eq!(Run::new(&retwis, 3, 2, 5_000, 1).findings(), [""; 0]);
        let mut run = Run::new(&retwis, 3, 2, 5_000, 1);
        assert!(run.committed.iter().all(|&count| count > 100), "{:?}", run.committed);
        let key = retwis.key(5);
        let mut torn = run.serial.object(key).unwrap().to_vec();
        torn[40] ^= 1;
        run.serial.replace(key, Some(&torn));
        assert_eq!(run.findings().len(), 1);
    }

    #[test]
    fn the_mix_is_that_of_the_paper() {
        let retwis = Retwis::new(6, 1000);
        let mut client = retwis.client(2, 3, 9);
        let (mut kinds, mut timelines, mut popular) = ([0u64; 4], [0u64; 11], 0u64);
        let draws = 100_000;
        for _ in 0..draws {
            let call = client.next(None);
            kinds[call.kind] += 1;
            let accesses = call.request.accesses.as_slice();
            let count = |mode| accesses.iter().filter(|access| access.mode == mode).count();
            match call.kind {
                0 => assert_eq!((count(Mode::Update), count(Mode::Write)), (1, 2)),
                1 => assert_eq!((count(Mode::Update), count(Mode::Write)), (2, 0)),
                2 => assert_eq!((count(Mode::Update), count(Mode::Write)), (3, 2)),
                _ => timelines[count(Mode::Read)] += 1,
            }
            // Each shard's first 250 keys are the first quarter of the ranks, which get half of the draws.
            popular += u64::from(accesses[0].key.local() < 250);
        }
        for (kind, (part, ..)) in kinds.iter().zip(MIX) {
            assert!(kind.abs_diff(draws * part / 100) < 800, "{kinds:?}");
        }
        assert_eq!(timelines[0], 0);
        assert!(timelines[1..].iter().all(|count| count.abs_diff(draws / 20) < 400), "{timelines:?}");
        assert!((49_000..51_000).contains(&popular), "{popular}");
    }

    #[test]
    fn a_timeline_answers_what_was_posted() {
        let retwis = Retwis::new(1, 10);
        let mut serial = super::super::Serial::load(&retwis, 1);
        let mut request = |kind: u16, mode| {
            let mut accesses = Accesses::default();
            accesses.add(retwis.key(3), mode).unwrap();
            let input = 77u64.to_le_bytes().to_vec();
            serial.call(&Request { procedure: ProcedureId(kind), input, accesses })
        };
        assert_eq!(request(0, Mode::Update), Outcome::Committed { answer: Vec::new() });
        let expected = value(77, retwis.key(3))[..ANSWERED].to_vec();
        assert_eq!(request(3, Mode::Read), Outcome::Committed { answer: expected });
    }

    #[test]
    fn a_seed_decides_everything() {
        let retwis = Retwis::new(2, 100);
        assert_eq!(transcript(&retwis, 2, 1), transcript(&retwis, 2, 1));
        assert_ne!(transcript(&retwis, 2, 1), transcript(&retwis, 2, 2));
    }
}
