//! What processes payload or frames between a card's port and its memory.

use std::convert::Infallible;
use std::net::Ipv4Addr;

use weft_nic::{HostCommand, Nic};
use weft_service::preprocess::{ImageError, Pipeline};
use weft_service::psp::{Change, Key, PspConfig};
use weft_service::{Direction, Flow, Services, Setting};
use weft_time::Instant;
use weft_verbs::{ApiError, QueuePairNumber};

use crate::{RtlNic, RtlNicConfig};

/// What is on the path, in addition to the card itself.
#[derive(Clone, Debug, Default)]
pub enum OnPath {
    /// Nothing.
    #[default]
    Nothing,
    /// Services of payload that arrives, as in `roce_top` with `Services`.
    Services(Service),
    /// PSP between MAC and card, as in `weft_nic_psp`.
    Psp,
}

/// The services of a queue pair.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// Map and tap. The value of a setting with a pipeline is the pipeline's number on the card, which
    /// [`Service::on`] enters.
    pub setting: Setting,
    /// The pipeline of [`weft_service::MapKind::Preprocess`].
    pub pipeline: Option<Pipeline>,
}

impl Service {
    /// The setting for a card, which loads pipelines with `load`.
    ///
    /// # Errors
    /// If the card cannot run the pipeline.
    pub fn on<E>(&self, load: impl FnOnce(&Pipeline) -> Result<u64, E>) -> Result<Setting, E> {
        let value = self.pipeline.as_ref().map_or(Ok(self.setting.value), load)?;
        Ok(Setting { value, ..self.setting })
    }

    /// Sets the services of a card's queue pairs, which must have no packet in flight.
    ///
    /// # Errors
    /// If the gates cannot run the pipeline, or a queue pair does not exist.
    pub fn serve(&self, nic: &mut RtlNic, queue_pairs: &[QueuePairNumber]) -> Result<(), ServiceError> {
        let setting = self.on(|pipeline| nic.load_pipeline(pipeline))?;
        queue_pairs.iter().try_for_each(|number| nic.serve(*number, setting))?;
        Ok(())
    }

    /// The same services in software, for one flow.
    pub fn in_software(&self, flow: Flow) -> Services {
        let mut services = Services::new();
        let setting = self.on(|pipeline| Ok::<_, Infallible>(services.load(pipeline.clone())));
        let Ok(setting) = setting;
        services.configure(flow, setting);
        services
    }
}

/// Reason for which a card cannot have a service.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The gates cannot run the pipeline.
    #[error(transparent)]
    Pipeline(#[from] ImageError),
    /// The queue pair does not exist.
    #[error(transparent)]
    QueuePair(#[from] ApiError),
}

impl OnPath {
    /// The configuration of a card that has it.
    pub fn on_card(&self, config: RtlNicConfig) -> RtlNicConfig {
        match self {
            Self::Nothing => config,
            Self::Services(_) => RtlNicConfig { services: true, ..config },
            Self::Psp => RtlNicConfig { psp: Some(PspConfig::default()), ..config },
        }
    }

    /// Sets the services of a receiver's queue pairs, which must have no packet in flight.
    ///
    /// # Errors
    /// If the gates cannot run the pipeline, or a queue pair does not exist.
    pub fn serve(&self, nic: &mut RtlNic, queue_pairs: &[QueuePairNumber]) -> Result<(), ServiceError> {
        match self {
            Self::Services(service) => service.serve(nic, queue_pairs),
            Self::Nothing | Self::Psp => Ok(()),
        }
    }

    /// What a message leaves in the receiver's memory, as computed by the services in software.
    pub fn stored(&self, message: &[u8]) -> Vec<u8> {
        let mut bytes = message.to_vec();
        if let Self::Services(service) = self {
            let flow = Flow { queue_pair: 0, direction: Direction::Receive };
            service.in_software(flow).pass(flow, 0, &mut bytes);
        }
        bytes
    }

    /// With PSP: installs keys between the card at `own` and its peer, one for each direction. They are computed
    /// from the addresses, so both cards get the same. They keep nothing secret.
    pub fn associate(&self, nic: &mut RtlNic, own: Ipv4Addr, peer: Ipv4Addr) {
        let Self::Psp = self else { return };
        let (inward, outward) = (association(peer, own), association(own, peer));
        for change in [
            Change::InstallReceiver { peer, spi: inward.0, key: inward.1 },
            Change::InstallSender { peer, spi: outward.0, key: outward.1 },
        ] {
            nic.submit(Instant::ZERO, HostCommand::Associate(change));
        }
    }
}

/// SPI and key of the frames between two addresses in this direction. The receiver's index is the sender's
/// last byte.
fn association(from: Ipv4Addr, to: Ipv4Addr) -> (u32, Key) {
    let mut key = [0; 32];
    key[..4].copy_from_slice(&from.octets());
    key[4..8].copy_from_slice(&to.octets());
    (0x100 | u32::from(from.octets()[3]), Key::Aes256(key))
}
