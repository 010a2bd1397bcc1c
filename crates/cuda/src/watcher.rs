//! A kernel that spins until it is told that data have come, and then counts what is not there.

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::Place;
use crate::driver::{CudaError, Gpu, Kernel, Pinned, Stream};

/// The kernel as text, which the driver compiles for its GPU.
const TEXT: &str = concat!(include_str!("watch.ptx"), "\0");
/// Threads of the one block.
const THREADS: u32 = 256;

/// Words of the report, as the kernel has them.
const ROUND: usize = 0;
const WRONG_WORDS: usize = 1;
const WRONG_ROUNDS: usize = 2;
const TOLD: usize = 3;
const STOP: usize = 4;
const REPORT_BYTES: usize = 4_096;

/// Location of the flag by which the kernel is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// In the memory that is watched, at this offset: a later write of the peer.
    InMemory(usize),
    /// In a word of the host's, which [`Watcher::tell`] writes.
    OfHost,
}

/// Findings of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Rounds that were checked.
    pub rounds: u64,
    /// Rounds in which words were not there.
    pub wrong_rounds: u64,
    /// The number of such words.
    pub wrong_words: u64,
}

/// A kernel that runs. It ends when its rounds are over, or when this is dropped.
#[derive(Debug)]
pub struct Watcher {
    report: Pinned,
    stream: Stream,
    _kernel: Kernel,
}

/// Word `index` of the data of a round, counted from 1.
pub fn expected_word(round: u64, index: u32) -> u32 {
    (round as u32).wrapping_mul(0x9e37_79b1).wrapping_add(index.wrapping_mul(0x85eb_ca77))
}

impl Watcher {
    /// Starts a kernel that checks so many words from the beginning of `place`, once in each round.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// If words or flag lie outside.
    ///
    /// # Safety
    /// The memory at `place` outlives the watcher.
    #[allow(unsafe_code)]
    pub unsafe fn start(
        gpu: &Arc<Gpu>,
        place: &Place,
        words: u32,
        flag: Flag,
        rounds: u64,
    ) -> Result<Self, CudaError> {
        assert!(words as usize * 4 <= place.bytes);
        let text = CStr::from_bytes_with_nul(TEXT.as_bytes()).expect("the text has one 0, at its end");
        let kernel = Kernel::new(gpu, text, c"watch")?;
        let report = Pinned::new(gpu, REPORT_BYTES)?;
        let stream = Stream::new(gpu)?;
        let (report_address, _) = report.addresses();
        let flag = match flag {
            Flag::InMemory(offset) => {
                assert!(offset.is_multiple_of(8) && offset + 8 <= place.bytes);
                place.gpu + offset as u64
            }
            Flag::OfHost => report_address + TOLD as u64 * 8,
        };
        let mut parameters = [flag, place.gpu, words.into(), rounds, report_address];
        // Safety: these are the kernel's parameters. The report is freed behind the kernel, the rest by the caller.
        unsafe { kernel.launch(&stream, THREADS, &mut parameters) }?;
        Ok(Self { report, stream, _kernel: kernel })
    }

    /// Tells the kernel that the data of this round have come, if its flag is the host's.
    pub fn tell(&self, round: u64) {
        self.report.word(TOLD).store(round, Ordering::Release);
    }

    /// Rounds that the kernel has checked.
    pub fn checked(&self) -> u64 {
        self.report.word(ROUND).load(Ordering::Acquire)
    }

    /// Whether the kernel has ended.
    ///
    /// # Errors
    /// It has failed.
    pub fn has_ended(&self) -> Result<bool, CudaError> {
        self.stream.is_done()
    }

    /// Ends the kernel where it is.
    ///
    /// # Errors
    /// It has failed.
    pub fn finish(self) -> Result<Findings, CudaError> {
        self.stop();
        self.stream.wait()?;
        let word = |index| self.report.word(index).load(Ordering::Acquire);
        Ok(Findings { rounds: word(ROUND), wrong_rounds: word(WRONG_ROUNDS), wrong_words: word(WRONG_WORDS) })
    }

    fn stop(&self) {
        self.report.word(STOP).store(1, Ordering::Release);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop();
        // Nobody is left to be told of a failure.
        let _ = self.stream.wait();
    }
}
