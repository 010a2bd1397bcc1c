//! Copies between the host's memory and those of engines. The world executes them.

use std::collections::VecDeque;
use std::ops::Range;

use weft_time::Duration;
use weft_verbs::CompletionStatus;
use weft_waist::Memory;

/// A copy that an engine has requested. Whoever takes it from [`crate::Nic::poll_dma`] must execute it once,
/// by [`crate::Nic::complete_dma`]; the order of copies does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaRequest {
    /// Direction of the copy.
    pub direction: DmaDirection,
    /// Address in the host's memory.
    pub host: u64,
    /// Address in the engine's memory.
    pub memory: u64,
    /// Length in bytes.
    pub length: u32,
    /// Slot of the engine that made the request, and the request's tag.
    pub(crate) slot: u8,
    pub(crate) tag: u64,
    /// Number of resets of the engine before the request. If the engine was reset since then, the request is
    /// void.
    pub(crate) resets: u32,
}

impl DmaRequest {
    /// A request of the engine in slot 0 with tag 0. For NICs that have no engine and still need a copy.
    pub const fn new(direction: DmaDirection, host: u64, memory: u64, length: u32) -> Self {
        Self { direction, host, memory, length, slot: 0, tag: 0, resets: 0 }
    }
}

/// Direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DmaDirection {
    /// From the host's memory.
    Read,
    /// To the host's memory.
    Write,
}

/// Copies that engines have requested and the world has not taken yet.
#[derive(Debug)]
pub(crate) struct DmaQueue {
    /// The requests, each with the CPU time of the event that made it.
    requests: VecDeque<(Duration, DmaRequest)>,
    /// Number of resets of each slot.
    resets: Vec<u32>,
}

impl DmaQueue {
    pub(crate) fn new(slots: usize) -> Self {
        Self { requests: VecDeque::new(), resets: vec![0; slots] }
    }

    /// Adds a request that was made in an event with this CPU time.
    pub(crate) fn push(&mut self, cpu_time: Duration, request: DmaRequest) {
        let life = self.resets[usize::from(request.slot)];
        self.requests.push_back((cpu_time, DmaRequest { resets: life, ..request }));
    }

    pub(crate) fn pop(&mut self) -> Option<(Duration, DmaRequest)> {
        self.requests.pop_front()
    }

    /// Drops all requests of the engine in `slot`, which is being reset.
    pub(crate) fn forget(&mut self, slot: u8) {
        self.resets[usize::from(slot)] += 1;
        self.requests.retain(|(_, request)| request.slot != slot);
    }

    pub(crate) fn is_wanted(&self, request: &DmaRequest) -> bool {
        self.resets[usize::from(request.slot)] == request.resets
    }
}

/// Copies the bytes of a request. If the range exceeds the host's memory, the request is refused and nothing
/// is copied.
///
/// # Panics
/// If the range exceeds the engine's memory: an engine must check values from which it computes addresses.
pub(crate) fn copy(request: &DmaRequest, host: &mut [u8], memory: &mut Memory) -> CompletionStatus {
    let range = |start: u64| -> Option<Range<usize>> {
        let start = usize::try_from(start).ok()?;
        Some(start..start.checked_add(usize::try_from(request.length).ok()?)?)
    };
    let near = range(request.memory).and_then(|range| memory.image_mut().get_mut(range));
    let near = near.expect("an engine copies from and to its own memory");
    let Some(far) = range(request.host).and_then(|range| host.get_mut(range)) else {
        return CompletionStatus::LocalProtectionError;
    };
    match request.direction {
        DmaDirection::Read => near.copy_from_slice(far),
        DmaDirection::Write => far.copy_from_slice(near),
    }
    CompletionStatus::Success
}
