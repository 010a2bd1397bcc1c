//! The interface for applications: transactions and their outcomes.

mod execution;

use std::sync::Arc;

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
    /// Reads the key without a lock. Before the transaction commits, it validates that nobody else has
    /// written the key.
    Read,
    /// Locks and reads the key; the procedure may write or delete it.
    Update,
    /// Locks the key without reading it; the procedure may write or delete it. For blind writes and
    /// insertions.
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

    /// The mode that allows whatever either mode allows.
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

/// The keys of a transaction: each key once, in the order in which they were first named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accesses(Vec<Access>);

impl Accesses {
    /// Adds a key, and returns its index. A key that was added before gets the union of both modes.
    ///
    /// # Errors
    /// [`Fault::TooManyKeys`] if there are [`KEYS_MAX`] other keys.
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
    /// Commit the writes.
    Commit,
    /// Fetch the keys that were added, and run the procedure again.
    More,
    /// Write nothing, and report this reason to the caller.
    Abort(u8),
}

/// The code of a transaction, which requests name by its number. It must be pure, deterministic and bounded:
/// it may run on a host or on a core of any card, and more than once.
pub trait Procedure: Send + Sync {
    /// The procedure's name, as in reports.
    fn name(&self) -> &'static str;

    /// Runs the procedure over the keys that were fetched so far. After [`Step::More`] it runs again from its
    /// beginning, with the keys that it has added. The writes and the answer of the earlier run are dropped.
    fn run(&self, context: &mut Context<'_>) -> Step;

    /// Whether requests name all keys, so that the procedure may run at another node's card (Xenic 4.2.3: a
    /// single round). If it adds keys there nevertheless, the attempt restarts at its coordinator.
    fn keys_known(&self) -> bool {
        true
    }

    /// Whether the procedure may run on a card (Xenic 4.3.3: the user's annotation).
    fn ship(&self) -> bool {
        true
    }
}

/// The registered procedures. They must be the same at all nodes.
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

    /// The procedure with this number.
    pub fn get(&self, id: ProcedureId) -> Option<&dyn Procedure> {
        self.0.get(id.0 as usize).map(|procedure| &**procedure)
    }

    /// The number of the first procedure with this name.
    pub fn find(&self, name: &str) -> Option<ProcedureId> {
        self.0.iter().position(|procedure| procedure.name() == name).map(|index| ProcedureId(index as u16))
    }

    /// The names of all procedures, in the order of their numbers.
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
    /// The caller's input.
    pub fn input(&self) -> &[u8] {
        self.0.input()
    }

    /// Number of earlier runs in this attempt of the transaction.
    pub fn round(&self) -> usize {
        self.0.round()
    }

    /// All keys. Those of the request come first, in its order.
    pub fn keys(&self) -> &[Access] {
        self.0.accesses()
    }

    /// The index of a key among the transaction's keys.
    pub fn find(&self, key: Key) -> Option<usize> {
        self.0.find(key)
    }

    /// The value that was read of the key with this index; `None` if the key is absent. Keys in mode
    /// [`Mode::Write`] are not read.
    pub fn value(&self, index: usize) -> Option<&[u8]> {
        self.0.value(index)
    }

    /// Adds a key, and returns its index. If its mode reads, the procedure must return [`Step::More`] to get
    /// the value.
    pub fn add(&mut self, key: Key, mode: Mode) -> usize {
        self.0.add(key, mode)
    }

    /// Sets the value that the key with this index gets when the transaction commits.
    pub fn write(&mut self, index: usize, value: &[u8]) {
        self.0.write(index, Some(value));
    }

    /// Sets the new value of the key with this index to the value that was read, modified by `change`.
    /// Returns false if the key is absent, or was not read.
    pub fn edit(&mut self, index: usize, change: impl FnOnce(&mut [u8])) -> bool {
        self.0.edit(index, change)
    }

    /// Deletes the key of this index when the transaction commits.
    pub fn delete(&mut self, index: usize) {
        self.0.write(index, None);
    }

    /// Sets the answer to the caller. It replaces an earlier one.
    pub fn answer(&mut self, bytes: &[u8]) {
        self.0.answer(bytes);
    }
}

/// A call of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The procedure.
    pub procedure: ProcedureId,
    /// The input, at most [`INPUT_MAX`] bytes.
    pub input: Vec<u8>,
    /// The keys that are known before the procedure runs.
    pub accesses: Accesses,
}

/// Outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The transaction took effect, once.
    Committed {
        /// The procedure's answer.
        answer: Vec<u8>,
    },
    /// The transaction took effect, once, but its answer was lost with the node where it ran.
    Unanswered,
    /// The procedure aborted; nothing was written.
    Aborted {
        /// The procedure's reason.
        reason: u8,
        /// The procedure's answer.
        answer: Vec<u8>,
    },
    /// Every attempt had a conflict with other attempts; nothing was written.
    Conflict,
    /// The transaction inserts keys, and the table of some replica may have no room for them; nothing was
    /// written.
    Full,
    /// No node holds one of the shards any more; nothing was written.
    Unavailable,
    /// The procedure broke its contract; nothing was written.
    Faulty(Fault),
    /// The node left the cluster before it learned the outcome. The transaction took effect once, or never
    /// will.
    Unknown,
}
