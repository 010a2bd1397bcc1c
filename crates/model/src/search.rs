//! A search through all states of a model, or until a property is violated.

use std::hash::Hash;
use std::time::Duration;

use stateright::{Checker, HasDiscoveries, Model};

/// Searches with so many threads. `progress` is called with the number of states from time to time. A panic of the
/// model continues in the caller.
pub(crate) fn search<M>(model: M, threads: usize, mut progress: impl FnMut(u64)) -> impl Checker<M>
where
    M: Model<State: Clone + Hash + PartialEq + Send + Sync, Action: Clone + PartialEq + Send + Sync>
        + Send
        + Sync
        + 'static,
{
    let mut checker = model.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures).spawn_dfs();
    while !checker.is_done() {
        std::thread::sleep(Duration::from_millis(10));
        progress(checker.unique_state_count() as u64);
    }
    for handle in checker.handles() {
        if let Err(panic) = handle.join() {
            std::panic::resume_unwind(panic);
        }
    }
    checker
}
