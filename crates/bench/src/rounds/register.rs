//! Clients of the replicated register, on a separate machine. They read, write and compare-and-set the
//! register, and record their history.

use weft_check::{Action, History, Outcome};
use weft_harness::{Caller, ClientMachine, ClosedLoops, ClusterHost, Ended, Pace, Turn};
use weft_kv::{Client, ClientParameters, ReadPolicy, Task};
use weft_time::{Duration, Instant};
use weft_waist::NodeSet;
use weft_workload::{MIN_VALUE_BYTES, Random, fill_value, fingerprint};

use crate::kv::Journal;

/// Number of clients.
const CLIENTS: u32 = 6;
/// Size of a written value, in bytes.
const VALUE_BYTES: usize = 24;
const _: () = assert!(VALUE_BYTES >= MIN_VALUE_BYTES, "values are numbered");
/// Initial and maximum time until an unanswered request is repeated.
const TIMEOUT: Duration = Duration::from_us(40);
const TIMEOUT_MAX: Duration = Duration::from_us(160);
/// Time-out of a request. The request may have taken effect.
const GIVE_UP: Duration = Duration::from_us(600);
/// Clients make their next requests at once.
const PACE: Pace = Pace { longest: None, after_failure: Duration::ZERO };

const GET: usize = 0;
const PUT: usize = 1;
const COMPARE_AND_SET: usize = 2;
const DELETE: usize = 3;

/// The load of one client.
pub struct RegisterCaller {
    number: u32,
    /// Number of values written.
    written: u64,
    value: [u8; VALUE_BYTES],
    /// The version that the client has seen last, for compare-and-set.
    seen: u64,
    answered_at: Instant,
    journal: Journal,
}

/// The machine that runs the clients.
pub type RegisterClients = ClientMachine<ClosedLoops<RegisterCaller>>;

/// Clients that send their first requests at `begin`.
pub(super) fn clients(nodes: usize, seed: u64, begin: Instant) -> RegisterClients {
    let client = |number: u32| {
        let parameters = ClientParameters {
            key_bytes: 0,
            reads: ReadPolicy::AnyReplica,
            timeout: TIMEOUT,
            timeout_max: TIMEOUT_MAX,
            pause: TIMEOUT / 4,
            give_up: GIVE_UP,
            ..ClientParameters::new(u64::from(number) + 1, NodeSet::first(nodes))
        };
        let caller = RegisterCaller {
            number,
            written: 0,
            value: [0; VALUE_BYTES],
            seen: 0,
            answered_at: begin,
            journal: Journal::default(),
        };
        (Client::new(parameters), caller)
    };
    let mut loops = ClosedLoops::new((0..CLIENTS).map(client), 0, PACE, Random::new(seed, 0));
    loops.begin(begin, Duration::ZERO);
    ClientMachine::new(ClusterHost::Clients(0), loops)
}

/// The answers that the clients received.
pub(super) struct Answers<'a>(pub(super) &'a ClosedLoops<RegisterCaller>);

impl Answers<'_> {
    /// The history so far. Outstanding requests are in it without an answer.
    pub(super) fn history(&self) -> History {
        let mut history = History::new();
        self.0.callers().for_each(|caller| caller.journal.write(caller.number, &mut history));
        History::merge([history]).expect("it fits")
    }

    /// Time of the last answer.
    pub(super) fn answered_at(&self) -> Instant {
        self.0.callers().map(|caller| caller.answered_at).max().expect("there are clients")
    }
}

impl Caller for RegisterCaller {
    type Half = Client;

    const KINDS: &'static [&'static str] = &["get", "put", "compare-and-set", "delete"];

    fn choose(&mut self, turn: &mut Turn<'_>) -> Option<usize> {
        let kind = match turn.random.below(10) {
            0..4 => GET,
            4..7 => PUT,
            7..9 => COMPARE_AND_SET,
            _ => DELETE,
        };
        (!turn.is_ending).then_some(kind)
    }

    fn begin(&mut self, now: Instant, kind: usize) -> Task<'_> {
        self.written += 1;
        fill_value(u64::from(self.number) << 32 | self.written, &mut self.value);
        let (key, value, expected) = (&[], &self.value, self.seen);
        let value_id = fingerprint(value);
        let (task, action) = match kind {
            GET => (Task::Get { key }, Action::Get),
            PUT => (Task::Put { key, value }, Action::Put { value: value_id }),
            COMPARE_AND_SET => (
                Task::CompareAndSet { key, expected, value },
                Action::CompareAndSet { expected, value: value_id },
            ),
            _ => (Task::Delete { key }, Action::Delete),
        };
        self.journal.begin(now, key, action);
        task
    }

    fn end(&mut self, now: Instant, outcome: weft_kv::Outcome<'_>) -> Ended {
        let outcome = self.journal.end(now, outcome);
        if let Some(
            Outcome::Found { version, .. } | Outcome::Written { version } | Outcome::Mismatch { version },
        ) = outcome
        {
            self.seen = version;
        }
        if outcome.is_some() {
            self.answered_at = now;
        }
        if matches!(outcome, None | Some(Outcome::Refused)) { Ended::Failed } else { Ended::Done }
    }
}
