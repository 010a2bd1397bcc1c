//! The engines of a cluster as Python classes. Every call returns a [`Pending`].

use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use weft_client as weft;
use weft_txn::{Key, Mode, Outcome, ProcedureId};

use crate::errors::exception;
use crate::pending::Pending;

type Value = Py<PyAny>;

fn any<T: for<'py> IntoPyObject<'py>>(python: Python<'_>, value: T) -> PyResult<Value> {
    use pyo3::IntoPyObjectExt as _;
    value.into_py_any(python)
}

fn bytes(python: Python<'_>, content: &[u8]) -> Py<PyBytes> {
    PyBytes::new(python, content).unbind()
}

/// A value of the key-value store and its version.
#[pyclass(frozen, get_all, module = "weft")]
pub(crate) struct Versioned {
    value: Py<PyBytes>,
    version: u64,
}

/// The result of a compare-and-set.
#[pyclass(frozen, get_all, module = "weft")]
pub(crate) struct CompareAndSet {
    done: bool,
    version: u64,
}

/// The key-value store.
#[pyclass(frozen, module = "weft")]
pub(crate) struct KeyValue(pub weft::KeyValue);

impl KeyValue {
    /// A key of the store: shorter keys are padded with zeros, as `weft kv` does.
    fn key(&self, key: &[u8]) -> Vec<u8> {
        let mut key = key.to_vec();
        if key.len() < self.0.key_bytes() {
            key.resize(self.0.key_bytes(), 0);
        }
        key
    }
}

#[pymethods]
impl KeyValue {
    #[getter]
    fn key_bytes(&self) -> usize {
        self.0.key_bytes()
    }

    fn get(&self, key: &[u8]) -> Pending {
        Pending::new(self.0.get(&self.key(key)), |python, value| {
            let Some(weft::Versioned { version, value }) = value else { return Ok(python.None()) };
            any(python, Versioned { value: bytes(python, &value), version })
        })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Pending {
        Pending::new(self.0.put(&self.key(key), value), any)
    }

    fn delete(&self, key: &[u8]) -> Pending {
        Pending::new(self.0.delete(&self.key(key)), any)
    }

    fn compare_and_set(&self, key: &[u8], expected: u64, value: &[u8]) -> Pending {
        Pending::new(self.0.compare_and_set(&self.key(key), expected, value), |python, result| {
            let (done, version) = match result {
                weft::CompareAndSet::Done { version } => (true, version),
                weft::CompareAndSet::Mismatch { version } => (false, version),
            };
            any(python, CompareAndSet { done, version })
        })
    }
}

/// The outcome of a transaction.
#[pyclass(frozen, get_all, module = "weft")]
pub(crate) struct Ended {
    outcome: &'static str,
    reason: Option<u8>,
    answer: Option<Py<PyBytes>>,
}

/// The transactions of a cluster.
#[pyclass(frozen, module = "weft")]
pub(crate) struct Transactions(pub weft::Transactions);

#[pymethods]
impl Transactions {
    fn call(&self, procedure: u16, keys: Vec<(usize, u64, String)>, input: &[u8]) -> PyResult<Pending> {
        let mut accesses = Vec::with_capacity(keys.len());
        for (shard, local, mode) in keys {
            let mode = match mode.as_str() {
                "read" => Mode::Read,
                "write" => Mode::Write,
                "update" => Mode::Update,
                _ => {
                    return Err(PyValueError::new_err(format!(
                        "mode {mode:?}: choose read, write or update"
                    )));
                }
            };
            if local >> 56 != 0 || shard >= weft_txn::SHARDS_MAX {
                return Err(PyValueError::new_err(format!(
                    "key ({shard}, {local}): a shard is below 16, a number below 2**56"
                )));
            }
            accesses.push((Key::new(shard, local), mode));
        }
        Ok(Pending::new(self.0.call(ProcedureId(procedure), &accesses, input), |python, ended| {
            let (outcome, reason, answer) = match ended.outcome {
                Outcome::Committed { answer } => ("committed", None, Some(answer)),
                Outcome::Unanswered => ("committed", None, None),
                Outcome::Aborted { reason, answer } => ("refused", Some(reason), Some(answer)),
                Outcome::Conflict => ("conflict", None, None),
                Outcome::Full => ("full", None, None),
                Outcome::Unavailable => ("unavailable", None, None),
                Outcome::Faulty(_) => ("faulty", None, None),
                Outcome::Unknown => unreachable!("the client makes an error of it"),
            };
            any(python, Ended { outcome, reason, answer: answer.map(|answer| bytes(python, &answer)) })
        }))
    }
}

/// A replicated object.
#[pyclass(frozen, module = "weft")]
pub(crate) struct Object(pub weft::Object);

#[pymethods]
impl Object {
    #[getter]
    fn type_name(&self) -> String {
        self.0.definition().name.to_string()
    }

