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

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use weft_cuda::{DeviceMemory, Gpu, MappedMemory, Place};
use weft_net::{IdlePolicy, Introduction, RegionEnd, RegionMemoryKind};
use weft_nic::AttachedMemory;
use weft_verbs::PathMtu;

#[cfg(feature = "planted-bugs")]
pub use weft_cuda::PlantedBug;

pub use result::{CudaResult, MemoryKind, News, TransferResult, WatchResult};

use crate::RdmaError;
use receiver::Served;

/// Times that each measurement is made, in turn; medians count.
const RUNS: usize = 3;
/// Bytes of a message whose latency is measured.
const LATENCY_BYTES: u32 = 64;
/// WRITEs in which the data of a round arrive.
const ROUND_WRITES: u32 = 4;
/// Bytes of the flag behind the data of a round.
const FLAG_BYTES: u32 = 8;

/// Pollers that offer their core to others: a machine may have fewer cores than there are pollers.
const IDLE: IdlePolicy = IdlePolicy::SHARE;

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

/// Addresses that only this process uses.
fn addresses() -> [Ipv4Addr; 2] {
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    [1, 2].map(|last| Ipv4Addr::new(127, high, low, last))
}

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
                transfer.add_run(self.messages, self.size_bytes, nanoseconds);
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

    /// Bytes of either region.
    fn region_bytes(&self) -> u64 {
        let messages = u64::from(self.depth) * u64::from(self.size_bytes);
        messages.max(u64::from(self.round_bytes + FLAG_BYTES)).next_multiple_of(4_096)
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
        let [receiver, sender] = addresses();
        let memory = self.memory(gpu, kind)?;
        let place = memory.as_ref().map(|(_, place)| *place);
        let bytes = self.region_bytes();
        let kind = match memory {
            None => RegionMemoryKind::Own(bytes),
            Some((memory, _)) => RegionMemoryKind::Attached(memory, bytes),
        };
        let mut end = RegionEnd::open(receiver, kind, IDLE)?;
        let (to_sender, from_receiver) = channel();
        let (to_receiver, from_sender) = channel();
        thread::scope(|scope| {
            let sending = scope.spawn(move || {
                let end = RegionEnd::open(sender, RegionMemoryKind::Own(bytes), IDLE)?;
                let mut end = introduce(end, &to_receiver, &from_receiver)?;
                sender::send(self, &mut end, job)
            });
            let served = introduce_receiver(&mut end, &to_sender, &from_sender)
                .and_then(|()| receiver::serve(self, gpu, &mut end, place, job));
            // The other end says more about a failure than that it has gone.
            drop(to_sender);
            let sent = sending.join().expect("the sender does not panic");
            match (sent, served) {
                (Ok(sent), Ok(served)) => Ok((sent, served)),
                (_, Err(error)) | (Err(error), _) => Err(error),
            }
        })
    }
}

/// The other end has ended before it said who it is; its own error says why.
fn gone<E>(_: E) -> RdmaError {
    RdmaError::Failed("the other end has ended".into())
}

fn introduce_receiver(
    end: &mut RegionEnd,
    to_peer: &Sender<Introduction>,
    from_peer: &Receiver<Introduction>,
) -> Result<(), RdmaError> {
    to_peer.send(end.introduction()).map_err(gone)?;
    let peer = from_peer.recv().map_err(gone)?;
    Ok(end.connect(&peer, PathMtu::Bytes4096)?)
}

/// The sender connects second: its peer is ready when it begins.
fn introduce(
    mut end: RegionEnd,
    to_peer: &Sender<Introduction>,
    from_peer: &Receiver<Introduction>,
) -> Result<RegionEnd, RdmaError> {
    let peer = from_peer.recv().map_err(gone)?;
    end.connect(&peer, PathMtu::Bytes4096)?;
    to_peer.send(end.introduction()).map_err(gone)?;
    Ok(end)
}
