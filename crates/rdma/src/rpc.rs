//! Calls of engines by WRITEs into RPC regions.

use std::collections::VecDeque;

use weft_verbs::{QueuePairNumber, Target};

/// A completed WRITE into an RPC region: a call of an engine. The payload is in the region's memory.
///
/// A WRITE is one call, however many packets it has and however often they are sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcWrite {
    /// The engine's slot, as the region specifies.
    pub engine: u8,
    /// The local queue pair on which the WRITE arrived. The reply is a SEND on the same queue pair.
    pub queue_pair: QueuePairNumber,
    /// The memory that holds the payload.
    pub target: Target,
    /// Address of the payload's first byte, both in the region and in the target's memory.
    pub address: u64,
    /// Bytes of the payload.
    pub length: u32,
    /// Immediate data of the WRITE, if it has any.
    pub immediate: Option<u32>,
}

/// Calls that are queued for their engines, oldest first, in bounded space.
#[derive(Debug)]
pub(crate) struct RpcQueue {
    calls: VecDeque<RpcWrite>,
    depth: usize,
}

impl RpcQueue {
    pub(crate) fn new(depth: usize) -> Self {
        Self { calls: VecDeque::with_capacity(depth), depth }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.calls.len() >= self.depth
    }

    pub(crate) fn push(&mut self, call: RpcWrite) {
        assert!(!self.is_full(), "the caller has asked whether there is room");
        self.calls.push_back(call);
    }

    pub(crate) fn pop(&mut self) -> Option<RpcWrite> {
        self.calls.pop_front()
    }
}
