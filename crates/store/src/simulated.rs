//! A disk in memory, with faults.

use std::collections::VecDeque;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::disk::{Disk, DiskError, Operation, SECTOR};

/// Unit of bytes that the disk writes atomically when the power fails.
const ATOM: usize = 512;

/// A fault of the next write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// The disk reports success but has not written.
    Lost,
    /// The data is written to this position instead.
    Misdirected(u64),
    /// The disk reports an error. A part of the data may be written.
    Failed,
}

#[derive(Clone, Debug)]
enum Step {
    Write { at: u64, bytes: Vec<u8>, fault: Option<WriteFault> },
    Flush { fails: bool },
}

/// Which part of the unflushed writes reaches the disk.
#[derive(Clone, Copy, Debug)]
enum Keep {
    Nothing,
    All,
    /// Each sector is kept, dropped or torn.
    Some,
}

/// A disk in memory. Submitted operations are executed only by [`SimulatedDisk::step`]: the caller decides when,
/// and which faults occur. If an operation is executed in part, the seed decides which part.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    sectors: Vec<u8>,
    steps: VecDeque<Step>,
    ended: VecDeque<Result<(), DiskError>>,
    random: Xoshiro256PlusPlus,
    next_write: Option<WriteFault>,
    next_flush_fails: bool,
    next_read_fails: bool,
    tears: bool,
}

