//! Runs transactions one after another on a map. This defines what the procedures do, without a protocol.

use std::collections::BTreeMap;

use weft_txn::{Execution, Fault, Key, Outcome, Procedure, Procedures, Request, Step, Version, Written};

use super::Workload;

/// A map of objects, and procedures that run on it one at a time.
#[derive(Clone)]
pub struct Serial {
    procedures: Procedures,
    objects: BTreeMap<Key, (Version, Vec<u8>)>,
    latest: u64,
    execution: Execution,
}

impl Serial {
    /// All objects that a workload loads into the shards 0 to `shards` - 1.
    ///
    /// # Panics
    /// If the workload loads an object twice.
    pub fn load(workload: &dyn Workload, shards: usize) -> Self {
        let mut objects = BTreeMap::new();
        for shard in 0..shards {
            workload.load(shard, &mut |key, value| {
                assert_eq!(key.shard(), shard, "{key} belongs to another shard");
                let before = objects.insert(key, (Version::ZERO, value.to_vec()));
                assert!(before.is_none(), "{key} was loaded twice");
            });
        }
        Self { procedures: workload.procedures(), objects, latest: 0, execution: Execution::default() }
    }

    /// Runs a transaction from beginning to end.
    pub fn call(&mut self, request: &Request) -> Outcome {
        self.call_with(request, Execution::run)
    }

    /// Like [`Serial::call`], but calls `run` for each run of the procedure, so that it can be timed.
    pub fn call_with(
        &mut self,
        request: &Request,
        mut run: impl FnMut(&mut Execution, &dyn Procedure) -> Result<Step, Fault>,
    ) -> Outcome {
        let Some(procedure) = self.procedures.get(request.procedure) else {
            return Outcome::Faulty(Fault::NoSuchProcedure);
        };
        let execution = &mut self.execution;
        if let Err(fault) = execution.begin(&request.input, request.accesses.as_slice()) {
            return Outcome::Faulty(fault);
        }
        loop {
            for index in execution.pending().collect::<Vec<_>>() {
                let access = execution.accesses()[index];
                let object = self.objects.get(&access.key);
                let (version, value) = match object {
                    Some((version, value)) => (*version, access.mode.reads().then_some(&value[..])),
                    None => (Version::ZERO, None),
                };
                execution.fetch(index, version, Version::ZERO, value);
            }
            match run(execution, procedure) {
                Err(fault) => return Outcome::Faulty(fault),
                Ok(Step::More) => {}
                Ok(Step::Abort(reason)) => {
                    return Outcome::Aborted { reason, answer: execution.answered().to_vec() };
                }
                Ok(Step::Commit) => break,
            }
        }
        for (index, access) in execution.accesses().iter().enumerate() {
            match execution.written(index) {
                Written::Nothing => {}
                Written::Deleted => drop(self.objects.remove(&access.key)),
                Written::Value(value) => {
                    self.latest += 1;
                    self.objects.insert(access.key, (Version::from_bits(self.latest), value.to_vec()));
                }
            }
        }
        Outcome::Committed { answer: execution.answered().to_vec() }
    }

    /// All objects, by key.
    pub fn objects(&self) -> impl Iterator<Item = (Key, &[u8])> {
        self.objects.iter().map(|(key, (_, value))| (*key, &value[..]))
    }

    /// The object of this key.
    pub fn object(&self, key: Key) -> Option<&[u8]> {
        self.objects.get(&key).map(|(_, value)| &value[..])
    }

    /// Replaces an object: for tests of audits.
    pub fn replace(&mut self, key: Key, value: Option<&[u8]>) {
        match value {
            Some(value) => drop(self.objects.insert(key, (Version::ZERO, value.to_vec()))),
            None => drop(self.objects.remove(&key)),
        }
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use crate::{Audit, Client};

    /// A run of a workload by `clients` clients of each of `shards` servers. The clients call in turn.
    pub(crate) struct Run {
        pub(crate) serial: Serial,
        pub(crate) audit: Box<dyn Audit>,
        /// By kind: transactions that clients began, calls that committed, and calls that their procedure aborted.
        pub(crate) begun: Vec<u64>,
        pub(crate) committed: Vec<u64>,
        pub(crate) aborted: Vec<u64>,
    }

    impl Run {
        pub(crate) fn new(
            workload: &dyn Workload,
            shards: usize,
            clients: u32,
            calls: u64,
            seed: u64,
        ) -> Self {
            let kinds = workload.kinds().len();
            let mut run = Self {
                serial: Serial::load(workload, shards),
                audit: workload.audit(),
                begun: vec![0; kinds],
                committed: vec![0; kinds],
                aborted: vec![0; kinds],
            };
            let mut callers: Vec<(Box<dyn Client>, Option<Outcome>)> = (0..shards)
                .flat_map(|node| (0..clients).map(move |lane| (node, lane)))
                .map(|(node, lane)| (workload.client(node, lane, seed), None))
                .collect();
            for call in 0..calls {
                let count = callers.len() as u64;
                let (client, last) = &mut callers[(call % count) as usize];
                let call = client.next(last.as_ref());
                run.begun[call.kind] += u64::from(call.begins);
                let outcome = run.serial.call(&call.request);
                match &outcome {
                    Outcome::Committed { answer } => {
                        run.committed[call.kind] += 1;
                        run.audit.committed(&call.request, answer);
                    }
                    Outcome::Aborted { .. } => run.aborted[call.kind] += 1,
                    other => panic!("{other:?} of {call:?}"),
                }
                *last = Some(outcome);
            }
            run
        }

        pub(crate) fn findings(mut self) -> Vec<String> {
            for (key, value) in self.serial.objects() {
                self.audit.object(key, value);
            }
            self.audit.findings()
        }
    }

    /// The calls of clients as text. Each call is answered by running it on a database of its own.
    pub(crate) fn transcript(workload: &dyn Workload, shards: usize, seed: u64) -> String {
        let mut serial = Serial::load(workload, shards);
        let mut text = String::new();
        for node in 0..shards {
            let mut client = workload.client(node, 1, seed);
            let mut last = None;
            for _ in 0..200 {
                let call = client.next(last.as_ref());
                text += &format!("{call:?}\n");
                last = Some(serial.call(&call.request));
            }
        }
        text
    }
}
