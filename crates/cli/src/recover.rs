//! `weft recover`: a backup from the data files that are left of a cluster.

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufWriter;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use weft_backup::{Head, Writer};
use weft_cluster::{ClusterConfig, Durable, KvConfig};
use weft_node::{EngineChoice, LeftNode, Registry, Salvage};
use weft_waist::{Epoch, NodeId};

use crate::backup::Partial;
use crate::client::CONFIG;
use crate::failure::{Failure, Verdict};
use crate::output::{self, Json};

/// The files, and the backup to make of them.
#[derive(Clone, Debug, Args)]
pub(crate) struct RecoverArguments {
    /// The data files that are left, node0.weft and so on, or copies of them; their nodes must not run
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Configuration file of the cluster
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    config: PathBuf,
    /// The backup to write, for `weft restore`; without it, only show what is there and what may be lost
    #[arg(long, value_name = "BACKUP")]
    to: Option<PathBuf>,
    /// Write the backup although acknowledged writes may be missing in it
    #[arg(long, requires = "to")]
    accept_loss: bool,
    /// Write what is there as JSON to FILE (- for standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Json>,
}

/// What a file has.
struct FoundFile {
    path: PathBuf,
    node: NodeId,
    /// The epoch in which the node stopped.
    epoch: Epoch,
    /// How many writes of each leader in this epoch are there.
    lengths: Vec<(usize, u64)>,
}

/// What is there, and what may be lost.
struct Findings {
    /// The last epoch of which a file has writes.
    epoch: Epoch,
    files: Vec<FoundFile>,
    /// What may be lost, a sentence each; empty if nothing is.
    losses: Vec<String>,
}

impl RecoverArguments {
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        output::check_json(self.json.as_ref())?;
        if let Some(to) = &self.to {
            output::check_file(to)?;
        }
        let config = ClusterConfig::load(&self.config)?;
        let (kv, parameters) = parameters(&config, &self.config)?;
        let mut left = Vec::new();
        for path in &self.files {
            left.push((path.clone(), read(&parameters, path)?));
        }
        for (index, (path, one)) in left.iter().enumerate() {
            if left[..index].iter().any(|(_, other)| other.node == one.node) {
                let reason = format!("there are two files of node {}; give the newer one", one.node.index());
                return Err(Failure::at(path, reason));
            }
        }
        let findings = find(&config, &kv, &left);
        let epoch = findings.epoch;
        if let Some(to) = &self.to {
            if !findings.losses.is_empty() && !self.accept_loss {
                return Err(Failure::new(format!(
                    "acknowledged writes may be lost, and nothing was written: see what without --to, then give \
                     --accept-loss ({})",
                    findings.losses.join(" ")
                )));
            }
            let newest = left.into_iter().map(|(_, left)| left).filter(|left| left.view.epoch == epoch);
            write(&config, &kv, Salvage::new(newest.collect())?, to)?;
        }
        output::deliver(
            self.json.as_ref(),
            || format!("{:#}\n", findings.object(self.to.as_deref())),
            &findings.text(self.to.as_deref()),
        )?;
        Ok(Verdict::Good)
    }
}

/// The sizes of the store, and the parameters of its engine.
fn parameters(config: &ClusterConfig, path: &Path) -> Result<(KvConfig, weft_kv::Parameters), Failure> {
    let kv = match (config.engines.kv, &config.engines.data_dir) {
        (Some(kv), Some(_)) => kv,
        (None, Some(_)) => {
            let reason = "only a key-value store can be recovered, and the data files of this cluster are those of \
                          [transactions]: put back what is left of them and start the nodes";
            return Err(Failure::at(path, reason));
        }
        (_, None) => {
            let reason = "the cluster keeps nothing on disk: there is no [kv] with a data_dir";
            return Err(Failure::at(path, reason));
        }
    };
    let first = NodeId::new(0).expect("node 0 is a node");
    let node = config.node(first)?;
    match Registry::new().engines(&node)?.into_iter().next() {
        Some(EngineChoice::KeyValue(parameters, _)) => Ok((kv, parameters)),
        _ => unreachable!("a store on disk is the only engine of its cluster"),
    }
}

fn read(parameters: &weft_kv::Parameters, path: &Path) -> Result<LeftNode, Failure> {
    let unreadable = |error: std::io::Error| Failure::at(path, format!("cannot be read ({error})"));
    let file = File::open(path).map_err(unreadable)?;
    match file.try_lock_shared() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            return Err(Failure::at(path, "is in use; stop the node, or copy the file when it has stopped"));
        }
        Err(std::fs::TryLockError::Error(error)) => return Err(unreadable(error)),
    }
    let bytes = file.metadata().map_err(unreadable)?.len();
    let read = LeftNode::read(parameters, bytes, |at, bytes| file.read_exact_at(bytes, at));
    read.map_err(|error| Failure::at(path, format!("{error}; go on without this file")))
}

