//! The disk of a machine. It survives the machine's crashes, takes time, and can have faults.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use weft_store::{Disk, DiskError, SECTOR, SimulatedDisk, WriteFault};
use weft_time::{Duration, Instant};

use crate::random::Stream;

/// A fault of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// At the next power failure, the writes in progress are torn, even within sectors.
    Torn,
    /// The next write is acknowledged but not performed.
    Lost,
    /// The next write goes to a wrong position.
    Misdirected,
    /// Bits of a sector flip.
    Rot,
    /// Whether writes and flushes fail from now on.
    Failing(bool),
    /// Whether writes outside of allocated space fail from now on.
    Full(bool),
    /// Flushes take this many times as long as usual.
    Slow(u32),
}

impl DiskFault {
    /// Whether the fault may destroy durable data.
    pub const fn is_damage(self) -> bool {
        matches!(self, Self::Lost | Self::Misdirected | Self::Rot)
    }
}

/// Range of a flush's duration in nanoseconds: an NVMe disk for data centres (30 to 80 us, with power-loss
/// protection).
const FLUSH_NS: Range<u64> = 30_000..80_000;

/// The disk of a machine. Clones refer to the same disk: one belongs to the machine, another to the code that
/// restarts the machine.
#[derive(Clone, Debug)]
pub struct MachineDisk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    disk: SimulatedDisk,
    random: Stream,
    /// The range that is not allocated: writes to it fail while the disk is full.
    sparse: Range<u64>,
    /// When the oldest flush completes, on the machine's clock.
    flush_ends: Option<Instant>,
    slower: u32,
    is_failing: bool,
    is_full: bool,
    is_damaged: bool,
}

impl MachineDisk {
    /// A blank disk of `bytes` bytes for machine number `machine`. The range `sparse` is not allocated.
    pub fn new(bytes: u64, sparse: Range<u64>, seed: u64, machine: u64) -> Self {
        let mut random = Stream::new(seed, "disk", machine);
        let mut disk = SimulatedDisk::new(bytes, random.below(u64::MAX));
        disk.set_tears(false);
        Self(Arc::new(Mutex::new(State {
            disk,
            random,
            sparse,
            flush_ends: None,
            slower: 1,
            is_failing: false,
            is_full: false,
            is_damaged: false,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics with the disk in hand")
    }

    /// When the machine must be notified next.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.state().flush_ends
    }

    /// Completes a flush that is due, and schedules the completion of the next one. Returns whether a flush
    /// has completed.
    pub fn advance(&self, now: Instant) -> bool {
        let state = &mut *self.state();
        let is_due = state.flush_ends.is_some_and(|end| end <= now);
        if is_due {
            state.disk.step();
            state.flush_ends = None;
        }
        if state.flush_ends.is_none() && state.disk.is_flushing() {
            let takes = state.random.between(FLUSH_NS.start, FLUSH_NS.end) * u64::from(state.slower);
            state.flush_ends = Some(now + Duration::from_ns(takes));
        }
        is_due
    }

    /// Performs all submitted operations at once, as a program waits for them during its recovery.
    pub fn wait(&self) {
        let state = &mut *self.state();
        while state.disk.step() {}
        state.flush_ends = None;
    }

    /// Applies a fault.
    pub fn inject(&self, fault: DiskFault) {
        let state = &mut *self.state();
        let place = state.random.below(state.disk.bytes() / SECTOR as u64) * SECTOR as u64;
        match fault {
            DiskFault::Torn => state.disk.set_tears(true),
            DiskFault::Lost => state.disk.fail_write(WriteFault::Lost),
            DiskFault::Misdirected => state.disk.fail_write(WriteFault::Misdirected(place)),
            DiskFault::Rot => state.disk.rot(place),
            DiskFault::Failing(is_failing) => state.is_failing = is_failing,
            DiskFault::Full(is_full) => state.is_full = is_full,
            DiskFault::Slow(times) => state.slower = times,
        }
        state.is_damaged |= fault.is_damage();
    }

    /// Whether durable data may be destroyed.
    pub fn is_damaged(&self) -> bool {
        self.state().is_damaged
    }

    /// Notes that all data on the disk was written again.
    pub fn is_whole_again(&self) {
        self.state().is_damaged = false;
    }

    /// Whether writes fail at present.
    pub fn fails(&self) -> bool {
        let state = self.state();
        state.is_failing || state.is_full
    }

    /// Called when the machine loses power.
    pub fn cut_power(&self) {
        let state = &mut *self.state();
        state.disk.cut_power();
        state.disk.set_tears(false);
        state.flush_ends = None;
    }

    /// Called when the machine's process is killed.
    pub fn kill_process(&self) {
        let state = &mut *self.state();
        state.disk.kill_process();
        state.flush_ends = None;
    }
}

impl Disk for MachineDisk {
    fn bytes(&self) -> u64 {
        self.state().disk.bytes()
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        let state = &mut *self.state();
        if state.is_failing || state.is_full && state.sparse.contains(&at) {
            state.disk.fail_write(WriteFault::Failed);
        }
        state.disk.write(at, bytes);
    }

    fn flush(&mut self) {
        let state = &mut *self.state();
        if state.is_failing {
            state.disk.fail_flush();
        }
        state.disk.flush();
    }

    fn poll(&mut self) -> Option<Result<(), DiskError>> {
        self.state().disk.poll()
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), DiskError> {
        self.state().disk.read(at, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> MachineDisk {
        MachineDisk::new(16 * SECTOR as u64, 8 * SECTOR as u64..12 * SECTOR as u64, 1, 0)
    }

    #[test]
    fn a_flush_takes_its_time_and_longer_on_a_slow_disk() {
        let mut disk = disk();
        let took = |disk: &mut MachineDisk| {
            disk.write(0, &[7; SECTOR]);
            disk.flush();
            assert!(!disk.advance(Instant::ZERO));
            assert_eq!(disk.poll(), None);
            let end = disk.next_deadline().unwrap();
            assert!(disk.advance(end));
            assert_eq!((disk.poll(), disk.next_deadline()), (Some(Ok(())), None));
            end.saturating_since(Instant::ZERO).as_ns()
        };
        assert!(FLUSH_NS.contains(&took(&mut disk)));
        disk.inject(DiskFault::Slow(10));
        assert!(took(&mut disk) >= 10 * FLUSH_NS.start);
        assert!(!disk.is_damaged());
    }

    #[test]
    fn a_full_disk_takes_what_is_allocated() {
        let mut disk = disk();
        disk.inject(DiskFault::Full(true));
        for (place, is_taken) in [(7, true), (8, false), (12, true)] {
            disk.write(place * SECTOR as u64, &[7; SECTOR]);
            disk.flush();
            disk.wait();
            assert_eq!(disk.poll().unwrap().is_ok(), is_taken, "sector {place}");
        }
    }
}
