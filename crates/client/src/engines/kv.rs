//! The key-value store.

use weft_kv::message::{BackupDescription, Request};
use weft_kv::{Client, Outcome, Task};
use weft_time::Duration;
use weft_waist::NodeId;

use super::{Handle, UNEXPECTED_ANSWER, refused};
use crate::requests::Requests;
use crate::{Error, Pending};

/// The most bytes of a key in any cluster.
const KEY_BYTES_MAX: usize = 72;

#[derive(Debug)]
pub(crate) enum KvRequest {
    Get { key: Vec<u8> },
    Put { key: Vec<u8>, value: Vec<u8> },
    Delete { key: Vec<u8> },
    CompareAndSet { key: Vec<u8>, expected: u64, value: Vec<u8> },
    CompareAndDelete { key: Vec<u8>, expected: u64 },
    BeginBackup,
    BackupPart { at: NodeId, backup: u32, part: u32 },
}

#[derive(Debug)]
pub(crate) enum KvReply {
    BackupBegun { backup: u32, description: BackupDescription },
    BackupPart { copied: u32, is_last: bool, records: Vec<u8> },
    Value(Versioned),
    Done { version: u64 },
    NotFound,
    Mismatch { version: u64 },
}

/// A value and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    /// The version: higher than those of the key's earlier values.
    pub version: u64,
    /// The value's bytes.
    pub value: Vec<u8>,
}

/// Outcome of a compare-and-set or compare-and-delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareAndSet {
    /// The key has the new value, or was removed.
    Done {
        /// The version of the write.
        version: u64,
    },
    /// The key has another version than expected. Nothing changed.
    Mismatch {
        /// Current version; 0 if the key is absent.
        version: u64,
    },
}

pub(crate) enum KvRequests {}

impl Requests for KvRequests {
    type Half = Client;
    type Request = KvRequest;
    type Reply = KvReply;

    fn message_bytes(request: &KvRequest) -> usize {
        let (key, value) = match request {
            KvRequest::BeginBackup | KvRequest::BackupPart { .. } => (KEY_BYTES_MAX, 0),
            KvRequest::Get { key } | KvRequest::Delete { key } | KvRequest::CompareAndDelete { key, .. } => {
                (key.len(), 0)
            }
            KvRequest::Put { key, value } | KvRequest::CompareAndSet { key, value, .. } => {
                (key.len(), value.len())
            }
        };
        Request::HEADER + key.next_multiple_of(8) + value
    }

    fn task(request: &KvRequest) -> Task<'_> {
        match request {
            KvRequest::Get { key } => Task::Get { key },
            KvRequest::Put { key, value } => Task::Put { key, value },
            KvRequest::Delete { key } => Task::Delete { key },
            KvRequest::CompareAndSet { key, expected, value } => {
                Task::CompareAndSet { key, expected: *expected, value }
            }
            KvRequest::CompareAndDelete { key, expected } => {
                Task::CompareAndDelete { key, expected: *expected }
            }
            KvRequest::BeginBackup => Task::BeginBackup,
            &KvRequest::BackupPart { at, backup, part } => Task::BackupPart { at, backup, part },
        }
    }

    fn reply(outcome: Outcome<'_>, after: Duration) -> Result<KvReply, Error> {
        match outcome {
            Outcome::Value { version, value } => {
                Ok(KvReply::Value(Versioned { version, value: value.to_vec() }))
            }
            Outcome::Done { version } => Ok(KvReply::Done { version }),
            Outcome::BackupBegun { backup, description } => Ok(KvReply::BackupBegun { backup, description }),
            Outcome::BackupPart { copied, is_last, records } => {
                Ok(KvReply::BackupPart { copied, is_last, records: records.to_vec() })
            }
            Outcome::NoBackup { is_overrun } => Err(Error::BackupEnded { is_overrun }),
            Outcome::NotFound => Ok(KvReply::NotFound),
            Outcome::Scanned { .. } => Err(UNEXPECTED_ANSWER),
            Outcome::Mismatch { version } => Ok(KvReply::Mismatch { version }),
            Outcome::TableFull => Err(Error::Refused("the key's bucket is full: raise capacity_keys")),
            Outcome::SessionsFull => {
                Err(Error::Refused("the cluster remembers too many clients: wait a minute"))
            }
            Outcome::BadRequest => Err(Error::Refused("the cluster has other key or value sizes")),
            Outcome::Unknown => Err(Error::Unknown { after }),
        }
    }
}

