//! From writes of any size to few copies that are made one after the other, and to what tells when they are over.

use std::collections::VecDeque;

/// The copier is useless from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// Makes copies from a staging buffer to the device, in the order of the calls, and need not be through with them when
/// a call returns.
pub(crate) trait Copier {
    /// Bytes of the staging buffer.
    fn staging_bytes(&self) -> usize;

    /// Events that can be outstanding.
    fn events(&self) -> u64;

    /// Puts bytes into the staging buffer, at once.
    fn stage(&mut self, at: usize, bytes: &[u8]);

    /// Begins a copy.
    fn copy(&mut self, from: usize, to: usize, length: usize) -> Result<(), Broken>;

    /// Puts the event of this number, modulo [`Copier::events`], behind all copies.
    fn record(&mut self, event: u64) -> Result<(), Broken>;

    /// Whether the copies before an event are over.
    fn is_reached(&mut self, event: u64) -> Result<bool, Broken>;

    /// Waits until they are.
    fn wait(&mut self, event: u64) -> Result<(), Broken>;
}

/// Bytes that follow each other in the staging buffer and on the device, and are copied together.
#[derive(Clone, Copy, Debug)]
struct Run {
    from: usize,
    to: usize,
    length: usize,
}

/// The writes to one device memory.
///
/// The staging buffer is a ring. Positions in it and events are numbered from 0 on and never again.
#[derive(Debug)]
pub(crate) struct Pipeline<C> {
    pub(crate) copier: C,
    broken: bool,
    run: Option<Run>,
    /// The next free position.
    head: u64,
    /// Before it all is free again.
    tail: u64,
    /// Events recorded, and events reached.
    recorded: u64,
    reached: u64,
    /// For each event that is not reached, `head` when it was recorded.
    heads: VecDeque<u64>,
    /// There are copies behind the last event.
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

    /// Takes bytes for a place on the device. Those of more than the staging buffer are taken in parts.
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

    /// Room in the staging buffer, in one piece.
    fn place(&mut self, length: usize) -> Result<usize, Broken> {
        let capacity = self.copier.staging_bytes() as u64;
        let length = length as u64;
        let left = capacity - self.head % capacity;
        if left < length {
            self.head += left;
        }
        // A run gets its event while there is room for another, so that copying and staging overlap.
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

    /// Begins to copy what was taken.
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

    /// The event behind all that was taken.
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

    /// Whether all that was taken before a mark is on the device.
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

    /// A copier that is through with its copies only when it is waited for or has been asked often enough.
    #[derive(Debug)]
    struct Slow {
        staging: Vec<u8>,
        device: Vec<u8>,
        /// Copies that are under way, each with the event before which it was begun.
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
        /// Whatever has landed is on the device, and the device never has what was not written: what the copier is
        /// through with is a beginning of what was written.
        #[test]
        fn what_has_landed_is_on_the_device(steps in proptest::collection::vec(step(), 1..60), patience in 1_u32..5) {
            let mut pipeline = pipeline(patience, None);
            let mut expected = vec![0; DEVICE];
            let mut marks: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
            let mut at = 0;
            for step in steps {
                match step {
                    Step::Write(to, bytes) => {
                        // Half of the writes follow the one before, as the packets of a message do.
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
