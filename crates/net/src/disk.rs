//! A file as the disk of a store.
//!
//! A separate thread executes the operations, so that the node's thread never waits for the disk.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use weft_store::{Disk, DiskError, Operation, SECTOR};

/// The most bytes of one write to the file.
const PIECE: usize = 64 * SECTOR;

/// A buffer with the alignment that direct I/O requires: a sector.
#[repr(align(4096))]
struct Aligned([u8; PIECE]);

enum Request {
    Write { at: u64, bytes: Vec<u8> },
    Flush,
}

/// Why a disk cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum FileDiskError {
    /// The file cannot be created or opened.
    #[error("{path}: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the kernel.
        source: io::Error,
    },
    /// Another process uses the file.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
}

/// A file of fixed length. Writes bypass the kernel's cache where the file system allows it; in either case a
/// flush is `fdatasync`.
pub struct FileDisk {
    /// The descriptor for reads; it holds the lock of the file.
    file: File,
    bytes: u64,
    requests: Option<Sender<Request>>,
    ended: Receiver<Result<(), DiskError>>,
    /// Buffers of finished writes, for reuse.
    spare: Receiver<Vec<u8>>,
    thread: Option<JoinHandle<()>>,
}

impl FileDisk {
    /// Creates a file of `bytes` zeros, or opens it if it exists. The blocks of the `allocated` range are
    /// allocated at creation, so that a log written there later cannot run out of space.
    ///
    /// The disk's thread calls `wake` whenever a flush has ended.
    ///
    /// # Errors
    /// [`FileDiskError`].
    pub fn open(
        path: &Path,
        bytes: u64,
        allocated: Range<u64>,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Self, FileDiskError> {
        let fail = |source| FileDiskError::File { path: path.into(), source };
        let is_new = !path.try_exists().map_err(fail)?;
        if is_new {
            create(path, bytes, allocated).map_err(fail)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let file = options.open(path).map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(FileDiskError::InUse(path.into())),
            Err(std::fs::TryLockError::Error(source)) => return Err(fail(source)),
        }
        let bytes = file.metadata().map_err(fail)?.len();
        // Some file systems, such as tmpfs, do not support direct I/O.
        let direct = options.custom_flags(libc::O_DIRECT).open(path);
        let writer = direct.or_else(|_| file.try_clone()).map_err(fail)?;
        let (requests, submitted) = mpsc::channel();
        let (outcomes, ended) = mpsc::channel();
        let (returned, spare) = mpsc::channel();
        let work = move || serve(&writer, &submitted, &outcomes, &returned, wake);
        let thread = thread::Builder::new().name("disk".into()).spawn(work).map_err(fail)?;
        Ok(Self { file, bytes, requests: Some(requests), ended, spare, thread: Some(thread) })
    }

    fn submit(&self, request: Request) {
        // If the thread has ended, it has failed, and has reported that with the last flush that it accepted.
        if let Some(requests) = &self.requests {
            let _ = requests.send(request);
        }
    }
}

/// Creates the file under another name first, so that a file with the right name is complete.
fn create(path: &Path, bytes: u64, allocated: Range<u64>) -> io::Result<()> {
    let unfinished = path.with_extension("new");
    let file = File::create(&unfinished)?;
    let zeros = vec![0; PIECE];
    file.set_len(bytes)?;
    let mut at = allocated.start;
    while at < allocated.end {
        let length = (allocated.end - at).min(PIECE as u64);
        file.write_all_at(&zeros[..length as usize], at)?;
        at += length;
    }
    file.sync_all()?;
    std::fs::rename(&unfinished, path)?;
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => File::open(directory)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

fn serve(
    file: &File,
    submitted: &Receiver<Request>,
    outcomes: &Sender<Result<(), DiskError>>,
    returned: &Sender<Vec<u8>>,
    wake: impl Fn(),
) {
    let mut buffer = Box::new(Aligned([0; PIECE]));
    let mut outcome = Ok(());
    while let Ok(request) = submitted.recv() {
        match request {
            Request::Write { at, bytes } => {
                if outcome.is_ok() {
                    outcome =
                        write(file, at, &bytes, &mut buffer).map_err(|cause| error(Operation::Write, &cause));
                }
                let _ = returned.send(bytes);
            }
            Request::Flush => {
                let flushed = outcome
                    .clone()
                    .and_then(|()| file.sync_data().map_err(|cause| error(Operation::Flush, &cause)));
                let has_failed = flushed.is_err();
                let nobody_waits = outcomes.send(flushed).is_err();
                wake();
                // After an error the state of the file in the kernel is unknown, so nothing more is written.
                if has_failed || nobody_waits {
                    return;
                }
            }
        }
    }
}

fn write(file: &File, at: u64, bytes: &[u8], buffer: &mut Aligned) -> io::Result<()> {
    for (place, piece) in (at..).step_by(PIECE).zip(bytes.chunks(PIECE)) {
        let aligned = &mut buffer.0[..piece.len()];
        aligned.copy_from_slice(piece);
        file.write_all_at(aligned, place)?;
    }
    Ok(())
}

fn error(operation: Operation, cause: &io::Error) -> DiskError {
    DiskError { operation, cause: cause.to_string() }
}

impl Disk for FileDisk {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        let mut copy = self.spare.try_recv().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(bytes);
        self.submit(Request::Write { at, bytes: copy });
    }

    fn flush(&mut self) {
        self.submit(Request::Flush);
    }

    fn poll(&mut self) -> Option<Result<(), DiskError>> {
        self.ended.try_recv().ok()
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), DiskError> {
        self.file.read_exact_at(bytes, at).map_err(|cause| error(Operation::Read, &cause))
    }
}

impl Drop for FileDisk {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for FileDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileDisk").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use weft_store::{Found, Parameters, Store};

