//! The Rust half of the Python package `weft`: [`weft_client`] for threads and event loops of Python. The classes
//! are documented in `python/weft`, where Python programmers look for it.

mod engines;
mod errors;
mod pending;
mod region;

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weft_client as weft;
use weft_client::Cluster;
use weft_cluster::ClusterConfig;
use weft_time::Duration;

use crate::engines::{KeyValue, Log, Object, Rounds, Transactions};
use crate::errors::{exception, not_opened};

/// A client of a cluster: one port and one thread for all engines.
#[pyclass(frozen, module = "weft")]
struct Client(weft::Client);

#[pymethods]
impl Client {
    #[new]
    fn new(config: PathBuf, timeout_s: f64, first: usize) -> PyResult<Self> {
        if !(0.001..=20.0).contains(&timeout_s) {
            return Err(PyValueError::new_err("timeout_s: a call is given up after 0.001 to 20 seconds"));
        }
        let config =
            ClusterConfig::load(&config).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let give_up = Duration::from_us((timeout_s * 1e6) as u64);
        let cluster = Cluster { give_up, first, ..Cluster::from(&config) };
        weft::Client::open(&cluster).map(Self).map_err(|error| not_opened(&error))
    }

    fn kv(&self) -> PyResult<KeyValue> {
        self.0.kv().map(KeyValue).map_err(|error| exception(&error))
    }

    fn transactions(&self) -> PyResult<Transactions> {
        self.0.transactions().map(Transactions).map_err(|error| exception(&error))
    }

    fn object(&self, name: &str) -> PyResult<Object> {
        self.0.object(name).map(Object).map_err(|error| exception(&error))
    }

    fn log(&self, name: &str) -> PyResult<Log> {
        self.0.log(name).map(Log).map_err(|error| exception(&error))
    }

    fn rounds(&self) -> PyResult<Rounds> {
        self.0.rounds().map(Rounds).map_err(|error| exception(&error))
    }
}

/// The module `weft._weft`.
#[pymodule]
fn _weft(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Client>()?;
    engines::register(module)?;
    pending::register(module)?;
    region::register(module)?;
    errors::register(module)
}
