//! What is run in transactions: Smallbank, Retwis and TPC-C, at the sizes of Xenic's evaluation (section 5) or smaller.
//!
//! A [`Workload`] has procedures, which all nodes register, objects to begin with, clients that call, and an
//! [`Audit`] of what is there in the end. Everything follows from seeds. Objects of shard *s* are loaded with
//! `Key::shard` *s*; there is a shard for each server.

mod choice;
mod input;
mod labour;
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

/// One of the benchmarks, at some scale.
pub trait Workload: Send + Sync {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// What its transactions are called, those that clients want done; see [`Call::kind`].
    fn kinds(&self) -> &'static [&'static str];

    /// What all nodes register.
    fn procedures(&self) -> Procedures;

    /// Tells all objects that `shard` has in the beginning, each once.
    fn load(&self, shard: usize, put: &mut dyn FnMut(Key, &[u8]));

    /// Client `lane` of the server `node`, which has one transaction under way at a time. Clients of a run differ in
    /// `node` or `lane`.
    ///
    /// # Panics
    /// If `lane` is not below [`LANES_MAX`].
    fn client(&self, node: usize, lane: u32, seed: u64) -> Box<dyn Client>;

    /// What must hold in the end.
    fn audit(&self) -> Box<dyn Audit>;
}

/// The most clients of a server.
pub const LANES_MAX: u32 = 1 << 10;

/// What a client calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The call itself.
    pub request: Request,
    /// What the client wants done: an index into [`Workload::kinds`].
    pub kind: usize,
    /// Whether it is the first call for this. A long transaction of TPC-C is chopped into several (see [`tpcc`]), and
    /// its time runs from its first call until the last one is answered, which the next call's `begins` shows.
    pub begins: bool,
}

/// Someone who calls, waits, and calls again.
pub trait Client: Send {
    /// The next call. `last` is what became of the one before, none at first. After [`Outcome::Conflict`] it is the
    /// same call again.
    fn next(&mut self, last: Option<&Outcome>) -> Call;
}

/// Follows a run and looks at its end. The order in which it is told of the transactions does not matter.
pub trait Audit: Send {
    /// A transaction has committed.
    fn committed(&mut self, request: &Request, answer: &[u8]);

    /// A transaction may have committed.
    fn unknown(&mut self, request: &Request);

    /// When all is quiet: an object of one replica of each shard, in any order.
    fn object(&mut self, key: Key, value: &[u8]);

    /// After all objects: what is wrong, one line each; empty if nothing is.
    fn findings(&mut self) -> Vec<String>;
}

/// Repeats a call that was in conflict, else asks for another one: what every client does.
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

/// The random numbers of one client. The seed of a run gives each its own.
fn random_of_client(node: usize, lane: u32, seed: u64) -> weft_workload::Random {
    assert!(lane < LANES_MAX, "a server has at most {LANES_MAX} clients");
    let client = (node as u64) << 32 | u64::from(lane);
    // The golden ratio spreads neighbouring numbers over the seeds (Knuth, The Art of Computer Programming, 6.4).
    weft_workload::Random::new(seed ^ client.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15), 0)
}
