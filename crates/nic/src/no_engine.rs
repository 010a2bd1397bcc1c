//! The engine of a card that has none.

use weft_time::Instant;
use weft_waist::{Engine, EngineStatus, Event, Io};

/// An engine that does not exist: of a card that is transport alone.
#[derive(Clone, Copy, Debug)]
pub enum NoEngine {}

impl Engine for NoEngine {
    fn handle(&mut self, _: Instant, _: Event<'_>, _: &mut Io<'_>) {
        match *self {}
    }

    fn status(&self) -> EngineStatus {
        match *self {}
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        match *self {}
    }
}
