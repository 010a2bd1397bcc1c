//! `weft bench service`: the cost of a service on a card's data path, and what it finds.
//!
//! WRITEs of the same load arrive at the same card with the service on their path and without it. In the
//! gateware both runs are simulated, cycle by cycle; of the soft card they alternate over UDP sockets. In
//! both, memory and taps of the receiver are compared with the services in Rust.

mod gates;
mod result;
mod sockets;

use std::path::PathBuf;

use weft_results::{NicModel, World};
use weft_service::preprocess::Image;
use weft_time::Duration;

use crate::served::ServiceRequest;
use crate::{Amount, RdmaBench, RdmaError, RdmaOperation, detection, limit};

pub use crate::detection::{Detection, PacketsError, Rate};
pub use crate::served::{Declaration, ServiceName};
pub use result::{Alone, Figures, Point, ServiceResult};

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct ServiceBench {
    /// The service.
    pub service: ServiceName,
    /// The NIC whose path it is on.
    pub nic: NicModel,
    /// The pipeline of [`ServiceName::Preprocess`].
    pub pipeline: Declaration,
    /// Numbers of bytes of a message; one measurement for each.
    pub sizes_bytes: Vec<u32>,
    /// Number of queue pairs.
    pub queue_pairs: u32,
    /// Path MTU in bytes.
    pub mtu_bytes: u32,
    /// Number of messages in each run. `None` means as many as take [`ServiceBench::time`].
    pub messages: Option<u64>,
    /// Length of a run: of the soft card in real time, of the gateware in virtual time at the rate of the wire.
    pub time: Duration,
    /// Folder of the packets that [`ServiceName::Inspect`] judges; `None` if only the path is measured.
    pub packets: Option<PathBuf>,
    /// Seed for the payload.
    pub seed: u64,
}

impl ServiceBench {
    /// Checks the options, without starting anything.
    ///
    /// # Errors
    /// The first option that is wrong.
    pub fn check(&self) -> Result<(), RdmaError> {
        if self.sizes_bytes.is_empty() {
            return Err(RdmaError::EmptyMessage);
        }
        self.sizes_bytes.iter().try_for_each(|size| self.writes(*size, self.asked()).check())?;
        if self.packets.is_some() && self.service != ServiceName::Inspect {
            return Err(RdmaError::PacketsOf(self.service));
        }
        match (self.service, self.nic) {
            (ServiceName::Psp, NicModel::Soft) => Err(RdmaError::PspOfSoft),
            (ServiceName::Preprocess, NicModel::Rtl) => {
                Image::default()
                    .load(&self.pipeline.pipeline()?)
                    .map_err(weft_gateware::ServiceError::from)?;
                Ok(())
            }
            (ServiceName::Preprocess, NicModel::Soft) => Ok(self.pipeline.pipeline().map(drop)?),
            _ => Ok(()),
        }
    }

    /// Runs the measurement. Shows progress on standard error.
    ///
    /// # Errors
    /// If an option is wrong, a port is in use, or a run fails.
    pub fn run(&self) -> Result<ServiceResult, RdmaError> {
        let mut server = weft_net::process::own_executable();
        server.arg(crate::SERVER_COMMAND);
        self.run_with_server(server)
    }

    /// As [`ServiceBench::run`]. `server` is as in [`RdmaBench`].
    pub(crate) fn run_with_server(&self, server: std::process::Command) -> Result<ServiceResult, RdmaError> {
        self.check()?;
        let detection =
            self.packets.as_deref().map(|folder| detection::measure(self.nic, folder)).transpose()?;
        let measured = match self.nic {
            NicModel::Soft => sockets::measure(self, server)?,
            NicModel::Rtl => gates::measure(self)?,
        };
        Ok(ServiceResult::new(self, measured, detection))
    }

    /// The world that the NIC is measured in.
    const fn world(&self) -> World {
        match self.nic {
            NicModel::Soft => World::Net,
            NicModel::Rtl => World::Sim,
        }
    }

    /// The measurement of WRITEs of this size, which the service is added to.
    fn writes(&self, size_bytes: u32, amount: Amount) -> RdmaBench {
        RdmaBench {
            world: self.world(),
            nic: self.nic,
            operation: RdmaOperation::Write,
            size_bytes,
            queue_pairs: self.queue_pairs,
            mtu_bytes: self.mtu_bytes,
            amount,
            seed: self.seed,
            ..RdmaBench::default()
        }
    }

    /// As [`ServiceBench::writes`], with the amount of work of a run.
    fn run_of(&self, size_bytes: u32) -> RdmaBench {
        let asked = self.writes(size_bytes, self.asked());
        match (self.nic, self.messages) {
            // In virtual time all that fits the queues is posted at once, so a time would bound nothing.
            (NicModel::Rtl, None) => {
                let messages = limit::limit(&asked.load(), 0.0).messages_per_s * self.time.as_secs_f64();
                RdmaBench { amount: Amount::Messages((messages as u64).max(1)), ..asked }
            }
            _ => asked,
        }
    }

    /// The amount of work, as it was asked for.
    fn asked(&self) -> Amount {
        self.messages.map_or(Amount::Time(self.time), Amount::Messages)
    }

    fn request(&self) -> ServiceRequest {
        ServiceRequest { name: self.service, pipeline: self.pipeline.clone() }
    }
}

#[cfg(test)]
mod tests;
