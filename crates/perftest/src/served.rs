//! Services on the path of a card's payload, whatever the kind of card.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use weft_gateware::{RtlNic, Service, ServiceError};
use weft_nic::{Card, NoEngine, RdmaDriver, SoftNic};
use weft_service::preprocess::{Pipeline, PipelineError};
use weft_service::{MapKind, Setting, TapKind};
use weft_verbs::QueuePairNumber;

/// The service under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceName {
    /// Encryption of frames.
    Psp,
    /// Detection of executable code.
    Inspect,
    /// Preprocessing for recommenders.
    Preprocess,
    /// Count of bytes.
    Count,
    /// XOR with a value.
    Xor,
}

impl ServiceName {
    /// All services.
    pub const ALL: [Self; 5] = [Self::Psp, Self::Inspect, Self::Preprocess, Self::Count, Self::Xor];

    /// The name as users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Psp => "psp",
            Self::Inspect => "inspect",
            Self::Preprocess => "preprocess",
            Self::Count => "count",
            Self::Xor => "xor",
        }
    }
}

/// There is no service with this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown service `{0}`; known are psp, inspect, preprocess, count, xor")]
pub struct UnknownService(String);

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ServiceName {
    type Err = UnknownService;

    fn from_str(name: &str) -> Result<Self, UnknownService> {
        let found = Self::ALL.into_iter().find(|service| service.name() == name);
        found.ok_or_else(|| UnknownService(name.to_owned()))
    }
}

/// A pipeline of the preprocessing as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declaration {
    /// Its name in results.
    pub name: String,
    /// The declaration, in TOML.
    pub text: String,
}

impl Declaration {
    /// A built-in pipeline.
    ///
    /// # Errors
    /// If there is no such preset.
    pub fn preset(name: &str) -> Result<Self, PipelineError> {
        Ok(Self { name: name.to_owned(), text: Pipeline::preset_text(name)?.to_owned() })
    }

    /// The pipeline.
    ///
    /// # Errors
    /// If the text declares none.
    pub fn pipeline(&self) -> Result<Pipeline, PipelineError> {
        self.text.parse()
    }
}

/// A card that can have services on the path of payload that arrives.
pub(crate) trait Served: RdmaDriver {
    /// Sets the services of queue pairs.
    fn serve_all(&mut self, service: &Service, queue_pairs: &[QueuePairNumber]) -> Result<(), ServiceError>;

    /// The reading of the tap of a queue pair, which must exist.
    fn read_tap(&mut self, queue_pair: QueuePairNumber) -> u64;
}

impl Served for Card<NoEngine> {
    fn serve_all(&mut self, service: &Service, queue_pairs: &[QueuePairNumber]) -> Result<(), ServiceError> {
        let setting = service.on(|pipeline| Ok::<_, ServiceError>(self.load_pipeline(pipeline.clone())))?;
        queue_pairs.iter().for_each(|number| self.serve(*number, setting));
        Ok(())
    }

    fn read_tap(&mut self, queue_pair: QueuePairNumber) -> u64 {
        self.tap_reading(queue_pair)
    }
}

impl Served for SoftNic<NoEngine> {
    fn serve_all(&mut self, service: &Service, queue_pairs: &[QueuePairNumber]) -> Result<(), ServiceError> {
        self.card_mut().serve_all(service, queue_pairs)
    }

    fn read_tap(&mut self, queue_pair: QueuePairNumber) -> u64 {
        self.card().tap_reading(queue_pair)
    }
}

impl Served for RtlNic {
    fn serve_all(&mut self, service: &Service, queue_pairs: &[QueuePairNumber]) -> Result<(), ServiceError> {
        service.serve(self, queue_pairs)
    }

    fn read_tap(&mut self, queue_pair: QueuePairNumber) -> u64 {
        self.tap_reading(queue_pair).expect("the queue pair exists")
    }
}

/// The readings of the taps of these queue pairs; none if the service has no tap.
pub(crate) fn readings(
    card: &mut impl Served,
    service: Option<&Service>,
    queue_pairs: &[QueuePairNumber],
) -> Vec<u64> {
    let has_tap = service.is_some_and(|service| service.setting.tap != TapKind::None);
    let read = queue_pairs.iter().filter(|_| has_tap);
    read.map(|number| card.read_tap(*number)).collect()
}

/// A service by name, as one process asks another for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServiceRequest {
    pub(crate) name: ServiceName,
    pub(crate) pipeline: Declaration,
}

/// The value of XOR: no byte of it is 0, so no byte of the payload stays as it is.
const XOR_VALUE: u64 = 0x0123_4567_89ab_cdef;

impl ServiceRequest {
    /// The service of a queue pair; `None` for PSP, which the card has and no queue pair.
    ///
    /// # Errors
    /// If the text is not a pipeline.
    pub(crate) fn service(&self) -> Result<Option<Service>, PipelineError> {
        let map = |map| Setting { map, ..Setting::default() };
        let tap = |tap| Setting { tap, ..Setting::default() };
        let setting = match self.name {
            ServiceName::Psp => return Ok(None),
            ServiceName::Inspect => tap(TapKind::Inspect),
            ServiceName::Count => tap(TapKind::Count),
            ServiceName::Preprocess => map(MapKind::Preprocess),
            ServiceName::Xor => Setting { value: XOR_VALUE, ..map(MapKind::Xor) },
        };
        let has_pipeline = self.name == ServiceName::Preprocess;
        let pipeline = has_pipeline.then(|| self.pipeline.pipeline()).transpose()?;
        Ok(Some(Service { setting, pipeline }))
    }
}
