//! Rounds: work items whose effect depends on the key's content. A round reads the key, applies the work items,
//! and writes the result if the key has not changed meanwhile.
//!
//! All work items that arrive for a key during a round wait for the next one, which applies all of them in
//! sequence and writes once. So if a thousand clients increment a counter, a round takes two requests, instead of
//! a thousand requests most of which fail.
//!
//! If the work items of a round change the key, they all take effect at the write, including those that arrived
//! after the read was requested: since nobody has written the key between the read and the write, this is correct.
//! If they change nothing, they take effect at the read, so the round answers only those that had arrived before
//! the read was requested.

use std::collections::{HashMap, VecDeque};

use weft_kv::{Outcome, Task};
use weft_time::{Duration, Instant};

use crate::action::{Action, Context};
use crate::record::Record;
use crate::reply::Reply;
use crate::slab::Slab;
use crate::store::{Store, Token};

/// The most work items in a round: it limits how many answers one write causes.
const WORKS_MAX: usize = 1_024;

struct Work {
    number: u32,
    action: Action,
}

enum Phase {
    /// The key is being read; the number of work items when the read was requested.
    Reading(usize),
    /// The key is being written; the answers to send when the write is done, and the key's new content.
    Writing(Vec<Reply>, Option<Record>),
}

struct Round {
    key: Box<[u8]>,
    work_items: VecDeque<Work>,
    phase: Phase,
    /// When the first read since the last success was requested.
    since: Instant,
}

/// A result of a round.
pub(crate) enum RoundEvent {
    /// A work item has ended with this answer.
    Answer(u32, Reply),
    /// A work item that watches the key has seen this version.
    Watched(u32, u64),
    /// A key was written with a time to live.
    Expires { key: Box<[u8]>, version: u64, at_ms: u64 },
}

/// The time, and parameters of the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundContext {
    pub now: Instant,
    /// Time of the round, in milliseconds since 1970.
    pub now_ms: u64,
    pub value_bytes_max: usize,
    /// By how much the clocks of two servers may differ.
    pub skew_ms: u64,
    pub give_up: Duration,
}

impl RoundContext {
    /// Whether a key has certainly expired, considering that clocks differ.
    pub fn is_over(&self, expires_ms: Option<u64>) -> bool {
        expires_ms.is_some_and(|at| self.now_ms >= at.saturating_add(self.skew_ms))
    }
}

/// The rounds in progress, at most one per key.
#[derive(Default)]
pub(crate) struct Rounds {
    by_key: HashMap<Box<[u8]>, u32>,
    rounds: Slab<Round>,
    pub news: VecDeque<RoundEvent>,
}

impl Rounds {
    /// Adds a work item to the round of its key, or begins a round.
    pub fn join(
        &mut self,
        context: &RoundContext,
        store: &mut Store,
        key: &[u8],
        number: u32,
        action: Action,
    ) {
        if let Some(&place) = self.by_key.get(key) {
            let round = self.rounds.get_mut(place).expect("a key's round is there");
            round.work_items.push_back(Work { number, action });
            return;
        }
        let work_items = VecDeque::from([Work { number, action }]);
        let key: Box<[u8]> = key.into();
        let round = Round { key: key.clone(), work_items, phase: Phase::Reading(1), since: context.now };
        let place = self.rounds.add(round);
        store.ask(context.now, Task::Get { key: &key }, Token::Round(place));
        self.by_key.insert(key, place);
    }

    /// Handles the end of a round's read or write.
    pub fn ended(&mut self, context: &RoundContext, store: &mut Store, place: u32, outcome: Outcome<'_>) {
        let round = self.rounds.get_mut(place).expect("a round waits for its requests");
        match std::mem::replace(&mut round.phase, Phase::Reading(0)) {
            Phase::Reading(asked) => match outcome {
                Outcome::NotFound => self.carry_out(context, store, place, asked, 0, None, false),
                Outcome::Value { version, value } => match Record::decode(value) {
                    Some(record) => {
                        let is_over = context.is_over(record.expires_ms);
                        self.carry_out(context, store, place, asked, version, Some(record), is_over);
                    }
                    None => self.fail(context, store, place, asked, &foreign()),
                },
                outcome => self.fail(context, store, place, asked, &failure(outcome)),
            },
            Phase::Writing(replies, record) => match outcome {
                Outcome::Done { version } => self.written(context, store, place, version, replies, record),
                Outcome::Mismatch { .. } if context.now < round.since + context.give_up => {
                    self.read(context, store, place);
                }
                Outcome::Mismatch { .. } => {
                    let reply = Reply::error("BUSY others change the key all the time; nothing has happened");
                    self.fail(context, store, place, replies.len(), &reply);
                }
                outcome => self.fail(context, store, place, replies.len(), &failure(outcome)),
            },
        }
    }

    fn read(&mut self, context: &RoundContext, store: &mut Store, place: u32) {
        let round = self.rounds.get_mut(place).expect("the caller has found it");
        round.phase = Phase::Reading(round.work_items.len());
        store.ask(context.now, Task::Get { key: &round.key }, Token::Round(place));
    }

