//! The engine type of cards without engines.

use weft_time::Instant;
use weft_waist::{Engine, EngineStatus, Event, Io};

/// An engine type without values, for a card that is only a transport.
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
