//! Random runs of a store on a disk with faults, compared with a model of what recovery must find.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_store::{Found, Parameters, RecoveryError, Refusal, SECTOR, SimulatedDisk, Store, WriteFault};

/// Faults of the medium, in addition to power cuts, killed processes and errors that the disk reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// No fault.
    Intact,
    /// At most one fault in a run: no durable record may be lost without a report.
    OneFault,
    /// Any number of faults: nothing may be found that was not appended.
    Arbitrary,
}

/// Outcome of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    pub recoveries: u32,
    pub snapshots: u64,
    /// Whether the run ended because recovery reported damage.
    pub damaged: bool,
}

/// A snapshot that was begun: the number of records that it reflects, and its chunks.
struct Attempt {
    covers: u64,
    chunks: Vec<Vec<u8>>,
    ended: bool,
}

struct Run {
    random: Xoshiro256PlusPlus,
    medium: Medium,
    parameters: Parameters,
    disk: SimulatedDisk,
    store: Store,
    /// Records that were appended in this run, or found by recovery.
    records: Vec<Vec<u8>>,
    durable: u64,
    attempts: Vec<Attempt>,
    /// Index of the newest attempt that is durable.
    durable_attempt: Option<usize>,
    faults: u32,
    summary: Summary,
}

/// Runs `steps` steps.
///
/// # Errors
/// The violation that was found.
pub fn run(parameters: Parameters, medium: Medium, seed: u64, steps: u32) -> Result<Summary, String> {
    let mut disk = SimulatedDisk::new(parameters.disk_bytes(), seed);
    let mut store = Store::format(parameters, u128::from(seed) << 64 | 77, &mut disk);
    disk.step();
    store.pump(&mut disk).map_err(|error| error.to_string())?;
    let mut run = Run {
        random: Xoshiro256PlusPlus::seed_from_u64(seed),
        medium,
        parameters,
        disk,
        store,
        records: Vec::new(),
        durable: 0,
        attempts: Vec::new(),
        durable_attempt: None,
        faults: 0,
        summary: Summary::default(),
    };
    for _ in 0..steps {
        run.step()?;
        if run.summary.damaged {
            return Ok(run.summary);
        }
    }
    run.crash()?;
    Ok(run.summary)
}

