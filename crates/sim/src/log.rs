//! The log of a run: a hash that is equal for equal runs, and observers (taps).

use std::cell::RefCell;
use std::fmt;
use std::io::Write;
use std::rc::Rc;

use weft_time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use crate::MachineId;
use crate::faults::FaultKind;

/// Direction of a frame, as seen from the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the machine.
    In,
    /// From the machine.
    Out,
}

/// The reason why a frame did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DropCause {
    /// A loss fault.
    Loss,
    /// Corruption that the frame check sequence detected.
    FcsError,
    /// A full output queue of the switch.
    QueueFull,
    /// A partition or a one-way cut.
    Cut,
    /// The sender crashed while it was sending the frame.
    SenderCrashed,
    /// The receiver is down, or crashed before it handled the frame.
    ReceiverDown,
    /// The receiver is paused, and its buffer is full.
    ReceiverFull,
    /// The frame is too short for an Ethernet header.
    Malformed,
    /// The frame's destination is the port that it came from.
    SamePort,
}

/// Events of machines and frames, other than arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A frame from or to this machine was dropped.
    Dropped(MachineId, DropCause),
    /// The machine has crashed.
    Crashed(MachineId),
    /// A crash of the machine was vetoed by the director.
    CrashVetoed(MachineId),
    /// The machine has restarted empty; the number counts its restarts.
    Restarted(MachineId, u32),
    /// The machine is paused.
    Paused(MachineId),
    /// The machine continues.
    Resumed(MachineId),
    /// A lasting fault has started.
    FaultBegan(FaultKind),
    /// A lasting fault has ended.
    FaultEnded(FaultKind),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dropped(machine, cause) => write!(f, "{machine} dropped {cause:?}"),
            Self::Crashed(machine) => write!(f, "{machine} crashed"),
            Self::CrashVetoed(machine) => write!(f, "{machine} crash vetoed"),
            Self::Restarted(machine, incarnation) => {
                write!(f, "{machine} restarted as incarnation {incarnation}")
            }
            Self::Paused(machine) => write!(f, "{machine} paused"),
            Self::Resumed(machine) => write!(f, "{machine} resumed"),
            Self::FaultBegan(kind) => write!(f, "fault {kind} began"),
            Self::FaultEnded(kind) => write!(f, "fault {kind} ended"),
        }
    }
}

/// An observer of every frame at every port, and of every fault. Captures, traces and text logs are taps.
pub trait Tap {
    /// Announces a machine. Called once for each, in the order of their numbers, before all other calls about
    /// it.
    fn machine(&mut self, machine: MachineId, name: &str) {
        let _ = (machine, name);
    }

    /// The last bit of a frame has passed the port of `machine` at time `at` of the world. An outgoing frame
    /// is reported when it reaches the switch, so the times of a port may decrease by up to the link's
    /// propagation delay.
    fn frame(&mut self, at: Instant, machine: MachineId, direction: Direction, frame: &[u8]) {
        let _ = (at, machine, direction, frame);
    }

    /// The length of the switch's output queue towards `machine` at time `at`, including the frame that was
    /// just added: bytes on the wire.
    fn queue(&mut self, at: Instant, machine: MachineId, bytes: u64) {
        let _ = (at, machine, bytes);
    }

    /// Any other event.
    fn event(&mut self, at: Instant, event: &Event) {
        let _ = (at, event);
    }
}

/// A tap that its owner can still access, to read or finish it after the run.
impl<T: Tap> Tap for Rc<RefCell<T>> {
    fn machine(&mut self, machine: MachineId, name: &str) {
        self.borrow_mut().machine(machine, name);
    }

    fn frame(&mut self, at: Instant, machine: MachineId, direction: Direction, frame: &[u8]) {
        self.borrow_mut().frame(at, machine, direction, frame);
    }

    fn queue(&mut self, at: Instant, machine: MachineId, bytes: u64) {
        self.borrow_mut().queue(at, machine, bytes);
    }

    fn event(&mut self, at: Instant, event: &Event) {
        self.borrow_mut().event(at, event);
    }
}

/// Writes one line per frame and event: picoseconds, kind, and a frame's length and hash.
#[derive(Debug)]
pub struct TextLog<W> {
    out: W,
    error: Option<std::io::Error>,
}

impl<W: Write> TextLog<W> {
    /// Writes to `out`, which should be buffered.
    pub const fn new(out: W) -> Self {
        Self { out, error: None }
    }

    /// Flushes and returns the writer.
    ///
    /// # Errors
    /// The first error of the writer. Nothing was written after it.
    pub fn finish(mut self) -> std::io::Result<W> {
        self.error.map_or(Ok(()), Err)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        if self.error.is_none() {
            self.error = self.out.write_fmt(line).err();
        }
    }
}

impl<W: Write> Tap for TextLog<W> {
    fn machine(&mut self, machine: MachineId, name: &str) {
        self.line(format_args!("{machine} is {name}\n"));
    }

    fn frame(&mut self, at: Instant, machine: MachineId, direction: Direction, frame: &[u8]) {
        let direction = match direction {
            Direction::In => "in",
            Direction::Out => "out",
        };
        let (at, length, hash) = (at.as_ps(), frame.len(), xxh3_64(frame));
        self.line(format_args!("{at} {machine} {direction} {length} bytes {hash:016x}\n"));
    }

    fn event(&mut self, at: Instant, event: &Event) {
        self.line(format_args!("{} {event}\n", at.as_ps()));
    }
}

/// Kinds of records that the hash covers.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Record {
    Sent = 1,
    Delivered,
    Woken,
    Dropped,
    Crashed,
    CrashVetoed,
    Restarted,
    Paused,
    Resumed,
    FaultBegan,
    FaultEnded,
}

/// A hash over all events in order: time, kind, machine, and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogHash {
    hash: u64,
    records: u64,
}

impl LogHash {
    /// Hashes a record together with the hash of all records before it.
    pub(crate) fn record(&mut self, at: Instant, record: Record, subject: u64, bytes: &[u8]) {
        let words = [self.hash, at.as_ps(), record as u64 | subject << 8, bytes.len() as u64, xxh3_64(bytes)];
        let mut block = [0; 40];
        for (place, word) in block.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        self.hash = xxh3_64(&block);
        self.records += 1;
    }

    pub(crate) fn record_event(&mut self, at: Instant, event: &Event) {
        let (record, subject) = match *event {
            Event::Dropped(machine, cause) => {
                (Record::Dropped, machine.index() as u64 | (cause as u64) << 16)
            }
            Event::Crashed(machine) => (Record::Crashed, machine.index() as u64),
            Event::CrashVetoed(machine) => (Record::CrashVetoed, machine.index() as u64),
            Event::Restarted(machine, incarnation) => {
                (Record::Restarted, machine.index() as u64 | u64::from(incarnation) << 16)
            }
            Event::Paused(machine) => (Record::Paused, machine.index() as u64),
            Event::Resumed(machine) => (Record::Resumed, machine.index() as u64),
            Event::FaultBegan(kind) => (Record::FaultBegan, kind as u64),
            Event::FaultEnded(kind) => (Record::FaultEnded, kind as u64),
        };
        self.record(at, record, subject, &[]);
    }

    /// Number of records that the hash covers.
    pub const fn records(&self) -> u64 {
        self.records
    }
}

/// Prints 16 hexadecimal digits.
impl fmt::Display for LogHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.hash)
    }
}
