//! Published measurements and projections of consensus in network cards.

use serde::Serialize;

/// A published figure of replication in cards.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Anchor {
    /// Name of the system.
    pub system: &'static str,
    /// The quantity, and the conditions under which it was measured.
    pub what: &'static str,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Values decided per second.
    pub values_per_s: f64,
    /// Bits of values decided per second.
    pub bits_per_s: f64,
    /// Source of the figure.
    pub source: &'static str,
}

/// The round period at which the consensus of the detPU thesis was stable, in nanoseconds: 960 cycles of 300
/// MHz.
pub const STABLE_PERIOD_NS: u64 = 3_200;

/// Cycles of a round change in this thesis.
pub const ROUND_CYCLES: u64 = 4;
/// Cycles of a change of the instance.
pub const INSTANCE_CYCLES: u64 = 11;
/// Cycles of a packet.
pub const PACKET_CYCLES: u64 = 2;
/// Cycles of the lowest stable round period without a network.
pub const MIN_ROUND_PERIOD_CYCLES: u64 = 40;

/// Published figures for comparison. A decided value counts once, for any number of replicas.
pub const ANCHORS: [Anchor; 6] = [
    Anchor {
        system: "detPU CKC",
        what: "measured, 3 nodes, 156.25 kHz instances of 3 values",
        value_bytes: 64,
        values_per_s: 468_750.0,
        bits_per_s: 240e6,
        source: "detPU 5.2.3",
    },
    Anchor {
        system: "detPU CKC",
        what: "computed for longer values",
        value_bytes: 448,
        values_per_s: 468_750.0,
        bits_per_s: 1.68e9,
        source: "detPU 5.2.3",
    },
    Anchor {
        system: "detPU CKC",
        what: "projected, 13 replicas of the core without a common order",
        value_bytes: 448,
        values_per_s: 13.0 * 468_750.0,
        bits_per_s: 21.84e9,
        source: "detPU 5.2.3",
    },
    Anchor {
        system: "Waverunner",
        what: "measured, 3 nodes",
        value_bytes: 50,
        values_per_s: 26e6,
        bits_per_s: 10.4e9,
        source: "detPU 5.2.4",
    },
    Anchor {
        system: "Consensus in a Box",
        what: "measured, direct links of 10 Gb/s",
        value_bytes: 32,
        values_per_s: 4e6,
        bits_per_s: 4e6 * 32.0 * 8.0,
        source: "detPU 5.2.4",
    },
    Anchor {
        system: "Consensus in a Box",
        what: "measured, direct links of 10 Gb/s",
        value_bytes: 256,
        values_per_s: 1.4e6,
        bits_per_s: 2.9e9,
        source: "detPU 5.2.4",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_values_and_of_bits_agree() {
        for anchor in ANCHORS {
            let bits = anchor.values_per_s * f64::from(anchor.value_bytes) * 8.0;
            assert!((bits / anchor.bits_per_s - 1.0).abs() < 0.02, "{anchor:?}: {bits}");
        }
    }
}
