//! The file with a node's data.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::mpsc;

use weft_cluster::Incarnation;
use weft_node::{EngineChoice, EngineLog};
use weft_store::RecoveryError;

use crate::{FileDisk, WAKE};

/// Opens the log of an engine in a file, or creates it. A message is sent to the port `agent` when a flush has
/// ended; the address from which it comes is returned, too.
///
/// # Errors
/// Why the file cannot be used, in one line.
///
/// # Panics
/// If an engine of this kind has no log on disk.
pub(crate) fn open_log<'e>(
    path: &Path,
    engine: &'e mut EngineChoice<'_>,
    fresh: Incarnation,
    agent: SocketAddr,
) -> Result<(&'e EngineLog, SocketAddr), String> {
    let fail = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| fail(&error))?;
    }
    let waker = UdpSocket::bind((agent.ip(), 0)).map_err(|error| fail(&error))?;
    let from = waker.local_addr().map_err(|error| fail(&error))?;
    let (flushed, ended) = mpsc::channel();
    let wake = move || {
        // Lost wake-ups do no harm: the receiver checks all that has been flushed, not the number of messages.
        let _ = flushed.send(());
        let _ = waker.send_to(WAKE, agent);
    };
    let sizes =
        engine.log_sizes().expect("a configuration has data on disk for engines that can have it only");
    let disk = FileDisk::open(path, sizes.disk_bytes(), sizes.log_place(), wake)
        .map_err(|error| error.to_string())?;
    let log = engine.open_log(sizes, Box::new(disk), fresh, || ended.recv().unwrap_or(()));
    log.map(|log| (log, from)).map_err(|error| match error {
        RecoveryError::Version => {
            let fail = fail(&error);
            format!("{fail}: start that version, or move the file away if other nodes have all data")
        }
        error => fail(&error),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use weft_node::{Ledger, TransactionSizes};
    use weft_store::SECTOR;

    use super::*;

    fn store() -> EngineChoice<'static> {
        let engine =
            weft_kv::Parameters { buckets: 16, value_bytes_max: 64, ..weft_kv::Parameters::default() };
        EngineChoice::KeyValue(engine, None)
    }

    #[test]
    fn a_file_is_of_one_engine() {
        let folder = tempfile::tempdir().unwrap();
        let agent = SocketAddr::from(([127, 0, 0, 1], 9));
        let ledger = Ledger::new(8);
        let sizes = TransactionSizes { nodes: 3, replicas: 3, message_bytes: 1_400, record: false };
        let engine = |is_store| match is_store {
            true => store(),
            false => EngineChoice::Transactions(&ledger, sizes, None),
        };
        for is_store in [true, false] {
            let path = folder.path().join("new").join(format!("{is_store}.weft"));
            let mut first = engine(is_store);
            let (log, _) = open_log(&path, &mut first, Incarnation::FIRST, agent).unwrap();
            assert_eq!((log.incarnation(), log.loss()), (Incarnation::FIRST, None));
            let refused = |is_store| open_log(&path, &mut engine(is_store), Incarnation::FIRST, agent).err();
            assert!(refused(is_store).unwrap().contains("is in use by another process"));
            drop(first);
            assert!(refused(!is_store).unwrap().contains("the store has other sizes"));
            assert_eq!(refused(is_store), None);
        }
    }

    #[test]
    fn the_file_of_another_version_is_refused_with_advice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node0.weft");
        let agent = SocketAddr::from(([127, 0, 0, 1], 9));
        open_log(&path, &mut store(), Incarnation::FIRST, agent).unwrap();
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        for sector in 0..2 {
            let mut name = [0; 7];
            file.read_exact_at(&mut name, sector * SECTOR as u64).unwrap();
            if name == *b"WEFTSTO" {
                file.write_all_at(b"1", sector * SECTOR as u64 + 7).unwrap();
            }
        }
        let error = open_log(&path, &mut store(), Incarnation::FIRST, agent).err().unwrap();
        assert_eq!(
            error,
            format!(
                "{}: the store was written by another version of Weft: start that version, or move the file away \
                 if other nodes have all data",
                path.display()
            )
        );
    }
}
