//! The port through which an engine in the card changes peers' access rights.

use weft_verbs::{AccessFlags, ApiError, QueuePairNumber, RegionKeys};

use super::RtlNic;
use crate::permissions::{Change, Changed};

/// The port at one instant: [`RtlNic::permissions`].
#[derive(Debug)]
pub struct PermissionPort<'a>(pub(crate) &'a mut RtlNic);

impl PermissionPort<'_> {
    /// Changes the peer's access rights through a queue pair. A [`Changed`] follows. The driver is not
    /// notified.
    ///
    /// # Errors
    /// The queue pair does not exist.
    pub fn change_access(&mut self, number: QueuePairNumber, access: AccessFlags) -> Result<(), ApiError> {
        let change = Change::QueuePair { index: self.0.index(number)?, access: super::access(access) };
        self.0.change_permission(change);
        Ok(())
    }

    /// Changes peers' access rights in a region, from the next packet on. A later change for any queue pair
    /// is its fence. The driver is not notified.
    ///
    /// # Errors
    /// The region does not exist.
    pub fn change_region(&mut self, keys: RegionKeys, access: AccessFlags) -> Result<(), ApiError> {
        let change = Change::Region { index: self.0.region_index(keys)?, access: super::access(access) };
        self.0.change_permission(change);
        Ok(())
    }

    /// The next change that is complete.
    pub fn poll(&mut self) -> Option<Changed> {
        self.0.board().permissions.done.pop_front()
    }
}
