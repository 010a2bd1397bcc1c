//! Runs scenarios in parallel on all cores, since each scenario on the gateware takes seconds and is
//! independent of the others.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The result of `run` for each input, in the order of the inputs.
///
/// # Panics
/// If `run` panics.
pub fn map<I: Sync, O: Send>(inputs: &[I], run: impl Fn(&I) -> O + Sync) -> Vec<O> {
    let next = AtomicUsize::new(0);
    let work = || -> Vec<(usize, O)> {
        let take = || {
            let index = next.fetch_add(1, Ordering::Relaxed);
            inputs.get(index).map(|input| (index, run(input)))
        };
        std::iter::from_fn(take).collect()
    };
    let mut all: Vec<(usize, O)> = thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no scenario panics")).collect()
    });
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, output)| output).collect()
}
