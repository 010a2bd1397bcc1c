//! Clients in closed loops: each makes its next call when the previous one has ended.

use weft_results::histogram::Recorder;
use weft_session::{ClientHalf, OutcomeOf, TaskOf};
use weft_time::{Duration, Instant};
use weft_workload::Random;

use crate::ClientProgram;

/// Kind of a call that updates: an index into the default of [`Caller::KINDS`].
pub const UPDATE: usize = 0;
/// Kind of a call that reads.
pub const READ: usize = 1;
/// Names of the two kinds of calls that most engines have.
pub const UPDATES_AND_READS: [&str; 2] = ["update", "read"];

/// Outcome of a call, as measurements distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The call had its effect.
    Done,
    /// The call was refused, or has timed out.
    Failed,
}

/// Input for the choice of a client's next call.
#[derive(Debug)]
pub struct Turn<'a> {
    /// Random numbers that all clients of a machine share.
    pub random: &'a mut Random,
    /// Whether the run is ending. Then a client may finish a sequence of calls, such as releasing a lock, but
    /// begins nothing new.
    pub is_ending: bool,
    updates: u8,
}

impl<'a> Turn<'a> {
    /// The input of a client with this share of updates, in percent.
    pub const fn new(random: &'a mut Random, is_ending: bool, updates: u8) -> Self {
        Self { random, is_ending, updates }
    }

    /// Draws [`UPDATE`] or [`READ`], with the load's share of updates. Returns `None` if the run is ending.
    pub fn update_or_read(&mut self) -> Option<usize> {
        let draw = || if self.random.below(100) < u64::from(self.updates) { UPDATE } else { READ };
        (!self.is_ending).then(draw)
    }
}

/// The load on one client half, with one outstanding call at a time: it chooses the calls, and records how they end
/// for the check at the end.
pub trait Caller {
    /// The engine's client half, which makes the calls.
    type Half: ClientHalf;

    /// Names of the kinds of the client's calls.
    const KINDS: &'static [&'static str] = &UPDATES_AND_READS;

    /// Chooses the kind of the next call, an index into [`Caller::KINDS`]. Returns `None` if there is no next
    /// call.
    fn choose(&mut self, turn: &mut Turn<'_>) -> Option<usize> {
        turn.update_or_read()
    }

    /// The task of a call of this kind, which begins now.
    fn begin(&mut self, now: Instant, kind: usize) -> TaskOf<'_, Self::Half>;

    /// Records how the call has ended.
    fn end(&mut self, now: Instant, outcome: OutcomeOf<'_, Self::Half>) -> Ended;
}

/// Pauses of a client between two calls.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Maximum pause; the length of each pause is drawn. `None`: there are no pauses, and a client begins its next call
    /// in the event that ends the previous one.
    pub longest: Option<Duration>,
    /// Minimum pause after a failed call.
    pub after_failure: Duration,
}

/// One client and its current call.
struct Loop<C: Caller> {
    half: C::Half,
    caller: C,
    /// Kind and start of the outstanding call.
    call: Option<(usize, Instant)>,
    /// Time of the next call.
    next: Instant,
}

/// All clients of a machine.
pub struct ClosedLoops<C: Caller> {
    loops: Vec<Loop<C>>,
    updates: u8,
    pace: Pace,
    random: Random,
    recorder: Recorder,
    is_ending: bool,
}

impl<C: Caller> ClosedLoops<C> {
    /// Clients that do not call yet. `updates` is the share of updates in percent; `random` determines all choices.
    pub fn new(
        clients: impl IntoIterator<Item = (C::Half, C)>,
        updates: u8,
        pace: Pace,
        random: Random,
    ) -> Self {
        let idle = |(half, caller)| Loop { half, caller, call: None, next: Instant::FAR_FUTURE };
        Self {
            loops: clients.into_iter().map(idle).collect(),
            updates,
            pace,
            random,
            recorder: Recorder::new(C::KINDS, Instant::ZERO, Duration::ZERO),
            is_ending: false,
        }
    }

    /// Makes all clients begin. Calls that start within the warm-up are not measured.
    pub fn begin(&mut self, now: Instant, warm_up: Duration) {
        self.recorder = Recorder::new(C::KINDS, now, warm_up);
        self.loops.iter_mut().for_each(|one| one.next = now);
    }

    /// Makes the clients begin nothing new.
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

    /// Measurements of the clients' calls.
    pub const fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn call(&mut self, now: Instant, index: usize) {
        let one = &mut self.loops[index];
        one.next = Instant::FAR_FUTURE;
        let mut turn = Turn::new(&mut self.random, self.is_ending, self.updates);
        if let Some(kind) = one.caller.choose(&mut turn) {
            one.call = Some((kind, now));
            let call = one.half.start(now, one.caller.begin(now, kind));
            assert!(call.is_some(), "a client has one call under way");
        }
    }

    fn end(&mut self, now: Instant, index: usize, outcome: OutcomeOf<'_, C::Half>) {
        let one = &mut self.loops[index];
        let Some((kind, begun)) = one.call.take() else { return };
        let ended = one.caller.end(now, outcome);
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
            if let Some((_, outcome)) = self.loops[index].half.receive(now, node, message) {
                return self.end(now, index, outcome);
            }
        }
    }

    fn next_deadline(&self, _: Instant) -> Option<Instant> {
        let of = |one: &Loop<C>| one.half.next_deadline().map_or(one.next, |at| at.min(one.next));
        self.loops.iter().map(of).min().filter(|at| *at < Instant::FAR_FUTURE)
    }

    fn handle_deadline(&mut self, now: Instant) {
        for index in 0..self.loops.len() {
            if let Some((_, outcome)) = self.loops[index].half.handle_deadline(now) {
                self.end(now, index, outcome);
            }
            if self.loops[index].next <= now {
                self.call(now, index);
            }
        }
    }

    fn poll_transmit(&mut self, payload: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.loops.iter_mut().find_map(|one| one.half.poll_transmit(payload))
    }
}
