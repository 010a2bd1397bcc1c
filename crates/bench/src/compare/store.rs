//! The key-value store, NIC-KV's protocol: a put is answered when every live replica has it, a read by any
//! replica.

use std::rc::Rc;

use weft_check::{Action, History, Operation, Options, Outcome, Reply};
use weft_harness::{Caller, Contender, ContenderCluster, Ended, MakeEngines, UPDATE};
use weft_kv::{Client, ClientParameters, Parameters, ReadPolicy, Task};
use weft_node::EngineChoice;
use weft_time::{Duration, Instant};
use weft_waist::{NodeId, NodeSet};
use weft_workload::{Random, fill_value, fingerprint, key_of};

use super::{GIVE_UP, PAUSE, REPEAT};

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
    client: Client,
    number: u32,
    random: Random,
    /// Number of values written.
    written: u64,
    value: Vec<u8>,
    call: Option<(u64, Action, Instant)>,
    told: Vec<Recorded>,
}

/// A call and its outcome, if it is known.
struct Recorded {
    record: u64,
    action: Action,
    invoked_ns: u64,
    reply: Option<Reply>,
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

    fn caller(&self, number: u32, nodes: usize) -> StoreCaller {
        let parameters = ClientParameters {
            reads: ReadPolicy::AnyReplica,
            timeout: REPEAT,
            timeout_max: REPEAT * 8,
            pause: PAUSE,
            give_up: GIVE_UP,
            ..ClientParameters::new(u64::from(number) + 1, NodeSet::first(nodes))
        };
        StoreCaller {
            client: Client::new(parameters),
            number,
            random: Random::new(u64::from(number), 1),
            written: 0,
            value: vec![0; self.value_bytes],
            call: None,
            told: Vec::new(),
        }
    }

    fn judge(&self, cluster: &ContenderCluster<Self>) -> Vec<String> {
        let mut history = History::new();
        for caller in cluster.drivers().flat_map(|(_, clients)| clients.callers()) {
            let open = caller.call.map(|(record, action, invoked)| Recorded {
                record,
                action,
                invoked_ns: invoked.as_ns(),
                reply: None,
            });
            for told in caller.told.iter().chain(&open) {
                let operation = Operation {
                    client: caller.number,
                    key: &key_of(told.record),
                    invoked_ns: told.invoked_ns,
                    action: told.action,
                    reply: told.reply,
                };
                history.record(operation).expect("keys are short and time runs forward");
            }
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

impl StoreCaller {
    fn end(&mut self, now: Instant, outcome: Option<Outcome>) -> Ended {
        let (record, action, invoked) = self.call.take().expect("what ends was begun");
        let reply = outcome.map(|outcome| Reply { returned_ns: now.as_ns(), outcome });
        self.told.push(Recorded { record, action, invoked_ns: invoked.as_ns(), reply });
        if matches!(outcome, None | Some(Outcome::Refused)) { Ended::Failed } else { Ended::Done }
    }
}

fn outcome(outcome: weft_kv::Outcome<'_>) -> Option<Outcome> {
    Some(match outcome {
        weft_kv::Outcome::Value { version, value } => Outcome::Found { version, value: fingerprint(value) },
        weft_kv::Outcome::Done { version } => Outcome::Written { version },
        weft_kv::Outcome::NotFound => Outcome::NotFound,
        weft_kv::Outcome::Unknown => return None,
        _ => Outcome::Refused,
    })
}

impl Caller for StoreCaller {
    fn begin(&mut self, now: Instant, kind: usize) {
        let is_update = kind == UPDATE;
        let record = self.random.below(RECORDS);
        let key = key_of(record);
        let (task, action) = if is_update {
            self.written += 1;
            fill_value(u64::from(self.number) << 32 | self.written, &mut self.value);
            (Task::Put { key: &key, value: &self.value }, Action::Put { value: fingerprint(&self.value) })
        } else {
            (Task::Get { key: &key }, Action::Get)
        };
        self.client.start(now, task).expect("a client has one call under way");
        self.call = Some((record, action, now));
    }

    fn receive(&mut self, now: Instant, _: usize, (kind, payload): (u8, &[u8])) -> Option<Ended> {
        let completion = self.client.receive(now, kind, payload).ok()??;
        let told = outcome(completion.outcome);
        Some(self.end(now, told))
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.client.next_deadline()
    }

    fn handle_deadline(&mut self, now: Instant) -> Option<Ended> {
        let completion = self.client.handle_deadline(now)?;
        let told = outcome(completion.outcome);
        Some(self.end(now, told))
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.client.poll_transmit(out).map(|(node, kind): (NodeId, u8)| (node.index(), kind))
    }
}
