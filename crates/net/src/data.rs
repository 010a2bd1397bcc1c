//! The node's data on disk.

use std::net::{SocketAddrV4, UdpSocket};
use std::path::Path;
use std::sync::mpsc;

use weft_cluster::Incarnation;
use weft_node::{KvLog, store_parameters};

use crate::FileDisk;

/// Message of the disk's thread to the node's own port when a flush has ended.
pub(crate) const WAKE: &[u8] = b"flushed";

/// Finds the log of a store in a file, or makes it. `agent` is the port that is told when a flush has ended.
///
/// # Errors
/// The file cannot be used: why, in one line.
pub(crate) fn open_log(
    path: &Path,
    engine: &weft_kv::Parameters,
    fresh: Incarnation,
    agent: SocketAddrV4,
) -> Result<KvLog, String> {
    let fail = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| fail(&error))?;
    }
    let waker = UdpSocket::bind((*agent.ip(), 0)).map_err(|error| fail(&error))?;
    let (flushed, ended) = mpsc::channel();
    let wake = move || {
        // Whoever waits for one of these looks for what has happened, not for how often.
        let _ = flushed.send(());
        let _ = waker.send_to(WAKE, agent);
    };
    let sizes = store_parameters(engine);
    let disk = FileDisk::open(path, sizes.disk_bytes(), sizes.log_place(), wake)
        .map_err(|error| error.to_string())?;
    let log = KvLog::open(engine, Box::new(disk), fresh, || ended.recv().unwrap_or(()));
    log.map_err(|error| fail(&error))
}
