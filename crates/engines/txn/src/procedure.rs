//! The interface for people: transactions and their outcomes.

mod execution;

use std::sync::Arc;

use weft_time::Duration;

use crate::key::Key;

pub use execution::{Execution, Fault, Written};

/// The most keys of a transaction.
pub const KEYS_MAX: usize = 64;
/// The longest value, in bytes.
pub const VALUE_MAX: usize = 1024;
/// The longest input of a transaction, in bytes.
pub const INPUT_MAX: usize = 256;
/// The longest answer of a transaction, in bytes.
pub const ANSWER_MAX: usize = 256;

/// Access mode of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Reads it. Nobody is kept from writing it; that nobody did is validated before the transaction commits.
    Read,
    /// Locks and reads it, and may write or delete it.
    Update,
    /// Locks it without reading it, and may write or delete it: a blind write or an insertion.
    Write,
}

impl Mode {
    /// Whether the key's value is read.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Update)
    }

    /// Whether the key is locked, so that it may be written.
    pub const fn locks(self) -> bool {
        matches!(self, Self::Update | Self::Write)
    }

    /// The union of two modes.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        match (self, other) {
            (Self::Read, Self::Read) => Self::Read,
            (Self::Write, Self::Write) => Self::Write,
            _ => Self::Update,
        }
    }
}

/// A key and its access mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Access {
    /// The key.
    pub key: Key,
    /// The access mode.
    pub mode: Mode,
}

/// Accesses of a transaction: each key once, in the order in which they were first named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accesses(Vec<Access>);

impl Accesses {
    /// Names a key, and returns its index. A key that was named before gets the mode that does both.
    ///
    /// # Errors
    /// [`Fault::TooManyKeys`] if there are [`KEYS_MAX`] others.
    pub fn add(&mut self, key: Key, mode: Mode) -> Result<usize, Fault> {
        if let Some(index) = self.0.iter().position(|access| access.key == key) {
            self.0[index].mode = self.0[index].mode.union(mode);
            return Ok(index);
        }
        if self.0.len() == KEYS_MAX {
            return Err(Fault::TooManyKeys);
        }
        self.0.push(Access { key, mode });
        Ok(self.0.len() - 1)
    }

    /// All accesses.
    pub fn as_slice(&self) -> &[Access] {
        &self.0
    }
}

/// A registered procedure: its index in [`Procedures`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcedureId(pub u16);

/// Result of a run of a procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Commit what was written.
    Commit,
    /// Fetch the keys that were added, and run once more.
    More,
    /// Write nothing. The reason goes to the caller.
    Abort(u8),
}

/// The code of a transaction, shipped by its number. It must be pure, deterministic and bounded: it may run on a host
/// or on a core of any card, and more than once.
pub trait Procedure: Send + Sync {
    /// Name in reports.
    fn name(&self) -> &'static str;

    /// Runs it over what has been read so far. After [`Step::More`] it runs again from its beginning, with the keys
    /// that it added; what it wrote and answered in an earlier run is forgotten.
    fn run(&self, context: &mut Context<'_>) -> Step;

    /// Time of one run on a reference host core.
    fn labour(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether the request names all keys, so that it may run at another node's card (Xenic 4.2.3: a single round).
    /// If it asks for more nevertheless it begins anew at its own.
    fn keys_known(&self) -> bool {
        true
    }

    /// Whether it may run on a card (Xenic 4.3.3: the user's annotation).
    fn ship(&self) -> bool {
        true
    }
}

/// The registered procedures, the same at all nodes.
#[derive(Clone)]
pub struct Procedures(Arc<[Box<dyn Procedure>]>);

impl Procedures {
    /// Registers `procedures`; the index of each is its [`ProcedureId`].
    ///
    /// # Panics
    /// If there are more than 65,536.
    pub fn new(procedures: Vec<Box<dyn Procedure>>) -> Self {
        assert!(procedures.len() <= 1 << 16, "a procedure's number has 16 bits");
        Self(procedures.into())
    }

    /// The procedure of this number.
    pub fn get(&self, id: ProcedureId) -> Option<&dyn Procedure> {
        self.0.get(id.0 as usize).map(|procedure| &**procedure)
    }

    /// The number of the procedure of this name, the first of them.
    pub fn find(&self, name: &str) -> Option<ProcedureId> {
        self.0.iter().position(|procedure| procedure.name() == name).map(|index| ProcedureId(index as u16))
    }

    /// All names, in the order of their numbers.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.iter().map(|procedure| procedure.name())
    }
}

impl std::fmt::Debug for Procedures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|procedure| procedure.name())).finish()
    }
}

/// A procedure's view of its transaction.
pub struct Context<'a>(pub(crate) &'a mut Execution);

impl Context<'_> {
    /// Input of the caller.
    pub fn input(&self) -> &[u8] {
        self.0.input()
    }

    /// Number of earlier runs in this attempt of the transaction.
    pub fn round(&self) -> usize {
        self.0.round()
    }

    /// All keys, first those of the request, in its order.
    pub fn keys(&self) -> &[Access] {
        self.0.accesses()
    }

    /// The index of a key.
    pub fn find(&self, key: Key) -> Option<usize> {
        self.0.find(key)
    }

    /// Value read of the key of this index: `None` if it is absent. A key that is only written has not been read.
    pub fn value(&self, index: usize) -> Option<&[u8]> {
        self.0.value(index)
    }

    /// Names another key, and returns its index. One that is to be read needs [`Step::More`].
    pub fn add(&mut self, key: Key, mode: Mode) -> usize {
        self.0.add(key, mode)
    }

    /// Writes the key of this index when the transaction commits.
    pub fn write(&mut self, index: usize, value: &[u8]) {
        self.0.write(index, Some(value));
    }

    /// Writes what was read of the key of this index, after `change`, when the transaction commits. False if it is
    /// absent, or was not read.
    pub fn edit(&mut self, index: usize, change: impl FnOnce(&mut [u8])) -> bool {
        self.0.edit(index, change)
    }

    /// Deletes the key of this index when the transaction commits.
    pub fn delete(&mut self, index: usize) {
        self.0.write(index, None);
    }

    /// Tells the caller this, in place of what it was told before.
    pub fn answer(&mut self, bytes: &[u8]) {
        self.0.answer(bytes);
    }
}

/// A call of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The procedure.
    pub procedure: ProcedureId,
    /// Its input, at most [`INPUT_MAX`] bytes.
    pub input: Vec<u8>,
    /// The keys that are known at the start.
    pub accesses: Accesses,
}

/// Outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It took effect, once.
    Committed {
        /// Answer of the procedure.
        answer: Vec<u8>,
    },
    /// It took effect, once, but its answer was lost with the node where it ran.
    Unanswered,
    /// The procedure refused; nothing was written.
    Aborted {
        /// Its reason.
        reason: u8,
        /// Answer of the procedure.
        answer: Vec<u8>,
    },
    /// Conflicts with others in every attempt; nothing was written.
    Conflict,
    /// It inserts, and the table of a replica may have no room; nothing was written.
    Full,
    /// No node that holds one of its shards is left; nothing was written.
    Unavailable,
    /// The procedure broke its contract; nothing was written.
    Faulty(Fault),
    /// Its node left the cluster before it learned the outcome: it took effect once, or never will.
    Unknown,
}
