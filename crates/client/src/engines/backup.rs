//! Backups of the key-value store.

use std::collections::VecDeque;

use weft_kv::message::{BACKUP_DONE, BackupDescription, backup_records};

use super::UNEXPECTED_ANSWER;
use super::kv::{KeyValue, KvReply, KvRequest};
use crate::{Error, Pending};

/// Number of parts that are outstanding: as many as the node keeps.
const WINDOW: usize = weft_kv::SESSION_WINDOW as usize;

/// A copy of the whole key-value store as it was at one instant, between the call of [`KeyValue::backup`] and its
/// return. It is read part by part from one node, while all clients may write. If that node ends, or stays silent for
/// the time-out of calls, begin another one.
#[derive(Debug)]
pub struct Backup {
    store: KeyValue,
    number: u32,
    description: BackupDescription,
    /// Parts that were requested, oldest first, and the number of the next one.
    requested: VecDeque<Pending<BackupPart>>,
    next: u32,
    is_read: bool,
}

/// A part of a backup.
#[derive(Debug)]
pub struct BackupPart {
    copied: u32,
    is_last: bool,
    key_bytes: usize,
    records: Vec<u8>,
}

impl BackupPart {
    /// The slot of the node's table up to which the backup was copied: see [`BackupDescription::slots`].
    pub const fn copied(&self) -> u32 {
        self.copied
    }

    /// The keys, as the store pads them, and their values.
    ///
    /// # Errors
    /// The node is of another version.
    pub fn records(&self) -> impl Iterator<Item = Result<(&[u8], &[u8]), Error>> {
        let records = backup_records(&self.records, self.key_bytes);
        records.map(|record| record.map_err(|_| UNEXPECTED_ANSWER))
    }
}

impl KeyValue {
    /// Begins a backup. It has every write that was answered before this call.
    pub fn backup(&self) -> Pending<Backup> {
        let store = self.clone();
        self.ask(KvRequest::BeginBackup, move |reply| match reply {
            KvReply::BackupBegun { backup, description } => {
                let requested = VecDeque::with_capacity(WINDOW);
                Ok(Backup { store, number: backup, description, requested, next: 1, is_read: false })
            }
            _ => Err(UNEXPECTED_ANSWER),
        })
    }
}

impl Backup {
    /// What the backup reflects, and the node from which it is read.
    pub const fn description(&self) -> &BackupDescription {
        &self.description
    }

    fn request(&mut self, part: u32) -> Pending<BackupPart> {
        let (at, backup, key_bytes) = (self.description.node, self.number, self.store.key_bytes);
        self.store.ask(KvRequest::BackupPart { at, backup, part }, move |reply| match reply {
            KvReply::BackupPart { copied, is_last, records } => {
                Ok(BackupPart { copied, is_last, key_bytes, records })
            }
            _ => Err(UNEXPECTED_ANSWER),
        })
    }

    /// The next part; `None` if all have been read.
    ///
    /// # Errors
    /// [`Error::BackupEnded`] or [`Error::Unknown`]: begin another backup.
    pub fn next_part(&mut self) -> Result<Option<BackupPart>, Error> {
        if self.is_read {
            return Ok(None);
        }
        while self.requested.len() < WINDOW {
            let part = self.request(self.next);
            self.requested.push_back(part);
            self.next += 1;
        }
        let part = self.requested.pop_front().expect("a part is outstanding").wait()?;
        self.is_read = part.is_last;
        Ok(Some(part))
    }
}

impl Drop for Backup {
    /// Tells the node that it may forget the backup. If the message is lost, the node does so when the next one begins.
    fn drop(&mut self) {
        drop(self.request(BACKUP_DONE));
    }
}
