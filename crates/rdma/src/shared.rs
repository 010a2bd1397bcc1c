//! State that all queue pairs of one NIC share.

use weft_verbs::Target;
use weft_wire::roce::NakCode;

use crate::completion::CompletionQueue;
use crate::counters::Counters;
use crate::memory::{MemoryFault, Part, RegionMemory};
use crate::region::{Grant, RegionTable, Request, Violation};
use crate::reorder::ReorderPool;
use crate::rpc::RpcQueue;
use crate::shared_receive::SharedReceives;

/// Regions, the completion and call queues, counters and credits.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) regions: RegionTable,
    pub(crate) completions: CompletionQueue,
    pub(crate) rpc: RpcQueue,
    pub(crate) receives: SharedReceives,
    pub(crate) counters: Counters,
    /// Requests that arrived beyond a gap.
    pub(crate) reorder: ReorderPool,
    /// Whether responses say that a missing part of a READ may be requested alone.
    pub(crate) read_parts: bool,
    /// Payload bytes that the path to the host can take at present; `None` if it has no limit.
    pub(crate) host_credits: Option<u64>,
    pub(crate) partition_key: u16,
    pub(crate) acknowledge_interval: u32,
    /// Whether queue pairs limit their rates.
    pub(crate) rate_control: bool,
    /// Buffer for payload that was changed before it is stored.
    pub(crate) changed: Vec<u8>,
}

impl Shared {
    /// Checks a peer's access, and counts a refusal.
    #[inline]
    pub(crate) fn check_remote(&mut self, request: Request) -> Result<Grant, Violation> {
        self.regions.check_remote(request).inspect_err(|&violation| self.count_violation(violation))
    }

    /// Checks a local access, and counts a refusal.
    #[inline]
    pub(crate) fn check_local(&mut self, request: Request) -> Result<Grant, Violation> {
        self.regions.check_local(request).inspect_err(|&violation| self.count_violation(violation))
    }

    /// Spends credits for `bytes` that go to `target`. Returns whether there were enough (BALBOA 4.3).
    #[inline]
    pub(crate) fn spend_credits(&mut self, target: Target, bytes: usize) -> bool {
        let Some(credits) = self.host_credits.as_mut().filter(|_| target == Target::Host) else {
            return true;
        };
        match credits.checked_sub(bytes as u64) {
            Some(rest) => {
                *credits = rest;
                true
            }
            None => {
                self.counters.drop_no_credit += 1;
                false
            }
        }
    }

    /// Stores payload of a request in its region, after [`RegionMemory::pass`] has transformed it. Returns whether the
    /// payload is marked.
    #[inline]
    pub(crate) fn store(
        &mut self,
        grant: Grant,
        memory: &mut impl RegionMemory,
        address: u64,
        part: Part,
        payload: &[u8],
    ) -> Result<bool, MemoryFault> {
        let passed = memory.pass(part, payload, &mut self.changed);
        grant.store(memory, address, passed.bytes)?;
        Ok(passed.is_marked)
    }

    /// Counts a NAK that this NIC sends.
    pub(crate) fn count_sent_nak(&mut self, code: NakCode) {
        match code {
            NakCode::PsnSequenceError => {}
            NakCode::InvalidRequest | NakCode::InvalidRdRequest => self.counters.sent_invalid_request += 1,
            NakCode::RemoteAccessError => self.counters.sent_access_error += 1,
            NakCode::RemoteOperationalError => self.counters.sent_operational_error += 1,
        }
    }

    pub(crate) fn count_violation(&mut self, violation: Violation) {
        let counters = &mut self.counters;
        match violation {
            Violation::UnknownKey => counters.violation_key += 1,
            Violation::WrongDomain => counters.violation_domain += 1,
            Violation::OutOfBounds => counters.violation_bounds += 1,
            Violation::Forbidden => counters.violation_permission += 1,
        }
    }
}
