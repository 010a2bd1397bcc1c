//! Combines writes of any size to few copies that are made one after the other, and tracks which copies have
//! finished.

use std::collections::VecDeque;

/// The copier has failed and can no longer be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// Copies from a staging buffer to the device, in the order of the calls. A call may return before its copy
/// has finished.
pub(crate) trait Copier {
    /// Number of bytes of the staging buffer.
    fn staging_bytes(&self) -> usize;

    /// The largest number of events that can be outstanding.
    fn events(&self) -> u64;

    /// Stores bytes in the staging buffer. The bytes are there when the call returns.
    fn stage(&mut self, at: usize, bytes: &[u8]);

    /// Starts a copy.
    fn copy(&mut self, from: usize, to: usize, length: usize) -> Result<(), Broken>;

    /// Records the event with this number, modulo [`Copier::events`], after all copies so far.
    fn record(&mut self, event: u64) -> Result<(), Broken>;

    /// Whether the copies before an event have finished.
    fn is_reached(&mut self, event: u64) -> Result<bool, Broken>;

    /// Waits until the copies before an event have finished.
    fn wait(&mut self, event: u64) -> Result<(), Broken>;
}

/// Bytes that are contiguous in the staging buffer and on the device, and are copied together.
#[derive(Clone, Copy, Debug)]
struct Run {
    from: usize,
    to: usize,
    length: usize,
}

/// The writes to one device memory.
///
/// The staging buffer is a ring. Its positions and the events are numbered from 0 on, and no number is used
/// twice.
#[derive(Debug)]
pub(crate) struct Pipeline<C> {
    pub(crate) copier: C,
    broken: bool,
    run: Option<Run>,
    /// The next position to write.
    head: u64,
    /// All positions before this one are free again.
    tail: u64,
    /// Number of recorded events. `reached` is the number of events that the device has reached.
    recorded: u64,
    reached: u64,
    /// For each event that is not reached, the value of `head` when it was recorded.
    heads: VecDeque<u64>,
    /// Whether there are copies after the last event.
    uncovered: bool,
}

impl<C: Copier> Pipeline<C> {
    pub(crate) fn new(copier: C) -> Self {
        let heads = VecDeque::with_capacity(copier.events() as usize);
        Self {
            copier,
            broken: false,
            run: None,
            head: 0,
            tail: 0,
            recorded: 0,
            reached: 0,
            heads,
            uncovered: false,
        }
    }

    /// Writes bytes to a position on the device. If there are too many for one piece of the staging buffer,
    /// they are written in parts.
    pub(crate) fn write(&mut self, to: usize, bytes: &[u8]) -> Result<(), Broken> {
        let longest = self.copier.staging_bytes() / 4;
        let mut to = to;
        for part in bytes.chunks(longest) {
            self.take(to, part)?;
            to += part.len();
        }
        Ok(())
    }

    fn take(&mut self, to: usize, bytes: &[u8]) -> Result<(), Broken> {
        let at = self.place(bytes.len())?;
        self.copier.stage(at, bytes);
        match &mut self.run {
            Some(run) if run.from + run.length == at && run.to + run.length == to => {
                run.length += bytes.len()
            }
            _ => {
                self.submit()?;
                self.run = Some(Run { from: at, to, length: bytes.len() });
            }
        }
        Ok(())
    }

    /// Reserves contiguous bytes in the staging buffer, and waits for free space if necessary.
    fn place(&mut self, length: usize) -> Result<usize, Broken> {
        let capacity = self.copier.staging_bytes() as u64;
        let length = length as u64;
        let left = capacity - self.head % capacity;
        if left < length {
            self.head += left;
        }
        // An event is recorded while there is still space for another run, so that copying and staging
        // overlap.
        let covered = self.heads.back().copied().unwrap_or(self.tail);
        if self.head + length > covered + capacity / 4 {
            self.mark()?;
        }
        while self.head + length > self.tail + capacity {
            self.await_next()?;
        }
        let at = self.head % capacity;
        self.head += length;
        Ok(at as usize)
    }

    /// Starts the copy of the bytes that were written so far.
    pub(crate) fn submit(&mut self) -> Result<(), Broken> {
        if self.broken {
            return Err(Broken);
        }
        if let Some(Run { from, to, length }) = self.run.take() {
            self.uncovered = true;
            let copied = self.copier.copy(from, to, length);
            self.note(copied)?;
        }
        Ok(())
    }

    /// Starts the copy of the bytes that were written so far, and returns a mark: [`Pipeline::has_landed`]
    /// tells when all of them are on the device.
    pub(crate) fn mark(&mut self) -> Result<u64, Broken> {
        self.submit()?;
        if self.uncovered {
            while self.recorded - self.reached == self.copier.events() {
                self.await_next()?;
            }
            let recorded = self.copier.record(self.recorded);
            self.note(recorded)?;
            self.recorded += 1;
            self.heads.push_back(self.head);
            self.uncovered = false;
        }
        Ok(self.recorded)
    }

    /// Whether everything that was written before a mark is on the device.
    pub(crate) fn has_landed(&mut self, mark: u64) -> Result<bool, Broken> {
        while self.reached < mark.min(self.recorded) {
            let reached = self.copier.is_reached(self.reached);
            if !self.note(reached)? {
                break;
            }
            self.reach();
        }
        Ok(self.reached >= mark)
    }

    fn await_next(&mut self) -> Result<(), Broken> {
        let waited = self.copier.wait(self.reached);
        self.note(waited)?;
        self.reach();
        Ok(())
    }

