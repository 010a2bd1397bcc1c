//! Maps and taps as a card has them: a table by flow.

mod count;
mod xor;

pub use count::Count;
pub use xor::Xor;

use crate::preprocess::Pipeline;
use crate::shapes::{Flow, Map, QUEUE_PAIRS, Tap};

/// The maps of the card; the numbers are those of `map_e` in `rtl/services/services_pkg.sv`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum MapKind {
    /// Payload passes unchanged.
    #[default]
    None = 0,
    /// [`Xor`].
    Xor = 1,
    /// A [`Pipeline`] of the card: the value is its number.
    Preprocess = 2,
}

/// The taps of the card; the numbers are those of `tap_e` in `rtl/services/services_pkg.sv`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum TapKind {
    /// Every verdict is 0, and the state does not change.
    #[default]
    None = 0,
    /// [`Count`].
    Count = 1,
}

impl Tap for TapKind {
    fn verdict(&self, value: u64, offset: u64, bytes: &[u8]) -> u32 {
        match self {
            Self::None => 0,
            Self::Count => Count.verdict(value, offset, bytes),
        }
    }

    fn accept(&self, state: u64, verdict: u32) -> u64 {
        match self {
            Self::None => state,
            Self::Count => Count.accept(state, verdict),
        }
    }
}

/// Changes nothing.
struct Identity;

impl Map for Identity {
    fn map(&self, _value: u64, _offset: u64, _bytes: &mut [u8]) {}
}

/// Configuration of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// Service that changes the payload.
    pub map: MapKind,
    /// Service that observes the payload, before the map changes it.
    pub tap: TapKind,
    /// Parameter of this flow's services; its meaning is theirs.
    pub value: u64,
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
    /// No flow has a service.
    pub fn new() -> Self {
        Self { flows: vec![Default::default(); 2 * usize::from(QUEUE_PAIRS)].into(), pipelines: Vec::new() }
    }

    /// Loads a pipeline. Returns its number, which is the value of settings with [`MapKind::Preprocess`].
    pub fn load(&mut self, pipeline: Pipeline) -> u64 {
        self.pipelines.push(pipeline);
        self.pipelines.len() as u64 - 1
    }

    /// Sets what a flow has, from its next packet on. Its state becomes 0.
    ///
    /// # Panics
    /// If the queue pair is not below [`QUEUE_PAIRS`], as everywhere in this type.
    pub fn configure(&mut self, flow: Flow, setting: Setting) {
        self.flows[flow.index()] = (setting, 0);
    }

    /// Whether a flow has a service.
    pub fn serves(&self, flow: Flow) -> bool {
        let (setting, _) = &self.flows[flow.index()];
        setting.map != MapKind::None || setting.tap != TapKind::None
    }

    /// Passes the payload of a packet; returns the tap's verdict.
    pub fn pass(&self, flow: Flow, offset: u64, bytes: &mut [u8]) -> u32 {
        let (setting, _) = &self.flows[flow.index()];
        let verdict = setting.tap.verdict(setting.value, offset, bytes);
        self.map(setting).map(setting.value, offset, bytes);
        verdict
    }

    /// The map of a setting. A pipeline that was never loaded changes nothing.
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

    /// The transport has accepted a packet on which this was the verdict.
    pub fn accept(&mut self, flow: Flow, verdict: u32) {
        let (setting, state) = &mut self.flows[flow.index()];
        *state = setting.tap.accept(*state, verdict);
    }

    /// The tap's state of a flow.
    pub fn reading(&self, flow: Flow) -> u64 {
        self.flows[flow.index()].1
    }
}
