//! The key-value store, NIC-KV's protocol: a put is answered when every live replica has it, a read by any
//! replica.

use std::rc::Rc;

use weft_check::{Action, History, Options, Outcome};
use weft_harness::{Caller, Contender, ContenderCluster, Ended, MakeEngines, UPDATE};
use weft_kv::{Client, ClientParameters, Parameters, ReadPolicy, Task};
use weft_node::EngineChoice;
use weft_time::{Duration, Instant};
use weft_waist::NodeSet;
use weft_workload::{Random, fill_value, fingerprint, key_of};

use super::{GIVE_UP, PAUSE, REPEAT};
use crate::kv::Journal;

/// Keys that the clients share.
const RECORDS: u64 = 1_000;

/// The store as a contender.
#[derive(Clone, Copy, Debug)]
pub struct StoreContender {
    /// Bytes of a value.
    pub value_bytes: usize,
}

/// One client of the store, with the history of its calls.
pub struct StoreCaller {
    number: u32,
    random: Random,
    /// Number of values written.
    written: u64,
    key: [u8; 8],
    value: Vec<u8>,
    journal: Journal,
}

impl Contender for StoreContender {
    type Assembly = MakeEngines;
    type Caller = StoreCaller;

    const HOLDS: &'static str = "linearizable";

    fn assembly(&self, _: usize, _: u32) -> MakeEngines {
        let parameters = Parameters {
            retransmit: Duration::from_us(100),
            retransmit_max: Duration::from_ms(1),
            value_bytes_max: self.value_bytes,
            ..Parameters::for_keys(2 * RECORDS)
        };
        Rc::new(move || vec![EngineChoice::KeyValue(parameters.clone(), None)])
    }

    fn client(&self, number: u32, nodes: usize) -> (Client, StoreCaller) {
        let parameters = ClientParameters {
            reads: ReadPolicy::AnyReplica,
            timeout: REPEAT,
            timeout_max: REPEAT * 8,
            pause: PAUSE,
            give_up: GIVE_UP,
            ..ClientParameters::new(u64::from(number) + 1, NodeSet::first(nodes))
        };
        let caller = StoreCaller {
            number,
            random: Random::new(u64::from(number), 1),
            written: 0,
            key: key_of(0),
            value: vec![0; self.value_bytes],
            journal: Journal::default(),
        };
        (Client::new(parameters), caller)
    }

    fn judge(&self, cluster: &ContenderCluster<Self>) -> Vec<String> {
        let mut history = History::new();
        for caller in cluster.drivers().flat_map(|(_, clients)| clients.callers()) {
            caller.journal.write(caller.number, &mut history);
        }
        let history = History::merge([history]).expect("it fits");
        let report = weft_check::check(&history, &Options::default());
        let mut violations: Vec<_> = report.violations.iter().map(ToString::to_string).collect();
        if violations.is_empty() && report.verdict != weft_check::Verdict::Linearizable {
            violations.push(format!("the check ended with {:?}", report.verdict));
        }
        violations
    }
}

impl Caller for StoreCaller {
    type Half = Client;

    fn begin(&mut self, now: Instant, kind: usize) -> Task<'_> {
        self.key = key_of(self.random.below(RECORDS));
        let is_update = kind == UPDATE;
        if is_update {
            self.written += 1;
            fill_value(u64::from(self.number) << 32 | self.written, &mut self.value);
        }
        let Self { key, value, .. } = self;
        let (task, action) = match is_update {
            true => (Task::Put { key, value }, Action::Put { value: fingerprint(value) }),
            false => (Task::Get { key }, Action::Get),
        };
        self.journal.begin(now, key, action);
        task
    }

    fn end(&mut self, now: Instant, outcome: weft_kv::Outcome<'_>) -> Ended {
        let outcome = self.journal.end(now, outcome);
        if matches!(outcome, None | Some(Outcome::Refused)) { Ended::Failed } else { Ended::Done }
    }
}
