//! The rounds engine in gates, without a NIC around it, as an engine of the waist.
//!
//! [`RtlRounds`] drives the module `rounds`, [`RtlAllReduce`] the same engine with another algorithm,
//! `rounds_all_reduce`: it says events and takes messages and timers. As a [`weft_waist::Engine`] it handles one
//! event at a time, with the time standing still meanwhile, so that it can be held to its twin effect by effect.

use std::io;
use std::path::Path;

use weft_time::{Duration, Instant};
use weft_waist::{Engine, EngineStatus, Event, Io};

use crate::CYCLE;
use crate::axi::{Gate, Pressure};
use crate::engine_package::{self as package, RoundsEvents};
use crate::engine_ports::{EnginePorts, Port, Tally, cycles_up, engine_ports};
use crate::model::Model;

/// Idle cycles in a row after which nothing is under way.
const IDLE_CYCLES: u32 = 4;

/// Far more cycles than any event takes.
const CYCLES_MAX: u64 = 100_000;

/// Content of the engine's registers. Its sizes are the constants `ROUNDS_…` of [`crate::engine_package`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtlRoundsConfig {
    /// Length of a round: whole cycles.
    pub period: Duration,
    /// The shortest one-way delay between two nodes: whole cycles.
    pub one_way: Duration,
    /// A member that was not heard for more rounds than this is proposed for removal: at most
    /// [`crate::engine_package::ROUNDS_SILENCE_MAX`].
    pub silence: u8,
    /// Random back-pressure on messages.
    pub pressure: Option<Pressure>,
    /// Content of storage that reset leaves alone: zeros for 0, otherwise random bits.
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

/// An engine of a module of the build with the ports of `rounds`.
macro_rules! engine {
    ($(#[$doc:meta])* $engine:ident, $algorithm:ident of $module:ident) => {
        pub(crate) mod $algorithm {
            use super::*;
            use crate::model::$module::{Inputs, Outputs, Top};

            engine_ports!(Inputs, Outputs);

            /// The inputs that stay as they are.
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
                /// An engine that has just been reset and has no configuration.
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

                /// Cycles that were computed.
                pub const fn ticks(&self) -> u64 {
                    self.ticks
                }

                /// Computes cycles with the time standing still until nothing is under way.
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

                /// Computes one clock cycle.
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

                /// Begins to write a waveform file, in which every computed cycle takes 4 ns.
                ///
                /// # Errors
                /// The file cannot be opened, or the crate was built without the feature `fst`.
                pub fn begin_trace(&mut self, path: &Path) -> io::Result<()> {
                    self.model.begin_trace(path)
                }

                /// Closes the waveform file, if there is one.
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
    /// The rounds engine in gates, with the consensus as its algorithm.
    RtlRounds, consensus of rounds
}

engine! {
    /// The rounds engine in gates, with the all-reduce as its algorithm.
    RtlAllReduce, all_reduce of rounds_all_reduce
}

pub use all_reduce::RtlAllReduce;
pub use consensus::RtlRounds;
