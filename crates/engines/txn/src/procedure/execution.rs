//! The state of an executing transaction: its input, its keys, the values read and the values to write.

use std::ops::Range;

use super::{ANSWER_MAX, Access, Context, INPUT_MAX, KEYS_MAX, Mode, Procedure, Step, VALUE_MAX};
use crate::key::{Key, Version};

/// Violation of the contract by a procedure or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u8)]
pub enum Fault {
    /// More than [`KEYS_MAX`] keys.
    #[error("a transaction has at most {KEYS_MAX} keys")]
    TooManyKeys,
    /// A request names a key twice.
    #[error("a transaction names each key once")]
    DoubledKey,
    /// An added key is among the keys already, with a weaker mode.
    #[error("a key cannot be read first and locked later")]
    StrongerMode,
    /// A write or deletion of a key that is only read.
    #[error("a key that is only read cannot be written")]
    NotLocked,
    /// An index beyond the keys.
    #[error("there is no key of this index")]
    NoSuchKey,
    /// A value longer than [`VALUE_MAX`], or than the tables hold.
    #[error("a value has at most {VALUE_MAX} bytes, and as many as the tables hold")]
    LongValue,
    /// An answer longer than [`ANSWER_MAX`].
    #[error("an answer has at most {ANSWER_MAX} bytes")]
    LongAnswer,
    /// An input longer than [`INPUT_MAX`].
    #[error("an input has at most {INPUT_MAX} bytes")]
    LongInput,
    /// [`Step::More`] without a new key, or [`Step::Commit`] after a key was added that is to be read.
    #[error("a key to be read needs another round, and another round needs such a key")]
    WrongStep,
    /// A procedure that is not registered.
    #[error("there is no procedure of this number")]
    NoSuchProcedure,
    /// The writes do not fit into the log of some replica, even if the log is empty.
    #[error("a transaction's writes fit into a log")]
    TooLarge,
}

impl Fault {
    /// The fault with this number, in the order above.
    pub fn parse(number: u8) -> Option<Self> {
        [
            Self::TooManyKeys,
            Self::DoubledKey,
            Self::StrongerMode,
            Self::NotLocked,
            Self::NoSuchKey,
            Self::LongValue,
            Self::LongAnswer,
            Self::LongInput,
            Self::WrongStep,
            Self::NoSuchProcedure,
            Self::TooLarge,
        ]
        .get(usize::from(number))
        .copied()
    }
}

/// Effect of a transaction on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written<'a> {
    /// The key is not written.
    Nothing,
    /// The key is deleted.
    Deleted,
    /// The key gets this value.
    Value(&'a [u8]),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ValueState {
    Nothing,
    Deleted,
    Value(Range<usize>),
}

/// One attempt of a transaction. The structure is reused, and keeps its allocations.
#[derive(Clone, Debug)]
pub struct Execution {
    round: usize,
    input: Vec<u8>,
    accesses: Vec<Access>,
    /// For each key, whether it was locked and read as its mode requires.
    fetched: Vec<bool>,
    read: Vec<ValueState>,
    /// For each key, the version that was read, and the version that a write will have.
    versions: Vec<(Version, Version)>,
    values: Vec<u8>,
    written: Vec<ValueState>,
    new_values: Vec<u8>,
    answer: Vec<u8>,
    fault: Option<Fault>,
}

impl Default for Execution {
    fn default() -> Self {
        Self {
            round: 0,
            input: Vec::with_capacity(INPUT_MAX),
            accesses: Vec::with_capacity(KEYS_MAX),
            fetched: Vec::with_capacity(KEYS_MAX),
            read: Vec::with_capacity(KEYS_MAX),
            versions: Vec::with_capacity(KEYS_MAX),
            values: Vec::new(),
            written: Vec::with_capacity(KEYS_MAX),
            new_values: Vec::new(),
            answer: Vec::with_capacity(ANSWER_MAX),
            fault: None,
        }
    }
}

impl Execution {
    /// Starts another transaction.
    ///
    /// # Errors
    /// If the request breaks its contract. Then no transaction is started.
    pub fn begin(&mut self, input: &[u8], accesses: &[Access]) -> Result<(), Fault> {
        self.clear();
        if input.len() > INPUT_MAX {
            return Err(Fault::LongInput);
        }
        self.input.extend_from_slice(input);
        for access in accesses {
            if self.find(access.key).is_some() {
                self.clear();
                return Err(Fault::DoubledKey);
            }
            if self.accesses.len() == KEYS_MAX {
                self.clear();
                return Err(Fault::TooManyKeys);
            }
            self.push(*access);
        }
        Ok(())
    }

