//! Control of a NIC by its driver, separate from the data path.

use std::net::IpAddr;

use weft_rdma::RegionMemory;
use weft_verbs::{
    AccessFlags, ApiError, Modify, QueuePairAttributes, QueuePairInformation, QueuePairNumber,
    ReadyToReceive, ReadyToSend, ReceiveRequest, Region, RegionKeys,
};
use weft_waist::Engine;

use crate::{Card, SoftNic};

/// The management calls of verbs, and the memory of the regions: the interface by which any NIC is set up.
///
/// The calls take no simulated time. Two NICs with the same configuration return the same numbers and keys
/// for the same calls.
pub trait RdmaDriver {
    /// Creates a queue pair in the state RESET.
    ///
    /// # Errors
    /// If all queue pairs are in use, or an attribute exceeds the configuration.
    fn create_queue_pair(&mut self, attributes: QueuePairAttributes) -> Result<QueuePairNumber, ApiError>;

    /// Changes the state or the attributes of a queue pair.
    ///
    /// # Errors
    /// If the queue pair does not exist, its state does not allow the change, or an attribute is out of
    /// range.
    fn modify_queue_pair(&mut self, number: QueuePairNumber, change: Modify) -> Result<(), ApiError>;

    /// Takes a queue pair from RESET to RTS, as a connection manager does after both ends have exchanged
    /// their numbers.
    ///
    /// # Errors
    /// As [`RdmaDriver::modify_queue_pair`]. Then the queue pair is in the last state that it reached.
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

    /// Destroys a queue pair. Its requests are dropped without completions.
    ///
    /// # Errors
    /// If the queue pair does not exist.
    fn destroy_queue_pair(&mut self, number: QueuePairNumber) -> Result<(), ApiError>;

    /// The present state and attributes of a queue pair.
    ///
    /// # Errors
    /// If the queue pair does not exist.
    fn query_queue_pair(&mut self, number: QueuePairNumber) -> Result<QueuePairInformation, ApiError>;

    /// Posts a receive request, as [`crate::HostCommand::PostReceive`] does, and returns a refusal at once.
    ///
    /// # Errors
    /// If the queue pair does not exist or is in RESET, or a queue is full.
    fn post_receive(&mut self, number: QueuePairNumber, request: ReceiveRequest) -> Result<(), ApiError>;

    /// Registers a region.
    ///
    /// # Errors
    /// If all regions are in use, or the region exceeds the address space.
    fn register_region(&mut self, region: Region) -> Result<RegionKeys, ApiError>;

    /// Changes the access flags of a region. The change applies from the next packet on.
    ///
    /// # Errors
    /// If no region has these keys.
    fn modify_region(&mut self, keys: RegionKeys, access: AccessFlags) -> Result<(), ApiError>;

    /// Deregisters a region, and returns it. Accesses are refused from the next packet on.
    ///
    /// # Errors
    /// If no region has these keys.
    fn deregister_region(&mut self, keys: RegionKeys) -> Result<Region, ApiError>;

    /// The memory of the regions, without the transport and its checks: as a host accesses its own memory,
    /// and as a test accesses all of it.
    fn memory(&mut self) -> &mut dyn RegionMemory;
}

impl<E: Engine> RdmaDriver for Card<E> {
    fn create_queue_pair(&mut self, attributes: QueuePairAttributes) -> Result<QueuePairNumber, ApiError> {
        self.transport().create_queue_pair(attributes)
    }

    fn modify_queue_pair(&mut self, number: QueuePairNumber, change: Modify) -> Result<(), ApiError> {
        let changed = self.transport().modify_queue_pair(number, change);
        // Requests may have completed as flushed.
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
        // This NIC's frames carry IPv4 only.
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