/// A handle of a cluster's key-value store. Up to 16 requests are outstanding at a time; further ones are queued.
#[derive(Clone, Debug)]
pub struct KeyValue {
    pub(crate) handle: Handle<KvRequests>,
    pub(crate) key_bytes: usize,
}

impl KeyValue {
    /// Length of every key, in bytes.
    pub const fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    fn check(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        let (have, need) = (key.len(), self.key_bytes);
        if have != need {
            return Err(Error::Invalid(format!(
                "the key has {have} bytes; keys of this cluster have {need}"
            )));
        }
        match value {
            Some([]) => Err(Error::Invalid("a value has at least one byte; delete the key instead".into())),
            _ => Ok(()),
        }
    }

    pub(crate) fn ask<T: Send + 'static>(
        &self,
        request: KvRequest,
        read: impl FnOnce(KvReply) -> Result<T, Error> + Send + 'static,
    ) -> Pending<T> {
        let checked = match &request {
            KvRequest::CompareAndDelete { expected: 0, .. } => {
                Err(Error::Invalid("a compare-and-delete expects a version other than 0".into()))
            }
            KvRequest::Get { key } | KvRequest::Delete { key } | KvRequest::CompareAndDelete { key, .. } => {
                self.check(key, None)
            }
            KvRequest::Put { key, value } | KvRequest::CompareAndSet { key, value, .. } => {
                self.check(key, Some(value))
            }
            KvRequest::BeginBackup | KvRequest::BackupPart { .. } => Ok(()),
        };
        match checked {
            Ok(()) => self.handle.ask(request, read),
            Err(error) => refused(error),
        }
    }

    /// Reads a key. Returns its value, or `None` if it is absent. The read is linearizable.
    pub fn get(&self, key: &[u8]) -> Pending<Option<Versioned>> {
        self.ask(KvRequest::Get { key: key.to_vec() }, |reply| match reply {
            KvReply::Value(value) => Ok(Some(value)),
            KvReply::NotFound => Ok(None),
            _ => Err(UNEXPECTED_ANSWER),
        })
    }

    /// Writes a key. Returns the version of the new value.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Pending<u64> {
        self.ask(KvRequest::Put { key: key.to_vec(), value: value.to_vec() }, |reply| match reply {
            KvReply::Done { version } => Ok(version),
            _ => Err(UNEXPECTED_ANSWER),
        })
    }

    /// Removes a key. Returns the version of the removal, or `None` if the key was absent.
    pub fn delete(&self, key: &[u8]) -> Pending<Option<u64>> {
        self.ask(KvRequest::Delete { key: key.to_vec() }, |reply| match reply {
            KvReply::Done { version } => Ok(Some(version)),
            KvReply::NotFound => Ok(None),
            _ => Err(UNEXPECTED_ANSWER),
        })
    }

    /// Writes a key if it has the expected version; 0 means that it must be absent.
    pub fn compare_and_set(&self, key: &[u8], expected: u64, value: &[u8]) -> Pending<CompareAndSet> {
        let request = KvRequest::CompareAndSet { key: key.to_vec(), expected, value: value.to_vec() };
        self.ask(request, compared)
    }

    /// Removes a key if it has the expected version, which is not 0.
    pub fn compare_and_delete(&self, key: &[u8], expected: u64) -> Pending<CompareAndSet> {
        self.ask(KvRequest::CompareAndDelete { key: key.to_vec(), expected }, compared)
    }
}

fn compared(reply: KvReply) -> Result<CompareAndSet, Error> {
    match reply {
        KvReply::Done { version } => Ok(CompareAndSet::Done { version }),
        KvReply::Mismatch { version } => Ok(CompareAndSet::Mismatch { version }),
        _ => Err(UNEXPECTED_ANSWER),
    }
}
