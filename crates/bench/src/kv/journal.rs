//! The calls of one client of a store and their answers, for the check of the history.

use weft_check::{Action, History, Operation, Outcome, Reply};
use weft_time::Instant;
use weft_workload::fingerprint;

/// The calls of one client, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    call: Option<Entry>,
    ended: Vec<(Entry, Option<Reply>)>,
}

#[derive(Debug)]
struct Entry {
    key: Vec<u8>,
    action: Action,
    invoked: Instant,
}

impl Journal {
    /// Records that a call begins.
    pub fn begin(&mut self, now: Instant, key: &[u8], action: Action) {
        self.call = Some(Entry { key: key.to_vec(), action, invoked: now });
    }

    /// Records how the call has ended, and returns its outcome; `None` if it is unknown.
    pub fn end(&mut self, now: Instant, outcome: weft_kv::Outcome<'_>) -> Option<Outcome> {
        let call = self.call.take().expect("what ends was begun");
        let outcome = recorded(call.action, outcome);
        self.ended.push((call, outcome.map(|outcome| Reply { returned_ns: now.as_ns(), outcome })));
        outcome
    }

    /// Writes all calls into a history. An outstanding one is in it without an answer.
    pub fn write(&self, client: u32, history: &mut History) {
        let ended = self.ended.iter().map(|(entry, reply)| (entry, *reply));
        for (entry, reply) in ended.chain(self.call.iter().map(|entry| (entry, None))) {
            let Entry { key, action, invoked } = entry;
            let operation = Operation { client, key, invoked_ns: invoked.as_ns(), action: *action, reply };
            history.record(operation).expect("keys are short and time runs forward");
        }
    }
}

/// Converts an outcome for the history; `None` if it is unknown.
pub(crate) fn recorded(action: Action, outcome: weft_kv::Outcome<'_>) -> Option<Outcome> {
    Some(match outcome {
        weft_kv::Outcome::Value { version, value } => Outcome::Found { version, value: fingerprint(value) },
        weft_kv::Outcome::Done { version } if action.removes() => Outcome::Deleted { version },
        weft_kv::Outcome::Done { version } => Outcome::Written { version },
        weft_kv::Outcome::NotFound => Outcome::NotFound,
        weft_kv::Outcome::Mismatch { version } => Outcome::Mismatch { version },
        weft_kv::Outcome::TableFull | weft_kv::Outcome::SessionsFull | weft_kv::Outcome::BadRequest => {
            Outcome::Refused
        }
        weft_kv::Outcome::Scanned { .. }
        | weft_kv::Outcome::BackupBegun { .. }
        | weft_kv::Outcome::BackupPart { .. }
        | weft_kv::Outcome::NoBackup { .. } => unreachable!("clients ask for keys"),
        weft_kv::Outcome::Unknown => return None,
    })
}
