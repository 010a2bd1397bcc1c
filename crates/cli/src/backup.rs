//! `weft backup`: the key-value store of a running cluster, as a file.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use weft_backup::{BackupError, Head, Reader, STREAMS, Totals, Writer};
use weft_client::{Error, KeyValue};
use weft_cluster::{ClusterConfig, KvConfig};
use weft_harness::progress::Progress;
use weft_kv::message::BackupDescription;

use crate::client::ClientOptions;
use crate::failure::{Failure, Verdict};
use crate::output;

/// How often a backup is begun again from another node before the command fails.
const ATTEMPTS: u32 = 5;

/// The cluster, and the file.
#[derive(Clone, Debug, Args)]
pub(crate) struct BackupArguments {
    #[command(flatten)]
    options: ClientOptions,
    /// The file to write; it appears when it is complete
    #[arg(long, value_name = "FILE", required_unless_present = "check")]
    to: Option<PathBuf>,
    /// Only read FILE, and show whether it is whole, of when and of which cluster it is, and how much it has
    #[arg(long, value_name = "FILE", conflicts_with = "to")]
    check: Option<PathBuf>,
}

impl BackupArguments {
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let file = match (&self.to, &self.check) {
            (Some(to), _) => {
                self.write(to)?;
                to
            }
            (None, check) => {
                output::check_json(self.options.json())?;
                check.as_ref().expect("one of both is there")
            }
        };
        // A new backup is read again, too: a disk may have changed what was written.
        let (head, totals) = check(file)?;
        self.options.deliver(&line(file, &head, &totals), &object(file, &head, &totals))?;
        Ok(Verdict::Good)
    }

    /// Copies the store of the cluster into a file.
    fn write(&self, to: &Path) -> Result<(), Failure> {
        output::check_file(to)?;
        let config = self.options.load()?;
        let kv = store_of(&config, &self.options)?;
        let store = self.options.open(&config)?.kv()?;
        let partial = Partial::new(to);
        let unwritable = |error: std::io::Error| partial.unwritable(&error);
        let begin = |begun: &BackupDescription| {
            let head = Head {
                taken_at: weft_net::log::utc_now(),
                cluster: config.name.to_string(),
                key_bytes: kv.key_bytes,
                epoch: begun.epoch.0,
                lengths: begun.lengths,
                node: begun.node.index() as u8,
                is_recovered: false,
            };
            let file = File::create(partial.path()).map_err(unwritable)?;
            Writer::new(BufWriter::new(file), &head).map_err(unwritable)
        };
        let put = |writer: &mut Writer<_>, key: &[u8], value: &[u8]| {
            writer.put(key, value).map_err(unwritable).map(ControlFlow::Continue)
        };
        let writer = read_store(&store, "slots copied", begin, put)?;
        let (out, _) = writer.finish().map_err(unwritable)?;
        out.get_ref().sync_all().map_err(unwritable)?;
        partial.publish()
    }
}

/// The sizes of the cluster's store, or why there is nothing to back up.
pub(crate) fn store_of(config: &ClusterConfig, options: &ClientOptions) -> Result<KvConfig, Failure> {
    let reason = "the cluster has no key-value store: there is no [kv], and backups are of nothing else";
    config.engines.kv.ok_or_else(|| Failure::at(&options.config, reason))
}

