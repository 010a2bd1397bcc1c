//! Which events and states of the gateware scenarios reach.

use std::cell::RefCell;
use std::collections::BTreeSet;

use weft_gateware::{Arcs, package};

/// What a scenario has reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Events, by block and name.
    pub events: BTreeSet<(&'static str, &'static str)>,
    /// Changes of state.
    pub arcs: Arcs,
}

thread_local! {
    static REACHED: RefCell<Option<Reached>> = const { RefCell::new(None) };
}

/// Runs a scenario and says what its gateware NICs have reached.
pub fn observe(scenario: impl FnOnce()) -> Reached {
    REACHED.set(Some(Reached::default()));
    scenario();
    REACHED.take().unwrap_or_default()
}

/// Whether anybody observes.
pub(crate) fn is_on() -> bool {
    REACHED.with_borrow(Option::is_some)
}

/// A NIC has come to its end.
pub(crate) fn note(counts: &[u64], arcs: &Arcs) {
    REACHED.with_borrow_mut(|reached| {
        let Some(reached) = reached else { return };
        let events = events().into_iter().zip(counts).filter(|(_, count)| **count > 0);
        reached.events.extend(events.map(|(event, _)| event));
        reached.arcs.responder.extend(&arcs.responder);
        reached.arcs.requester.extend(&arcs.requester);
    });
}

/// All events that the gateware counts, by block and name, in the order of their counters.
pub fn events() -> Vec<(&'static str, &'static str)> {
    package::COUNTER_BLOCKS.iter().copied().zip(package::COUNTERS.iter().copied()).collect()
}
