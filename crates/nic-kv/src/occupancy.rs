//! Measures how many reads find their value with one memory access, as the table fills.

use serde::Serialize;
use weft_gateware::{RtlKv, RtlKvConfig};
use weft_kv::message::{Kind, Reply, Request};
use weft_kv::{Operation, Status};
use weft_time::Instant;
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, Epoch, Event, Io, Memory, Message, NodeId, NodeSet, View,
};

use super::NicKvError;

/// Slots of a bucket.
const WAYS: u32 = 32;

/// Expiry of a lease that outlasts the run.
const LEASE: Instant = Instant::from_ps(60_000_000_000_000);

/// Occupancies at which the table is read. The last means: as full as it gets.
const TARGETS: [f64; 4] = [0.5, 0.8, 0.9, 1.0];

/// The table is as full as it gets after this number of consecutive puts that find no room.
const REFUSALS_MAX: u32 = 400;

/// Results of reads at one occupancy of the table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Occupancy {
    /// Share of the table's slots that hold a key.
    pub occupancy: f64,
    /// Keys in the table.
    pub keys: u64,
    /// Puts so far that were answered with an error because their bucket was full.
    pub refused_full: u64,
    /// Reads of existing keys; each returned the value that was written.
    pub hits: u64,
    /// Of these reads, those that took one memory access.
    pub hits_in_one_access: u64,
    /// The share of these among all reads of existing keys.
    pub share_in_one_access: f64,
    /// Reads of keys that do not exist; each was answered with that status.
    pub misses: u64,
}

/// An engine in gateware, and its memory.
struct Store {
    engine: RtlKv,
    memory: Memory,
    effects: Effects,
    requests: u64,
}

impl Store {
    fn new(config: RtlKvConfig) -> Result<Self, NicKvError> {
        let memory = Memory::new(config.memory_bytes());
        let mut store = Self { engine: RtlKv::new(config), memory, effects: Effects::default(), requests: 0 };
        let node = NodeId::new(0).expect("node 0 exists");
        let view = View { epoch: Epoch(1), full: NodeSet::first(1), joining: NodeSet::EMPTY };
        store.handle(Event::Configure(Configuration { node, view, lease_until: LEASE }));
        if store.engine.status().epoch == view.epoch { Ok(store) } else { Err(NicKvError::NotFounded) }
    }

    fn handle(&mut self, event: Event<'_>) {
        self.effects.clear();
        let Self { engine, memory, effects, .. } = self;
        engine.handle(Instant::ZERO, event, &mut Io { effects, memory });
    }

    /// Makes a request, and passes the answer's status and value to `judge`.
    fn ask<T>(
        &mut self,
        operation: Operation,
        key: u64,
        value: &[u8],
        judge: impl FnOnce(Status, &[u8]) -> T,
    ) -> Result<T, NicKvError> {
        self.requests += 1;
        let key = key.to_be_bytes();
        let request = Request { operation, client: 1, request: self.requests, expected: 0, key: &key, value };
        let payload = [&request.header()[..], &key, value].concat();
        let message = Message { kind: Kind::Request as u8, payload: &payload };
        self.handle(Event::Call { caller: Caller::Host(0), message, last: true });
        let answer = self.effects.iter().find_map(|effect| match effect {
            Effect::Reply { kind, payload, .. } => Some(self.effects.message(*kind, payload)),
            _ => None,
        });
        let answer = answer.ok_or(NicKvError::Unanswered)?;
        let reply = Reply::parse(answer.payload).map_err(|_| NicKvError::WrongAnswer)?;
        Ok(judge(reply.status, reply.value))
    }

    fn counter(&self, name: &str) -> u64 {
        self.engine.counters().iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count)
    }
}

/// The value of a key; the values of all keys differ.
fn value(key: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (key.wrapping_mul(0x9e37_79b9) >> (index % 24)) as u8 ^ index as u8).collect()
}

/// Fills a table of `buckets` buckets in steps, and reads up to `reads` keys after each step.
pub(super) fn measure(
    buckets: u32,
    value_bytes: usize,
    reads: usize,
    seed: u64,
    mut progress: impl FnMut(u64),
) -> Result<Vec<Occupancy>, NicKvError> {
    let slots = f64::from(buckets * WAYS);
    let mut store = Store::new(RtlKvConfig { buckets, ..RtlKvConfig::default() })?;
    let first = seed.wrapping_mul(1_000_003) >> 1;
    let (mut next, mut stored, mut refused) = (first, Vec::new(), 0);
    let mut rows = Vec::new();
    for (done, target) in (1..).zip(TARGETS) {
        let mut in_a_row = 0;
        while (stored.len() as f64) < target * slots && in_a_row < REFUSALS_MAX {
            let status = store.ask(Operation::Put, next, &value(next, value_bytes), |status, _| status)?;
            match status {
                Status::Ok => {
                    stored.push(next);
                    in_a_row = 0;
                }
                Status::TableFull => {
                    refused += 1;
                    in_a_row += 1;
                }
                _ => return Err(NicKvError::WrongAnswer),
            }
            next += 1;
        }
        let before = store.counter("reads_in_one_access");
        let step = stored.len().div_ceil(reads).max(1);
        let (mut hits, mut misses) = (0, 0);
        for (index, &key) in stored.iter().step_by(step).enumerate() {
            let expected = value(key, value_bytes);
            let right = |status, value: &[u8]| status == Status::Ok && value == expected;
            if !store.ask(Operation::Get, key, &[], right)? {
                return Err(NicKvError::WrongAnswer);
            }
            hits += 1;
            if index % 16 == 0 {
                // This key was never written.
                if !store.ask(Operation::Get, !key, &[], |status, _| status == Status::NotFound)? {
                    return Err(NicKvError::WrongAnswer);
                }
                misses += 1;
            }
        }
        let in_one = store.counter("reads_in_one_access") - before;
        rows.push(Occupancy {
            occupancy: stored.len() as f64 / slots,
            keys: stored.len() as u64,
            refused_full: refused,
            hits,
            hits_in_one_access: in_one,
            share_in_one_access: in_one as f64 / hits as f64,
            misses,
        });
        progress(done);
    }
    Ok(rows)
}
