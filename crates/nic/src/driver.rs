//! Control of a NIC by its driver, apart from the data path.

use std::net::IpAddr;

use weft_rdma::RegionMemory;
use weft_verbs::{
    AccessFlags, ApiError, Modify, QueuePairAttributes, QueuePairInformation, QueuePairNumber,
    ReadyToReceive, ReadyToSend, ReceiveRequest, Region, RegionKeys,
};
use weft_waist::Engine;

use crate::{Card, SoftNic};

/// The management calls of verbs, and the memory that regions lie in: what sets a NIC up, whatever it is made of.
///
/// The calls take no time of the world. Two NICs of the same configuration give the same numbers and keys for the same
/// calls.
pub trait RdmaDriver {
    /// Creates a queue pair in state RESET.
    ///
    /// # Errors
    /// All queue pairs are in use, or an attribute exceeds the configuration.
    fn create_queue_pair(&mut self, attributes: QueuePairAttributes) -> Result<QueuePairNumber, ApiError>;

    /// Changes the state or the attributes of a queue pair.
    ///
    /// # Errors
    /// The queue pair does not exist, its state does not allow the change, or an attribute is out of range.
    fn modify_queue_pair(&mut self, number: QueuePairNumber, change: Modify) -> Result<(), ApiError>;

    /// Takes a queue pair from RESET to RTS: what a connection manager does once both ends know each other.
    ///
    /// # Errors
    /// As [`RdmaDriver::modify_queue_pair`]; the queue pair is then in the last state that it reached.
    fn connect(
        &mut self,
        number: QueuePairNumber,
        access: AccessFlags,
        receive: ReadyToReceive,
        send: ReadyToSend,
    ) -> Result<(), ApiError> {
        self.modify_queue_pair(number, Modify::Init { access })?;
        self.modify_queue_pair(number, Modify::ReadyToReceive(receive))?;
        self.modify_queue_pair(number, Modify::ReadyToSend(send))
    }

    /// Takes a queue pair away, with its requests and without completions for them.
    ///
    /// # Errors
    /// The queue pair does not exist.
    fn destroy_queue_pair(&mut self, number: QueuePairNumber) -> Result<(), ApiError>;

    /// What a queue pair is like now.
    ///
    /// # Errors
    /// The queue pair does not exist.
    fn query_queue_pair(&mut self, number: QueuePairNumber) -> Result<QueuePairInformation, ApiError>;

    /// Queues a receive request, as [`crate::HostCommand::PostReceive`] does, and says at once if it is refused.
    ///
    /// # Errors
    /// The queue pair does not exist or is in RESET, or a queue is full.
    fn post_receive(&mut self, number: QueuePairNumber, request: ReceiveRequest) -> Result<(), ApiError>;

    /// Registers a region.
    ///
    /// # Errors
    /// All regions are in use, or the region leaves the address space.
    fn register_region(&mut self, region: Region) -> Result<RegionKeys, ApiError>;

    /// Changes what is allowed in a region, from the next packet on.
    ///
    /// # Errors
    /// No region has these keys.
    fn modify_region(&mut self, keys: RegionKeys, access: AccessFlags) -> Result<(), ApiError>;

    /// Takes a region away, from the next packet on, and returns what it was.
    ///
    /// # Errors
    /// No region has these keys.
    fn deregister_region(&mut self, keys: RegionKeys) -> Result<Region, ApiError>;

    /// The memory behind the regions, past the transport and without its checks: what a host sees of its own memory,
    /// and a test of all of it.
    fn memory(&mut self) -> &mut dyn RegionMemory;
}

impl<E: Engine> RdmaDriver for Card<E> {
    fn create_queue_pair(&mut self, attributes: QueuePairAttributes) -> Result<QueuePairNumber, ApiError> {
        self.transport().create_queue_pair(attributes)
    }

    fn modify_queue_pair(&mut self, number: QueuePairNumber, change: Modify) -> Result<(), ApiError> {
        let changed = self.transport().modify_queue_pair(number, change);
        // Requests may have ended flushed.
        self.serve_driver();
        changed
    }

    fn destroy_queue_pair(&mut self, number: QueuePairNumber) -> Result<(), ApiError> {
        self.transport().destroy_queue_pair(number)?;
        self.forget_service(number);
        Ok(())
    }

    fn query_queue_pair(&mut self, number: QueuePairNumber) -> Result<QueuePairInformation, ApiError> {
        self.transport().query_queue_pair(number)
    }

    fn post_receive(&mut self, number: QueuePairNumber, request: ReceiveRequest) -> Result<(), ApiError> {
        let posted = self.transport().post_receive(number, request);
        self.serve_driver();
        posted
    }

    fn register_region(&mut self, region: Region) -> Result<RegionKeys, ApiError> {
        self.transport().register_region(region)
    }

    fn modify_region(&mut self, keys: RegionKeys, access: AccessFlags) -> Result<(), ApiError> {
        self.transport().modify_region(keys, access)
    }

    fn deregister_region(&mut self, keys: RegionKeys) -> Result<Region, ApiError> {
        self.transport().deregister_region(keys)
    }

    fn memory(&mut self) -> &mut dyn RegionMemory {
        self.card_memory()
    }
}

impl<E: Engine> RdmaDriver for SoftNic<E> {
    fn create_queue_pair(&mut self, attributes: QueuePairAttributes) -> Result<QueuePairNumber, ApiError> {
        self.card_mut().create_queue_pair(attributes)
    }

    fn modify_queue_pair(&mut self, number: QueuePairNumber, change: Modify) -> Result<(), ApiError> {
        // The frames of this NIC are of IPv4.
        if let Modify::ReadyToReceive(ReadyToReceive { destination: IpAddr::V6(address), .. }) = change {
            return Err(ApiError::NoIpv4(address));
        }
        self.card_mut().modify_queue_pair(number, change)
    }

    fn destroy_queue_pair(&mut self, number: QueuePairNumber) -> Result<(), ApiError> {
        self.card_mut().destroy_queue_pair(number)
    }

    fn query_queue_pair(&mut self, number: QueuePairNumber) -> Result<QueuePairInformation, ApiError> {
        self.card_mut().query_queue_pair(number)
    }

    fn post_receive(&mut self, number: QueuePairNumber, request: ReceiveRequest) -> Result<(), ApiError> {
        self.card_mut().post_receive(number, request)
    }

    fn register_region(&mut self, region: Region) -> Result<RegionKeys, ApiError> {
        self.card_mut().register_region(region)
    }

    fn modify_region(&mut self, keys: RegionKeys, access: AccessFlags) -> Result<(), ApiError> {
        self.card_mut().modify_region(keys, access)
    }

    fn deregister_region(&mut self, keys: RegionKeys) -> Result<Region, ApiError> {
        self.card_mut().deregister_region(keys)
    }

    fn memory(&mut self) -> &mut dyn RegionMemory {
        self.card_mut().memory()
    }
}
