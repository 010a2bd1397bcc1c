//! The order of the calls of one group.

use std::collections::VecDeque;

use super::CallId;

/// The log of a group, without the entries that all replicas have applied.
#[derive(Clone, Debug)]
pub(super) struct GroupOrder {
    log: VecDeque<CallId>,
    /// Position of the first call in `log`.
    first: u64,
    /// Position of each replica in the log.
    places: Vec<u64>,
    /// The latest invocation time of all calls in the log, and that call.
    newest: Option<(u64, CallId)>,
}

/// Result of comparing a replica's next call of the group with the call at that position.
pub(super) enum Step {
    /// The replica is the first at this position. With the latest invocation among the calls before it.
    New(Option<(u64, CallId)>),
    /// Other replicas applied the same call.
    Same,
    /// Other replicas applied this call instead.
    Different(CallId),
}

impl GroupOrder {
    pub(super) fn new(replicas: usize) -> Self {
        Self { log: VecDeque::new(), first: 0, places: vec![0; replicas], newest: None }
    }

    /// A replica applies its next call of the group, which was made at `invoked`.
    pub(super) fn step(&mut self, replica: usize, id: CallId, invoked: u64) -> Step {
        let place = self.places[replica];
        self.places[replica] += 1;
        // Calls that were dropped have been applied by all replicas.
        let index = place.checked_sub(self.first).expect("a replica that runs is waited for") as usize;
        match self.log.get(index) {
            Some(&other) if other == id => Step::Same,
            Some(&other) => Step::Different(other),
            None => {
                let before = self.newest;
                self.log.push_back(id);
                if before.is_none_or(|(newest, _)| newest < invoked) {
                    self.newest = Some((invoked, id));
                }
                Step::New(before)
            }
        }
    }

    /// The calls in the log before position `place`, in order. Only for a log that keeps all calls.
    pub(super) fn prefix(&self, place: u64) -> impl Iterator<Item = CallId> {
        self.log.iter().copied().take(place as usize)
    }

    pub(super) fn set_place(&mut self, replica: usize, place: u64) {
        self.places[replica] = place;
    }

    /// Drops calls that all replicas in the bit mask `awaited` have applied.
    pub(super) fn forget(&mut self, awaited: u8) {
        let places = self.places.iter().enumerate().filter(|(replica, _)| awaited >> replica & 1 == 1);
        let Some(needed) = places.map(|(_, &place)| place).min() else { return };
        while self.first < needed && self.log.pop_front().is_some() {
            self.first += 1;
        }
    }
}