    /// Applies the work items to the key's content. The first `asked` of them are answered even if nothing
    /// changes.
    #[expect(clippy::too_many_arguments, reason = "they are one thing: what is known of the key")]
    fn carry_out(
        &mut self,
        context: &RoundContext,
        store: &mut Store,
        place: u32,
        asked: usize,
        version: u64,
        held: Option<Record>,
        is_over: bool,
    ) {
        let round = self.rounds.get_mut(place).expect("the caller has found it");
        let mut record = held.clone().filter(|_| !is_over);
        let begins_with = record.clone();
        let mut replies = Vec::with_capacity(round.work_items.len().min(WORKS_MAX));
        let mut after_asked = record.clone();
        for work in round.work_items.iter().take(WORKS_MAX) {
            let untouched = record == begins_with;
            let context = Context {
                now_ms: context.now_ms,
                value_bytes_max: context.value_bytes_max,
                // An expired key counts as absent, which is version 0.
                version: untouched.then_some(if record.is_some() { version } else { 0 }),
            };
            replies.push(work.action.apply(&mut record, &context));
            if replies.len() == asked {
                after_asked.clone_from(&record);
            }
        }
        // If all work items together change nothing, there is no write at which they take effect. Then only those
        // that arrived before the read was requested are applied; these alone may change the key.
        if record == held && asked < replies.len() {
            replies.truncate(asked);
            record = after_asked;
        }
        match &record {
            _ if record == held || replies.is_empty() => {
                let version = if held.is_some() { version } else { 0 };
                for reply in replies {
                    let work = round.work_items.pop_front().expect("an answer each");
                    if matches!(work.action, Action::Watch) {
                        self.news.push_back(RoundEvent::Watched(work.number, version));
                    }
                    self.news.push_back(RoundEvent::Answer(work.number, reply));
                }
                self.go_on(context, store, place, None);
            }
            Some(new) => {
                let bytes = new.encode();
                round.phase = Phase::Writing(replies, record);
                let task = Task::CompareAndSet { key: &round.key, expected: version, value: &bytes };
                store.ask(context.now, task, Token::Round(place));
            }
            None => {
                round.phase = Phase::Writing(replies, None);
                let task = Task::CompareAndDelete { key: &round.key, expected: version };
                store.ask(context.now, task, Token::Round(place));
            }
        }
    }

    /// The write is done: answers its work items.
    fn written(
        &mut self,
        context: &RoundContext,
        store: &mut Store,
        place: u32,
        version: u64,
        replies: Vec<Reply>,
        record: Option<Record>,
    ) {
        let round = self.rounds.get_mut(place).expect("the caller has found it");
        for reply in replies {
            let work = round.work_items.pop_front().expect("an answer each");
            if matches!(work.action, Action::Watch) {
                let seen = if record.is_some() { version } else { 0 };
                self.news.push_back(RoundEvent::Watched(work.number, seen));
            }
            self.news.push_back(RoundEvent::Answer(work.number, reply));
        }
        if let Some(at_ms) = record.as_ref().and_then(|record| record.expires_ms) {
            let key = round.key.clone();
            self.news.push_back(RoundEvent::Expires { key, version, at_ms });
        }
        round.since = context.now;
        let version = if record.is_some() { version } else { 0 };
        self.go_on(context, store, place, Some((version, record)));
    }

    /// Goes on with the remaining work items. `known` is the key's content, if it is known.
    fn go_on(
        &mut self,
        context: &RoundContext,
        store: &mut Store,
        place: u32,
        known: Option<(u64, Option<Record>)>,
    ) {
        let round = self.rounds.get(place).expect("the caller has found it");
        if round.work_items.is_empty() {
            self.by_key.remove(&round.key);
            self.rounds.remove(place);
        } else if let Some((version, record)) = known
            && !round.work_items.iter().take(WORKS_MAX).all(|work| work.action.reads())
        {
            // If nothing changes, this answers no work item and reads the key.
            self.carry_out(context, store, place, 0, version, record, false);
        } else {
            self.read(context, store, place);
        }
    }

    /// Answers the first `count` work items with an error.
    fn fail(&mut self, context: &RoundContext, store: &mut Store, place: u32, count: usize, reply: &Reply) {
        let round = self.rounds.get_mut(place).expect("the caller has found it");
        for work in round.work_items.drain(..count) {
            self.news.push_back(RoundEvent::Answer(work.number, reply.clone()));
        }
        round.since = context.now;
        self.go_on(context, store, place, None);
    }
}

/// The error for a value without a header of a Redis server.
pub(crate) fn foreign() -> Reply {
    Reply::error("WRONGTYPE the value was not written through a Redis door")
}

/// The error for a request that the store did not execute.
pub(crate) fn failure(outcome: Outcome<'_>) -> Reply {
    Reply::error(match outcome {
        Outcome::TableFull => "OOM the key's bucket is full: raise [kv] capacity_keys",
        Outcome::SessionsFull => "BUSY the cluster remembers too many clients: try again in a minute",
        Outcome::BadRequest => "ERR the cluster has other key or value sizes than this door",
        Outcome::Unknown => {
            "TIMEOUT no answer of the cluster in time; what was to be changed may have been, once"
        }
        _ => "ERR the cluster answers something else than it was asked",
    })
}
