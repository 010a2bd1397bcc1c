//! The sets of procedures that the `weft` command knows by name: nodes register them, and their clients call
//! them.

use std::fmt;
use std::str::FromStr;

use weft_node::{Application, Ledger};
use weft_txn::{Key, Procedures};

use crate::{Workload, WorkloadChoice, WorkloadName};

/// A set of procedures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplicationName {
    /// The example of docs/transactions.md: accounts, and transfers between them.
    Ledger,
    /// Benchmark: short transactions on bank accounts.
    Smallbank,
    /// Benchmark: a small clone of Twitter.
    Retwis,
}

impl ApplicationName {
    /// All sets of procedures.
    pub const ALL: [Self; 3] = [Self::Ledger, Self::Smallbank, Self::Retwis];

    /// Name of the set.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ledger => "ledger",
            Self::Smallbank => "smallbank",
            Self::Retwis => "retwis",
        }
    }

    /// The workload that is measured with these procedures; `None` for the example.
    pub fn workload(self, size: u64, nodes: usize) -> Option<Box<dyn Workload>> {
        let name = match self {
            Self::Ledger => return None,
            Self::Smallbank => WorkloadName::Smallbank,
            Self::Retwis => WorkloadName::Retwis,
        };
        WorkloadChoice::new(name, size).ok().map(|choice| choice.make(nodes))
    }
}

impl fmt::Display for ApplicationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ApplicationName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|known| known.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("nothing is registered as `{text}`; choose {names}")
        })
    }
}

/// The procedures that a configuration names, for a cluster of `nodes` nodes with `size` accounts or keys on
/// each shard.
///
/// # Errors
/// No procedures have this name, or they do not support this size.
pub fn application(name: &str, size: u64, nodes: usize) -> Result<Box<dyn Application>, String> {
    let name: ApplicationName = name.parse()?;
    let chosen = match name {
        ApplicationName::Ledger if size <= Ledger::ACCOUNTS_MAX => return Ok(Box::new(Ledger::new(size))),
        ApplicationName::Ledger => {
            return Err(format!("{name} takes a size of 1 to {} for each shard", Ledger::ACCOUNTS_MAX));
        }
        ApplicationName::Smallbank => WorkloadChoice::new(WorkloadName::Smallbank, size)?,
        ApplicationName::Retwis => WorkloadChoice::new(WorkloadName::Retwis, size)?,
    };
    Ok(Box::new(Served::new(chosen.make(nodes), nodes)))
}

/// A workload whose transactions insert no objects, so that its size is known.
struct Served {
    workload: Box<dyn Workload>,
    objects: u64,
    value_bytes: usize,
}

impl Served {
    fn new(workload: Box<dyn Workload>, nodes: usize) -> Self {
        let (mut objects, mut value_bytes) = (0, 0);
        for shard in 0..nodes {
            let mut count = 0;
            workload.load(shard, &mut |_, value| {
                count += 1;
                value_bytes = value_bytes.max(value.len());
            });
            objects = count.max(objects);
        }
        Self { workload, objects, value_bytes }
    }
}

impl Application for Served {
    fn procedures(&self) -> Procedures {
        self.workload.procedures()
    }

    fn objects(&self) -> u64 {
        self.objects
    }

    fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    fn load(&self, shard: usize, put: &mut dyn FnMut(Key, &[u8])) {
        self.workload.load(shard, put);
    }
}
