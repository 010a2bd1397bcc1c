//! A slot: one engine with its timers.

use weft_time::Instant;
use weft_waist::{Capabilities, Engine, EngineStatus};

/// The most timers of one engine.
const TIMERS_MAX: usize = 16;

/// An engine with its timers, for any host of engines.
#[derive(Debug)]
pub struct EngineSlot<E> {
    /// The engine.
    pub engine: E,
    /// The capabilities that the engine has declared.
    pub needs: Capabilities,
    timers: Vec<(u32, Instant)>,
    reported: EngineStatus,
}

impl<E: Engine> EngineSlot<E> {
    /// A slot with a new engine.
    pub fn new(engine: E) -> Self {
        Self {
            needs: engine.needs(),
            engine,
            timers: Vec::with_capacity(TIMERS_MAX),
            reported: EngineStatus::STARTING,
        }
    }

    /// Prepares the slot for a reset of its engine.
    pub fn clear(&mut self) {
        self.timers.clear();
    }

    /// The engine's status, if it has changed since the last call.
    pub fn take_status(&mut self) -> Option<EngineStatus> {
        let status = self.engine.status();
        (status != self.reported).then(|| {
            self.reported = status;
            status
        })
    }

    /// Sets a timer, or moves the one with the same tag.
    ///
    /// # Panics
    /// If the engine uses more than 16 tags, which would be a bug in the engine.
    pub fn set_timer(&mut self, tag: u32, at: Instant) {
        if let Some(timer) = self.timers.iter_mut().find(|timer| timer.0 == tag) {
            timer.1 = at;
        } else {
            assert!(self.timers.len() < TIMERS_MAX, "an engine has at most {TIMERS_MAX} timers");
            self.timers.push((tag, at));
        }
    }

    /// When the next timer of this engine expires.
    pub fn next_timer(&self) -> Option<Instant> {
        self.timers.iter().map(|timer| timer.1).min()
    }

    /// Removes the earliest timer that has expired at `now`, and returns its tag.
    pub fn take_due_timer(&mut self, now: Instant) -> Option<u32> {
        let earliest = (0..self.timers.len()).min_by_key(|&index| self.timers[index].1)?;
        if self.timers[earliest].1 > now {
            return None;
        }
        Some(self.timers.swap_remove(earliest).0)
    }
}
