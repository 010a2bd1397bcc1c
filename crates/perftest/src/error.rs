//! Errors of a benchmark.

use std::io;

use thiserror::Error;
use weft_cuda::CudaError;
use weft_gateware::ServiceError;
use weft_harness::capture::CaptureError;
use weft_net::BindError;
use weft_net::process::ProcessError;
use weft_service::preprocess::PipelineError;
use weft_sim::PlanError;

use super::SERVER_COMMAND;
use super::detection::PacketsError;
use super::limits::{INCAST_MAX, QUEUE_PAIRS_MAX, RING_MAX};
use super::served::ServiceName;

/// Reason for which a benchmark failed: wrong options (see [`RdmaError::is_usage`]) or a failed run.
#[derive(Debug, Error)]
pub enum RdmaError {
    /// The verb is unknown.
    #[error("unknown operation `{0}`; known are write, write_imm, send, send_imm, read, fetch_add, cmp_swap")]
    UnknownOperation(String),
    /// PSP on the path of the soft card.
    #[error(
        "soft cards on sockets have no PSP: choose the NIC rtl, or measure sealed sockets with `weft bench kv --world net --sealed`"
    )]
    PspOfSoft,
    /// Packets to judge for a service that judges none.
    #[error("{0} judges no packets: leave them out, or choose the service inspect")]
    PacketsOf(ServiceName),
    /// The packets to judge cannot be read.
    #[error(transparent)]
    Packets(#[from] PacketsError),
    /// The text declares no pipeline.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// The gateware cannot have the service.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The size of messages is zero.
    #[error("a size of 0 bytes leaves nothing to measure: choose 1 or more")]
    EmptyMessage,
    /// The size of messages is not the size of atomic operations.
    #[error("atomics work on 8 bytes, not {0}: choose a size of 8")]
    AtomicSize(u32),
    /// Atomic operations with random sizes.
    #[error("atomics work on 8 bytes: leave random sizes out")]
    AtomicRandomSizes,
    /// The MTU is not a path MTU of InfiniBand.
    #[error("there is no path MTU of {0} bytes: choose 256, 512, 1024, 2048 or 4096")]
    Mtu(u32),
    /// The number of queue pairs is zero or too large.
    #[error("{0} queue pairs cannot be served: choose 1 to {QUEUE_PAIRS_MAX}")]
    QueuePairs(u32),
    /// There are too many queue pairs for traffic in both directions, where each machine has two ends of each
    /// connection.
    #[error(
        "{0} queue pairs in each direction cannot be served: a machine has {QUEUE_PAIRS_MAX} for both; choose fewer"
    )]
    QueuePairsBoth(u32),
    /// The number of machines of a ring is too small or too large.
    #[error("a ring of {0} machines cannot be built: choose 2 to {RING_MAX}")]
    Ring(u32),
    /// The number of clients is too small or too large.
    #[error("{0} clients of one server cannot be served: choose 2 to {INCAST_MAX}")]
    Incast(u32),
    /// The option does not exist in the benchmark of many clients.
    #[error("many clients of one server are measured with WRITEs in the simulator: leave {0} out")]
    NotInIncast(&'static str),
    /// Several directions are not available in this world.
    #[error(
        "several directions at once are measured in the simulator only: choose the world sim or one direction"
    )]
    DirectionsInNet,
    /// Only the simulator can write these files.
    #[error("captures and traces are written in the simulator only: choose the world sim")]
    ArtifactsInNet,
    /// A waveform of the soft NIC, which has none.
    #[error("only the gateware has waveforms: choose the NIC rtl")]
    WaveformOfSoft,
    /// The time window of the waveform is empty.
    #[error("the waveform's window is empty: choose a longer one")]
    EmptyWaveform,
    /// This build cannot write waveforms.
    #[error("this build writes no waveforms: build with the feature fst")]
    NoWaveforms,
    /// A capture file could not be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The number of queue pairs under load is zero or larger than the number of queue pairs.
    #[error("of {queue_pairs} queue pairs {busy} cannot be busy: choose 1 to {queue_pairs}")]
    BusyQueuePairs {
        /// The requested number of queue pairs under load.
        busy: u32,
        /// The number of queue pairs.
        queue_pairs: u32,
    },
    /// The number of work requests is zero or too large.
    #[error("a depth of {0} work requests cannot be kept: choose 1 to 8192")]
    Depth(u32),
    /// The buffers would be too large.
    #[error(
        "the buffers would take {bytes} bytes and may take {limit}: choose a smaller size, depth or number of queue pairs"
    )]
    Memory {
        /// The requested number of bytes.
        bytes: u64,
        /// The largest allowed number of bytes.
        limit: u64,
    },
    /// The number of messages, or the time, is zero.
    #[error("there is nothing to do: choose at least 1 message or some time")]
    NothingToDo,
    /// The cost profile is unknown.
    #[error("unknown cost profile `{0}`; known are fpga, cores, host-card")]
    UnknownProfile(String),
    /// The gateware runs only in the simulator.
    #[error("the gateware is computed in the simulator only: choose the world sim or the NIC soft")]
    GatewareInNet,
    /// Faults are not available in this world.
    #[error("faults are injected in the simulator only: choose the world sim or no faults")]
    FaultsInNet,
    /// The fault plan does not match the machines of the run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The server's process was started by hand, without an address.
    #[error(
        "{SERVER_COMMAND} is started by `weft bench rdma --world net` and needs the IPv4 address to serve on"
    )]
    ServerArguments,
    /// A CUDA call failed.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// A port could not be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The server's process failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A call of the operating system failed.
    #[error("a connection between the processes failed: {0}")]
    Io(#[from] io::Error),
    /// The transport, a check or the peer has failed.
    #[error("the run failed: {0}")]
    Failed(String),
}

impl RdmaError {
    /// Whether the reason is wrong options and not a failed run.
    pub const fn is_usage(&self) -> bool {
        !matches!(
            self,
            Self::Cuda(_)
                | Self::Bind(_)
                | Self::Process(_)
                | Self::Io(_)
                | Self::Failed(_)
                | Self::Capture(_)
        )
    }
}
