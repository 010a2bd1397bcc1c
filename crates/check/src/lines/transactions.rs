//! Histories of transactions.

use serde::{Deserialize, Serialize};

use super::{Body, FORMAT, LineError, parse, push};
use crate::serializable::{Access, Fate, History, Options, Report, TransactionId, TransactionRecord, check};

pub(super) const KIND: &str = "transactions";

/// The transactions of one run, without the final states of replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionsRun {
    /// Versions up to this one existed when the run began.
    pub initial_version: u64,
    /// Seed of the run, if it is one of a campaign's.
    pub seed: Option<u64>,
    /// The transactions that committed, and those that may have or aborted and wrote something.
    pub transactions: Vec<TransactionRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    history: String,
    format: u32,
    initial_version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    transactions: usize,
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    id: TransactionId,
    invoked_ps: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    returned_ps: Option<u64>,
    outcome: LineOutcome,
    reads: Vec<Access>,
    writes: Vec<Access>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LineOutcome {
    Committed,
    Aborted,
    Unknown,
}

impl TransactionsRun {
    /// Checks the history for strict serializability.
    pub fn check(&self) -> Report {
        let mut history = History::default();
        self.transactions.iter().for_each(|record| history.record(&record.as_transaction()));
        check(history, &Options { initial_version: self.initial_version, ..Options::default() })
    }

    pub(super) fn write(&self, text: &mut String) {
        let header = Header {
            history: KIND.into(),
            format: FORMAT,
            initial_version: self.initial_version,
            seed: self.seed,
            transactions: self.transactions.len(),
        };
        push(text, &header);
        self.transactions.iter().for_each(|record| push(text, &Line::from(record)));
    }

    pub(super) fn read(header: &str, body: &mut Body<'_>) -> Result<Self, LineError> {
        let Header { initial_version, seed, transactions: count, .. } = body.header(header)?;
        let mut transactions = Vec::new();
        body.read(count, "transaction", |text| {
            transactions.push(parse::<Line>(text, "a transaction")?.record()?);
            Ok(())
        })?;
        Ok(Self { initial_version, seed, transactions })
    }
}

impl Line {
    fn record(self) -> Result<TransactionRecord, String> {
        let Self { id, invoked_ps: started_ps, returned_ps, outcome, reads, writes } = self;
        let fate = match (outcome, returned_ps) {
            (LineOutcome::Committed, None) => {
                return Err("the outcome `committed` without `returned_ps`".into());
            }
            (LineOutcome::Committed, Some(u64::MAX)) => {
                return Err("a time of 2^64 - 1 ps, which stands for \"never\"".into());
            }
            (LineOutcome::Committed, Some(ended_ps)) if ended_ps < started_ps => {
                return Err(format!(
                    "a transaction that returned at {ended_ps} ps, before it was invoked at {started_ps} ps"
                ));
            }
            (LineOutcome::Committed, Some(ended_ps)) => Fate::Committed { ended_ps },
            (_, Some(_)) => return Err("`returned_ps` without the outcome `committed`".into()),
            (LineOutcome::Aborted, None) => Fate::Aborted,
            (LineOutcome::Unknown, None) => Fate::Unknown,
        };
        for accesses in [&reads, &writes] {
            let mut keys: Vec<u64> = accesses.iter().map(|access| access.key).collect();
            keys.sort_unstable();
            if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(format!("key {} is listed twice", twice[0]));
            }
        }
        Ok(TransactionRecord { id, started_ps, fate, reads, writes })
    }
}

