//! Folding of own summarized calls: they take effect here at once, and several are combined before they are
//! sent.
//!
//! Folded calls are not in this node's stream yet. Until the fold is closed, no call may depend on them and
//! no snapshot may contain them. When it is closed they get their numbers. Those of one summary are
//! consecutive. So each summary that is sent covers a prefix of the stream.

use weft_waist::{Caller, Io};

use super::Replica;
use super::layout::Summary;
use super::observer::Observer;
use super::parameters::{FOLD_MAX, PlantedBug};
use super::stream::SUMMARIES;
use crate::object::{Arguments, SummaryWords};

/// Own calls that have taken effect here but are not sent yet.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    /// The summaries that the calls change, in the order of their first calls.
    summaries: Vec<Folded>,
    /// Callers that wait for an answer, with the index of their summary in that list.
    waiting: Vec<(usize, Caller, u32)>,
    calls: usize,
}

/// A summary whose latest calls are not sent yet.
#[derive(Clone, Copy, Debug)]
struct Folded {
    place: usize,
    method: usize,
    slot: usize,
    words: SummaryWords,
    calls: u64,
}

impl Fold {
    pub fn new() -> Self {
        let room = FOLD_MAX;
        Self { summaries: Vec::with_capacity(room), waiting: Vec::with_capacity(room), calls: 0 }
    }

    /// Number of updates that are not answered yet.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Number of calls that have no numbers yet.
    pub fn calls(&self) -> u64 {
        self.calls as u64
    }

    pub fn is_empty(&self) -> bool {
        self.calls == 0
    }
}

impl<W: Observer> Replica<W> {
    /// Applies an own call, and folds it into the earlier calls of its method.
    pub(super) fn summarize(
        &mut self,
        method: usize,
        arguments: &Arguments,
        sequence: u32,
        waits: Option<Caller>,
        io: &mut Io<'_>,
    ) {
        let me = self.me();
        let state = &mut self.state;
        state.apply_own(sequence, method, arguments);
        state.counters.summarized += 1;
        let slot = state.kind.slot(method, arguments);
        let place = self.layout.place(method, slot);
        let known = self.fold.summaries.iter().position(|folded| folded.place == place);
        let index = known.unwrap_or_else(|| {
            let words = state.absorbed[me * self.layout.slots + place].words;
            self.fold.summaries.push(Folded { place, method, slot, words, calls: 0 });
            self.fold.summaries.len() - 1
        });
        let folded = &mut self.fold.summaries[index];
        if self.parameters.planted(PlantedBug::DeltaSummary) {
            folded.words = SummaryWords::default();
        }
        state.kind.fold(method, arguments, &mut folded.words);
        folded.calls += 1;
        self.fold.calls += 1;
        self.fold.waiting.extend(waits.map(|caller| (index, caller, sequence)));
        if self.fold.calls >= self.parameters.fold {
            self.close_fold(io);
        }
    }

    /// Closes the fold: its calls get numbers, and may be sent.
    pub(super) fn close_fold(&mut self, io: &mut Io<'_>) {
        let me = self.me();
        for index in 0..self.fold.summaries.len() {
            let Folded { place, method, slot, words, calls } = self.fold.summaries[index];
            let state = &mut self.state;
            state.summaries[me] += calls;
            state.written[me] = state.incarnation;
            let count = state.summaries[me];
            let sent = Summary {
                count,
                complete: count,
                origin: me as u8,
                method: method as u8,
                slot: slot as u32,
                words,
                incarnation: state.incarnation,
            };
            state.absorbed[me * self.layout.slots + place] = sent;
            io.memory.write(self.layout.summary(me, place), &sent.encode());
            // The bytes of a summary must not change while they are sent, even if the next call is in the
            // same slot. So the summary is copied to a buffer of its own.
            io.memory.write(self.layout.outgoing(count), &sent.encode());
            // The numbers of the calls before the last one are not sent separately.
            for number in count + 1 - calls..count {
                io.memory.image_mut()[self.layout.outgoing(number)..][..8].fill(0);
            }
            for &(_, caller, sequence) in self.fold.waiting.iter().filter(|(of, ..)| *of == index) {
                self.stream.wait(SUMMARIES, count, caller, sequence);
            }
            self.state.moved = true;
        }
        self.fold.summaries.clear();
        self.fold.waiting.clear();
        self.fold.calls = 0;
    }

    /// Closes the fold and sends its calls, because a call may now depend on them or they have waited long
    /// enough.
    pub(super) fn send_folded(&mut self, io: &mut Io<'_>) {
        if !self.fold.is_empty() {
            self.close_fold(io);
            self.send_all(io);
        }
    }
}