/// Reads the store as it is at one instant: calls `begin`, and then `take` with what it has returned and each key and
/// value, until that breaks. If the node ends meanwhile, this begins again with another one.
pub(crate) fn read_store<T>(
    store: &KeyValue,
    label: &str,
    begin: impl Fn(&BackupDescription) -> Result<T, Failure>,
    take: impl Fn(&mut T, &[u8], &[u8]) -> Result<ControlFlow<()>, Failure>,
) -> Result<T, Failure> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let mut backup = store.backup().wait().map_err(|error| match error {
            Error::Unknown { after } | Error::NotBegun { after } => Failure::new(format!(
                "no node began a backup within {after}: see `weft status`; another backup may be running"
            )),
            error => error.into(),
        })?;
        let mut taken = begin(backup.description())?;
        let mut progress = Progress::new(label, backup.description().slots.into());
        let mut read = || -> Result<(), Interrupted> {
            while let Some(part) = backup.next_part()? {
                for record in part.records() {
                    let (key, value) = record?;
                    if take(&mut taken, key, value)?.is_break() {
                        return Ok(());
                    }
                }
                progress.set(part.copied().into());
            }
            Ok(())
        };
        match read() {
            Ok(()) => return Ok(taken),
            Err(Interrupted::Source(Error::Unknown { .. } | Error::BackupEnded { is_overrun: false }))
                if attempts < ATTEMPTS =>
            {
                let node = backup.description().node.index();
                eprintln!(
                    "weft: node {node} does not go on with the backup, which begins again at another one"
                );
            }
            Err(Interrupted::Source(error)) => return Err(error.into()),
            Err(Interrupted::Taker(failure)) => return Err(failure),
        }
    }
}

/// Why reading has ended early.
enum Interrupted {
    Source(Error),
    Taker(Failure),
}

impl From<Error> for Interrupted {
    fn from(error: Error) -> Self {
        Self::Source(error)
    }
}

impl From<Failure> for Interrupted {
    fn from(failure: Failure) -> Self {
        Self::Taker(failure)
    }
}

/// The temporary file beside the final path. If it is dropped before it is published, nothing is left.
pub(crate) struct Partial {
    target: PathBuf,
    path: PathBuf,
}

impl Partial {
    pub(crate) fn new(target: &Path) -> Self {
        let mut path = OsString::from(target);
        path.push(".partial");
        Self { target: target.to_owned(), path: path.into() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn unwritable(&self, error: &std::io::Error) -> Failure {
        Failure::at(&self.path, format!("cannot be written ({error}); make room or choose another place"))
    }

    pub(crate) fn publish(self) -> Result<(), Failure> {
        let moved = fs::rename(&self.path, &self.target)
            .and_then(|()| File::open(output::parent(&self.target))?.sync_all());
        moved.map_err(|error| {
            Failure::at(&self.target, format!("cannot be written ({error}); choose another place"))
        })
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // It is not there if it was published, or not begun.
        let _ = fs::remove_file(&self.path);
    }
}

/// Reads a backup from the first to the last byte.
pub(crate) fn check(path: &Path) -> Result<(Head, Totals), Failure> {
    let read = || -> Result<_, BackupError> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let reader = Reader::open(BufReader::new(file))?;
        let head = reader.head().clone();
        let mut progress = Progress::new("bytes checked", length);
        let mut bytes = 0;
        let totals = reader.for_each(|key, value| {
            bytes += (key.len() + value.len()) as u64;
            progress.set(bytes);
            Ok::<_, BackupError>(())
        })?;
        Ok((head, totals))
    };
    read().map_err(|error| Failure::at(path, error))
}

fn line(file: &Path, head: &Head, totals: &Totals) -> String {
    let Head { taken_at, cluster, epoch, node, .. } = head;
    let Totals { keys, bytes, .. } = totals;
    let source = if head.is_recovered {
        format!(
            "recovered from what was left of its disks after epoch {epoch}: acknowledged writes may be lost"
        )
    } else {
        format!("read from node {node} in epoch {epoch}")
    };
    format!("{}: {keys} keys, {bytes} bytes of cluster {cluster} at {taken_at}, {source}", file.display())
}

fn object(file: &Path, head: &Head, totals: &Totals) -> Value {
    let lengths: Vec<u64> = head.lengths[..STREAMS].to_vec();
    json!({
        "file": file.display().to_string(),
        "cluster": head.cluster,
        "taken_at": head.taken_at,
        "epoch": head.epoch,
        "node": head.node,
        "writes_of_epoch": lengths,
        "recovered": head.is_recovered,
        "keys": totals.keys,
        "bytes": totals.bytes,
        "longest_key_bytes": totals.longest_key,
        "longest_value_bytes": totals.longest_value,
        "digest": format!("{:016x}", totals.digest),
    })
}
