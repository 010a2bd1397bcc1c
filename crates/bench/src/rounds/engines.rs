//! The engines of a cluster, and their parameters.

use std::fmt;
use std::str::FromStr;

use weft_gateware::{RtlRounds, RtlRoundsConfig};
use weft_results::NicModel;
use weft_rounds::{Ckc, Parameters, Register, Rounds};
use weft_sim::{CostProfile, NetworkProfile};
use weft_time::{Duration, Instant};
use weft_waist::{Engine, EngineStatus, Event, Io};

use super::path::{CYCLE, one_way};

/// The service that the engines provide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// Streams of proposals and decisions.
    #[default]
    Streams,
    /// A register. Each of its operations is a decision.
    Register,
}

impl Service {
    /// All services.
    pub const ALL: [Self; 2] = [Self::Streams, Self::Register];

    /// Name of the service.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::Register => "register",
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Service {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|service| service.name() == text);
        known.ok_or_else(|| format!("there is no service `{text}`; choose streams or register"))
    }
}

/// Parameters of all engines of a cluster.
#[derive(Clone, Debug)]
pub(super) struct EngineParameters {
    pub(super) nic: NicModel,
    pub(super) service: Service,
    pub(super) parameters: Parameters,
}

impl EngineParameters {
    /// Makes an engine, before its first event.
    pub(super) fn build(&self) -> NodeEngine {
        let Parameters { period, one_way, silence, .. } = self.parameters;
        match (self.nic, self.service) {
            (NicModel::Soft, Service::Streams) => NodeEngine::Streams(Rounds::new(self.parameters.clone())),
            (NicModel::Soft, Service::Register) => NodeEngine::Register(Rounds::new(self.parameters.clone())),
            (NicModel::Rtl, Service::Streams) => {
                let silence = u8::try_from(silence).expect("a few windows");
                let config = RtlRoundsConfig { period, one_way, silence, ..RtlRoundsConfig::default() };
                NodeEngine::Gates(Box::new(RtlRounds::new(config)))
            }
            (NicModel::Rtl, Service::Register) => panic!("the register has no twin in gates"),
        }
    }
}

/// An engine of a node.
#[expect(clippy::large_enum_variant, reason = "a cluster has at most eight")]
pub enum NodeEngine {
    /// The software engine.
    Streams(Rounds<Ckc>),
    /// The software engine with the register.
    Register(Rounds<Ckc, Register>),
    /// The engine in gateware.
    Gates(Box<RtlRounds>),
}

impl Engine for NodeEngine {
    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        match self {
            Self::Streams(engine) => engine.handle(now, event, io),
            Self::Register(engine) => engine.handle(now, event, io),
            Self::Gates(engine) => engine.handle(now, event, io),
        }
    }

    fn status(&self) -> EngineStatus {
        match self {
            Self::Streams(engine) => engine.status(),
            Self::Register(engine) => engine.status(),
            Self::Gates(engine) => engine.status(),
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        match self {
            Self::Streams(engine) => engine.counters(),
            Self::Register(engine) => engine.counters(),
            Self::Gates(engine) => engine.counters(),
        }
    }
}

/// Parameters of engines on cards with this profile and on this network. `proposal_bytes` is the maximum size
/// of a proposal.
pub(super) fn parameters_for(
    profile: &CostProfile,
    network: &NetworkProfile,
    window: u64,
    period: Duration,
    proposal_bytes: usize,
) -> Parameters {
    let sizes = Parameters { window, period, value_bytes: proposal_bytes.max(8), ..Parameters::default() };
    // Minimum size of a message of a round: header and records.
    let least = if window == 4 { 64 } else { 128 };
    let one_way = one_way(profile, network, least).min(period - CYCLE);
    Parameters { one_way, silence: 4 * window, ..sizes }
}
