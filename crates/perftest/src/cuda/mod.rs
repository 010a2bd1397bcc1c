//! `weft bench cuda`: WRITEs over UDP sockets into memory that a GPU reads, compared with WRITEs into the
//! host's memory.
//!
//! Two cards on loopback addresses are each polled by a thread. The receiver's region is in ordinary host
//! memory, in mapped memory, or in GPU memory. A WRITE counts as arrived when its completion is reported. At
//! that time its bytes are visible in the memory.
//!
//! For memory that the GPU reads, a kernel waits for a flag. In each round it compares all data with the
//! expected data of the round. The flag is set either by a later WRITE, which the kernel sees in the region,
//! or by the program, after it got the completion.

mod receiver;
mod result;
mod sender;

use std::sync::Arc;

use weft_cuda::{DeviceMemory, Gpu, MappedMemory, Place};
use weft_net::RegionMemoryKind;
use weft_nic::AttachedMemory;

#[cfg(feature = "planted-bugs")]
pub use weft_cuda::PlantedBug;

pub use result::{CudaResult, MemoryKind, News, TransferResult, WatchResult};

use crate::RdmaError;
use crate::pair::{Stream, with_pair};
use receiver::Served;

/// Number of runs of each measurement. The kinds alternate, and the results are medians.
const RUNS: usize = 3;
/// Number of bytes of a message whose latency is measured.
const LATENCY_BYTES: u32 = 64;
/// Number of WRITEs that carry the data of a round.
const ROUND_WRITES: u32 = 4;
/// Number of bytes of the flag, which comes after the data of a round.
const FLAG_BYTES: u32 = 8;

/// Parameters of the measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaBench {
    /// Number of the GPU.
    pub gpu: u32,
    /// Number of bytes of a message.
    pub size_bytes: u32,
    /// Number of messages in each run.
    pub messages: u64,
    /// Number of messages outstanding.
    pub depth: u32,
    /// Number of messages in each run whose latency is measured.
    pub latency_messages: u64,
    /// Number of data bytes in a round; a multiple of 16.
    pub round_bytes: u32,
    /// Number of rounds that the kernel checks, for each kind of notification.
    pub rounds: u64,
    /// A bug to plant in the memory.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<weft_cuda::PlantedBug>,
}

/// A measurement that the sender makes with the receiver.
#[derive(Clone, Copy, Debug)]
enum Job {
    Throughput,
    Latency,
    Rounds(News),
}

/// The sender's result of a job.
#[derive(Clone, Debug)]
enum Sent {
    /// Time for all messages, in nanoseconds.
    Time(u64),
    Latencies(weft_results::histogram::Latencies),
}

/// Memory to attach to a card, and its addresses.
type Attached = (Box<dyn AttachedMemory>, Place);

impl CudaBench {
    /// Runs the measurements.
    ///
    /// # Errors
    /// If there is no GPU, a port is in use, or a run fails.
    pub fn run(&self) -> Result<CudaResult, RdmaError> {
        let gpu = Gpu::open(self.gpu)?;
        let mut transfers: Vec<TransferResult> = MemoryKind::ALL.map(TransferResult::new).into();
        for _ in 0..RUNS {
            for transfer in &mut transfers {
                let kind = transfer.memory;
                let (sent, served) = self.one_run(&gpu, kind, Job::Throughput)?;
                transfer.intact &= served.intact;
                let Sent::Time(nanoseconds) = sent else { unreachable!("the sender does what it is told") };
                transfer.goodput_of_runs.push(self.stream().goodput(nanoseconds));
                let (sent, _) = self.one_run(&gpu, kind, Job::Latency)?;
                let Sent::Latencies(latencies) = sent else {
                    unreachable!("the sender does what it is told")
                };
                transfer.round_trips.push(latencies.summary());
            }
        }
        transfers.iter_mut().for_each(|transfer| transfer.conclude(self.size_bytes));
        let mut watches = Vec::new();
        for memory in [MemoryKind::Mapped, MemoryKind::Device] {
            for news in [News::LaterWrite, News::Completion] {
                let (sent, served) = self.one_run(&gpu, memory, Job::Rounds(news))?;
                let Sent::Latencies(latencies) = sent else {
                    unreachable!("the sender does what it is told")
                };
                watches.push(WatchResult::new(memory, news, self.round_bytes, served.findings, &latencies));
            }
        }
        Ok(CudaResult {
            gpu: gpu.name().to_owned(),
            driver: gpu.driver_version(),
            size_bytes: self.size_bytes,
            messages: self.messages,
            depth: self.depth,
            runs: RUNS as u64,
            latency_bytes: LATENCY_BYTES,
            transfers,
            watches,
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug.map(weft_cuda::PlantedBug::name),
        })
    }

    const fn stream(&self) -> Stream {
        Stream { size_bytes: self.size_bytes, messages: self.messages, depth: self.depth }
    }

    /// Number of bytes of each region.
    fn region_bytes(&self) -> u64 {
        (self.stream().bytes() as u64).max(u64::from(self.round_bytes + FLAG_BYTES)).next_multiple_of(4_096)
    }

    /// Allocates memory of this kind. Returns `None` for the card's own memory.
    fn memory(&self, gpu: &Arc<Gpu>, kind: MemoryKind) -> Result<Option<Attached>, RdmaError> {
        let bytes = self.region_bytes() as usize;
        let (memory, place): (Box<dyn AttachedMemory>, _) = match kind {
            MemoryKind::Host => return Ok(None),
            MemoryKind::Mapped => {
                let memory = MappedMemory::new(gpu, bytes)?;
                let place = memory.place();
                (Box::new(memory), place)
            }
            MemoryKind::Device => {
                let memory = DeviceMemory::new(gpu, bytes)?;
                let place = memory.place();
                (Box::new(memory), place)
            }
        };
        #[cfg(feature = "planted-bugs")]
        let memory = match self.planted_bug {
            Some(bug) => Box::new(weft_cuda::Planted::new(memory, bug)),
            None => memory,
        };
        Ok(Some((memory, place)))
    }

    /// Runs one job between two cards. `kind` is the kind of the receiver's memory.
    fn one_run(&self, gpu: &Arc<Gpu>, kind: MemoryKind, job: Job) -> Result<(Sent, Served), RdmaError> {
        let bytes = self.region_bytes();
        let (kind, place) = match self.memory(gpu, kind)? {
            None => (RegionMemoryKind::Own(bytes), None),
            Some((memory, place)) => (RegionMemoryKind::Attached(memory, bytes), Some(place)),
        };
        with_pair(
            kind,
            bytes,
            |end| sender::send(self, end, job),
            |end| receiver::serve(self, gpu, end, place, job),
        )
    }
}
