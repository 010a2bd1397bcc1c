//! Durations of a round of the engine in gateware, in clock cycles and without a network
//! ([`weft_gateware::rounds_switch`]).

use serde::Serialize;
use weft_gateware::engine_package as package;
use weft_gateware::rounds_switch::figures;

use super::measure::RoundsBench;
use super::path::port_cycles;

/// Maximum number of members of the engine in gateware.
pub const GATES_MEMBERS_MAX: usize = package::ROUNDS_MEMBERS_MAX as usize;
/// Maximum size of a proposal of the engine in gateware, in bytes.
pub const GATES_PROPOSAL_BYTES_MAX: usize = package::ROUNDS_PROPOSAL_BYTES as usize;
/// Instances in flight of the engine in gateware.
pub const GATES_WINDOW: u64 = package::ROUNDS_WINDOW;

/// Bytes of a round's message in front of the proposal, if the window is four.
const HEAD_BYTES: usize = 64;

/// Durations in cycles of 4 ns. A message takes one cycle from engine to engine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GatesResult {
    /// From the end of a round until the first message of the next round is processed.
    pub round_cycles: u64,
    /// `round_cycles` for rounds with proposals, each of which also begins an instance.
    pub instance_cycles: u64,
    /// From one processed message of a round to the next.
    pub packet_cycles: u64,
    /// The shortest stable round of the engines.
    pub engine_min_round_period_cycles: u64,
    /// Time that a port of 100 Gb/s needs for the messages of a node in a round.
    pub port_cycles: u64,
}

impl GatesResult {
    pub(super) fn measure(bench: &RoundsBench) -> Self {
        let bytes = bench.batch.bytes();
        let figures = figures(bench.nodes, bytes, 0);
        Self {
            round_cycles: figures.round_cycles,
            instance_cycles: figures.instance_cycles,
            packet_cycles: figures.packet_cycles,
            engine_min_round_period_cycles: figures.min_round_period_cycles,
            port_cycles: port_cycles(bench.nodes - 1, HEAD_BYTES + bytes),
        }
    }

    /// The shortest stable round with ports of 100 Gb/s: the maximum of the engines' shortest round and the
    /// port's time.
    pub(super) fn min_round_period_cycles(&self) -> u64 {
        self.engine_min_round_period_cycles.max(self.port_cycles)
    }
}