    use super::*;

    const PARAMETERS: Parameters = Parameters::new(128, 512, 16);

    struct Machine {
        path: PathBuf,
        flushed: Receiver<()>,
        disk: FileDisk,
    }

    fn open(path: &Path) -> Machine {
        let (wake, flushed) = mpsc::channel();
        let disk = FileDisk::open(path, PARAMETERS.disk_bytes(), PARAMETERS.log_place(), move || {
            wake.send(()).unwrap_or(())
        })
        .unwrap();
        Machine { path: path.into(), flushed, disk }
    }

    fn settle(store: &mut Store, machine: &mut Machine) {
        store.pump(&mut machine.disk).unwrap();
        while !store.is_idle() {
            machine.flushed.recv().unwrap();
            store.pump(&mut machine.disk).unwrap();
        }
    }

    #[test]
    fn a_store_is_found_again_in_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let mut machine = open(&directory.path().join("store"));
        let mut store = Store::format(PARAMETERS, 5, &mut machine.disk);
        settle(&mut store, &mut machine);
        let records: Vec<Vec<u8>> =
            (0..40u8).map(|byte| vec![byte; 17_000 * usize::from(byte % 4)]).collect();
        for record in &records {
            while store.append(record).is_err() {
                settle(&mut store, &mut machine);
            }
        }
        settle(&mut store, &mut machine);
        assert_eq!(store.durable(), records.len() as u64);
        let again = FileDisk::open(&machine.path, 0, 0..0, || {});
        assert!(matches!(again, Err(FileDiskError::InUse(_))), "{again:?}");
        let path = machine.path.clone();
        drop(machine);

        let mut machine = open(&path);
        let mut found = Vec::new();
        let recovered = Store::recover(PARAMETERS, &mut machine.disk, |what| match what {
            Found::Record(_, bytes) => found.push(bytes.to_vec()),
            Found::Chunk(_) => panic!("there is no snapshot"),
        });
        let mut store = recovered.unwrap();
        assert_eq!(found, records);
        settle(&mut store, &mut machine);
        assert_eq!((store.identity(), store.durable()), (5, 40));
    }

    #[test]
    fn a_file_that_cannot_be_made_says_why() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("none").join("store");
        let error = FileDisk::open(&path, 4096, 0..4096, || {}).unwrap_err().to_string();
        assert!(error.contains("none/store: No such file or directory"), "{error}");
    }
}
