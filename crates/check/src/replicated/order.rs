//! The order of the calls of one group.

use std::collections::VecDeque;

use super::CallId;

/// One log, as far as some replica has still to reach it.
#[derive(Clone, Debug)]
pub(super) struct GroupOrder {
    log: VecDeque<CallId>,
    /// The position of the first of it.
    first: u64,
    /// Position of each replica.
    places: Vec<u64>,
    /// The latest invocation of all calls in the log, and its call.
    newest: Option<(u64, CallId)>,
}

/// A replica's next call of the group, compared with the call that the others took there.
pub(super) enum Step {
    /// The replica is the first there. With the latest invocation among the calls before it.
    New(Option<(u64, CallId)>),
    /// Others took the same call.
    Same,
    /// Others took this call.
    Different(CallId),
}

impl GroupOrder {
    pub(super) fn new(replicas: usize) -> Self {
        Self { log: VecDeque::new(), first: 0, places: vec![0; replicas], newest: None }
    }

    /// A replica takes its next call, which was made at `invoked`.
    pub(super) fn step(&mut self, replica: usize, id: CallId, invoked: u64) -> Step {
        let place = self.places[replica];
        self.places[replica] += 1;
        // All replicas have taken forgotten calls.
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

    /// Calls in the log, in order, up to `place`. Only of a log that keeps all.
    pub(super) fn prefix(&self, place: u64) -> impl Iterator<Item = CallId> {
        self.log.iter().copied().take(place as usize)
    }

    pub(super) fn set_place(&mut self, replica: usize, place: u64) {
        self.places[replica] = place;
    }

    /// Forgets what all replicas for which `awaited` holds have taken.
    pub(super) fn forget(&mut self, awaited: u8) {
        let places = self.places.iter().enumerate().filter(|(replica, _)| awaited >> replica & 1 == 1);
        let Some(needed) = places.map(|(_, &place)| place).min() else { return };
        while self.first < needed && self.log.pop_front().is_some() {
            self.first += 1;
        }
    }
}
