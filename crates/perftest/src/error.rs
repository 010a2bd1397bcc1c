//! Errors of a benchmark.

use std::io;

use thiserror::Error;
use weft_cuda::CudaError;
use weft_harness::capture::CaptureError;
use weft_net::BindError;
use weft_net::process::ProcessError;
use weft_sim::PlanError;

use super::SERVER_COMMAND;
use super::limits::{INCAST_MAX, QUEUE_PAIRS_MAX, RING_MAX};

/// Reason for which a benchmark failed: wrong options (see [`RdmaError::is_usage`]) or a failed run.
#[derive(Debug, Error)]
pub enum RdmaError {
    /// Unknown verb.
    #[error("unknown operation `{0}`; known are write, write_imm, send, send_imm, read, fetch_add, cmp_swap")]
    UnknownOperation(String),
    /// Messages without bytes.
    #[error("a size of 0 bytes leaves nothing to measure: choose 1 or more")]
    EmptyMessage,
    /// Atomics of another size than theirs.
    #[error("atomics work on 8 bytes, not {0}: choose a size of 8")]
    AtomicSize(u32),
    /// Atomics of random sizes.
    #[error("atomics work on 8 bytes: leave random sizes out")]
    AtomicRandomSizes,
    /// Not a path MTU of InfiniBand.
    #[error("there is no path MTU of {0} bytes: choose 256, 512, 1024, 2048 or 4096")]
    Mtu(u32),
    /// No queue pairs, or too many.
    #[error("{0} queue pairs cannot be served: choose 1 to {QUEUE_PAIRS_MAX}")]
    QueuePairs(u32),
    /// Too many queue pairs, where each machine has two ends of each.
    #[error(
        "{0} queue pairs in each direction cannot be served: a machine has {QUEUE_PAIRS_MAX} for both; choose fewer"
    )]
    QueuePairsBoth(u32),
    /// A ring of no or too many machines.
    #[error("a ring of {0} machines cannot be built: choose 2 to {RING_MAX}")]
    Ring(u32),
    /// No clients of a server, or too many.
    #[error("{0} clients of one server cannot be served: choose 2 to {INCAST_MAX}")]
    Incast(u32),
    /// An option that the benchmark of many clients does not have.
    #[error("many clients of one server are measured with WRITEs in the simulator: leave {0} out")]
    NotInIncast(&'static str),
    /// Several directions in a world that has none.
    #[error(
        "several directions at once are measured in the simulator only: choose the world sim or one direction"
    )]
    DirectionsInNet,
    /// Files that only the simulator can write.
    #[error("captures and traces are written in the simulator only: choose the world sim")]
    ArtifactsInNet,
    /// A waveform of something that has none.
    #[error("only the gateware has waveforms: choose the NIC rtl")]
    WaveformOfSoft,
    /// An empty window.
    #[error("the waveform's window is empty: choose a longer one")]
    EmptyWaveform,
    /// A build without waveforms.
    #[error("this build writes no waveforms: build with the feature fst")]
    NoWaveforms,
    /// A capture could not be written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// More queue pairs that work than there are, or none.
    #[error("of {queue_pairs} queue pairs {busy} cannot be busy: choose 1 to {queue_pairs}")]
    BusyQueuePairs {
        /// Queue pairs under load that were asked for.
        busy: u32,
        /// Queue pairs that exist.
        queue_pairs: u32,
    },
    /// No work requests, or too many.
    #[error("a depth of {0} work requests cannot be kept: choose 1 to 8192")]
    Depth(u32),
    /// Too large buffers.
    #[error(
        "the buffers would take {bytes} bytes and may take {limit}: choose a smaller size, depth or number of queue pairs"
    )]
    Memory {
        /// Bytes that were asked for.
        bytes: u64,
        /// Largest allowed number of bytes.
        limit: u64,
    },
    /// No messages, or no time.
    #[error("there is nothing to do: choose at least 1 message or some time")]
    NothingToDo,
    /// Unknown cost profile.
    #[error("unknown cost profile `{0}`; known are fpga, cores, host-card")]
    UnknownProfile(String),
    /// The gateware outside the simulator.
    #[error("the gateware is computed in the simulator only: choose the world sim or the NIC soft")]
    GatewareInNet,
    /// Faults in a world that has none.
    #[error("faults are injected in the simulator only: choose the world sim or no faults")]
    FaultsInNet,
    /// A plan that does not fit.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The server's process was started by hand.
    #[error(
        "{SERVER_COMMAND} is started by `weft bench rdma --world net` and needs the IPv4 address to serve on"
    )]
    ServerArguments,
    /// The GPU.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// A port could not be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The server's process.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The kernel.
    #[error("a connection between the processes failed: {0}")]
    Io(#[from] io::Error),
    /// A transport, a check or the peer.
    #[error("the run failed: {0}")]
    Failed(String),
}

impl RdmaError {
    /// Whether the options are wrong, and not the run.
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
