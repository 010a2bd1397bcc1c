//! Clients in closed loops: each makes its next call when the last one has ended.

use weft_time::{Duration, Instant};
use weft_workload::Random;

use crate::ClientProgram;
use crate::histogram::Recorder;

/// Kind of a call that updates, as an index into the default of [`Caller::KINDS`].
pub const UPDATE: usize = 0;
/// Kind of a call that reads.
pub const READ: usize = 1;
/// Names of the two kinds of calls that most engines have.
pub const UPDATES_AND_READS: [&str; 2] = ["update", "read"];

/// Outcome of a call, as far as measurements go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The call had its effect.
    Done,
    /// The call was refused, or has timed out.
    Failed,
}

/// What the choice of a client's next call depends on.
#[derive(Debug)]
pub struct Turn<'a> {
    /// Random numbers that all clients of a machine share.
    pub random: &'a mut Random,
    /// The run ends: a client may finish what it has begun, and begins nothing new.
    pub is_ending: bool,
    updates: u8,
}

impl Turn<'_> {
    /// Draws [`UPDATE`] or [`READ`] as the load demands. `None`: the run ends.
    pub fn update_or_read(&mut self) -> Option<usize> {
        let draw = || if self.random.below(100) < u64::from(self.updates) { UPDATE } else { READ };
        (!self.is_ending).then(draw)
    }
}

/// One client of an engine, with one call under way at a time. Pure: messages and time go in. It records the answers
/// that it gets, for the check at the end.
pub trait Caller {
    /// Names of the kinds of its calls.
    const KINDS: &'static [&'static str] = &UPDATES_AND_READS;

    /// Chooses the kind of the next call, an index into [`Caller::KINDS`]. `None`: there is no next call.
    fn choose(&mut self, turn: &mut Turn<'_>) -> Option<usize> {
        turn.update_or_read()
    }

    /// Begins a call of this kind.
    fn begin(&mut self, now: Instant, kind: usize);

    /// A message from a node has arrived, perhaps for another client: whether the call has ended with it.
    fn receive(&mut self, now: Instant, node: usize, message: (u8, &[u8])) -> Option<Ended>;

    /// When [`Caller::handle_deadline`] must be called.
    fn next_deadline(&self) -> Option<Instant>;

    /// Handles what is due: whether the call has ended.
    fn handle_deadline(&mut self, now: Instant) -> Option<Ended>;

    /// The next message to send: appends its content to `out`, and returns the node and the kind.
    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)>;
}

/// Pauses of a client between two calls.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The longest pause; each is drawn. `None`: a client calls in the very event that has ended its last call.
    pub longest: Option<Duration>,
    /// The shortest pause after a call that has failed.
    pub after_failure: Duration,
}

/// One client and its current call.
struct Loop<C> {
    caller: C,
    /// Kind of the call under way, and when it was begun.
    call: Option<(usize, Instant)>,
    /// Time of its next call.
    next: Instant,
}

/// All clients of a machine.
pub struct ClosedLoops<C> {
    loops: Vec<Loop<C>>,
    updates: u8,
    pace: Pace,
    random: Random,
    recorder: Recorder,
    is_ending: bool,
}

impl<C: Caller> ClosedLoops<C> {
    /// Clients that call nothing yet. `updates` is the share of updates in percent, `random` decides their calls.
    pub fn new(callers: impl IntoIterator<Item = C>, updates: u8, pace: Pace, random: Random) -> Self {
        let idle = |caller| Loop { caller, call: None, next: Instant::FAR_FUTURE };
        Self {
            loops: callers.into_iter().map(idle).collect(),
            updates,
            pace,
            random,
            recorder: Recorder::new(C::KINDS, Instant::ZERO, Duration::ZERO),
            is_ending: false,
        }
    }

    /// Lets all clients begin. Calls begun within the warm-up are not measured.
    pub fn begin(&mut self, now: Instant, warm_up: Duration) {
        self.recorder = Recorder::new(C::KINDS, now, warm_up);
        self.loops.iter_mut().for_each(|one| one.next = now);
    }

    /// Lets clients begin nothing new.
    pub fn finish(&mut self) {
        self.is_ending = true;
    }

    /// Whether no client waits for an answer.
    pub fn is_idle(&self) -> bool {
        self.loops.iter().all(|one| one.call.is_none())
    }

    /// The clients.
    pub fn callers(&self) -> impl Iterator<Item = &C> {
        self.loops.iter().map(|one| &one.caller)
    }

    /// Measurements of their calls.
    pub const fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn call(&mut self, now: Instant, index: usize) {
        let one = &mut self.loops[index];
        one.next = Instant::FAR_FUTURE;
        let mut turn = Turn { random: &mut self.random, is_ending: self.is_ending, updates: self.updates };
        if let Some(kind) = one.caller.choose(&mut turn) {
            one.call = Some((kind, now));
            one.caller.begin(now, kind);
        }
    }

    fn end(&mut self, now: Instant, index: usize, ended: Ended) {
        let one = &mut self.loops[index];
        let Some((kind, begun)) = one.call.take() else { return };
        let longest = self.pace.longest.map_or(0, Duration::as_ps);
        let pause = Duration::from_ps(if longest == 0 { 0 } else { self.random.below(longest) });
        match ended {
            Ended::Done => {
                self.recorder.record(kind, begun, now);
                one.next = now + pause;
            }
            Ended::Failed => {
                self.recorder.record_failure(kind, begun);
                one.next = now + pause.max(self.pace.after_failure);
            }
        }
        if self.pace.longest.is_none() && one.next == now {
            self.call(now, index);
        }
    }
}

impl<C: Caller> ClientProgram for ClosedLoops<C> {
    fn receive(&mut self, now: Instant, node: usize, message: (u8, &[u8])) {
        // Each client recognizes the answers to its own calls.
        for index in 0..self.loops.len() {
            if let Some(ended) = self.loops[index].caller.receive(now, node, message) {
                return self.end(now, index, ended);
            }
        }
    }

    fn next_deadline(&self, _: Instant) -> Option<Instant> {
        let of = |one: &Loop<C>| one.caller.next_deadline().map_or(one.next, |at| at.min(one.next));
        self.loops.iter().map(of).min().filter(|at| *at < Instant::FAR_FUTURE)
    }

    fn handle_deadline(&mut self, now: Instant) {
        for index in 0..self.loops.len() {
            if let Some(ended) = self.loops[index].caller.handle_deadline(now) {
                self.end(now, index, ended);
            }
            if self.loops[index].next <= now {
                self.call(now, index);
            }
        }
    }

    fn poll_transmit(&mut self, payload: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.loops.iter_mut().find_map(|one| one.caller.poll_transmit(payload))
    }
}
