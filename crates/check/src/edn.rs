//! Histories in the form of Jepsen's, in EDN (extensible data notation): for Knossos, Elle and programs that read them.
//!
//! A line holds the invocation or the completion of an operation. Elle's format is described at
//! <https://github.com/jepsen-io/elle>, that of operations at <https://github.com/jepsen-io/history>.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::lines::{KeyValueRun, Run, TransactionsRun};
use crate::operation::{Action, Operation, Outcome};
use crate::serializable::{Access, Fate, TransactionRecord};
use crate::words::hex;

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Completion {
    /// It took effect.
    Ok,
    /// It had no effect.
    Fail,
    /// It may have taken effect.
    Info,
}

/// An operation of a client.
struct Call {
    client: u32,
    invoked_ns: u64,
    /// `None` if the time is unknown.
    returned_ns: Option<u64>,
    completion: Completion,
    function: &'static str,
    /// Value at the invocation, as EDN.
    invoked: String,
    /// Value at the completion, as EDN.
    completed: String,
}

/// The history of one run, one line for each invocation and completion, in the order of their times.
///
/// A process of Jepsen has one operation at a time, and none after one with an unknown outcome. So a client with more
/// becomes several processes.
pub fn write_run(run: &Run) -> String {
    let calls: Vec<Call> = match run {
        Run::KeyValue(KeyValueRun { history, .. }) => {
            history.operations().map(|operation| key_value(&operation)).collect()
        }
        Run::Transactions(TransactionsRun { initial_version, transactions, .. }) => {
            transactions.iter().map(|record| transaction(record, *initial_version)).collect()
        }
    };
    write_calls(&calls)
}

/// An event in the order of the file. At equal times invocations come first: the calls then overlap, as they may have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Invoked(usize),
    Completed(usize),
}

fn write_calls(calls: &[Call]) -> String {
    let mut events = Vec::with_capacity(2 * calls.len());
    for (index, call) in calls.iter().enumerate() {
        events.push((call.invoked_ns, Event::Invoked(index)));
        events.push((call.returned_ns.unwrap_or(u64::MAX), Event::Completed(index)));
    }
    events.sort_unstable();
    let last = events.iter().map(|&(time, _)| time).filter(|&time| time != u64::MAX).max().unwrap_or(0);
    let mut processes = Processes::default();
    let mut of_call = vec![0; calls.len()];
    let mut text = String::new();
    for (index, (time, event)) in events.into_iter().enumerate() {
        let (Event::Invoked(number) | Event::Completed(number)) = event;
        let call = &calls[number];
        let (kind, value) = match (event, call.completion) {
            (Event::Invoked(_), _) => ("invoke", &call.invoked),
            (_, Completion::Ok) => ("ok", &call.completed),
            (_, Completion::Fail) => ("fail", &call.completed),
            (_, Completion::Info) => ("info", &call.completed),
        };
        match event {
            Event::Invoked(_) => of_call[number] = processes.take(call.client),
            Event::Completed(_) if call.completion != Completion::Info => {
                processes.free(call.client, of_call[number]);
            }
            Event::Completed(_) => {}
        }
        let (process, function, time) = (of_call[number], call.function, time.min(last));
        writeln!(
            text,
            "{{:index {index}, :type :{kind}, :process {process}, :f :{function}, :value {value}, :time {time}}}"
        )
        .expect("a string takes all that is written");
    }
    text
}

/// The processes that stand for the clients.
#[derive(Default)]
struct Processes {
    /// Processes of each client that have no operation.
    idle: BTreeMap<u32, BTreeSet<u64>>,
    next: u64,
}

