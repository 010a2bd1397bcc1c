//! Measures which events and state transitions of the gateware the scenarios reach.

use std::cell::RefCell;
use std::collections::BTreeSet;

use weft_gateware::{Arcs, package};

/// The events and state transitions that a scenario has reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Events, by block and name.
    pub events: BTreeSet<(&'static str, &'static str)>,
    /// State transitions of queue pairs.
    pub arcs: Arcs,
}

thread_local! {
    static REACHED: RefCell<Option<Reached>> = const { RefCell::new(None) };
}

/// Runs a scenario. Returns what its gateware NICs have reached.
pub fn observe(scenario: impl FnOnce()) -> Reached {
    REACHED.set(Some(Reached::default()));
    scenario();
    REACHED.take().unwrap_or_default()
}

/// Whether a scenario is being observed.
pub(crate) fn is_on() -> bool {
    REACHED.with_borrow(Option::is_some)
}

/// Records the counts and transitions of a NIC at the end of its use.
pub(crate) fn note(counts: &[u64], arcs: &Arcs) {
    REACHED.with_borrow_mut(|reached| {
        let Some(reached) = reached else { return };
        let events = events().into_iter().zip(counts).filter(|(_, count)| **count > 0);
        reached.events.extend(events.map(|(event, _)| event));
        reached.arcs.responder.extend(&arcs.responder);
        reached.arcs.requester.extend(&arcs.requester);
    });
}

/// All events that the gateware counts, as (block, name), in the order of their counters.
pub fn events() -> Vec<(&'static str, &'static str)> {
    package::COUNTER_BLOCKS.iter().copied().zip(package::COUNTERS.iter().copied()).collect()
}
