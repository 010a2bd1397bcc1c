//! The maps and taps of a card, in a table by flow.

mod count;
mod xor;

pub use count::Count;
pub use xor::Xor;

use crate::inspect::Inspect;
use crate::preprocess::Pipeline;
use crate::shapes::{Flow, Map, QUEUE_PAIRS, Tap};

/// The maps of the card. Their numbers are those of `map_e` in `rtl/services/services_pkg.sv`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum MapKind {
    /// Does not change the payload.
    #[default]
    None = 0,
    /// [`Xor`].
    Xor = 1,
    /// A [`Pipeline`] of the card. The setting's value is the number of the pipeline.
    Preprocess = 2,
}

/// The taps of the card. Their numbers are those of `tap_e` in `rtl/services/services_pkg.sv`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum TapKind {
    /// Every verdict is 0, and the state does not change.
    #[default]
    None = 0,
    /// [`Count`].
    Count = 1,
    /// [`Inspect`].
    Inspect = 2,
}

impl Tap for TapKind {
    fn verdict(&self, value: u64, offset: u64, bytes: &[u8]) -> u32 {
        match self {
            Self::None => 0,
            Self::Count => Count.verdict(value, offset, bytes),
            Self::Inspect => Inspect.verdict(value, offset, bytes),
        }
    }

    fn accept(&self, state: u64, verdict: u32) -> u64 {
        match self {
            Self::None => state,
            Self::Count => Count.accept(state, verdict),
            Self::Inspect => Inspect.accept(state, verdict),
        }
    }

    fn level(&self, verdict: u32) -> u32 {
        match self {
            Self::Inspect => Inspect.level(verdict),
            _ => verdict,
        }
    }
}

/// What a tap's verdict does besides changing the flow's state. The numbers are those of `action_e` in
/// `rtl/services/services_pkg.sv`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Nothing else.
    #[default]
    None,
    /// Marks the receive completion of a message if the level of one of its packets ([`Tap::level`]) reaches a
    /// threshold.
    Mark {
        /// The lowest level that is marked.
        threshold: u32,
    },
}

impl Action {
    /// The number of the action, and its threshold. The gateware uses the same.
    pub const fn numbers(self) -> (u8, u32) {
        match self {
            Self::None => (0, 0),
            Self::Mark { threshold } => (1, threshold),
        }
    }
}

/// A map that changes nothing.
struct Identity;

impl Map for Identity {
    fn map(&self, _value: u64, _offset: u64, _bytes: &mut [u8]) {}
}

/// The services of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// The map, which changes the payload.
    pub map: MapKind,
    /// The tap, which observes the payload before the map changes it.
    pub tap: TapKind,
    /// Parameter of the flow's services. Each service defines its meaning.
    pub value: u64,
    /// What the tap's verdicts do besides changing the flow's state.
    pub action: Action,
}

impl Setting {
    /// Whether a packet with this verdict is marked.
    fn marks(&self, verdict: u32) -> bool {
        match self.action {
            Action::None => false,
            Action::Mark { threshold } => self.tap != TapKind::None && self.tap.level(verdict) >= threshold,
        }
    }
}

/// All maps and taps of a card, with the settings and the state of each flow.
#[derive(Clone, Debug)]
pub struct Services {
    flows: Box<[(Setting, u64)]>,
    pipelines: Vec<Pipeline>,
}

impl Default for Services {
    fn default() -> Self {
        Self::new()
    }
}

impl Services {
    /// A table in which no flow has a service.
    pub fn new() -> Self {
        Self { flows: vec![Default::default(); 2 * usize::from(QUEUE_PAIRS)].into(), pipelines: Vec::new() }
    }

    /// Loads a pipeline and returns its number. Settings with [`MapKind::Preprocess`] have this number as
    /// their value.
    pub fn load(&mut self, pipeline: Pipeline) -> u64 {
        self.pipelines.push(pipeline);
        self.pipelines.len() as u64 - 1
    }

    /// Sets the services of a flow, from its next packet on. The flow's state becomes 0.
    ///
    /// # Panics
    /// If the queue pair is not below [`QUEUE_PAIRS`], as in all methods of this type.
    pub fn configure(&mut self, flow: Flow, setting: Setting) {
        self.flows[flow.index()] = (setting, 0);
    }

    /// Whether a flow has a service.
    pub fn serves(&self, flow: Flow) -> bool {
        let (setting, _) = &self.flows[flow.index()];
        setting.map != MapKind::None || setting.tap != TapKind::None
    }

    /// Passes the payload of a packet. Returns the tap's verdict.
    pub fn pass(&self, flow: Flow, offset: u64, bytes: &mut [u8]) -> u32 {
        let (setting, _) = &self.flows[flow.index()];
        let verdict = setting.tap.verdict(setting.value, offset, bytes);
        self.map(setting).map(setting.value, offset, bytes);
        verdict
    }

    /// The map of a setting. If the setting's pipeline was never loaded, the map changes nothing.
    fn map(&self, setting: &Setting) -> &dyn Map {
        match setting.map {
            MapKind::None => &Identity,
            MapKind::Xor => &Xor,
            MapKind::Preprocess => {
                let loaded =
                    usize::try_from(setting.value).ok().and_then(|number| self.pipelines.get(number));
                loaded.map_or(&Identity, |pipeline| pipeline as &dyn Map)
            }
        }
    }

    /// Updates the tap's state after the transport has accepted a packet with this verdict. Returns whether the
    /// packet is marked ([`Action::Mark`]).
    pub fn accept(&mut self, flow: Flow, verdict: u32) -> bool {
        let (setting, state) = &mut self.flows[flow.index()];
        *state = setting.tap.accept(*state, verdict);
        setting.marks(verdict)
    }

    /// The tap's state for a flow.
    pub fn reading(&self, flow: Flow) -> u64 {
        self.flows[flow.index()].1
    }
}