impl From<&TransactionRecord> for Line {
    fn from(record: &TransactionRecord) -> Self {
        let (outcome, returned_ps) = match record.fate {
            Fate::Committed { ended_ps } => (LineOutcome::Committed, Some(ended_ps)),
            Fate::Aborted => (LineOutcome::Aborted, None),
            Fate::Unknown => (LineOutcome::Unknown, None),
        };
        Self {
            id: record.id,
            invoked_ps: record.started_ps,
            returned_ps,
            outcome,
            reads: record.reads.clone(),
            writes: record.writes.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use proptest::prelude::*;

    use super::super::{read_runs, write_runs};
    use super::*;

    fn accesses() -> impl Strategy<Value = Vec<Access>> {
        let of = (any::<u64>(), any::<Option<NonZeroU32>>());
        prop::collection::btree_map(any::<u64>(), of, 0..4).prop_map(|keys| {
            keys.into_iter().map(|(key, (version, value))| Access { key, version, value }).collect()
        })
    }

    prop_compose! {
        fn record()(
            (coordinator, epoch, sequence) in any::<(u16, u32, u64)>(),
            started in any::<u32>(),
            took in any::<u32>(),
            fate in 0..3,
            reads in accesses(),
            writes in accesses(),
        ) -> TransactionRecord {
            let started_ps = started.into();
            let fate = match fate {
                0 => Fate::Committed { ended_ps: started_ps + u64::from(took) },
                1 => Fate::Aborted,
                _ => Fate::Unknown,
            };
            let id = TransactionId { coordinator, epoch, sequence };
            TransactionRecord { id, started_ps, fate, reads, writes }
        }
    }

    prop_compose! {
        fn run()(
            initial_version in any::<u64>(),
            seed in any::<Option<u64>>(),
            transactions in prop::collection::vec(record(), 0..10),
        ) -> TransactionsRun {
            TransactionsRun { initial_version, seed, transactions }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(run in run()) {
            let runs = [run.into()];
            prop_assert_eq!(read_runs(&write_runs(&runs)), Ok(runs.to_vec()));
        }

        #[test]
        fn a_history_gives_back_what_it_recorded(run in run()) {
            let mut history = History::default();
            run.transactions.iter().for_each(|record| history.record(&record.as_transaction()));
            let counts = |record: &&TransactionRecord| {
                matches!(record.fate, Fate::Committed { .. }) || !record.writes.is_empty()
            };
            let mut expected: Vec<_> = run.transactions.iter().filter(counts).cloned().collect();
            // Committed transactions come first.
            expected.sort_by_key(|record| !matches!(record.fate, Fate::Committed { .. }));
            prop_assert_eq!(history.records(), expected);
        }
    }

    #[test]
    fn errors_name_the_line_and_the_reason() {
        let header = r#"{"history":"transactions","format":1,"initial_version":0,"transactions":1}"#;
        let line = |fields: &str| {
            format!("{header}\n{{\"coordinator\":0,\"epoch\":1,\"sequence\":2,\"invoked_ps\":5,{fields}}}")
        };
        for (text, says) in [
            (header.into(), "line 2: the file ends after 0 of 1 transactions"),
            (line(r#""outcome":"committed""#), "line 2: not a transaction: missing field `reads`"),
            (
                line(r#""outcome":"committed","reads":[],"writes":[]"#),
                "line 2: the outcome `committed` without `returned_ps`",
            ),
            (
                line(r#""outcome":"aborted","returned_ps":6,"reads":[],"writes":[]"#),
                "line 2: `returned_ps` without the outcome `committed`",
            ),
            (
                line(r#""outcome":"committed","returned_ps":4,"reads":[],"writes":[]"#),
                "line 2: a transaction that returned at 4 ps, before it was invoked at 5 ps",
            ),
            (
                line(r#""outcome":"committed","returned_ps":18446744073709551615,"reads":[],"writes":[]"#),
                "line 2: a time of 2^64 - 1 ps, which stands for \"never\"",
            ),
            (
                line(
                    r#""outcome":"unknown","reads":[],"writes":[{"key":7,"version":1},{"key":7,"version":2}]"#,
                ),
                "line 2: key 7 is listed twice",
            ),
        ] {
            assert_eq!(read_runs(&text).unwrap_err().to_string(), says);
        }
    }

    #[test]
    fn a_lost_update_in_a_file_is_a_violation() {
        let text = r#"{"history":"transactions","format":1,"initial_version":0,"transactions":2}
{"coordinator":0,"epoch":1,"sequence":1,"invoked_ps":0,"returned_ps":20,"outcome":"committed","reads":[{"key":1,"version":0,"value":9}],"writes":[{"key":1,"version":1,"value":8}]}
{"coordinator":0,"epoch":1,"sequence":2,"invoked_ps":0,"returned_ps":20,"outcome":"committed","reads":[{"key":1,"version":0,"value":9}],"writes":[{"key":1,"version":2,"value":7}]}"#;
        let runs = read_runs(text).unwrap();
        let [super::super::Run::Transactions(run)] = &runs[..] else { panic!("one run of transactions") };
        assert_eq!(run.check().checked(), "violation");
    }
}
