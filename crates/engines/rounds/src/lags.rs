//! Lags: arrival times of messages, relative to their expected times.

use crate::members::MEMBERS_MAX;

/// Lags since the node took part or its period was set, in cycles of 4 ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct ArrivalLags {
    /// The lag of each node's last message.
    last: [Option<i32>; MEMBERS_MAX],
    largest: u32,
}

impl ArrivalLags {
    /// Records that a message of `from` arrived `lag` cycles later than expected; a negative lag means sooner.
    pub fn measure(&mut self, from: usize, lag: i32) {
        self.last[from] = Some(lag);
        self.largest = self.largest.max(lag.max(0).cast_unsigned());
    }

    /// The lag of each node's last message.
    pub fn last(&self) -> [Option<i32>; MEMBERS_MAX] {
        self.last
    }

    /// The largest lag of any node.
    pub fn largest(&self) -> u32 {
        self.largest
    }
}
