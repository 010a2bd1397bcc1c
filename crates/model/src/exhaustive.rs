//! Runs of the explicit-state checker: until all states are known, or a property is violated.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant as Clock};

use serde::Serialize;
use stateright::{Checker, HasDiscoveries, Model};

/// The result of an exhaustive check.
#[derive(Clone, Debug, Serialize)]
pub struct Explored<Budgets> {
    /// Limits with which the check ran.
    pub budgets: Budgets,
    /// Number of distinct states.
    pub states: u64,
    /// Number of steps from one state to another.
    pub transitions: u64,
    /// The properties that must hold in every state.
    pub properties: &'static [&'static str],
    /// Whether both rivals succeed in some run.
    pub both_succeed: bool,
    /// For each violated property, its name and a run as text.
    pub violations: Vec<(&'static str, String)>,
    /// Duration of the check in seconds.
    pub seconds: f64,
}

/// What a check asks of its model.
pub(crate) struct Properties {
    /// What holds in every state.
    pub(crate) always: &'static [&'static str],
    /// What holds in some state if both rivals succeed.
    pub(crate) both_succeed: &'static str,
}

/// A run: the states, each with the action that leaves it.
pub(crate) type Path<M> = [(<M as Model>::State, Option<<M as Model>::Action>)];

/// Explores the model. `trace` writes a run as text; `progress` is called with the number of states from time to time.
pub(crate) fn explore<M, Budgets>(
    model: M,
    budgets: Budgets,
    properties: &Properties,
    trace: impl Fn(&Path<M>) -> String,
    threads: usize,
    mut progress: impl FnMut(u64),
) -> Explored<Budgets>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + PartialEq + Hash + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let begin = Clock::now();
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
    let violation =
        |property: &'static str| Some((property, trace(&checker.discovery(property)?.into_vec())));
    Explored {
        budgets,
        states: checker.unique_state_count() as u64,
        transitions: checker.state_count() as u64,
        properties: properties.always,
        both_succeed: checker.discovery(properties.both_succeed).is_some(),
        violations: properties.always.iter().copied().filter_map(violation).collect(),
        seconds: begin.elapsed().as_secs_f64(),
    }
}
