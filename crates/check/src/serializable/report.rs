//! Results of a check, for programs (serde) and for people (`Display`).

use std::fmt;

use serde::Serialize;

use super::TransactionId;

/// The result of [`check`](super::check).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Transactions that count: those that committed, and those of unknown outcome that somebody saw.
    pub transactions: u64,
    /// Those among them whose outcome nobody learned.
    pub unknown_but_seen: u64,
    /// Transactions of unknown outcome of which nobody saw anything.
    pub unknown_and_unseen: u64,
    /// Transactions recorded as aborted.
    pub aborted: u64,
    /// Keys that were read or written.
    pub keys: u64,
    /// Reads of transactions that count.
    pub reads: u64,
    /// Writes of transactions that count.
    pub writes: u64,
    /// Direct dependencies among them, without real time.
    pub dependencies: u64,
    /// Reads whose version or value was never committed, or was not what its writer wrote.
    pub wrong_reads: u64,
    /// Versions of a key that two transactions wrote.
    pub doubled_versions: u64,
    /// Keys that at the end held, at some replica, anything but what was committed last.
    pub wrong_final_states: u64,
    /// Groups of transactions whose members all depend on each other.
    pub cycles: u64,
    /// Those among them that are serializable but not strictly.
    pub cycles_in_real_time_only: u64,
    /// The first violations, at most [`violations_shown`](super::Options::violations_shown) of reads, versions and
    /// final states together, and as many cycles.
    pub violations: Vec<Violation>,
}

impl Report {
    /// Whether anything is wrong.
    pub fn is_violated(&self) -> bool {
        self.wrong_reads + self.doubled_versions + self.wrong_final_states + self.cycles > 0
    }

    /// The verdict in a few words: "strictly serializable" or "violation".
    pub fn checked(&self) -> &'static str {
        if self.is_violated() { "violation" } else { "strictly serializable" }
    }
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Violation {
    /// Transactions that come before each other.
    Cycle {
        /// Which kind of cycle.
        anomaly: Anomaly,
        /// Each step leads to the transaction of the next, the last one to the first.
        steps: Vec<Step>,
    },
    /// A read of a version that no transaction wrote.
    Unwritten {
        /// Who read.
        reader: TransactionId,
        /// The key.
        key: u64,
        /// What it read.
        version: u64,
    },
    /// A read of what an aborted transaction wrote.
    AbortedRead {
        /// Who read.
        reader: TransactionId,
        /// The key.
        key: u64,
        /// What it read.
        version: u64,
        /// Who wrote it.
        writer: TransactionId,
    },
    /// A read that found another value than was written at this version.
    WrongValue {
        /// Who read.
        reader: TransactionId,
        /// The key.
        key: u64,
        /// What it read.
        version: u64,
        /// Who wrote it.
        writer: TransactionId,
    },
    /// A read that found nothing although a value had been written and not deleted.
    WronglyAbsent {
        /// Who read.
        reader: TransactionId,
        /// The key.
        key: u64,
        /// Up to where the store said that nothing was.
        version: u64,
        /// Who wrote a value; none if it was there in the beginning.
        writer: Option<TransactionId>,
        /// The version of that.
        written: u64,
    },
    /// A read that would have come after the write of the same transaction.
    OwnWrite {
        /// Whose.
        reader: TransactionId,
        /// The key.
        key: u64,
        /// What it read.
        version: u64,
        /// What it wrote.
        written: u64,
    },
    /// Two transactions wrote the same version of a key.
    Doubled {
        /// The key.
        key: u64,
        /// The version.
        version: u64,
        /// Who wrote it.
        writers: [TransactionId; 2],
    },
    /// A replica does not hold what was committed last.
    Lost {
        /// Which replica.
        replica: String,
        /// The key.
        key: u64,
        /// Who wrote last.
        writer: TransactionId,
        /// What that wrote.
        version: u64,
        /// What the replica holds; none if the key is absent.
        found: Option<u64>,
    },
    /// A replica holds what no transaction has committed.
    FromNowhere {
        /// Which replica.
        replica: String,
        /// The key.
        key: u64,
        /// What it holds.
        version: u64,
    },
}