    fn reach(&mut self) {
        self.reached += 1;
        self.tail = self.heads.pop_front().expect("an event that was not reached has its head");
    }

    fn note<T>(&mut self, result: Result<T, Broken>) -> Result<T, Broken> {
        self.broken |= result.is_err();
        result
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAGING: usize = 64;
    const DEVICE: usize = 256;

    /// A copier whose copies finish only when it waits for them or has been asked often enough.
    #[derive(Debug)]
    struct Slow {
        staging: Vec<u8>,
        device: Vec<u8>,
        /// Copies in progress. Each is stored with the number of the next event when the copy was started.
        copies: VecDeque<(u64, Run)>,
        recorded: u64,
        patience: u32,
        asked: u32,
        fails_at: Option<u64>,
    }

    impl Slow {
        fn carry_out(&mut self, event: u64) {
            while self.copies.front().is_some_and(|(before, _)| *before <= event) {
                let (_, Run { from, to, length }) = self.copies.pop_front().expect("it is there");
                self.device[to..to + length].copy_from_slice(&self.staging[from..from + length]);
            }
        }
    }

    impl Copier for Slow {
        fn staging_bytes(&self) -> usize {
            STAGING
        }

        fn events(&self) -> u64 {
            3
        }

        fn stage(&mut self, at: usize, bytes: &[u8]) {
            self.staging[at..at + bytes.len()].copy_from_slice(bytes);
        }

        fn copy(&mut self, from: usize, to: usize, length: usize) -> Result<(), Broken> {
            assert!(from + length <= STAGING && length > 0);
            self.copies.push_back((self.recorded, Run { from, to, length }));
            Ok(())
        }

        fn record(&mut self, event: u64) -> Result<(), Broken> {
            assert_eq!(event, self.recorded);
            self.recorded += 1;
            if self.fails_at == Some(event) { Err(Broken) } else { Ok(()) }
        }

        fn is_reached(&mut self, event: u64) -> Result<bool, Broken> {
            self.asked += 1;
            if self.asked.is_multiple_of(self.patience) {
                self.carry_out(event);
                return Ok(true);
            }
            Ok(false)
        }

        fn wait(&mut self, event: u64) -> Result<(), Broken> {
            self.carry_out(event);
            Ok(())
        }
    }

    fn pipeline(patience: u32, fails_at: Option<u64>) -> Pipeline<Slow> {
        Pipeline::new(Slow {
            staging: vec![0; STAGING],
            device: vec![0; DEVICE],
            copies: VecDeque::new(),
            recorded: 0,
            patience,
            asked: 0,
            fails_at,
        })
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write(usize, Vec<u8>),
        Submit,
        Mark,
        Ask,
    }

    fn step() -> impl Strategy<Value = Step> {
        let write = (0..DEVICE - 100, proptest::collection::vec(any::<u8>(), 1..100))
            .prop_map(|(to, bytes)| Step::Write(to, bytes));
        prop_oneof![4 => write, 1 => Just(Step::Submit), 1 => Just(Step::Mark), 2 => Just(Step::Ask)]
    }

    proptest! {
        /// Everything that has landed is on the device, and the device never has bytes that were not written:
        /// the finished copies are always the first of all writes.
        #[test]
        fn what_has_landed_is_on_the_device(steps in proptest::collection::vec(step(), 1..60), patience in 1_u32..5) {
            let mut pipeline = pipeline(patience, None);
            let mut expected = vec![0; DEVICE];
            let mut marks: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
            let mut at = 0;
            for step in steps {
                match step {
                    Step::Write(to, bytes) => {
                        // Half of the writes continue the previous one, as the packets of a message do.
                        let to = if to % 2 == 0 && at + bytes.len() <= DEVICE { at } else { to };
                        at = to + bytes.len();
                        pipeline.write(to, &bytes).unwrap();
                        expected[to..at].copy_from_slice(&bytes);
                    }
                    Step::Submit => pipeline.submit().unwrap(),
                    Step::Mark => marks.push_back((pipeline.mark().unwrap(), expected.clone())),
                    Step::Ask => {
                        if let Some((mark, image)) = marks.front()
                            && pipeline.has_landed(*mark).unwrap()
                        {
                            let whole = pipeline.reached == *mark;
                            prop_assert!(!whole || pipeline.copier.device == *image);
                            marks.pop_front();
                        }
                    }
                }
            }
            let last = pipeline.mark().unwrap();
            while !pipeline.has_landed(last).unwrap() {}
            prop_assert_eq!(pipeline.copier.device, expected);
        }
    }

    #[test]
    fn writes_that_follow_each_other_are_one_copy() {
        let mut pipeline = pipeline(1, None);
        for part in 0..4 {
            pipeline.write(10 + part * 4, &[part as u8; 4]).unwrap();
        }
        pipeline.submit().unwrap();
        assert_eq!(pipeline.copier.copies.len(), 1);
        let mark = pipeline.mark().unwrap();
        assert_eq!(pipeline.mark(), Ok(mark), "nothing was written since");
    }

    #[test]
    fn what_a_broken_copier_was_given_never_lands() {
        let mut pipeline = pipeline(1, Some(0));
        pipeline.write(0, &[1]).unwrap();
        assert_eq!(pipeline.mark(), Err(Broken));
        assert_eq!(pipeline.has_landed(1), Ok(false));
        assert_eq!(pipeline.write(1, &[1]).and_then(|()| pipeline.submit()), Err(Broken));
    }
}
