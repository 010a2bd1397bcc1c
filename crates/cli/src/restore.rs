//! `weft restore`: the keys and values of a backup, written into a running cluster.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use weft_backup::{BackupError, Reader, Totals, trimmed};
use weft_client::{Error, KeyValue, Pending};
use weft_cluster::KvConfig;
use weft_harness::progress::Progress;

use crate::backup::{check, read_store, store_of};
use crate::client::ClientOptions;
use crate::failure::{Failure, Verdict};
use crate::output;

/// Number of writes that are outstanding or queued in the client.
const WINDOW: usize = 64;

/// The backup, and the cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct RestoreArguments {
    #[command(flatten)]
    options: ClientOptions,
    /// The backup that `weft backup --to` wrote
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// Write into a cluster that has keys: those of the backup replace equal ones, all others stay. An interrupted
    /// restore is repeated with it
    #[arg(long)]
    overwrite: bool,
}

impl RestoreArguments {
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let config = self.options.load()?;
        let kv = store_of(&config, &self.options)?;
        let (head, totals) = check(&self.from)?;
        self.check_sizes(&kv, &totals)?;
        let store = self.options.open(&config)?.kv()?;
        if !self.overwrite && !is_empty(&store)? {
            return Err(Failure::new(
                "the cluster has keys, and nothing was written: give an empty cluster, or --overwrite",
            ));
        }
        self.write(&store, totals.keys)?;
        // With --overwrite the cluster may have other keys, too.
        let is_verified = !self.overwrite;
        if is_verified && read_back(&store)? != totals {
            return Err(Failure::new(
                "the cluster does not have exactly the keys and values of the backup: other clients have written \
                 meanwhile; stop them, empty the cluster and restore again",
            ));
        }
        let (keys, name) = (totals.keys, config.name);
        let read_back = if is_verified { ", and read back" } else { "" };
        let line = format!(
            "{keys} keys of cluster {} at {} are written into cluster {name}{read_back}",
            head.cluster, head.taken_at
        );
        let object = json!({
            "file": self.from.display().to_string(),
            "cluster": name.to_string(),
            "of_cluster": head.cluster,
            "taken_at": head.taken_at,
            "keys": keys,
            "bytes": totals.bytes,
            "verified": is_verified,
        });
        self.options.deliver(&line, &object)?;
        Ok(Verdict::Good)
    }

    /// Whether the cluster takes keys and values of the backup's lengths, and so many of them.
    fn check_sizes(&self, kv: &KvConfig, totals: &Totals) -> Result<(), Failure> {
        for (name, least, has) in [
            ("key_bytes", u64::from(totals.longest_key), u64::from(kv.key_bytes)),
            ("value_bytes", u64::from(totals.longest_value), u64::from(kv.value_bytes)),
            ("capacity_keys", totals.keys, u64::from(kv.capacity_keys)),
        ] {
            if has < least {
                let reason = format!("[kv] {name} is {has}; the backup needs at least {least}");
                return Err(Failure::at(&self.options.config, reason));
            }
        }
        output::check_json(self.options.json())
    }

    /// Writes all keys and values.
    fn write(&self, store: &KeyValue, keys: u64) -> Result<(), Failure> {
        let mut outstanding: VecDeque<Pending<u64>> = VecDeque::with_capacity(WINDOW);
        let mut written = 0;
        let mut progress = Progress::new("keys written", keys);
        let mut padded = Vec::with_capacity(store.key_bytes());
        let mut end = |write: Pending<u64>| {
            write.wait()?;
            written += 1;
            progress.set(written);
            Ok::<_, Error>(())
        };
        let file = File::open(&self.from).map_err(BackupError::Io);
        let put_all = || -> Result<(), Interrupted> {
            let reader = Reader::open(BufReader::new(file?))?;
            reader.for_each(|key, value| {
                if outstanding.len() == WINDOW
                    && let Some(oldest) = outstanding.pop_front()
                {
                    end(oldest)?;
                }
                padded.clear();
                padded.extend_from_slice(trimmed(key));
                padded.resize(store.key_bytes(), 0);
                outstanding.push_back(store.put(&padded, value));
                Ok::<_, Interrupted>(())
            })?;
            outstanding.into_iter().try_for_each(end)?;
            Ok(())
        };
        let result = put_all();
        result.map_err(|interrupted| match interrupted {
            Interrupted::File(error) => Failure::at(&self.from, error),
            Interrupted::Cluster(error) => Failure::new(format!(
                "{error}; {written} of {keys} keys are written: remove the cause, then repeat the command with --overwrite"
            )),
        })
    }
}

/// Why the writes have ended early.
enum Interrupted {
    File(BackupError),
    Cluster(Error),
}

impl From<BackupError> for Interrupted {
    fn from(error: BackupError) -> Self {
        Self::File(error)
    }
}

impl From<Error> for Interrupted {
    fn from(error: Error) -> Self {
        Self::Cluster(error)
    }
}

fn is_empty(store: &KeyValue) -> Result<bool, Failure> {
    read_store(
        store,
        "slots read",
        |_| Ok(true),
        |is_empty, _, _| {
            *is_empty = false;
            Ok(ControlFlow::Break(()))
        },
    )
}

fn read_back(store: &KeyValue) -> Result<Totals, Failure> {
    read_store(
        store,
        "slots read back",
        |_| Ok(Totals::default()),
        |totals, key, value| {
            totals.add(key, value);
            Ok(ControlFlow::Continue(()))
        },
    )
}
