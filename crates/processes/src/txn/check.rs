//! Checks a run with the records of the nodes and the answers to the clients.

use std::collections::HashMap;
use std::path::PathBuf;

use weft_check::serializable::{self, Access, Fate, History, Options, Report, Transaction};
use weft_net::transactions::{Record, read_record};
use weft_txn::{Key, LOADED, Recorded, TransactionId, Version};

use super::clients::{Attempt, ClientRecord};
use crate::RealBenchError;

/// Findings of the check.
pub(super) struct Checked {
    pub report: Report,
    /// Further violations.
    pub wrong: Vec<String>,
}

impl Checked {
    /// Reads the records of all nodes, and checks them with the answers to clients.
    pub fn of(
        records: impl Iterator<Item = PathBuf>,
        told: &mut ClientRecord,
        replicas: usize,
    ) -> Result<Self, RealBenchError> {
        let read =
            |path: PathBuf| read_record(&path).map_err(|source| RealBenchError::Folder { path, source });
        let records: Vec<Record> = records.map(read).collect::<Result<_, _>>()?;
        Ok(Self::of_records(&records, told, replicas))
    }

    fn of_records(records: &[Record], told: &mut ClientRecord, replicas: usize) -> Self {
        let options = Options { initial_version: LOADED.bits(), ..Options::default() };
        let mut wrong = std::mem::take(&mut told.wrong);
        let mut answered: HashMap<TransactionId, &Attempt> =
            told.attempts.iter().map(|attempt| (attempt.id, attempt)).collect();
        let mut history = History::default();
        // If a primary has failed, a transaction may be executed and recorded at two primaries. It counts
        // once.
        let recorded: HashMap<TransactionId, &Recorded> =
            records.iter().flat_map(|record| &record.attempts).map(|attempt| (attempt.id, attempt)).collect();
        for (id, attempt) in recorded {
            let (started_ps, fate) = match answered.remove(&id) {
                Some(Attempt { called, answered, committed: true, .. }) => {
                    (called.as_ps(), Fate::Committed { ended_ps: answered.as_ps() })
                }
                Some(_) => (0, Fate::Aborted),
                // The transaction has aborted, or its client got no answer.
                None => (0, Fate::Unknown),
            };
            let (reads, writes) = (accesses(&attempt.reads), accesses(&attempt.writes));
            history.record(&Transaction { id: name(id), started_ps, fate, reads: &reads, writes: &writes });
        }
        let unrecorded = answered.values().filter(|attempt| attempt.committed).count();
        if unrecorded > 0 {
            wrong.push(format!("{unrecorded} transactions have committed and no client has recorded them"));
        }
        let nodes = records.len();
        for (index, record) in records.iter().enumerate() {
            let Some(objects) = &record.objects else {
                wrong.push(format!("node {index} did not say what it holds in the end"));
                continue;
            };
            let holds = move |bits| {
                Key::from_bits(bits).is_some_and(|key| (index + nodes - key.shard()) % nodes < replicas)
            };
            let written = objects.iter().filter(|(_, version, _)| *version > LOADED);
            let state: Vec<Access> = written
                .map(|(key, version, value)| Access::present(key.bits(), version.bits(), value))
                .collect();
            history.final_state(&format!("node{index}"), holds, state, &options);
        }
        for (shard, record) in records.iter().enumerate() {
            let objects = record.objects.iter().flatten().filter(|(key, ..)| key.shard() == shard);
            objects.for_each(|(key, _, value)| told.audit.object(*key, value));
        }
        wrong.extend(told.audit.findings());
        Self { report: serializable::check(history, &options), wrong }
    }
}

fn accesses(list: &[(Key, Version, Option<Vec<u8>>)]) -> Vec<Access> {
    let access = |(key, version, value): &(Key, Version, Option<Vec<u8>>)| match value {
        Some(value) => Access::present(key.bits(), version.bits(), value),
        None => Access::absent(key.bits(), version.bits()),
    };
    list.iter().map(access).collect()
}

fn name(id: TransactionId) -> serializable::TransactionId {
    let coordinator = u16::try_from(id.coordinator()).expect("a cluster has at most 16 nodes");
    serializable::TransactionId { coordinator, epoch: id.epoch().0, sequence: id.sequence() }
}

#[cfg(test)]
mod tests {
    use weft_time::{Duration, Instant};
    use weft_waist::{Epoch, NodeId};