fn lengths(left: &LeftNode) -> Vec<(usize, u64)> {
    left.view.full.iter().map(|node| (node.index(), left.lengths[node.index()])).collect()
}

fn find(config: &ClusterConfig, kv: &KvConfig, left: &[(PathBuf, LeftNode)]) -> Findings {
    let epoch = left.iter().map(|(_, left)| left.view.epoch).max().expect("a file is required");
    let newest = || left.iter().map(|(_, left)| left).filter(|left| left.view.epoch == epoch);
    let full = newest().next().expect("one is the newest").view.full;
    let have = newest().filter(|left| full.contains(left.node)).count();
    let copies = (kv.durable_copies as usize).min(full.len());
    let least = full.len() + 1 - copies;
    let mut losses = Vec::new();
    if have < least {
        losses.push(format!(
            "The last acknowledged writes of epoch {}: {least} files of its {} full members would have all of them, and \
             {have} is there.",
            epoch.0,
            full.len()
        ));
    }
    if let Some(lag) = kv.disk_lag {
        losses.push(format!("The writes of the last {lag} that each leader took, which no disk had yet."));
    }
    match published(config) {
        Some(last) if last > epoch => losses.push(format!(
            "All writes of epochs {} to {}, which the membership service has published since.",
            epoch.0 + 1,
            last.0
        )),
        Some(_) => {}
        None => losses.push(format!(
            "All writes of epochs after {}, if there were any: the state of the membership service is not here to tell.",
            epoch.0
        )),
    }
    let found = |(path, left): &(PathBuf, LeftNode)| FoundFile {
        path: path.clone(),
        node: left.node,
        epoch: left.view.epoch,
        lengths: lengths(left),
    };
    Findings { epoch, files: left.iter().map(found).collect(), losses }
}

/// The last epoch that the membership service has published, if its state is here.
fn published(config: &ClusterConfig) -> Option<Epoch> {
    let service = config.service();
    let text = std::fs::read_to_string(service.serve.state_file.as_deref()?).ok()?;
    let durable = Durable::from_toml(&text).ok()?;
    durable.check_cluster(config.name).ok()?;
    Some(durable.view().epoch)
}

fn write(config: &ClusterConfig, kv: &KvConfig, mut salvage: Salvage, to: &Path) -> Result<(), Failure> {
    let (epoch, lengths) = salvage.extent();
    let head = Head {
        taken_at: weft_net::log::utc_now(),
        cluster: config.name.to_string(),
        key_bytes: kv.key_bytes,
        epoch: epoch.0,
        lengths,
        node: 0,
        is_recovered: true,
    };
    let partial = Partial::new(to);
    let unwritable = |error: std::io::Error| partial.unwritable(&error);
    let file = File::create(partial.path()).map_err(unwritable)?;
    let mut writer = Writer::new(BufWriter::new(file), &head).map_err(unwritable)?;
    salvage.for_each(|key, value| writer.put(key, value)).map_err(unwritable)?;
    let (out, _) = writer.finish().map_err(unwritable)?;
    out.get_ref().sync_all().map_err(unwritable)?;
    partial.publish()?;
    crate::backup::check(to).map(drop)
}

impl Findings {
    fn text(&self, to: Option<&Path>) -> String {
        let mut text = String::new();
        for FoundFile { path, node, epoch, lengths } in &self.files {
            let lengths: Vec<String> =
                lengths.iter().map(|(node, length)| format!("{node}:{length}")).collect();
            let is_used = if *epoch == self.epoch { "" } else { "; older than another file, so not used" };
            let _ = writeln!(
                text,
                "{}: node {} has all epochs before {} and of this one the writes {}{is_used}",
                path.display(),
                node.index(),
                epoch.0,
                lengths.join(",")
            );
        }
        if self.losses.is_empty() {
            text += "nothing that was acknowledged is lost: the nodes can start with these files\n";
        } else {
            let _ = writeln!(text, "may be lost: {}", self.losses.join(" "));
        }
        if let Some(to) = to {
            let _ = writeln!(text, "{}: written; give it to weft restore --from", to.display());
        }
        text
    }

    fn object(&self, to: Option<&Path>) -> Value {
        let files: Vec<Value> = self
            .files
            .iter()
            .map(|FoundFile { path, node, epoch, lengths }| {
                json!({
                    "file": path.display().to_string(),
                    "node": node.index(),
                    "epoch": epoch.0,
                    "writes_of_epoch": lengths.iter().map(|(_, length)| length).collect::<Vec<_>>(),
                    "used": *epoch == self.epoch,
                })
            })
            .collect();
        json!({
            "epoch": self.epoch.0,
            "files": files,
            "may_be_lost": self.losses,
            "backup": to.map(|to| to.display().to_string()),
        })
    }
}
