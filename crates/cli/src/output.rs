//! Outputs of results. Files appear whole or not at all, and an unwritable path is found before the run.

use std::fs;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::StyledStr;
use weft_results::write_whole;

use crate::failure::Failure;

/// Output of a JSON result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    /// Standard output, which then holds nothing else.
    Standard,
    /// A file.
    File(PathBuf),
}

impl FromStr for Json {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "-" { Self::Standard } else { Self::File(text.into()) })
    }
}

/// Writes a JSON result to where the user wants it, and the text for people to standard output. If the JSON goes to
/// standard output, the text goes to standard error.
pub(crate) fn deliver(
    json: Option<&Json>,
    to_json: impl FnOnce() -> String,
    human: &str,
) -> Result<(), Failure> {
    match json {
        Some(Json::Standard) => {
            // If standard error is closed, the result is printed nevertheless.
            let _ = io::stderr().write_all(human.as_bytes());
            print(&to_json())
        }
        Some(Json::File(path)) => {
            write_whole(path, to_json().as_bytes())?;
            print(human)
        }
        None => print(human),
    }
}

/// Prints a help text, in colours if a terminal shows it and the user has not switched them off
/// (<https://no-color.org>).
pub(crate) fn print_help(text: &StyledStr) -> Result<(), Failure> {
    let is_colourless = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if io::stdout().is_terminal() && !is_colourless {
        print(&text.ansi().to_string())
    } else {
        print(&text.to_string())
    }
}

/// Writes to standard output. If the reader has closed it (a broken pipe, as with `head`), this is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("standard output cannot be written to ({error})")))
        }
        _ => Ok(()),
    }
}

/// Checks that a file can be written at this path, without leaving anything there.
pub(crate) fn check_file(path: &Path) -> Result<(), Failure> {
    let refuse = |reason: String| {
        Err(Failure::at(path, format!("cannot be written ({reason}); choose another place")))
    };
    if path.as_os_str().is_empty() {
        return Err(Failure::new("a file without a name cannot be written; give it one"));
    }
    if path.is_dir() {
        return refuse("it is a folder".into());
    }
    let folder = parent(path);
    if !folder.is_dir() {
        return refuse(format!("there is no folder {}", folder.display()));
    }
    match tempfile_in(folder) {
        Ok(()) => Ok(()),
        Err(error) => refuse(error.to_string()),
    }
}

/// Does what [`check_file`] does, for the file of a JSON result.
pub(crate) fn check_json(json: Option<&Json>) -> Result<(), Failure> {
    match json {
        Some(Json::File(path)) => check_file(path),
        _ => Ok(()),
    }
}

/// The folder that a file is in.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn tempfile_in(folder: &Path) -> io::Result<()> {
    let probe = folder.join(format!(".weft-{}.probe", std::process::id()));
    fs::File::create_new(&probe)?;
    fs::remove_file(&probe)
}

/// A folder that is filled beside its final path under a temporary name, and moved when it is complete. If it is
/// dropped before, nothing is left.
#[derive(Debug)]
pub(crate) struct Staging {
    target: PathBuf,
    staged: PathBuf,
}

impl Staging {
    /// Begins a folder whose final path is `target`.
    pub(crate) fn new(target: &Path) -> Result<Self, Failure> {
        let refuse = |reason: String| {
            Failure::at(target, format!("the folder cannot be created ({reason}); choose another place"))
        };
        let name = target.file_name().ok_or_else(|| refuse("it has no name of its own".into()))?;
        if target.exists() && !target.is_dir() {
            return Err(refuse("a file is there".into()));
        }
        let mut partial = std::ffi::OsString::from(".");
        partial.push(name);
        partial.push(".weft-partial");
        let staged = target.with_file_name(partial);
        // A run that was interrupted may have left the temporary folder.
        let _ = fs::remove_dir_all(&staged);
        fs::create_dir(&staged).map_err(|error| refuse(error.to_string()))?;
        Ok(Self { target: target.to_owned(), staged })
    }

    /// The temporary path, to write files to.
    pub(crate) fn path(&self) -> &Path {
        &self.staged
    }

    /// Moves all files to the final folder. Files of the same name are replaced; other files there stay.
    pub(crate) fn publish(self) -> Result<(), Failure> {
        let moved = || -> io::Result<()> {
            fs::create_dir_all(&self.target)?;
            for entry in fs::read_dir(&self.staged)? {
                let entry = entry?;
                fs::rename(entry.path(), self.target.join(entry.file_name()))?;
            }
            Ok(())
        };
        moved().map_err(|error| {
            Failure::at(&self.target, format!("cannot be written ({error}); choose another place"))
        })
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // If this fails too, nothing more can be done.
        let _ = fs::remove_dir_all(&self.staged);
    }
}
