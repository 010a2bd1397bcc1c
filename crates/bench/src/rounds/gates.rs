//! What a round takes in gates, cycle by cycle, without a network: [`weft_gateware::rounds_switch`].

use serde::Serialize;
use weft_gateware::engine_package as package;
use weft_gateware::rounds_switch::figures;

use super::measure::RoundsBench;
use super::path::port_cycles;

/// The most members of engines in gates.
pub const GATES_MEMBERS_MAX: usize = package::ROUNDS_MEMBERS_MAX as usize;
/// The most bytes of a proposal in gates.
pub const GATES_PROPOSAL_BYTES_MAX: usize = package::ROUNDS_PROPOSAL_BYTES as usize;
/// Instances in flight in gates.
pub const GATES_WINDOW: u64 = package::ROUNDS_WINDOW;

/// Bytes of a round's message before the proposal, with a window of four.
const HEAD_BYTES: usize = 64;

/// Cycles of 4 ns, with messages that take no time from engine to engine but the switch's register.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GatesResult {
    /// From the end of a round until the first message of the next one counts.
    pub round_cycles: u64,
    /// The same with values: every round changes an instance, too.
    pub instance_cycles: u64,
    /// From one message of a round that counts to the next.
    pub packet_cycles: u64,
    /// The shortest stable round of the engines.
    pub engine_min_round_period_cycles: u64,
    /// How long a port of 100 Gb/s is busy with what a node says in a round.
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

    /// The shortest round of engines with ports of 100 Gb/s: every period above the engines' own is stable.
    pub(super) fn min_round_period_cycles(&self) -> u64 {
        self.engine_min_round_period_cycles.max(self.port_cycles)
    }
}
