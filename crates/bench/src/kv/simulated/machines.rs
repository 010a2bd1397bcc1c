//! The machines of the clients of a simulated cluster.

use weft_harness::ClientProgram;
use weft_time::Instant;

use crate::kv::Driver;

/// A machine that runs clients of the store.
pub(super) type ClientMachine = weft_harness::ClientMachine<Driver>;

impl ClientProgram for Driver {
    fn receive(&mut self, now: Instant, _: usize, (kind, payload): (u8, &[u8])) {
        self.receive(now, kind, payload);
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        self.next_deadline(now)
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.handle_deadline(now);
    }

    fn poll_transmit(&mut self, payload: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.poll_transmit(payload).map(|(node, kind)| (node.index(), kind))
    }
}
