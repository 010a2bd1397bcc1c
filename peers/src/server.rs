//! Server processes that are killed at the end of the run, and the errors of peers.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

/// A file system in memory, so that peers do not wait for a disk.
const MEMORY_DIRECTORY: &str = "/dev/shm";

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The server's program is not installed.
    #[error("{0} is not installed: apt-get install redis-server etcd-server")]
    Missing(&'static str),
    /// The result cannot be written.
    #[error("{path} cannot be written: {source}", path = path.display())]
    Result {
        /// Path of the result.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A system call failed.
    #[error("{action}: {source}")]
    System {
        /// The action that failed.
        action: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The server has ended or answers incorrectly.
    #[error("{0}")]
    Server(String),
    /// The user has interrupted the run.
    #[error("interrupted")]
    Interrupted,
}

impl PeerError {
    /// 2 for errors that the user can correct, 130 after an interrupt, otherwise 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Missing(_) | Self::Result { .. } => 2,
            Self::Interrupted => 130,
            Self::System { .. } | Self::Server(_) => 1,
        }
    }

    /// For `map_err`: the error that `action` failed.
    pub fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        |source| Self::System { action: action.into(), source }
    }
}

/// A flag that is set when the user interrupts. Without it, the signal would end this process before it
/// removes the servers' directory.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs handlers for SIGINT and SIGTERM.
    pub fn install() -> Result<Self, PeerError> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [libc::SIGINT, libc::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&flag))
                .map_err(PeerError::system("signals cannot be caught"))?;
        }
        Ok(Self(flag))
    }

    /// Returns an error if the user has interrupted.
    pub fn check(&self) -> Result<(), PeerError> {
        if self.0.load(Ordering::Relaxed) { Err(PeerError::Interrupted) } else { Ok(()) }
    }
}

/// A running server. It is killed when this value is dropped. If this process ends in another way, the kernel kills the
/// server.
#[derive(Debug)]
pub struct Server {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts `program`; its output goes to `<directory>/<label>.log`. Call this from the main thread: the kernel kills
    /// the server when the calling thread ends.
    pub fn start(
        program: &'static str,
        label: &str,
        directory: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Self, PeerError> {
        let log = directory.join(format!("{label}.log"));
        let file =
            File::create(&log).map_err(PeerError::system(format!("{} cannot be created", log.display())))?;
        let file_again = file.try_clone().map_err(PeerError::system("a descriptor cannot be duplicated"))?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(directory).stdin(Stdio::null()).stdout(file).stderr(file_again);
        let parent = std::process::id();
        // SAFETY: between fork and exec only prctl and getppid are called, which are async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                    return Err(io::Error::last_os_error());
                }
                // If the parent ended before the call of prctl, no signal will come.
                if libc::getppid() as u32 != parent {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                Ok(())
            });
        }
        let child = command.spawn().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => PeerError::Missing(program),
            _ => PeerError::System { action: format!("{program} cannot be started"), source },
        })?;
        Ok(Self { name: program, child, log })
    }

    /// Returns an error, with the last line of the server's log, if the server has ended.
    pub fn check(&mut self) -> Result<(), PeerError> {
        let status = self.child.try_wait().map_err(PeerError::system("a server cannot be watched"))?;
        match status {
            None => Ok(()),
            Some(status) => {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                let last = log.lines().next_back().unwrap_or("it has logged nothing").trim();
                Err(PeerError::Server(format!("{} has ended ({status}): {last}", self.name)))
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if the server has ended already and its status was collected.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// If a server has ended, returns its error instead of `error`: it explains more than a broken connection
/// does.
pub fn explain(error: PeerError, servers: &mut [Server]) -> PeerError {
    servers.iter_mut().find_map(|server| server.check().err()).unwrap_or(error)
}

/// The output of `program --version`.
pub fn version_text(program: &'static str) -> Result<String, PeerError> {
    let output = Command::new(program).arg("--version").output().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => PeerError::Missing(program),
        _ => PeerError::System { action: format!("{program} cannot be started"), source },
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A directory in memory, which is removed when the value is dropped.
pub fn memory_directory() -> Result<TempDir, PeerError> {
    tempfile::Builder::new().prefix("weft-peers-").tempdir_in(MEMORY_DIRECTORY).map_err(PeerError::system(
        format!("no directory can be made in {MEMORY_DIRECTORY} (tmpfs is needed)"),
    ))
}

/// Loopback addresses with ports that are free at the moment.
pub fn free_addresses<const COUNT: usize>() -> Result<[SocketAddr; COUNT], PeerError> {
    // All are bound before the first is released, so the ports differ.
    let bind = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        Ok((listener.local_addr()?, listener))
    };
    let bound: Vec<(SocketAddr, TcpListener)> = (0..COUNT)
        .map(|_| bind())
        .collect::<io::Result<_>>()
        .map_err(PeerError::system("no loopback port can be had"))?;
    Ok(std::array::from_fn(|index| bound[index].0))
}
