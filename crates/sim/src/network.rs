//! Networks between the MACs of machines, with measured properties.

use weft_time::Duration;

use crate::figure::{Figure, Unit};
use crate::link::LinkConfig;
use crate::switch::SwitchConfig;
use crate::world::PortConfig;

const DETPU: &str = "detPU section 5.1.2: 416 to 423 cycles of 300 MHz, between the MACs, through one switch";

const SWITCH: &str = "estimate: a cut-through switch, 300 ns, and 2 m of cable at each port";

/// A network, defined by a frame's latency from one MAC to another, without the time of its bits on the wire:
/// the two links of 100 Gb/s charge that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkProfile {
    /// `detpu`, `switch` or `zero`.
    pub name: &'static str,
    /// The minimum latency.
    pub one_way_min: Figure,
    /// The maximum latency. A frame's latency is uniformly distributed between the two.
    pub one_way_max: Figure,
    /// The part of the minimum latency that is in the cable of each port. The rest is in the switch.
    cable: Duration,
}

impl NetworkProfile {
    /// Three cards on one switch, as measured by detPU.
    pub const DETPU: Self = Self {
        name: "detpu",
        one_way_min: Figure {
            name: "one way, least",
            value: 1_387_000,
            unit: Unit::Picoseconds,
            source: DETPU,
        },
        one_way_max: Figure {
            name: "one way, most",
            value: 1_410_000,
            unit: Unit::Picoseconds,
            source: DETPU,
        },
        cable: Duration::ZERO,
    };

    /// A data centre's cut-through switch with short cables: the defaults of [`SwitchConfig`] and
    /// [`LinkConfig`].
    pub const SWITCH: Self = Self {
        name: "switch",
        one_way_min: Figure { name: "one way", value: 320_000, unit: Unit::Picoseconds, source: SWITCH },
        one_way_max: Figure { name: "one way", value: 320_000, unit: Unit::Picoseconds, source: SWITCH },
        cable: Duration::ZERO,
    };

    /// No latency, so only the cards' own times remain.
    pub const ZERO: Self = Self {
        name: "zero",
        one_way_min: Figure { name: "one way, least", value: 0, unit: Unit::Picoseconds, source: "none" },
        one_way_max: Figure { name: "one way, most", value: 0, unit: Unit::Picoseconds, source: "none" },
        cable: Duration::ZERO,
    };

    /// All networks.
    pub const ALL: [Self; 3] = [Self::DETPU, Self::SWITCH, Self::ZERO];

    /// The name, and the latency in one direction: `switch (320 ns one way)`.
    pub fn summary(&self) -> String {
        let ns = |figure: Figure| figure.value / 1_000;
        match (ns(self.one_way_min), ns(self.one_way_max)) {
            (0, 0) => format!("{} (no latency)", self.name),
            (least, most) if least == most => format!("{} ({least} ns one way)", self.name),
            (least, most) => format!("{} ({least} to {most} ns one way)", self.name),
        }
    }

    /// The network with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }

    /// The minimum latency of a frame.
    pub fn least(&self) -> Duration {
        self.one_way_min.duration()
    }

    /// The largest additional latency.
    pub fn jitter(&self) -> Duration {
        self.one_way_max.duration() - self.one_way_min.duration()
    }

    /// The same network, with as much of its latency in cables as links have by default. So frames reach the
    /// switch that much later.
    #[must_use]
    pub fn with_cables(self) -> Self {
        Self { cable: LinkConfig::default().propagation.min(self.least() / 2), ..self }
    }

    /// The configuration of this network's switch.
    pub fn switch(&self) -> SwitchConfig {
        SwitchConfig { forwarding_latency: self.least() - self.cable * 2, ..SwitchConfig::default() }
    }

    /// A port of this network's switch.
    pub fn port(&self, name: impl Into<String>, address: [u8; 6]) -> PortConfig {
        let link = LinkConfig { propagation: self.cable, ..LinkConfig::default() };
        PortConfig {
            to_switch: link,
            from_switch: LinkConfig { jitter: self.jitter(), ..link },
            ..PortConfig::new(name, address)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_is_the_default_one() {
        let (link, switch) = (LinkConfig::default(), SwitchConfig::default());
        assert_eq!(NetworkProfile::SWITCH.least(), switch.forwarding_latency + link.propagation * 2);
        assert_eq!(NetworkProfile::SWITCH.jitter(), Duration::ZERO);
        let cabled = NetworkProfile::SWITCH.with_cables();
        assert_eq!(cabled.switch().forwarding_latency, switch.forwarding_latency);
        assert_eq!(cabled.port("node0", [0; 6]).to_switch.propagation, link.propagation);
        assert_eq!(NetworkProfile::ZERO.with_cables(), NetworkProfile::ZERO);
    }

    #[test]
    fn detpu_takes_1387_to_1410_ns() {
        let network = NetworkProfile::named("detpu").unwrap();
        assert_eq!((network.least().as_ns(), network.jitter().as_ns()), (1_387, 23));
        // 416 and 423 cycles at 300 MHz, rounded as in the source.
        assert_eq!(416_000u64.div_ceil(300), 1_387);
        assert_eq!(423_000u64.div_ceil(300), 1_410);
        assert_eq!(NetworkProfile::named("ethernet"), None);
    }
}
