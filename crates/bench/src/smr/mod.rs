//! Mu, the replicated log that uses one-sided writes: fault campaigns, and measurements of fail-over and
//! permission switch.

mod campaign;
mod cluster;
mod host;
mod measure;

pub(crate) use cluster::{card_with_log, first_view};
pub(crate) use host::LOG_SLOT;

pub use campaign::{LogFigures, LogSubject};
pub use measure::{FailOver, Quantiles, SmrBench, SmrResult};

/// Maximum clock drift, in parts per million: the tolerance of crystal oscillators of network cards.
pub const DRIFT_PPM: u32 = 50;
