//! A disk in memory, with faults.

use std::collections::VecDeque;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::disk::{Disk, DiskError, Operation, SECTOR};

/// Unit that a disk writes atomically when the power fails.
const ATOM: usize = 512;

/// Fault of the next write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// The disk says that it was written, and it was not.
    Lost,
    /// It goes to this position instead.
    Misdirected(u64),
    /// The disk says that it could not write. Some of it may be written.
    Failed,
}

#[derive(Clone, Debug)]
enum Step {
    Write { at: u64, bytes: Vec<u8>, fault: Option<WriteFault> },
    Flush { fails: bool },
}

/// Part of the unflushed writes that is on the disk.
#[derive(Clone, Copy, Debug)]
enum Keep {
    Nothing,
    All,
    /// Each sector is kept, dropped or torn.
    Some,
}

/// A disk in memory. Nothing happens by itself: [`SimulatedDisk::step`] carries out what was submitted, and the caller
/// decides when, and which faults there are. Where only part of something happens, the seed decides which.
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
    /// A blank disk of so many bytes.
    ///
    /// # Panics
    /// If that is no multiple of a sector.
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

    /// Whether a sector that is being written when the power fails may be half old and half new; it may be at first.
    pub fn set_tears(&mut self, tears: bool) {
        self.tears = tears;
    }

    /// Content of the disk, for tests that inspect or change it.
    pub fn sectors_mut(&mut self) -> &mut [u8] {
        &mut self.sectors
    }

    /// Whether a flush waits to be carried out.
    pub fn is_flushing(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Flush { .. }))
    }

    /// The next write suffers this.
    pub fn fail_write(&mut self, fault: WriteFault) {
        self.next_write = Some(fault);
    }

    /// The next flush fails. What it should have made durable is written in parts.
    pub fn fail_flush(&mut self) {
        self.next_flush_fails = true;
    }

    /// The next read fails.
    pub fn fail_read(&mut self) {
        self.next_read_fails = true;
    }

    /// Changes some bits of the sector at `at`.
    pub fn rot(&mut self, at: u64) {
        let first = self.below(SECTOR as u64);
        let count = 1 + self.below(16);
        for offset in first..(first + count).min(SECTOR as u64) {
            self.sectors[(at + offset) as usize] ^= 1 + self.below(255) as u8;
        }
    }

    /// Carries out submitted operations up to and including the first flush. `false` if there is none.
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

    /// The power fails: of what was not flushed, each sector is kept, dropped or torn.
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

    /// The process is killed and the machine is not: of what was submitted, writes up to some one reach the kernel. It
    /// writes them later; until a flush, the power may take them.
    pub fn kill_process(&mut self) {
        self.steps.retain(|step| matches!(step, Step::Write { .. }));
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
