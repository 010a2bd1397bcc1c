//! A kernel that waits for a notification that data have arrived, and then counts the words that are missing.

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::Place;
use crate::driver::{CudaError, Gpu, Kernel, Pinned, Stream};

/// The kernel as text, which the driver compiles for its GPU.
const TEXT: &str = concat!(include_str!("watch.ptx"), "\0");
/// Number of threads of the only block.
const THREADS: u32 = 256;

/// Indices of words in the report; the kernel uses the same.
const ROUND: usize = 0;
const WRONG_WORDS: usize = 1;
const WRONG_ROUNDS: usize = 2;
const TOLD: usize = 3;
const STOP: usize = 4;
const REPORT_BYTES: usize = 4_096;

/// Location of the flag that notifies the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// In the watched memory, at this offset. A later write of the peer sets it.
    InMemory(usize),
    /// In a word of host memory, which [`Watcher::tell`] writes.
    OfHost,
}

/// The kernel's findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Number of rounds that were checked.
    pub rounds: u64,
    /// Number of rounds in which words were missing.
    pub wrong_rounds: u64,
    /// Number of missing words.
    pub wrong_words: u64,
}

/// A running kernel. It ends after its last round, or when this value is dropped.
#[derive(Debug)]
pub struct Watcher {
    report: Pinned,
    stream: Stream,
    _kernel: Kernel,
}

/// The expected word `index` in the data of a round. Rounds are numbered from 1.
pub fn expected_word(round: u64, index: u32) -> u32 {
    (round as u32).wrapping_mul(0x9e37_79b1).wrapping_add(index.wrapping_mul(0x85eb_ca77))
}

impl Watcher {
    /// Starts a kernel that checks this many words from the beginning of `place`, once in each round.
    ///
    /// # Errors
    /// If the driver reports an error.
    ///
    /// # Panics
    /// If the words or the flag are outside of `place`.
    ///
    /// # Safety
    /// The memory at `place` must exist longer than the watcher.
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
        // Safety: these are the kernel's parameters. The report is freed after the kernel has ended; the
        // caller guarantees the same for the memory.
        unsafe { kernel.launch(&stream, THREADS, &mut parameters) }?;
        Ok(Self { report, stream, _kernel: kernel })
    }

    /// Notifies the kernel that the data of this round have arrived. Needed if the flag is in host memory.
    pub fn tell(&self, round: u64) {
        self.report.word(TOLD).store(round, Ordering::Release);
    }

    /// Number of rounds that the kernel has checked.
    pub fn checked(&self) -> u64 {
        self.report.word(ROUND).load(Ordering::Acquire)
    }

    /// Whether the kernel has ended.
    ///
    /// # Errors
    /// If the kernel has failed.
    pub fn has_ended(&self) -> Result<bool, CudaError> {
        self.stream.is_done()
    }

    /// Stops the kernel, even before its last round, and returns its findings.
    ///
    /// # Errors
    /// If the kernel has failed.
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
        // When the watcher is dropped, a failure can no longer be reported.
        let _ = self.stream.wait();
    }
}
