//! Comparison of engines with the same number of clients, network, cost profile, fault plan and seed, one
//! engine after the other.
//!
//! Each engine is a [`Contender`](weft_harness::Contender) on the shipped node, with its clients on a
//! separate machine. Engines differ in which call is an update, which replicas acknowledge it, and what reads
//! return. The result states these differences beside the figures.

mod engine;
mod lock;
mod log;
mod object;
mod result;
mod rounds;
mod store;
mod transactions;

pub use engine::{CAMPAIGN_VALUE_BYTES, CompareError, EngineName, Unfit};
pub use lock::LockContender;
pub use log::LogContender;
pub use object::ObjectContender;
pub use result::{Basis, Comparison, Point};
pub use rounds::RoundsContender;
pub use store::StoreContender;
pub use transactions::TransactionsContender;

use weft_harness::{Contest, Load};
use weft_session::ClientParameters;
use weft_time::Duration;

/// Time until a client repeats an unanswered call.
const REPEAT: Duration = Duration::from_us(250);
/// Pause of a client after a node has redirected it or was busy.
const PAUSE: Duration = Duration::from_us(20);
/// Time-out of a call.
const GIVE_UP: Duration = Duration::from_ms(20);

/// Parameters of the client with this number, for engines whose clients have sessions.
fn session(number: u32, nodes: usize) -> ClientParameters {
    let (first, identity) = (number as usize % nodes, u64::from(number) + 1);
    ClientParameters {
        first,
        repeat: REPEAT,
        pause: PAUSE,
        give_up: GIVE_UP,
        ..ClientParameters::new(identity, nodes)
    }
}

/// A comparison of engines.
#[derive(Clone, Debug)]
pub struct CompareBench {
    /// Engines, in the order of the table.
    pub engines: Vec<EngineName>,
    /// Parameters that are the same for all engines.
    pub contest: Contest,
    /// Numbers of clients, ascending.
    pub clients: Vec<u32>,
    /// Updates in percent; the other calls are reads.
    pub updates: u8,
    /// Bytes of a value, where an engine has values.
    pub value_bytes: usize,
    /// Whether `value_bytes` was given by the user; then each engine must have values.
    pub has_value_bytes: bool,
}

impl CompareBench {
    /// Measures all engines at all loads. `progress` is called with the number of runs that are done.
    ///
    /// # Errors
    /// The engines would not do the same work, or the fault plan does not fit the cluster.
    pub fn run(&self, replay: String, mut progress: impl FnMut(u64)) -> Result<Comparison, CompareError> {
        self.check()?;
        let mut done = 0;
        let mut measured = Vec::new();
        for &engine in &self.engines {
            let mut standings = Vec::new();
            for &clients in &self.clients {
                let load = Load { clients, updates: self.updates };
                standings.push(engine.contender(self.value_bytes).measure(&self.contest, load)?);
                done += 1;
                progress(done);
            }
            measured.push((engine, standings));
        }
        Ok(Comparison::new(self, &measured, replay))
    }
}
