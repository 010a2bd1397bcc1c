//! The rounds engine in the gateware, without a NIC around it, as a [`weft_waist::Engine`].
//!
//! [`RtlRounds`] drives the module `rounds`; [`RtlAllReduce`] drives `rounds_all_reduce`, the same engine
//! with another algorithm. They offer events and receive messages and timers. As a [`weft_waist::Engine`]
//! each processes one event at a time while the time stands still, so that its effects can be compared with
//! those of its twin one by one.

use std::io;
use std::path::Path;

use weft_time::{Duration, Instant};
use weft_waist::{Engine, EngineStatus, Event, Io};

use crate::CYCLE;
use crate::axi::{Gate, Pressure};
use crate::engine_package::{self as package, RoundsEvents};
use crate::engine_ports::{EnginePorts, Port, Tally, cycles_up, engine_ports};
use crate::model::Model;

/// Consecutive idle cycles after which the engine counts as idle.
const IDLE_CYCLES: u32 = 4;

/// Far more cycles than any event takes.
const CYCLES_MAX: u64 = 100_000;

/// Values of the engine's inputs. Its sizes are the constants `ROUNDS_…` of [`crate::engine_package`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtlRoundsConfig {
    /// Length of a round: a whole number of cycles.
    pub period: Duration,
    /// The shortest one-way delay between two nodes: a whole number of cycles.
    pub one_way: Duration,
    /// A member from which nothing was received for more rounds than this is proposed for removal. At most
    /// [`crate::engine_package::ROUNDS_SILENCE_MAX`].
    pub silence: u8,
    /// Random back-pressure on messages.
    pub pressure: Option<Pressure>,
    /// Initial content of storage that reset does not clear: zeros for 0, otherwise random bits.
    pub power_on_seed: u32,
}

impl Default for RtlRoundsConfig {
    fn default() -> Self {
        Self {
            period: Duration::from_us(2),
            one_way: Duration::from_ns(1_384),
            silence: 32,
            pressure: None,
            power_on_seed: 0,
        }
    }
}

/// Defines an engine for a Verilated module that has the ports of `rounds`.
macro_rules! engine {
    ($(#[$doc:meta])* $engine:ident, $algorithm:ident of $module:ident) => {
        pub(crate) mod $algorithm {
            use super::*;
            use crate::model::$module::{Inputs, Outputs, Top};

            engine_ports!(Inputs, Outputs);

            /// The inputs that are constant.
            pub(crate) fn inputs(config: &RtlRoundsConfig) -> Inputs {
                Inputs {
                    period_i: config.period.as_ps() / CYCLE.as_ps(),
                    one_way_i: config.one_way.as_ps() / CYCLE.as_ps(),
                    silence_i: config.silence,
                    ..Inputs::default()
                }
            }

            $(#[$doc])*
            #[derive(Debug)]
            pub struct $engine {
                config: RtlRoundsConfig,
                model: Model<Top>,
                inputs: Inputs,
                outputs: Outputs,
                ticks: u64,
                idle_cycles: u32,
                ports: EnginePorts,
                tally: Tally,
            }

            impl $engine {
                /// An engine that was just reset and has no configuration.
                pub fn new(config: RtlRoundsConfig) -> Self {
                    Self {
                        model: Model::new(config.power_on_seed),
                        inputs: inputs(&config),
                        outputs: Outputs::default(),
                        ticks: 0,
                        idle_cycles: 0,
                        ports: EnginePorts::new(Gate::new(config.pressure, 1)),
                        tally: Tally::new(RoundsEvents::FIELDS),
                        config,
                    }
                }

                /// Parameters of the engine.
                pub const fn config(&self) -> &RtlRoundsConfig {
                    &self.config
                }

                /// Number of cycles that were simulated.
                pub const fn ticks(&self) -> u64 {
                    self.ticks
                }

                /// Simulates cycles while the time stands still, until nothing is in progress.
                fn run(&mut self, cycle: u64) {
                    let start = self.ticks;
                    self.idle_cycles = 0;
                    while self.idle_cycles < IDLE_CYCLES {
                        self.tick(cycle);
                        assert!(
                            self.ticks - start < CYCLES_MAX,
                            "rounds: still busy after {CYCLES_MAX} cycles: {:?}, idle_o: {}",
                            self.ports,
                            self.outputs.idle_o
                        );
                    }
                }

                /// Simulates one clock cycle.
                fn tick(&mut self, cycle: u64) {
                    self.inputs.now_i = cycle;
                    let offer = self.ports.offer();
                    offer_to(&mut self.inputs, &offer);
                    self.model.step(&self.inputs, &mut self.outputs, CYCLE.as_ps() * self.ticks);
                    let quiet = self.ports.take(self.ticks, &offer, shown_by(&self.outputs));
                    self.tally.add(&self.outputs.events_o.words());
                    self.ticks += 1;
                    self.idle_cycles = if quiet { self.idle_cycles + 1 } else { 0 };
                }

                /// Starts a waveform file, in which every simulated cycle takes 4 ns.
                ///
                /// # Errors
                /// The file cannot be opened, or the crate was built without the feature `fst`.
                pub fn begin_trace(&mut self, path: &Path) -> io::Result<()> {
                    self.model.begin_trace(path)
                }

                /// Ends the waveform file, if one is open.
                pub fn end_trace(&mut self) {
                    self.model.end_trace();
                }
            }

            impl Engine for $engine {
                fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
                    self.ports.push(event);
                    self.run(cycles_up(now));
                    self.ports.emit(io);
                }

                fn status(&self) -> EngineStatus {
                    package::status(&self.outputs.status_o.words())
                }

                fn counters(&self) -> Vec<(&'static str, u64)> {
                    self.tally.counters()
                }
            }
        }
    };
}

engine! {
    /// The rounds engine in the gateware, with the consensus as its algorithm.
    RtlRounds, consensus of rounds
}

engine! {
    /// The rounds engine in the gateware, with the all-reduce as its algorithm.
    RtlAllReduce, all_reduce of rounds_all_reduce
}

pub use all_reduce::RtlAllReduce;
pub use consensus::RtlRounds;
