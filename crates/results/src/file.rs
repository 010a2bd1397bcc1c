//! Result files: JSON that is written atomically.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Value of the first key of a result file.
pub(crate) const FORMAT: &str = "weft-result-1";

/// A result as a JSON object with a line end.
///
/// # Panics
/// If the result has keys that are not strings.
pub fn to_json(result: &impl Serialize) -> String {
    let mut json = serde_json::to_string_pretty(result).expect("a result has only text keys");
    json.push('\n');
    json
}

/// A file that belongs to a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeighbourFile {
    /// Title of the file, in a few words.
    pub title: String,
    /// Path of the file, relative to the result's folder.
    pub path: String,
}

/// Writes a file atomically: first under another name in the same folder, then renamed. So a reader never sees a
/// partial file, and a full disk leaves nothing behind. If `path` exists and is not a regular file (`/dev/null`, a
/// pipe), the content is written to it directly.
///
/// # Errors
/// The file cannot be written.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<(), ResultError> {
    let unwritable =
        |error: std::io::Error| ResultError::Unwritable { path: path.into(), reason: error.to_string() };
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        let mut there = std::fs::OpenOptions::new().write(true).open(path).map_err(unwritable)?;
        return std::io::Write::write_all(&mut there, content).map_err(unwritable);
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    std::fs::write(&partial, content).and_then(|()| std::fs::rename(&partial, path)).map_err(|error| {
        // If this fails too, nothing more can be done.
        let _ = std::fs::remove_file(&partial);
        unwritable(error)
    })
}

/// Error of a result file, in one line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ResultError {
    /// The file cannot be read.
    #[error("{}: cannot be read ({reason}); give the JSON file that `--json` wrote", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        reason: String,
    },
    /// The file ends too early.
    #[error("{}: ends in the middle; the run that wrote it was cut off, so run it again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
    },
    /// The file contains something else.
    #[error(
        "{}: is no result that a page shows; give what `--json` of weft bench, sim, check or rdt explain wrote",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file has another version of the format.
    #[error("{}: is a result of another version of weft ({format}, not {FORMAT}); run the bench again with this one", path.display())]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        format: String,
    },
    /// The file is a result, but a field is missing or wrong.
    #[error("{}: is a damaged result ({reason}); run the bench again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The error.
        reason: String,
    },
    /// The file cannot be written.
    #[error("{}: cannot be written ({reason}); choose another place", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        reason: String,
    },
}
