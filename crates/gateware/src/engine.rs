//! The port that engines beside the transport have: requests of their own, calls by WRITEs, and changes of permission.

use std::collections::VecDeque;

use weft_nic::RdmaDriver as _;
use weft_rdma::{AccessFlags, ApiError, QueuePairNumber, RegionKeys, WorkRequest};

use crate::nic::RtlNic;
use crate::package::{self, Completion, RpcCall, WriteBeat};

/// What an engine is told, in the order in which it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineEvent {
    /// A beat of a WRITE into an RPC region, on its way into memory.
    Beat {
        /// Which engine.
        slot: u8,
        /// Where the beat goes: the address of its first byte, whether that is written or not.
        address: u64,
        /// Its bytes, and which of them are written.
        beat: WriteBeat,
    },
    /// A WRITE into an RPC region lies in memory; its beats came before.
    Call(RpcCall),
    /// A request of a queue pair that belongs to an engine has ended.
    Completion(Completion),
    /// A change of a queue pair's access is in force, and all that was allowed before it, and before changes of regions that were
    /// asked for earlier, lies in memory.
    Changed {
        /// The queue pair, by the index in its number.
        index: u16,
        /// The cycle in which the engine asked: for this change, or for the first of the regions' right before it.
        requested: u64,
        /// The cycle of the gateware's marker.
        done: u64,
    },
}

/// A change of permission that waits for its turn.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    QueuePair { index: u16, access: package::Access },
    Region { index: u16, access: package::Access },
}

/// What passes through the port.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    pub(crate) posts: VecDeque<package::WorkRequest>,
    pub(crate) changes: VecDeque<Change>,
    /// When the change in front, or the first of regions right before it, was on the port first.
    pub(crate) since: Option<u64>,
    /// Changes of queue pairs that the gateware has taken and not marked yet, and since when they were asked for.
    pub(crate) fences: VecDeque<(u16, u64)>,
    pub(crate) events: VecDeque<EngineEvent>,
    pub(crate) holds_calls: bool,
}

/// The engine's side of the port, at one instant: [`RtlNic::engine`].
#[derive(Debug)]
pub struct EnginePort<'a>(pub(crate) &'a mut RtlNic);

impl EnginePort<'_> {
    /// Lets the completions of a queue pair, which has not been told its peer yet, go to engines instead of the host.
    ///
    /// # Errors
    /// There is no such queue pair.
    pub fn adopt(&mut self, number: QueuePairNumber) -> Result<(), ApiError> {
        self.0.adopt(number)
    }

    /// Posts a request to a queue pair that belongs to an engine. The engine counts: what is posted to a full queue is dropped.
    ///
    /// # Errors
    /// There is no such queue pair.
    pub fn post(&mut self, number: QueuePairNumber, request: &WorkRequest) -> Result<(), ApiError> {
        let index = self.0.index(number)?;
        let request = crate::queue_pair::work_request(index, request.id, request.signaled, request);
        self.0.attached().posts.push_back(request);
        Ok(())
    }

    /// Changes what the peer may do through a queue pair. [`EngineEvent::Changed`] follows. The driver is not told.
    ///
    /// # Errors
    /// There is no such queue pair.
    pub fn change_access(&mut self, number: QueuePairNumber, access: AccessFlags) -> Result<(), ApiError> {
        let change = Change::QueuePair { index: self.0.index(number)?, access: crate::nic::access(access) };
        self.0.attached().changes.push_back(change);
        Ok(())
    }

    /// Changes what peers may do in a region, from the next packet on. A change of any queue pair behind it is its fence.
    /// The driver is not told.
    ///
    /// # Errors
    /// There is no such region.
    pub fn change_region(&mut self, keys: RegionKeys, access: AccessFlags) -> Result<(), ApiError> {
        let change = Change::Region { index: self.0.region_index(keys)?, access: crate::nic::access(access) };
        self.0.attached().changes.push_back(change);
        Ok(())
    }

    /// Whether calls wait. The gateware has a queue of 16 for them; a WRITE that would call beyond it is dropped.
    pub fn hold_calls(&mut self, hold: bool) {
        self.0.attached().holds_calls = hold;
    }

    /// The next thing that the engine is told.
    pub fn poll(&mut self) -> Option<EngineEvent> {
        self.0.attached().events.pop_front()
    }

    /// The bytes of a memory.
    ///
    /// # Errors
    /// As [`weft_rdma::RegionMemory::read`].
    pub fn read(
        &mut self,
        target: weft_rdma::Target,
        address: u64,
        length: usize,
    ) -> Result<&[u8], weft_rdma::MemoryFault> {
        self.0.memory().read(target, address, length)
    }
}