/// Kinds of cycles, after Adya, by the most telling name that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Anomaly {
    /// Only overwriting: Adya's G0.
    DirtyWrite,
    /// No overwritten reads: Adya's G1c.
    CircularInformationFlow,
    /// Two transactions read the same version of a key and both wrote the key: of Adya's G-single.
    LostUpdate,
    /// One overwritten read: Adya's G-single.
    ReadSkew,
    /// Several overwritten reads: Adya's G2.
    WriteSkew,
    /// Only with the order of real time: serializable, not strictly.
    Stale,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DirtyWrite => "dirty write",
            Self::CircularInformationFlow => "circular information flow",
            Self::LostUpdate => "lost update",
            Self::ReadSkew => "read skew",
            Self::WriteSkew => "write skew",
            Self::Stale => "out of real time",
        })
    }
}

/// Why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dependency {
    /// The other one overwrote what it wrote.
    WriteWrite,
    /// The other one read what it wrote.
    WriteRead,
    /// The other one overwrote what it read.
    ReadWrite,
    /// It had ended before the other one started.
    RealTime,
}

/// A transaction and why it comes before the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The transaction.
    pub from: TransactionId,
    /// The next one.
    pub to: TransactionId,
    /// Why.
    pub dependency: Dependency,
    /// The key, or 0 for real time.
    pub key: u64,
    /// The version of the key that `from` read or wrote; for real time, when `from` ended, picoseconds.
    pub before: u64,
    /// The version that `to` read or wrote; for real time, when `to` started, picoseconds.
    pub after: u64,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, dependency, key, before, after } = self;
        match dependency {
            Dependency::WriteWrite => {
                write!(
                    f,
                    "{from} wrote version {before} of key {key:#x}, which {to} overwrote with version {after}"
                )
            }
            Dependency::WriteRead => {
                write!(f, "{from} wrote version {before} of key {key:#x}, which {to} read")
            }
            Dependency::ReadWrite => {
                write!(
                    f,
                    "{from} read version {before} of key {key:#x}, which {to} overwrote with version {after}"
                )
            }
            Dependency::RealTime => {
                write!(f, "{from} ended at {before} ps, before {to} started at {after} ps")
            }
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cycle { anomaly, steps } => {
                write!(f, "{anomaly}: ")?;
                for (index, step) in steps.iter().enumerate() {
                    write!(f, "{}{step}", if index == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
            Self::Unwritten { reader, key, version } => {
                write!(f, "{reader} read version {version} of key {key:#x}, which nobody wrote")
            }
            Self::AbortedRead { reader, key, version, writer } => {
                write!(
                    f,
                    "{reader} read version {version} of key {key:#x}, which {writer} wrote, and aborted"
                )
            }
            Self::WrongValue { reader, key, version, writer } => write!(
                f,
                "{reader} read version {version} of key {key:#x} with another value than {writer} had written"
            ),
            Self::WronglyAbsent { reader, key, version, writer, written } => {
                write!(f, "{reader} found no key {key:#x} up to version {version}, although ")?;
                match writer {
                    Some(writer) => write!(f, "{writer} had written version {written}"),
                    None => write!(f, "version {written} had been there in the beginning"),
                }
            }
            Self::OwnWrite { reader, key, version, written } => write!(
                f,
                "{reader} read key {key:#x} as of version {version}, which is not before its own write, version {written}"
            ),
            Self::Doubled { key, version, writers: [first, second] } => {
                write!(f, "{first} and {second} both wrote version {version} of key {key:#x}")
            }
            Self::Lost { replica, key, writer, version, found } => {
                write!(f, "{replica} holds ")?;
                match found {
                    Some(found) => write!(f, "version {found} of key {key:#x}")?,
                    None => write!(f, "no key {key:#x}")?,
                }
                write!(f, ", although {writer} committed version {version}")
            }
            Self::FromNowhere { replica, key, version } => {
                write!(f, "{replica} holds version {version} of key {key:#x}, which nobody committed")
            }
        }
    }
}
