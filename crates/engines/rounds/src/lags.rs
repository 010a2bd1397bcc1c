//! Arrival times of messages, relative to their expected times.

use crate::members::MEMBERS_MAX;

/// Measurements since the node took part or its period was set, in cycles.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lags {
    /// By node: of its last message.
    last: [Option<i32>; MEMBERS_MAX],
    largest: u32,
}

impl Lags {
    /// A message of `from` came `lag` later than it could have; it came sooner if that is negative.
    pub fn measure(&mut self, from: usize, lag: i32) {
        self.last[from] = Some(lag);
        self.largest = self.largest.max(lag.max(0).cast_unsigned());
    }

    /// By node: of its last message.
    pub fn last(&self) -> [Option<i32>; MEMBERS_MAX] {
        self.last
    }

    /// The largest of all.
    pub fn largest(&self) -> u32 {
        self.largest
    }
}
