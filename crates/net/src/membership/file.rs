//! The state file of a membership service or of a coordinator.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::error::MembershipError;

/// More than the state of the largest cluster takes.
const STATE_BYTES: usize = 4 << 10;

/// The content of a file; `None` if there is no file.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, MembershipError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(MembershipError::Unreadable { path: path.to_owned(), source }),
    }
}

/// Checks that a state can be stored: a missing folder or a full disk should be detected before a node relies on
/// the service.
pub(super) fn check_writable(path: &Path) -> Result<(), MembershipError> {
    let check = || {
        let partial = partial(path);
        let mut file = File::create(&partial)?;
        file.write_all(&[b'\n'; STATE_BYTES])?;
        file.sync_all()?;
        std::fs::remove_file(&partial)
    };
    check().map_err(|source| MembershipError::Unwritable { path: path.to_owned(), source })
}

/// Replaces the file as a whole: after a crash it holds the old state or the new one. The new state is on the disk
/// when this function returns.
pub(super) fn write(path: &Path, state: &[u8]) -> Result<(), MembershipError> {
    let write = || {
        let partial = partial(path);
        let mut file = File::create(&partial)?;
        file.write_all(state)?;
        file.sync_all()?;
        std::fs::rename(&partial, path)?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    };
    write().map_err(|source| MembershipError::Unwritable { path: path.to_owned(), source })
}

/// Name of the file before it is complete.
fn partial(path: &Path) -> PathBuf {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    partial.into()
}
