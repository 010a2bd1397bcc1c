//! The thread that drives one end of a connection.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weft_net::{RegionEnd, RegionEvent};

/// The longest time that a request of Python waits until the thread notices it, because the thread sleeps for
/// packets.
const LOOK: weft_time::Duration = weft_time::Duration::from_us(200);

/// A WRITE to be posted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) from: u64,
    pub(super) length: u32,
    pub(super) to: u64,
    pub(super) value: Option<u32>,
}

#[derive(Debug, Default)]
struct State {
    writes: VecDeque<Write>,
    /// Number of WRITEs that were requested, and number of those that were acknowledged.
    asked: u64,
    written: u64,
    told: VecDeque<u32>,
    failure: Option<String>,
    stops: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `ready` returns a value, or the connection has failed.
    fn wait<T>(&self, limit: Duration, mut ready: impl FnMut(&mut State) -> Option<T>) -> Result<T, Waited> {
        let end = Instant::now() + limit;
        let mut state = self.lock();
        loop {
            if let Some(found) = ready(&mut state) {
                return Ok(found);
            }
            if let Some(failure) = &state.failure {
                return Err(Waited::Failed(failure.clone()));
            }
            if state.stops {
                return Err(Waited::Failed("this region is closed".to_owned()));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Waited::InVain);
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Why a wait ended without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    InVain,
    Failed(String),
}

/// A connected end and its thread, which stops when this value is dropped.
#[derive(Debug)]
pub(super) struct Worker {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<RegionEnd>>>,
}

impl Worker {
    pub(super) fn start(end: RegionEnd) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let thread = thread::Builder::new().name("weft-region".into()).spawn(move || run(end, &of_thread))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Requests a WRITE, as soon as fewer than the maximum are outstanding.
    pub(super) fn write(&self, write: Write, limit: Duration) -> Result<(), Waited> {
        self.shared.wait(limit, |state| {
            let room = state.asked - state.written < u64::from(RegionEnd::DEPTH);
            room.then(|| {
                state.asked += 1;
                state.writes.push_back(write);
            })
        })
    }

    /// Waits until all requested WRITEs have arrived.
    pub(super) fn flush(&self, limit: Duration) -> Result<(), Waited> {
        self.shared.wait(limit, |state| (state.asked == state.written).then_some(()))
    }

    /// The next value that the peer sends.
    pub(super) fn told(&self, limit: Duration) -> Result<u32, Waited> {
        self.shared.wait(limit, |state| state.told.pop_front())
    }

    /// Ends the thread and all waits. The first call returns the thread's end of the connection.
    pub(super) fn stop(&self) -> Option<RegionEnd> {
        self.shared.lock().stops = true;
        self.shared.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        thread?.join().ok()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(mut end: RegionEnd, shared: &Shared) -> RegionEnd {
    loop {
        let mut state = shared.lock();
        if state.stops {
            return end;
        }
        let writes = std::mem::take(&mut state.writes);
        drop(state);
        if let Err(failure) = go_on(&mut end, writes, shared) {
            shared.lock().failure = Some(failure.to_string());
            shared.changed.notify_all();
            return end;
        }
    }
}

/// Posts WRITEs, and lets the card make progress once.
fn go_on(
    end: &mut RegionEnd,
    writes: VecDeque<Write>,
    shared: &Shared,
) -> Result<(), weft_net::RegionEndError> {
    for Write { from, length, to, value } in writes {
        end.write(from, length, to, value)?;
    }
    if let Some(heard) = end.poll(LOOK)? {
        let mut state = shared.lock();
        match heard {
            RegionEvent::Written => state.written += 1,
            RegionEvent::Notified(value) => state.told.push_back(value),
        }
        drop(state);
        shared.changed.notify_all();
    }
    Ok(())
}