    /// Drops the transaction, so that the execution is as a new one.
    pub(crate) fn clear(&mut self) {
        self.round = 0;
        self.input.clear();
        self.accesses.clear();
        self.fetched.clear();
        self.read.clear();
        self.versions.clear();
        self.values.clear();
        self.fault = None;
        self.forget_writes();
    }

    fn forget_writes(&mut self) {
        self.written.clear();
        self.written.resize(self.accesses.len(), ValueState::Nothing);
        self.new_values.clear();
        self.answer.clear();
    }

    fn push(&mut self, access: Access) {
        self.accesses.push(access);
        self.fetched.push(false);
        self.read.push(ValueState::Nothing);
        self.versions.push((Version::ZERO, Version::ZERO));
        self.written.push(ValueState::Nothing);
    }

    /// Runs the procedure once, over the keys that were fetched.
    ///
    /// # Errors
    /// If the procedure breaks its contract.
    pub fn run(&mut self, procedure: &dyn Procedure) -> Result<Step, Fault> {
        self.forget_writes();
        let step = procedure.run(&mut Context(self));
        self.round += 1;
        self.check(step)
    }

    /// Checks that a run may end with this step.
    pub(crate) fn check(&self, step: Step) -> Result<Step, Fault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let wanted = self.pending().count();
        let readable = self.pending().filter(|&index| self.accesses[index].mode.reads()).count();
        match step {
            Step::More if wanted == 0 => Err(Fault::WrongStep),
            Step::Commit if readable > 0 => Err(Fault::WrongStep),
            _ => Ok(step),
        }
    }

    /// The keys that were not fetched yet. After [`Step::Commit`] these need only be locked.
    pub fn pending(&self) -> impl Iterator<Item = usize> {
        (0..self.accesses.len()).filter(|&index| !self.fetched[index])
    }

    /// Notes that a key was locked and read as its mode requires. `read` is the version of the value, zero if
    /// the mode does not read. `new` is the version that a write will have, zero if the mode does not lock.
    pub fn fetch(&mut self, index: usize, read: Version, new: Version, value: Option<&[u8]>) {
        self.fetched[index] = true;
        self.versions[index] = (read, new);
        self.read[index] = match value {
            None => ValueState::Deleted,
            Some(value) => {
                let start = self.values.len();
                self.values.extend_from_slice(value);
                ValueState::Value(start..self.values.len())
            }
        };
    }

    /// Notes that a key which was fetched without a lock is now locked, and the version that its write will
    /// have.
    pub(crate) fn lock(&mut self, index: usize, new: Version) {
        if let Some(versions) = self.versions.get_mut(index) {
            versions.1 = new;
        }
    }

    /// Whether a key was fetched.
    pub fn fetched(&self, index: usize) -> bool {
        self.fetched[index]
    }

    /// The version that was read of a key.
    pub fn read_version(&self, index: usize) -> Version {
        self.versions[index].0
    }

    /// The version that a write of a key will have.
    pub fn new_version(&self, index: usize) -> Version {
        self.versions[index].1
    }

    /// How the transaction writes a key.
    pub fn written(&self, index: usize) -> Written<'_> {
        match &self.written[index] {
            ValueState::Nothing => Written::Nothing,
            ValueState::Deleted => Written::Deleted,
            ValueState::Value(range) => Written::Value(&self.new_values[range.clone()]),
        }
    }

    /// The procedure's answer to the caller.
    pub fn answered(&self) -> &[u8] {
        &self.answer
    }

    /// The caller's input.
    pub fn input(&self) -> &[u8] {
        &self.input
    }

    /// Number of runs of the procedure so far.
    pub fn round(&self) -> usize {
        self.round
    }

    /// All keys. Those of the request come first, in its order.
    pub fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// The index of a key among the transaction's keys.
    pub fn find(&self, key: Key) -> Option<usize> {
        self.accesses.iter().position(|access| access.key == key)
    }

    /// The value that was read of a key; `None` if the key is absent, or was not read.
    pub fn value(&self, index: usize) -> Option<&[u8]> {
        match self.read.get(index)? {
            ValueState::Value(range) => Some(&self.values[range.clone()]),
            ValueState::Nothing | ValueState::Deleted => None,
        }
    }

    /// Drops the writes and the answer of the earlier run, and counts a new run.
    pub(crate) fn begin_run(&mut self) {
        self.forget_writes();
        self.round += 1;
    }

    pub(crate) fn add(&mut self, key: Key, mode: Mode) -> usize {
        if let Some(index) = self.find(key) {
            if self.accesses[index].mode.union(mode) != self.accesses[index].mode {
                self.fault.get_or_insert(Fault::StrongerMode);
            }
            return index;
        }
        if self.accesses.len() == KEYS_MAX {
            self.fault.get_or_insert(Fault::TooManyKeys);
            return KEYS_MAX;
        }
        self.push(Access { key, mode });
        self.accesses.len() - 1
    }

    pub(crate) fn write(&mut self, index: usize, value: Option<&[u8]>) {
        let fault = match self.accesses.get(index) {
            None => Some(Fault::NoSuchKey),
            Some(access) if !access.mode.locks() => Some(Fault::NotLocked),
            Some(_) if value.is_some_and(|value| value.len() > VALUE_MAX) => Some(Fault::LongValue),
            Some(_) => None,
        };
        if let Some(fault) = fault {
            self.fault.get_or_insert(fault);
            return;
        }
        self.written[index] = match value {
            None => ValueState::Deleted,
            Some(value) => {
                let start = self.new_values.len();
                self.new_values.extend_from_slice(value);
                ValueState::Value(start..self.new_values.len())
            }
        };
    }

    /// Sets a key's new value to the value that was read, modified by `change`. Returns false if no value was
    /// read.
    pub(crate) fn edit(&mut self, index: usize, change: impl FnOnce(&mut [u8])) -> bool {
        let Some(ValueState::Value(range)) = self.read.get(index).cloned() else { return false };
        if !self.accesses[index].mode.locks() {
            self.fault.get_or_insert(Fault::NotLocked);
            return true;
        }
        let start = self.new_values.len();
        self.new_values.extend_from_slice(&self.values[range]);
        change(&mut self.new_values[start..]);
        self.written[index] = ValueState::Value(start..self.new_values.len());
        true
    }

    pub(crate) fn answer(&mut self, bytes: &[u8]) {
        if bytes.len() > ANSWER_MAX {
            self.fault.get_or_insert(Fault::LongAnswer);
            return;
        }
        self.answer.clear();
        self.answer.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A procedure that runs a test's function.
    struct Run(fn(&mut Context<'_>) -> Step);

    impl Procedure for Run {
        fn name(&self) -> &'static str {
            "run"
        }
        fn run(&self, context: &mut Context<'_>) -> Step {
            self.0(context)
        }
    }

    fn access(local: u64, mode: Mode) -> Access {
        Access { key: Key::new(0, local), mode }
    }

    #[test]
    fn a_second_round_sees_what_the_first_added_and_nothing_that_it_wrote() {
        let chase = Run(|context| {
            let next = Key::new(0, context.value(0).expect("fetched")[0] as u64);
            let index = context.add(next, Mode::Update);
            context.write(index, b"written");
            if context.round() == 0 { Step::More } else { Step::Commit }
        });
        let mut execution = Execution::default();
        execution.begin(b"", &[access(1, Mode::Read)]).unwrap();
        execution.fetch(0, Version::from_bits(3), Version::ZERO, Some(&[9]));
        assert_eq!(execution.run(&chase), Ok(Step::More));
        assert_eq!(execution.pending().collect::<Vec<_>>(), [1]);
        execution.fetch(1, Version::from_bits(4), Version::from_bits(5), None);
        assert_eq!(execution.run(&chase), Ok(Step::Commit));
        assert_eq!(execution.written(0), Written::Nothing);
        assert_eq!(execution.written(1), Written::Value(b"written"));
    }

    #[test]
    fn a_broken_contract_is_a_fault() {
        type Code = fn(&mut Context<'_>) -> Step;
        let cases: [(Code, Fault); 6] = [
            (
                |context| {
                    context.write(0, b"x");
                    Step::Commit
                },
                Fault::NotLocked,
            ),
            (
                |context| {
                    context.delete(5);
                    Step::Commit
                },
                Fault::NoSuchKey,
            ),
            (|_| Step::More, Fault::WrongStep),
            (
                |context| {
                    context.add(Key::new(1, 1), Mode::Read);
                    Step::Commit
                },
                Fault::WrongStep,
            ),
            (
                |context| {
                    context.add(Key::new(0, 1), Mode::Update);
                    Step::More
                },
                Fault::StrongerMode,
            ),
            (
                |context| {
                    context.answer(&[0; ANSWER_MAX + 1]);
                    Step::Commit
                },
                Fault::LongAnswer,
            ),
        ];
        for (run, fault) in cases {
            let mut execution = Execution::default();
            execution.begin(b"", &[access(1, Mode::Read)]).unwrap();
            execution.fetch(0, Version::ZERO, Version::ZERO, None);
            assert_eq!(execution.run(&Run(run)), Err(fault));
        }
        let mut execution = Execution::default();
        let twice = [access(1, Mode::Read), access(1, Mode::Write)];
        assert_eq!(execution.begin(b"", &twice), Err(Fault::DoubledKey));
        assert_eq!(execution.begin(&[0; INPUT_MAX + 1], &[]), Err(Fault::LongInput));
    }
}
