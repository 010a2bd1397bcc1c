//! `weft bench cuda`: WRITEs into memory that a GPU reads, over UDP sockets, beside WRITEs into the host's.
//!
//! Two cards on loopback addresses, each polled by a thread of its own. The receiver's region lies in ordinary memory
//! of the host, in mapped memory or on the GPU. A WRITE counts as arrived when its completion is told, which is when
//! its bytes are visible in the memory.
//!
//! For memory that the GPU reads, a kernel spins on a flag, and in each round compares all data with what the round's
//! must be. It is told by a later WRITE, which it sees in the region itself, or by the program that has had the
//! completion.

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

/// Times that each measurement is made, in turn; medians count.
const RUNS: usize = 3;
/// Bytes of a message whose latency is measured.
const LATENCY_BYTES: u32 = 64;
/// WRITEs in which the data of a round arrive.
const ROUND_WRITES: u32 = 4;
/// Bytes of the flag behind the data of a round.
const FLAG_BYTES: u32 = 8;

/// Parameters of the measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaBench {
    /// Number of the GPU.
    pub gpu: u32,
    /// Bytes of a message.
    pub size_bytes: u32,
    /// Messages of each run.
    pub messages: u64,
    /// Messages under way.
    pub depth: u32,
    /// Messages whose latency is measured, in each run.
    pub latency_messages: u64,
    /// Bytes of data in a round; a multiple of 16.
    pub round_bytes: u32,
    /// Rounds that the kernel checks, of each kind.
    pub rounds: u64,
    /// A bug of the memory.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<weft_cuda::PlantedBug>,
}

/// What the sender does.
#[derive(Clone, Copy, Debug)]
enum Job {
    Throughput,
    Latency,
    Rounds(News),
}

/// What came of it at the sender.
#[derive(Clone, Debug)]
enum Sent {
    /// Of all messages, in nanoseconds.
    Time(u64),
    Latencies(weft_harness::histogram::Latencies),
}

/// Memory to attach, and where it lies.
type Attached = (Box<dyn AttachedMemory>, Place);

impl CudaBench {
    /// Measures.
    ///
    /// # Errors
    /// There is no GPU, a port is in use, or a run fails.
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

    /// Bytes of either region.
    fn region_bytes(&self) -> u64 {
        (self.stream().bytes() as u64).max(u64::from(self.round_bytes + FLAG_BYTES)).next_multiple_of(4_096)
    }

    /// Memory of this kind, if it is not the card's own.
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

    /// One job between two cards, of which the receiver's lies here.
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
