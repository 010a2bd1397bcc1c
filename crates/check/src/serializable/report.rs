//! Results of a check, for programs (serde) and for people (`Display`).

use std::fmt;

use serde::Serialize;

use super::TransactionId;

/// The result of [`check`](super::check).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Number of transactions that count: those that committed, and those with an unknown outcome of which a write
    /// was observed.
    pub transactions: u64,
    /// Number of those among them with an unknown outcome.
    pub unknown_but_seen: u64,
    /// Number of transactions with an unknown outcome of which no write was observed.
    pub unknown_and_unseen: u64,
    /// Number of transactions recorded as aborted.
    pub aborted: u64,
    /// Number of keys that were read or written.
    pub keys: u64,
    /// Number of reads of transactions that count.
    pub reads: u64,
    /// Number of writes of transactions that count.
    pub writes: u64,
    /// Number of direct dependencies among them, without real time.
    pub dependencies: u64,
    /// Number of reads whose version was never committed, or whose value is not the one written at that version.
    pub wrong_reads: u64,
    /// Number of versions of keys that two transactions wrote.
    pub doubled_versions: u64,
    /// Number of keys that at the end, at some replica, did not hold the last committed write.
    pub wrong_final_states: u64,
    /// Number of groups of transactions that all depend on each other.
    pub cycles: u64,
    /// Number of those that are cycles only because of real time: the history without them is serializable.
    pub cycles_in_real_time_only: u64,
    /// The first violations: at most [`violations_shown`](super::Options::violations_shown) of reads, versions and
    /// final states together, and as many cycles.
    pub violations: Vec<Violation>,
}

impl Report {
    /// Whether there is any violation.
    pub fn is_violated(&self) -> bool {
        self.wrong_reads + self.doubled_versions + self.wrong_final_states + self.cycles > 0
    }

    /// The verdict in a few words: "strictly serializable" or "violation".
    pub fn checked(&self) -> &'static str {
        if self.is_violated() { "violation" } else { "strictly serializable" }
    }
}

/// A violation of strict serializability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Violation {
    /// Transactions each of which precedes the next, and the last one the first.
    Cycle {
        /// Kind of the cycle.
        anomaly: Anomaly,
        /// Each step leads to the transaction of the next step, the last one to the first.
        steps: Vec<Step>,
    },
    /// A read of a version that no transaction wrote.
    Unwritten {
        /// The transaction that read.
        reader: TransactionId,
        /// The key that was read.
        key: u64,
        /// The version that it read.
        version: u64,
    },
    /// A read of a version that an aborted transaction wrote.
    AbortedRead {
        /// The transaction that read.
        reader: TransactionId,
        /// The key that was read.
        key: u64,
        /// The version that it read.
        version: u64,
        /// The transaction that wrote it.
        writer: TransactionId,
    },
    /// A read that returned another value than was written at this version.
    WrongValue {
        /// The transaction that read.
        reader: TransactionId,
        /// The key that was read.
        key: u64,
        /// The version that it read.
        version: u64,
        /// The transaction that wrote it.
        writer: TransactionId,
    },
    /// A read that found no value although one had been written and not deleted.
    WronglyAbsent {
        /// The transaction that read.
        reader: TransactionId,
        /// The key that was read.
        key: u64,
        /// The version up to which the store reported the key as absent.
        version: u64,
        /// The transaction that wrote a value; `None` if it existed at the beginning.
        writer: Option<TransactionId>,
        /// The version of that value.
        written: u64,
    },
    /// A read of a version that is not older than the same transaction's own write.
    OwnWrite {
        /// The transaction that read and wrote the key.
        reader: TransactionId,
        /// The key that was read and written.
        key: u64,
        /// The version that it read.
        version: u64,
        /// The version that it wrote.
        written: u64,
    },
    /// Two transactions wrote the same version of a key.
    Doubled {
        /// The key that was written twice at one version.
        key: u64,
        /// The version that both writes have.
        version: u64,
        /// The transactions that wrote it.
        writers: [TransactionId; 2],
    },
    /// A replica does not hold the last committed write of a key.
    Lost {
        /// Name of the replica.
        replica: String,
        /// The key whose last write is missing.
        key: u64,
        /// The transaction that wrote last.
        writer: TransactionId,
        /// The version that it wrote.
        version: u64,
        /// The version that the replica holds; `None` if the key is absent.
        found: Option<u64>,
    },
    /// A replica holds a version that no transaction has committed.
    FromNowhere {
        /// Name of the replica.
        replica: String,
        /// The key that has the version.
        key: u64,
        /// The version that it holds.
        version: u64,
    },
}

/// Kinds of cycles, after Adya. A cycle gets the most telling name that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Anomaly {
    /// Only write-to-write dependencies: Adya's G0.
    DirtyWrite,
    /// No read-to-write dependencies: Adya's G1c.
    CircularInformationFlow,
    /// Two transactions read the same version of a key and both wrote the key: a case of Adya's G-single.
    LostUpdate,
    /// One read-to-write dependency: Adya's G-single.
    ReadSkew,
    /// Several read-to-write dependencies: Adya's G2.
    WriteSkew,
    /// A cycle only with the order in real time: serializable, but not strictly.
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
    /// The other transaction overwrote a version that this one wrote.
    WriteWrite,
    /// The other transaction read a version that this one wrote.
    WriteRead,
    /// The other transaction overwrote a version that this one read.
    ReadWrite,
    /// This transaction ended before the other one started.
    RealTime,
}

/// One step of a cycle: a transaction, and why it precedes the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The transaction that precedes `to`.
    pub from: TransactionId,
    /// The transaction that follows `from`; the next step begins with it.
    pub to: TransactionId,
    /// Why `from` precedes `to`.
    pub dependency: Dependency,
    /// The key, or 0 for real time.
    pub key: u64,
    /// The version of the key that `from` read or wrote; for real time, the end of `from` in picoseconds.
    pub before: u64,
    /// The version that `to` read or wrote; for real time, the start of `to` in picoseconds.
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
                write!(f, "{reader} read version {version} of key {key:#x}, which no transaction wrote")
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
                write!(f, "{replica} holds version {version} of key {key:#x}, which no transaction committed")
            }
        }
    }
}