impl Run {
    fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit
    }

    fn bytes(&mut self) -> Vec<u8> {
        let limit = if self.below(8) == 0 { self.store.record_max() as u64 + 1 } else { 200 };
        let length = self.below(limit) as usize;
        let mut bytes = vec![0; length];
        self.random.fill_bytes(&mut bytes);
        bytes
    }

    fn step(&mut self) -> Result<(), String> {
        match self.below(100) {
            0..40 => self.append(),
            40..60 => self.pump(),
            60..85 => {
                self.disk.step();
                self.pump()
            }
            85..95 => self.snapshot(),
            95..97 => {
                self.damage();
                Ok(())
            }
            97 => {
                match self.below(3) {
                    0 => self.disk.fail_write(WriteFault::Failed),
                    1 => self.disk.fail_flush(),
                    _ => {}
                }
                Ok(())
            }
            _ => self.crash(),
        }
    }

    fn append(&mut self) -> Result<(), String> {
        let bytes = self.bytes();
        match self.store.append(&bytes) {
            Ok(number) if number == self.records.len() as u64 => self.records.push(bytes),
            Ok(number) => return Err(format!("record {} got the number {number}", self.records.len())),
            Err(Refusal::TooLong) => return Err(format!("{} bytes are too long", bytes.len())),
            Err(Refusal::Busy | Refusal::Full | Refusal::Failed) => {}
        }
        Ok(())
    }

    fn pump(&mut self) -> Result<(), String> {
        if self.store.pump(&mut self.disk).is_err() {
            if self.store.append(&[]) != Err(Refusal::Failed) || self.store.pump(&mut self.disk).is_ok() {
                return Err("the store goes on after an error of its disk".into());
            }
            return self.crash();
        }
        if self.store.durable() > self.store.next_record() {
            return Err("records are durable that were not appended".into());
        }
        self.durable = self.durable.max(self.store.durable());
        if let Some(last) = self.attempts.last()
            && last.ended
            && !self.store.is_writing_snapshot()
        {
            self.durable_attempt = Some(self.attempts.len() - 1);
            self.summary.snapshots = self.store.snapshot();
        }
        Ok(())
    }

    fn snapshot(&mut self) -> Result<(), String> {
        if !self.store.is_writing_snapshot() {
            if self.store.begin_snapshot().is_ok() {
                let covers = self.store.next_record();
                self.attempts.push(Attempt { covers, chunks: Vec::new(), ended: false });
            }
            return Ok(());
        }
        if self.attempts.last().is_none_or(|attempt| attempt.ended) {
            return Ok(());
        }
        let ends = self.below(4) == 0;
        let attempt = self.attempts.len() - 1;
        let mut chunk = (attempt as u64).to_le_bytes().to_vec();
        chunk.extend(self.bytes().into_iter().skip(8));
        match self.store.put_chunk(&chunk) {
            Ok(()) => self.attempts[attempt].chunks.push(chunk),
            Err(Refusal::Full) => return Ok(()),
            Err(_) => {}
        }
        if ends {
            self.store.end_snapshot();
            self.attempts[attempt].ended = true;
        }
        Ok(())
    }

    /// Causes a fault of the medium, if the run may have another.
    fn damage(&mut self) {
        let allowed = match self.medium {
            Medium::Intact => 0,
            Medium::OneFault => 1,
            Medium::Arbitrary => 1_000,
        };
        if self.faults == allowed {
            return;
        }
        self.faults += 1;
        let sectors = self.disk.sectors_mut().len() as u64 / SECTOR as u64;
        let at = self.below(sectors) * SECTOR as u64;
        match self.below(4) {
            0 => self.disk.fail_write(WriteFault::Lost),
            // If a misdirected write hit the other copy of the same batch, that would be two faults. So with one
            // fault allowed, it goes only to the superblocks and the mirror.
            1 => {
                let room = 4 + 2 * u64::from(self.parameters.batch_sectors);
                let at = if self.medium == Medium::OneFault { at % (room * SECTOR as u64) } else { at };
                self.disk.fail_write(WriteFault::Misdirected(at));
            }
            _ => self.disk.rot(at),
        }
    }

    fn crash(&mut self) -> Result<(), String> {
        if self.below(3) == 0 {
            self.disk.kill_process();
        } else {
            self.disk.cut_power();
        }
        if self.below(8) == 0 {
            self.disk.fail_read();
            let failed = Store::recover(self.parameters, &mut self.disk, |_| {});
            if !matches!(failed, Err(RecoveryError::Disk(_))) {
                return Err("a read that failed was not noticed".into());
            }
        }
        let mut chunks = Vec::new();
        let mut found = Vec::new();
        let recovered = Store::recover(self.parameters, &mut self.disk, |what| match what {
            Found::Chunk(chunk) => chunks.push(chunk.to_vec()),
            Found::Record(number, bytes) => found.push((number, bytes.to_vec())),
        });
        self.summary.recoveries += 1;
        let store = match recovered {
            Ok(store) => store,
            Err(RecoveryError::Damaged(_)) if self.faults > 0 => {
                self.summary.damaged = true;
                return Ok(());
            }
            Err(error) => return Err(format!("after {} faults of the medium: {error}", self.faults)),
        };
        let covers = self.check_chunks(&chunks)?;
        let next = store.next_record();
        let first = found.first().map_or(next, |(number, _)| *number);
        if first > covers {
            return Err(format!("records {covers} to {first} are neither in the snapshot nor in the log"));
        }
        for (expected, (number, bytes)) in (first..).zip(&found) {
            if *number != expected || self.records.get(*number as usize) != Some(bytes) {
                return Err(format!("record {number} was never appended like that"));
            }
        }
        if first + found.len() as u64 != next || next < covers.min(self.durable) {
            return Err("the end of the log is not behind its last record".into());
        }
        if self.medium != Medium::Arbitrary && next < self.durable {
            return Err(format!("{} records were durable, {next} are found", self.durable));
        }
        self.store = store;
        self.records.truncate(next as usize);
        self.durable = self.durable.min(next);
        // The snapshot in progress is abandoned.
        self.attempts.push(Attempt { covers: 0, chunks: Vec::new(), ended: false });
        Ok(())
    }

    /// The number of records that the recovered snapshot reflects.
    fn check_chunks(&self, chunks: &[Vec<u8>]) -> Result<u64, String> {
        let newest = self.durable_attempt.filter(|_| self.medium != Medium::Arbitrary);
        let Some(first) = chunks.first() else {
            let empty = newest.is_none_or(|attempt| self.attempts[attempt].chunks.is_empty());
            let covers = newest.map_or(0, |attempt| self.attempts[attempt].covers);
            return if empty {
                Ok(covers.max(self.covers_without_chunks()))
            } else {
                Err("the snapshot is lost".into())
            };
        };
        let number = u64::from_le_bytes(first[..8].try_into().expect("eight bytes")) as usize;
        let attempt = self.attempts.get(number).ok_or("a snapshot that nobody has written")?;
        if !attempt.ended || attempt.chunks != chunks {
            return Err(format!("snapshot {number} is not found as it was written"));
        }
        if newest.is_some_and(|newest| number < newest) {
            return Err("an older snapshot is found than the newest durable one".into());
        }
        Ok(attempt.covers)
    }

    /// The most records reflected by a completed snapshot without chunks; such snapshots cannot be distinguished.
    fn covers_without_chunks(&self) -> u64 {
        let ended = self.attempts.iter().filter(|attempt| attempt.ended && attempt.chunks.is_empty());
        ended.map(|attempt| attempt.covers).max().unwrap_or(0)
    }
}
