//! The history of all clients' operations, and its check. The check is simple because versions order all writes of
//! a key.

use std::collections::BTreeMap;

use weft_time::Instant;

/// Keys from this number on are also deleted from time to time.
pub const DELETED: u64 = 1000;
/// Keys from this number on are counters, which only compare-and-sets change.
pub const COUNTERS: u64 = 2000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Get,
    Put,
    Delete,
    CompareAndSet,
    CompareAndDelete,
}

impl Kind {
    pub fn removes(self) -> bool {
        matches!(self, Self::Delete | Self::CompareAndDelete)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Value { version: u64, value: Vec<u8> },
    Done { version: u64 },
    NotFound,
    Mismatch { version: u64 },
    Refused,
    Unknown,
}

impl From<weft_kv::Outcome<'_>> for Outcome {
    fn from(outcome: weft_kv::Outcome<'_>) -> Self {
        match outcome {
            weft_kv::Outcome::Value { version, value } => Self::Value { version, value: value.to_vec() },
            weft_kv::Outcome::Done { version } => Self::Done { version },
            weft_kv::Outcome::NotFound => Self::NotFound,
            weft_kv::Outcome::Mismatch { version } => Self::Mismatch { version },
            weft_kv::Outcome::Unknown => Self::Unknown,
            weft_kv::Outcome::TableFull | weft_kv::Outcome::SessionsFull => Self::Refused,
            weft_kv::Outcome::BadRequest => panic!("clients send what the engine takes"),
            weft_kv::Outcome::Scanned { .. }
            | weft_kv::Outcome::BackupBegun { .. }
            | weft_kv::Outcome::BackupPart { .. }
            | weft_kv::Outcome::NoBackup { .. } => panic!("clients ask for keys"),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Operation {
    pub key: u64,
    pub kind: Kind,
    pub value: Vec<u8>,
    pub expected: u64,
    pub invoked: Instant,
    pub returned: Instant,
    pub outcome: Outcome,
}

impl Operation {
    /// The version that the operation read or wrote, if its outcome has one.
    pub fn version(&self) -> Option<u64> {
        match self.outcome {
            Outcome::Value { version, .. } | Outcome::Done { version } => Some(version),
            Outcome::Mismatch { version } if version > 0 => Some(version),
            _ => None,
        }
    }

    pub fn writes(&self) -> bool {
        matches!(self.outcome, Outcome::Done { .. })
    }
}

/// All operations, in the order in which they completed.
#[derive(Default)]
pub struct History {
    pub operations: Vec<Operation>,
}

impl History {
    /// Panics with the first violation.
    pub fn check(&self) {
        let mut keys: BTreeMap<u64, Vec<&Operation>> = BTreeMap::new();
        for operation in &self.operations {
            keys.entry(operation.key).or_default().push(operation);
        }
        for operations in keys.values() {
            Self::check_key(operations);
        }
    }

    fn check_key(operations: &[&Operation]) {
        // Each version belongs to one value, and each value, which only one request wrote, to one version.
        let mut values: BTreeMap<u64, &[u8]> = BTreeMap::new();
        let mut versions: BTreeMap<&[u8], u64> = BTreeMap::new();
        for operation in operations {
            let (version, value) = match &operation.outcome {
                Outcome::Value { version, value } => (*version, &value[..]),
                Outcome::Done { version } if !operation.kind.removes() => (*version, &operation.value[..]),
                _ => continue,
            };
            let other = *values.entry(version).or_insert(value);
            assert_eq!(other, value, "one version has two values: {operation:?}");
            if operation.key < COUNTERS {
                let other = *versions.entry(value).or_insert(version);
                assert_eq!(other, version, "a write took effect twice: {operation:?}");
            }
        }
        // Versions grow in real time: an operation that starts after another has ended sees the same version or a
        // newer one.
        let mut by_invocation = operations.to_vec();
        by_invocation.sort_by_key(|operation| operation.invoked);
        let mut ended = operations.iter().peekable();
        let mut newest: Option<&Operation> = None;
        for operation in by_invocation {
            while let Some(earlier) = ended.next_if(|earlier| earlier.returned < operation.invoked) {
                if earlier.version() > newest.and_then(Operation::version) {
                    newest = Some(earlier);
                }
            }
            let Some(earlier) = newest else { continue };
            let seen = earlier.version().unwrap();
            if let Some(version) = operation.version() {
                let fresh = if operation.writes() { version > seen } else { version >= seen };
                assert!(fresh, "{operation:?} does not see {earlier:?}");
            }
            let absent = matches!(operation.outcome, Outcome::NotFound | Outcome::Mismatch { version: 0 });
            if absent && !earlier.kind.removes() {
                let deleted = operations.iter().any(|other| {
                    let newer = other.version().is_none_or(|version| version > seen);
                    other.kind.removes() && newer && other.invoked < operation.returned
                });
                assert!(deleted, "{operation:?} does not see {earlier:?}");
            }
        }
        // A compare-and-set directly follows the version that it expected.
        let mut writes: Vec<_> = operations.iter().filter(|operation| operation.writes()).collect();
        writes.sort_by_key(|operation| operation.version());
        for pair in writes.windows(2) {
            assert!(pair[0].version() < pair[1].version(), "two writes have one version: {pair:?}");
            let compares = matches!(pair[1].kind, Kind::CompareAndSet | Kind::CompareAndDelete);
            let atomic = !compares || pair[1].expected >= pair[0].version().unwrap();
            assert!(atomic, "a write came in between: {pair:?}");
        }
    }

    /// Checks that every acknowledged increment counts once, and one of unknown outcome at most once.
    pub fn check_counter(&self, key: u64, count: u64) {
        let increments = || {
            self.operations
                .iter()
                .filter(move |operation| operation.key == key && operation.kind == Kind::CompareAndSet)
        };
        let done = increments().filter(|operation| operation.writes()).count() as u64;
        let unknown = increments().filter(|operation| operation.outcome == Outcome::Unknown).count() as u64;
        assert!(
            (done..=done + unknown).contains(&count),
            "{done} increments and {unknown} unknown make {count}"
        );
    }
}
