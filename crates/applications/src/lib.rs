//! Transactional workloads: Smallbank, Retwis and TPC-C, at the sizes of Xenic's evaluation (section 5) or smaller.
//!
//! A [`Workload`] has procedures, which all nodes register; initial objects; clients, which call the
//! procedures; and an [`Audit`] of the final objects. Seeds determine everything. Objects of shard *s* have
//! keys whose `Key::shard` is *s*; each server has one shard.

mod choice;
mod input;
pub mod retwis;
mod serial;
mod served;
pub mod smallbank;
pub mod tpcc;
mod zipf;

pub use choice::{WorkloadChoice, WorkloadName, check_loads};
pub use serial::Serial;
pub use served::{ApplicationName, application};

use weft_txn::{Key, Outcome, Procedures, Request};

/// One of the benchmarks, with its size.
pub trait Workload: Send + Sync {
    /// Name of the workload.
    fn name(&self) -> &'static str;

    /// Names of the kinds of transactions that clients request; see [`Call::kind`].
    fn kinds(&self) -> &'static [&'static str];

    /// The procedures that all nodes register.
    fn procedures(&self) -> Procedures;

    /// Passes each initial object of `shard` to `put`, once.
    fn load(&self, shard: usize, put: &mut dyn FnMut(Key, &[u8]));

    /// Client `lane` of server `node`. A client has one transaction outstanding at a time. Clients of a run differ in
    /// `node` or `lane`.
    ///
    /// # Panics
    /// If `lane` is not below [`LANES_MAX`].
    fn client(&self, node: usize, lane: u32, seed: u64) -> Box<dyn Client>;

    /// Makes the audit of a run.
    fn audit(&self) -> Box<dyn Audit>;
}

/// The most clients of a server.
pub const LANES_MAX: u32 = 1 << 10;

/// A client's call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The request of the call.
    pub request: Request,
    /// The kind of transaction that the client requests: an index into [`Workload::kinds`].
    pub kind: usize,
    /// Whether this is the first call for the client's request. A long transaction of TPC-C is divided into several
    /// calls (see [`tpcc`]); its latency is from its first call to the answer of its last call, which is followed by a
    /// call with `begins`.
    pub begins: bool,
}

/// A client, which makes one call after the other.
pub trait Client: Send {
    /// Returns the next call. `last` is the outcome of the previous call, `None` at first. After [`Outcome::Conflict`]
    /// the client repeats the call.
    fn next(&mut self, last: Option<&Outcome>) -> Call;
}

/// Observes a run and checks its final state. The order in which transactions are reported to it does not
/// matter.
pub trait Audit: Send {
    /// Reports a transaction that has committed.
    fn committed(&mut self, request: &Request, answer: &[u8]);

    /// Reports a transaction that may or may not have committed.
    fn unknown(&mut self, request: &Request);

    /// Reports a final object. After the run, it is called for all objects of one replica of each shard, in
    /// any order.
    fn object(&mut self, key: Key, value: &[u8]);

    /// Called after all objects were reported. Returns the violations, one line each; empty if there are
    /// none.
    fn findings(&mut self) -> Vec<String>;
}

/// Repeats a call that had a conflict; otherwise asks `next` for another call. All clients work like this.
struct Repeating<F> {
    last: Option<Call>,
    next: F,
}

impl<F: FnMut(Option<&Outcome>) -> Call> Repeating<F> {
    fn new(next: F) -> Self {
        Self { last: None, next }
    }
}

impl<F: FnMut(Option<&Outcome>) -> Call + Send> Client for Repeating<F> {
    fn next(&mut self, last: Option<&Outcome>) -> Call {
        if let (Some(Outcome::Conflict), Some(call)) = (last, &self.last) {
            return Call { begins: false, ..call.clone() };
        }
        let call = (self.next)(last);
        self.last = Some(call.clone());
        call
    }
}

/// The random numbers of one client. Each client of a run has a stream of its own.
fn random_of_client(node: usize, lane: u32, seed: u64) -> weft_workload::Random {
    assert!(lane < LANES_MAX, "a server has at most {LANES_MAX} clients");
    let client = (node as u64) << 32 | u64::from(lane);
    // Multiplying by the golden ratio spreads consecutive numbers over the seeds (Knuth, The Art of Computer
    // Programming, 6.4).
    weft_workload::Random::new(seed ^ client.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15), 0)
}
