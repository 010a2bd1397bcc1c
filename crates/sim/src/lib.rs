//! Simulation of clusters in virtual time. It is deterministic and can inject faults.
//!
//! A [`World`] holds machines, which are attached to the ports of one switch. It advances virtual time in
//! picoseconds and handles one event after the other in one thread. One seed determines a whole run: the same
//! seed, machines and [`FaultPlan`] give the same [`LogHash`] in any build. The user of this crate implements
//! machines by the trait [`Machine`]. [`NicMachine`] is a NIC with its host, slowed down to the rates and
//! latencies of a [`CostProfile`]. An engine can also run in a process of a host whose card only executes
//! verbs ([`EngineOnHost`]).
//!
//! All times are integers. A frame of *n* bytes (without preamble, frame check sequence and gap) occupies a
//! link for the time of max(*n*, 60) + 24 bytes. At 100 Gb/s a byte takes 80 ps, so the smallest frame takes
//! 6,720 ps, of which the gap after it takes the last 960 ps. The switch stores the whole frame, and forwards
//! it when the forwarding latency has passed and the output port is free. See [`LinkConfig`] and
//! [`SwitchConfig`].
//!
//! ```
//! use weft_sim::{FaultPlan, Machine, NoCrashes, PortConfig, SwitchConfig, World};
//! use weft_time::{Duration, Instant};
//!
//! /// Sends a broadcast frame once a microsecond.
//! struct Greeter {
//!     next: Instant,
//!     due: bool,
//!     heard: u64,
//! }
//!
//! impl Machine for Greeter {
//!     fn receive(&mut self, _: Instant, _: &[u8]) {
//!         self.heard += 1;
//!     }
//!     fn next_deadline(&self) -> Option<Instant> {
//!         Some(self.next)
//!     }
//!     fn wake(&mut self, now: Instant) {
//!         self.next = now + Duration::from_us(1);
//!         self.due = true;
//!     }
//!     fn poll_frame(&mut self, frame: &mut Vec<u8>) -> Option<Instant> {
//!         std::mem::take(&mut self.due).then(|| {
//!             frame.extend_from_slice(&[0xff; 60]);
//!             Instant::ZERO
//!         })
//!     }
//! }
//!
//! let mut world = World::new(7, SwitchConfig::default());
//! let ids = ["a", "b"].map(|name| {
//!     let greeter = Greeter { next: Instant::ZERO, due: false, heard: 0 };
//!     world.add_machine(PortConfig::new(name, [2, 0, 0, 0, 0, name.as_bytes()[0]]), greeter)
//! });
//! world.set_plan(&FaultPlan::parse(
//!     "fault = [{ kind = 'one_way_cut', from_us = 10, until_us = 20, from = 'a', to = 'b' }]",
//! )?)?;
//! world.run_until(Instant::ZERO + Duration::from_us(100), &mut NoCrashes);
//! assert_eq!(ids.map(|id| world.machine(id).unwrap().heard), [100, 90]);
//! assert!(world.traffic().is_conserved());
//! # Ok::<(), weft_sim::PlanError>(())
//! ```

mod clock;
mod cost;
mod delay_queue;
mod disk;
mod engine_on_host;
mod faults;
mod figure;
mod frames;
mod host;
mod host_threads;
mod hosted;
mod link;
mod log;
mod machine;
mod meter;
mod models;
mod network;
mod nic_machine;
mod queue;
mod random;
mod switch;
mod world;

pub use clock::LocalClock;
pub use cost::{
    BusCost, CostProfile, DmaCost, Execution, HAMBAND_PROCESS, HOST_DATAGRAMS, HOST_PROCESS, HOST_PROCESSOR,
    HOST_TRANSACTION, HostCost, HostProcessor, MemoryCost, TransactionCost, cost_table_markdown,
};
pub use disk::{DiskFault, MachineDisk};
pub use engine_on_host::{EngineOnHost, HostConfig};
pub use faults::{Fault, FaultCounts, FaultKind, FaultKinds, FaultPlan, LinkDirection, PlanError, PlanShape};
pub use figure::{Figure, Unit};
pub use host::{Commands, CpuTime, Host};
pub use host_threads::HostThreads;
pub use hosted::HostedMachine;
pub use link::{LinkConfig, LinkCounters};
pub use log::{Direction, DropCause, Event, LogHash, Tap, TextLog};
pub use machine::{Director, Machine, MachineId, Machines, NoCrashes, Wrapper};
pub use meter::HostMeter;
pub use models::{Batch, BusModel, Charge, DmaModel, MemoryModel, ProcessorModel};
pub use network::NetworkProfile;
pub use nic_machine::{NicMachine, Usage};
pub use random::{Probability, Stream};
pub use switch::{Marking, SwitchConfig};
pub use world::{PortConfig, Traffic, World};