    fn at(&self, replica: usize) -> PyResult<Self> {
        self.0.at(replica).map(Self).map_err(|error| exception(&error))
    }

    #[pyo3(signature = (method, *arguments))]
    fn update(&self, method: &str, arguments: Vec<i64>) -> Pending {
        Pending::new(self.0.update(method, &arguments), |python, update| {
            any(python, matches!(update, weft::Update::Done))
        })
    }

    #[pyo3(signature = (query, *arguments))]
    fn query(&self, query: &str, arguments: Vec<i64>) -> Pending {
        Pending::new(self.0.query(query, &arguments), any)
    }
}

/// An entry of a log.
#[pyclass(frozen, get_all, module = "weft")]
pub(crate) struct Entry {
    index: u64,
    origin: u64,
    sequence: u64,
    content: Py<PyBytes>,
}

impl Entry {
    fn new(python: Python<'_>, entry: &weft::Entry) -> Self {
        let weft::Entry { index, origin, sequence, ref content } = *entry;
        Self { index, origin, sequence, content: bytes(python, content) }
    }
}

/// The progress of a replica of a log.
#[pyclass(frozen, get_all, module = "weft")]
pub(crate) struct LogStatus {
    applied: u64,
    decided: u64,
    leader: Option<usize>,
    halted: bool,
}

/// A replicated log.
#[pyclass(frozen, module = "weft")]
pub(crate) struct Log(pub weft::Log);

#[pymethods]
impl Log {
    fn append(&self, content: &[u8]) -> Pending {
        Pending::new(self.0.append(content), any)
    }

    fn read(&self, index: u64) -> Pending {
        Pending::new(self.0.read(index), |python, read| match read {
            weft::Read::Entry(entry) => any(python, Entry::new(python, &entry)),
            weft::Read::NotYet { .. } | weft::Read::Void => Ok(python.None()),
        })
    }

    fn status(&self) -> Pending {
        Pending::new(self.0.status(), |python, status| {
            let (applied, decided) = (status.index, status.decided);
            any(python, LogStatus { applied, decided, leader: status.leader, halted: status.halted })
        })
    }

    #[pyo3(signature = (start = 0))]
    fn tail(&self, start: u64) -> Tail {
        Tail(self.0.tail(start))
    }
}

/// An iterator over the entries of a log, as they are decided.
#[pyclass(module = "weft")]
pub(crate) struct Tail(weft::Tail);

#[pymethods]
impl Tail {
    #[getter]
    fn index(&self) -> u64 {
        self.0.index()
    }

    fn next(&mut self, python: Python<'_>, timeout_s: f64) -> PyResult<Option<Entry>> {
        let patience = Duration::try_from_secs_f64(timeout_s)
            .map_err(|error| PyValueError::new_err(format!("timeout_s: {error}")))?;
        let tail = &mut self.0;
        let entry = python.detach(|| tail.next_within(patience)).map_err(|error| exception(&error))?;
        Ok(entry.map(|entry| Entry::new(python, &entry)))
    }
}

/// The result of a proposal.
#[pyclass(frozen, get_all, module = "weft")]
pub(crate) struct Proposal {
    decided: bool,
    instance: u64,
}

/// A decided proposal.
#[pyclass(frozen, get_all, module = "weft")]
pub(crate) struct Decision {
    instance: u64,
    proposer: u8,
    proposal: Py<PyBytes>,
}

/// Consensus in rounds.
#[pyclass(frozen, module = "weft")]
pub(crate) struct Rounds(pub weft::Rounds);

#[pymethods]
impl Rounds {
    fn propose(&self, proposal: &[u8]) -> Pending {
        Pending::new(self.0.propose(proposal), |python, result| {
            let (decided, instance) = match result {
                weft::Proposal::Decided { instance } => (true, instance),
                weft::Proposal::Dropped { instance } => (false, instance),
            };
            any(python, Proposal { decided, instance })
        })
    }

    #[pyo3(signature = (after = None))]
    fn read(&self, after: Option<(u64, u8)>) -> Pending {
        Pending::new(self.0.read(after), |python, list| {
            let decisions: Vec<_> = list
                .decisions
                .iter()
                .map(|decision| Decision {
                    instance: decision.place.0,
                    proposer: decision.place.1,
                    proposal: bytes(python, &decision.proposal),
                })
                .collect();
            any(python, decisions)
        })
    }
}

/// Adds all classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<KeyValue>()?;
    module.add_class::<Versioned>()?;
    module.add_class::<CompareAndSet>()?;
    module.add_class::<Transactions>()?;
    module.add_class::<Ended>()?;
    module.add_class::<Object>()?;
    module.add_class::<Log>()?;
    module.add_class::<Entry>()?;
    module.add_class::<LogStatus>()?;
    module.add_class::<Tail>()?;
    module.add_class::<Rounds>()?;
    module.add_class::<Proposal>()?;
    module.add_class::<Decision>()
}
