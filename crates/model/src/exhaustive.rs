//! Runs of the explicit-state checker: until all states are known, or a property is violated.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant as Clock;

use serde::Serialize;
use stateright::{Checker, Model};

use crate::search::search;

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
#[derive(Debug)]
pub struct Properties {
    /// What holds in every state.
    pub always: &'static [&'static str],
    /// What holds in some state if both rivals succeed.
    pub both_succeed: &'static str,
}

/// A run: the states, each with the action that leaves it.
pub type Path<M> = [(<M as Model>::State, Option<<M as Model>::Action>)];

/// A model with limits, all of whose states are explored.
pub trait Explore:
    Model<
        State: Clone + Debug + PartialEq + Hash + Send + Sync,
        Action: Clone + Debug + PartialEq + Send + Sync,
    > + Send
    + Sync
    + Sized
    + 'static
{
    /// Limits of what may happen.
    type Budgets: Copy;
    /// The properties to check.
    const PROPERTIES: Properties;

    /// The limits of this check.
    fn budgets(&self) -> Self::Budgets;

    /// A run as text.
    fn trace(path: &Path<Self>) -> String;

    /// Runs the check. `progress` is called with the number of states from time to time.
    fn run(self, threads: usize, progress: impl FnMut(u64)) -> Explored<Self::Budgets> {
        let begin = Clock::now();
        let (budgets, properties) = (self.budgets(), Self::PROPERTIES);
        let checker = search(self, threads, progress);
        let violation =
            |property: &'static str| Some((property, Self::trace(&checker.discovery(property)?.into_vec())));
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
}
