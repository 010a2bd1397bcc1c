//! Times of crashes and restarts of machines.

use weft_sim::{Event, MachineId, Tap};
use weft_time::Instant;

/// A crash or restart of a machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub at: Instant,
    pub machine: MachineId,
    pub down: bool,
}

/// Records the crashes and restarts that take place. A fault plan may contain more of them, because some are
/// not allowed when they are due.
#[derive(Debug, Default)]
pub(super) struct Turns(pub Vec<Turn>);

impl Tap for Turns {
    fn event(&mut self, at: Instant, event: &Event) {
        match *event {
            Event::Crashed(machine) => self.0.push(Turn { at, machine, down: true }),
            Event::Restarted(machine, _) => self.0.push(Turn { at, machine, down: false }),
            _ => {}
        }
    }
}