impl SimulatedDisk {
    /// A blank disk of `bytes` bytes.
    ///
    /// # Panics
    /// If `bytes` is not a multiple of a sector.
    pub fn new(bytes: u64, seed: u64) -> Self {
        assert!(bytes.is_multiple_of(SECTOR as u64), "a disk has whole sectors");
        Self {
            sectors: vec![0; bytes as usize],
            steps: VecDeque::new(),
            ended: VecDeque::new(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            next_write: None,
            next_flush_fails: false,
            next_read_fails: false,
            tears: true,
        }
    }

    /// Sets whether a sector that is being written when the power fails may end up half old and half new. By
    /// default it may.
    pub fn set_tears(&mut self, tears: bool) {
        self.tears = tears;
    }

    /// Content of the disk, for tests that inspect or change it.
    pub fn sectors_mut(&mut self) -> &mut [u8] {
        &mut self.sectors
    }

    /// Whether a flush is submitted and not executed yet.
    pub fn is_flushing(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Flush { .. }))
    }

    /// Sets the fault of the next write.
    pub fn fail_write(&mut self, fault: WriteFault) {
        self.next_write = Some(fault);
    }

    /// Makes the next flush fail. The writes that it covers are executed in part.
    pub fn fail_flush(&mut self) {
        self.next_flush_fails = true;
    }

    /// Makes the next read fail.
    pub fn fail_read(&mut self) {
        self.next_read_fails = true;
    }

    /// Changes some bits in the sector at `at`.
    pub fn rot(&mut self, at: u64) {
        let first = self.below(SECTOR as u64);
        let count = 1 + self.below(16);
        for offset in first..(first + count).min(SECTOR as u64) {
            self.sectors[(at + offset) as usize] ^= 1 + self.below(255) as u8;
        }
    }

    /// Executes submitted operations up to and including the first flush. Returns `false` if there is none.
    pub fn step(&mut self) -> bool {
        if !self.is_flushing() {
            return false;
        }
        let mut outcome = Ok(());
        let mut written = Vec::new();
        while let Some(step) = self.steps.pop_front() {
            match step {
                Step::Write { at, bytes, fault: None } => written.push((at, bytes)),
                Step::Write { fault: Some(WriteFault::Lost), .. } => {}
                Step::Write { bytes, fault: Some(WriteFault::Misdirected(to)), .. } => {
                    written.push((to, bytes))
                }
                Step::Write { at, bytes, fault: Some(WriteFault::Failed) } => {
                    outcome = error(Operation::Write);
                    self.write_in_part(Keep::Some, at, &bytes);
                }
                Step::Flush { fails: false } => break,
                Step::Flush { fails: true } => {
                    outcome = error(Operation::Flush);
                    let keep = self.how_much();
                    for (at, bytes) in std::mem::take(&mut written) {
                        self.write_in_part(keep, at, &bytes);
                    }
                    break;
                }
            }
        }
        for (at, bytes) in written {
            self.put(at, &bytes);
        }
        self.ended.push_back(outcome);
        true
    }

    /// Cuts the power: each sector that was not flushed is kept, dropped or torn.
    pub fn cut_power(&mut self) {
        let keep = self.how_much();
        for step in std::mem::take(&mut self.steps) {
            if let Step::Write { at, bytes, fault } = step {
                match fault {
                    None | Some(WriteFault::Failed) => self.write_in_part(keep, at, &bytes),
                    Some(WriteFault::Lost) => {}
                    Some(WriteFault::Misdirected(to)) => self.write_in_part(keep, to, &bytes),
                }
            }
        }
        self.forget();
    }

    /// Kills the process but not the machine: the submitted writes up to a random one reach the kernel, which
    /// writes them later. Until a flush, a power cut may still lose them.
    pub fn kill_process(&mut self) {
        // Nobody is told any more that a write has failed.
        let failed = Some(WriteFault::Failed);
        self.steps.retain(|step| matches!(step, Step::Write { fault, .. } if *fault != failed));
        let kept = self.below(self.steps.len() as u64 + 1);
        self.steps.truncate(kept as usize);
        self.forget();
    }

    fn forget(&mut self) {
        self.ended.clear();
        (self.next_write, self.next_flush_fails, self.next_read_fails) = (None, false, false);
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.sectors[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn how_much(&mut self) -> Keep {
        match self.below(4) {
            0 => Keep::Nothing,
            1 => Keep::All,
            _ => Keep::Some,
        }
    }

    fn write_in_part(&mut self, keep: Keep, at: u64, bytes: &[u8]) {
        for (sector, content) in (0u64..).zip(bytes.chunks(SECTOR)) {
            let at = at + sector * SECTOR as u64;
            let first = self.below((SECTOR / ATOM) as u64 + 1) as usize * ATOM;
            let fate = self.below(4);
            match (keep, if self.tears { fate } else { fate % 2 }) {
                (Keep::Nothing, _) | (Keep::Some, 0) => {}
                (Keep::All, _) | (Keep::Some, 1) => self.put(at, content),
                (Keep::Some, 2) => self.put(at, &content[..first]),
                (Keep::Some, _) => self.put(at + first as u64, &content[first..]),
            }
        }
    }
}

fn error(operation: Operation) -> Result<(), DiskError> {
    Err(DiskError { operation, cause: "simulated fault".into() })
}

impl Disk for SimulatedDisk {
    fn bytes(&self) -> u64 {
        self.sectors.len() as u64
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        assert!(at.is_multiple_of(SECTOR as u64) && bytes.len().is_multiple_of(SECTOR), "whole sectors");
        assert!(at + bytes.len() as u64 <= self.bytes(), "within the disk");
        let mut fault = self.next_write.take();
        if let Some(WriteFault::Misdirected(to)) = &mut fault {
            *to = (*to / SECTOR as u64 * SECTOR as u64).min(self.bytes() - bytes.len() as u64);
        }
        self.steps.push_back(Step::Write { at, bytes: bytes.to_vec(), fault });
    }

    fn flush(&mut self) {
        let fails = std::mem::take(&mut self.next_flush_fails);
        self.steps.push_back(Step::Flush { fails });
    }

    fn poll(&mut self) -> Option<Result<(), DiskError>> {
        self.ended.pop_front()
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), DiskError> {
        if std::mem::take(&mut self.next_read_fails) {
            return error(Operation::Read);
        }
        bytes.copy_from_slice(&self.sectors[at as usize..][..bytes.len()]);
        let end = at + bytes.len() as u64;
        for step in &self.steps {
            let Step::Write { at: place, bytes: written, .. } = step else { continue };
            let (first, last) = (at.max(*place), end.min(place + written.len() as u64));
            if first < last {
                let piece = &written[(first - place) as usize..(last - place) as usize];
                bytes[(first - at) as usize..(last - at) as usize].copy_from_slice(piece);
            }
        }
        Ok(())
    }
}
