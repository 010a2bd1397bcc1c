//! The gateware, Verilated, as a NIC of the simulator.
//!
//! [`RtlNic`] is the SystemVerilog of `rtl/`, compiled by Verilator, behind the same [`weft_nic::Nic`] as the
//! soft NIC. It includes models of the rest of a card: a MAC at the rate of the link, memories behind AXI4
//! with their latencies, and the driver that sets up queue pairs and regions through AXI4-Lite registers.
//!
//! # Time
//!
//! The clock runs at 250 MHz: cycle *n* is at *n* times 4 ns of the world's time. Cycles in which nothing can
//! happen are not simulated: while every block is idle, the clock stops until a frame, a post or a timer's
//! deadline comes, and then the gateware's cycle counter jumps. Register accesses of the driver take no time
//! in the world, as with the soft NIC: the clock runs while the cycle counter stands still.
//!
//! # Determinism
//!
//! The same inputs give the same outputs, on any number of threads. Instances share no state.

mod axi;
mod board;
pub mod engine_package;
mod engine_ports;
pub mod kv;
pub mod latency;
pub mod lock_step;
mod mac;
mod model;
mod nic;
mod on_path;
pub mod package;
mod permissions;
mod psp;
mod queue_pair;
pub mod rdt;
mod registers;
pub mod rounds;
pub mod rounds_switch;
mod service_port;
mod services;

pub use axi::{HbmTiming, Latency, MemoryTiming, Pressure};
pub use engine_ports::EngineOutput;
pub use kv::{RtlKv, RtlKvConfig};
pub use nic::{Arcs, PermissionPort, RtlNic, RtlNicConfig, SLOT_OFFERS};
pub use on_path::{OnPath, Service, ServiceError};
pub use permissions::Changed;
pub use registers::EngineConfig;
pub use rounds::{RtlAllReduce, RtlRounds, RtlRoundsConfig};
pub use services::RtlServices;

use weft_time::Duration;

/// Whether this build contains the models. Without the feature `models`, none can be created.
pub const MODELS: bool = cfg!(feature = "models");

/// Whether this build can write waveforms.
pub const WAVEFORMS: bool = cfg!(feature = "fst");

/// Length of a clock cycle.
pub const CYCLE: Duration = Duration::from_ps(4_000);