    use super::*;
    use weft_applications::Workload;
    use weft_applications::smallbank::Smallbank;

    fn id(sequence: u64) -> TransactionId {
        TransactionId::new(NodeId::new(0).unwrap(), Epoch(1), sequence)
    }

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    /// A run on one node of a bank: two deposits of 130 cents to one account, one after the other.
    fn run() -> (Vec<Record>, ClientRecord) {
        let bank = Smallbank::new(1, 2);
        let mut objects = Vec::new();
        bank.load(0, &mut |key, value| objects.push((key, LOADED, value.to_vec())));
        let account = objects.len() - 1;
        let mut audit = bank.audit();
        let (mut attempts, mut told) = (Vec::new(), Vec::new());
        let request = weft_txn::Request {
            procedure: weft_txn::ProcedureId(2),
            input: Vec::new(),
            accesses: weft_txn::Accesses::default(),
        };
        for deposit in 1..=2u64 {
            let (key, version, before) = objects[account].clone();
            let balance = i32::from_le_bytes(before[..].try_into().unwrap()) + 130;
            let (next, after) = (Version::new(Epoch(1), deposit), balance.to_le_bytes().to_vec());
            attempts.push(Recorded {
                id: id(deposit),
                reads: vec![(key, version, Some(before))],
                writes: vec![(key, next, Some(after.clone()))],
            });
            objects[account] = (key, next, after);
            let (called, answered) = (at(10 * deposit), at(10 * deposit + 5));
            told.push(Attempt { id: id(deposit), called, answered, committed: true });
            audit.committed(&request, &[130i64.to_le_bytes(), [0; 8]].concat());
        }
        let told = ClientRecord {
            attempts: told,
            kinds: Vec::new(),
            measured: Duration::ZERO,
            unknown: 0,
            not_begun: 0,
            longest_silence: Duration::ZERO,
            audit,
            wrong: Vec::new(),
        };
        (vec![Record { attempts, objects: Some(objects) }], told)
    }

    fn check(change: impl FnOnce(&mut Vec<Record>, &mut ClientRecord)) -> Checked {
        let (mut records, mut told) = run();
        change(&mut records, &mut told);
        Checked::of_records(&records, &mut told, 1)
    }

    #[test]
    fn what_is_right_holds() {
        let checked = check(|_, _| {});
        assert!(
            !checked.report.is_violated() && checked.wrong.is_empty(),
            "{:?} {:?}",
            checked.report,
            checked.wrong
        );
        assert_eq!(checked.report.transactions, 2);
    }

    #[test]
    fn a_transaction_of_unknown_outcome_may_have_been() {
        let checked = check(|_, told| told.attempts.truncate(1));
        assert!(!checked.report.is_violated() && checked.wrong.is_empty());
        assert_eq!(checked.report.unknown_but_seen, 1);
    }

    #[test]
    fn each_thing_that_must_not_be_shows() {
        let reads_what_was = |records: &mut Vec<Record>, _: &mut ClientRecord| {
            let first = records[0].attempts[0].reads.clone();
            records[0].attempts[1].reads = first;
        };
        assert!(check(reads_what_was).report.is_violated(), "a lost update");
        let told_too_early = |_: &mut Vec<Record>, told: &mut ClientRecord| {
            (told.attempts[1].called, told.attempts[1].answered) = (at(1), at(2));
        };
        let report = check(told_too_early).report;
        assert_eq!(report.cycles_in_real_time_only, 1, "{report:?}");
        let forgets = |records: &mut Vec<Record>, _: &mut ClientRecord| {
            let (key, version, before) = records[0].attempts[1].reads[0].clone();
            let last = records[0].objects.as_mut().unwrap().last_mut().unwrap();
            *last = (key, version, before.unwrap());
        };
        let checked = check(forgets);
        assert!(checked.report.wrong_final_states == 1 && checked.wrong.len() == 1, "{:?}", checked.wrong);
        let refused = |_: &mut Vec<Record>, told: &mut ClientRecord| told.attempts[0].committed = false;
        assert!(check(refused).report.is_violated(), "what was refused was read");
        let unrecorded = |records: &mut Vec<Record>, _: &mut ClientRecord| drop(records[0].attempts.pop());
        assert!(check(unrecorded).wrong[0].contains("no client has recorded"));
        let silent = |records: &mut Vec<Record>, _: &mut ClientRecord| records[0].objects = None;
        assert!(check(silent).wrong[0].contains("did not say"));
    }
}
