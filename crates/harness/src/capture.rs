//! Captures: one pcapng per port.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::PathBuf;

use thiserror::Error;
use weft_sim::{Direction, MachineId, Tap};
use weft_time::Instant;
use weft_wire::pcapng;

/// The part of a run that is captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureWindow {
    /// From this time on.
    pub from: Instant,
    /// Up to this time.
    pub until: Instant,
}

impl CaptureWindow {
    /// The whole run.
    pub const ALL: Self = Self { from: Instant::ZERO, until: Instant::FAR_FUTURE };
}

/// A capture could not be written.
#[derive(Debug, Error)]
#[error("cannot write {path}: {source}")]
pub struct CaptureError {
    /// The file.
    pub path: PathBuf,
    /// Error of the system.
    pub source: io::Error,
}

/// Writes the frames of each port to a file of its own.
pub struct Capture {
    folder: PathBuf,
    window: CaptureWindow,
    ports: Vec<Port>,
    error: Option<CaptureError>,
}

struct Port {
    path: PathBuf,
    /// `None` once writing has failed or ended.
    writer: Option<pcapng::Writer<BufWriter<File>>>,
}

impl Capture {
    /// A capture into files of this folder.
    pub fn new(folder: PathBuf, window: CaptureWindow) -> Self {
        Self { folder, window, ports: Vec::new(), error: None }
    }

    /// Closes all files.
    ///
    /// # Errors
    /// The first thing that went wrong, at any time.
    pub fn finish(&mut self) -> Result<(), CaptureError> {
        for index in 0..self.ports.len() {
            if let Some(writer) = self.ports[index].writer.take() {
                let result = writer.finish().and_then(|mut file| io::Write::flush(&mut file));
                self.note(index, result);
            }
        }
        self.error.take().map_or(Ok(()), Err)
    }

    fn note(&mut self, port: usize, result: io::Result<()>) {
        if let Err(source) = result {
            self.ports[port].writer = None;
            let path = self.ports[port].path.clone();
            self.error.get_or_insert(CaptureError { path, source });
        }
    }
}

impl Tap for Capture {
    fn machine(&mut self, machine: MachineId, name: &str) {
        assert_eq!(machine.index(), self.ports.len(), "machines are named in order");
        let path = self.folder.join(format!("{name}-port0.pcapng"));
        let opened = fs::create_dir_all(&self.folder)
            .and_then(|()| File::create(&path))
            .and_then(|file| pcapng::Writer::new(BufWriter::new(file), &[&format!("{name}/port0")]));
        let (writer, result) = match opened {
            Ok(writer) => (Some(writer), Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.ports.push(Port { path, writer });
        self.note(machine.index(), result);
    }

    fn frame(&mut self, at: Instant, machine: MachineId, direction: Direction, frame: &[u8]) {
        if at < self.window.from || at >= self.window.until {
            return;
        }
        let Some(writer) = &mut self.ports[machine.index()].writer else { return };
        let direction = match direction {
            Direction::In => pcapng::Direction::Inbound,
            Direction::Out => pcapng::Direction::Outbound,
        };
        let result = writer.write(0, at.as_ns(), direction, frame);
        self.note(machine.index(), result);
    }
}
