//! When machines have crashed and come back.

use weft_sim::{Event, MachineId, Tap};
use weft_time::Instant;

/// A machine's crash or return.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub at: Instant,
    pub machine: MachineId,
    pub down: bool,
}

/// Notes the crashes and restarts that really take place.
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