impl Processes {
    fn take(&mut self, client: u32) -> u64 {
        self.idle.entry(client).or_default().pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    fn free(&mut self, client: u32, process: u64) {
        self.idle.entry(client).or_default().insert(process);
    }
}

fn key_value(operation: &Operation<'_>) -> Call {
    let key = hex(operation.key);
    let of_key =
        |version: Option<u64>, value: Option<u64>| format!("[\"{key}\" [{} {}]]", edn(version), edn(value));
    let (function, expected, value) = match operation.action {
        Action::Get => ("read", None, None),
        Action::Put { value } => ("write", None, Some(value)),
        Action::Delete => ("delete", None, None),
        Action::CompareAndSet { expected, value } => ("cas", Some(expected), Some(value)),
        Action::CompareAndDelete { expected } => ("cas-delete", Some(expected), None),
    };
    let invoked = of_key(expected, value);
    let (completion, completed) = match operation.reply.map(|reply| reply.outcome) {
        Some(Outcome::Found { version, value }) => (Completion::Ok, of_key(Some(version), Some(value))),
        // A read of an absent key is a result; a deletion of an absent key does nothing.
        Some(Outcome::NotFound) if function == "read" => (Completion::Ok, of_key(None, None)),
        Some(Outcome::NotFound) => (Completion::Fail, of_key(None, None)),
        Some(Outcome::Written { version }) => (Completion::Ok, of_key(Some(version), value)),
        Some(Outcome::Deleted { version }) => (Completion::Ok, of_key(Some(version), None)),
        Some(Outcome::Mismatch { version }) => (Completion::Fail, of_key(Some(version), None)),
        Some(Outcome::Refused) => (Completion::Fail, invoked.clone()),
        None => (Completion::Info, invoked.clone()),
    };
    Call {
        client: operation.client,
        invoked_ns: operation.invoked_ns,
        returned_ns: operation.reply.map(|reply| reply.returned_ns),
        completion,
        function,
        invoked,
        completed,
    }
}

fn transaction(record: &TransactionRecord, initial_version: u64) -> Call {
    let read = |access: &Access| {
        let version = access.value.and(Some(access.version)).filter(|version| *version > initial_version);
        format!("[:r {} {}]", access.key, edn(version))
    };
    let unread = |access: &Access| format!("[:r {} nil]", access.key);
    let write = |access: &Access| format!("[:w {} {}]", access.key, access.version);
    let of = |reads: Vec<String>| {
        let writes = record.writes.iter().map(write);
        format!("[{}]", reads.into_iter().chain(writes).collect::<Vec<_>>().join(" "))
    };
    let invoked = of(record.reads.iter().map(unread).collect());
    let (completion, returned_ps) = match record.fate {
        Fate::Committed { ended_ps } => (Completion::Ok, Some(ended_ps)),
        Fate::Aborted => (Completion::Fail, None),
        Fate::Unknown => (Completion::Info, None),
    };
    Call {
        client: record.id.coordinator.into(),
        invoked_ns: record.started_ps / 1000,
        // A later end is allowed by every order that the true one allows.
        returned_ns: returned_ps.map(|time| time.div_ceil(1000)),
        completion,
        function: "txn",
        completed: match completion {
            Completion::Ok => of(record.reads.iter().map(read).collect()),
            Completion::Fail | Completion::Info => invoked.clone(),
        },
        invoked,
    }
}

/// A number, or `nil`.
fn edn(number: Option<u64>) -> String {
    // Clojure's integers have 64 bits and a sign; a larger number is written as a big integer.
    match number {
        None => "nil".into(),
        Some(number) if i64::try_from(number).is_ok() => number.to_string(),
        Some(number) => format!("{number}N"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serializable::TransactionId;
    use crate::{History, Reply, Start};

    #[test]
    fn key_value_operations_are_those_of_a_versioned_register() {
        let mut history = History::new();
        let mut record = |client, invoked_ns, action, reply: Option<(u64, Outcome)>| {
            let reply = reply.map(|(returned_ns, outcome)| Reply { returned_ns, outcome });
            history.record(Operation { client, key: b"k", invoked_ns, action, reply }).unwrap();
        };
        record(1, 10, Action::Put { value: u64::MAX }, Some((30, Outcome::Written { version: 1 })));
        record(1, 20, Action::Get, Some((40, Outcome::NotFound)));
        record(2, 30, Action::CompareAndSet { expected: 1, value: 5 }, None);
        record(2, 50, Action::Delete, Some((60, Outcome::Refused)));
        record(1, 50, Action::CompareAndDelete { expected: 9 }, Some((60, Outcome::Mismatch { version: 2 })));
        let text = write_run(&KeyValueRun { start: Start::Empty, seed: None, history }.into());
        assert_eq!(
            text,
            r#"{:index 0, :type :invoke, :process 0, :f :write, :value ["6b" [nil 18446744073709551615N]], :time 10}
{:index 1, :type :invoke, :process 1, :f :read, :value ["6b" [nil nil]], :time 20}
{:index 2, :type :invoke, :process 2, :f :cas, :value ["6b" [1 5]], :time 30}
{:index 3, :type :ok, :process 0, :f :write, :value ["6b" [1 18446744073709551615N]], :time 30}
{:index 4, :type :ok, :process 1, :f :read, :value ["6b" [nil nil]], :time 40}
{:index 5, :type :invoke, :process 3, :f :delete, :value ["6b" [nil nil]], :time 50}
{:index 6, :type :invoke, :process 0, :f :cas-delete, :value ["6b" [9 nil]], :time 50}
{:index 7, :type :fail, :process 3, :f :delete, :value ["6b" [nil nil]], :time 60}
{:index 8, :type :fail, :process 0, :f :cas-delete, :value ["6b" [2 nil]], :time 60}
{:index 9, :type :info, :process 2, :f :cas, :value ["6b" [1 5]], :time 60}
"#
        );
    }

    #[test]
    fn transactions_are_those_of_rw_register() {
        let record = |sequence, fate, read, written| TransactionRecord {
            id: TransactionId { coordinator: 0, epoch: 1, sequence },
            started_ps: 1_000,
            fate,
            reads: vec![Access { key: 3, version: read, value: 1.try_into().ok() }],
            writes: vec![Access { key: 3, version: written, value: 2.try_into().ok() }],
        };
        let transactions = vec![
            record(1, Fate::Committed { ended_ps: 1_500 }, 4, 5),
            record(2, Fate::Committed { ended_ps: 3_000 }, 5, 6),
            record(3, Fate::Unknown, 6, 7),
            record(4, Fate::Aborted, 6, 8),
        ];
        let text = write_run(&TransactionsRun { initial_version: 4, seed: None, transactions }.into());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[4..],
            [
                "{:index 4, :type :ok, :process 0, :f :txn, :value [[:r 3 nil] [:w 3 5]], :time 2}",
                "{:index 5, :type :ok, :process 1, :f :txn, :value [[:r 3 5] [:w 3 6]], :time 3}",
                "{:index 6, :type :info, :process 2, :f :txn, :value [[:r 3 nil] [:w 3 7]], :time 3}",
                "{:index 7, :type :fail, :process 3, :f :txn, :value [[:r 3 nil] [:w 3 8]], :time 3}",
            ]
        );
    }
}
