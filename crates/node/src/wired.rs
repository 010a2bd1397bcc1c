//! The host half of an engine with queue pairs of its own.

use weft_smr::log::Wire;

use crate::half::{HostHalf, HostIo};

/// The kind of the call that tells an engine how a peer is reached: the same in [`weft_smr::log::Call`] and in the engines that embed
/// its groups.
const WIRE: u8 = weft_smr::log::Call::Wire as u8;

/// The token of calls whose answer nobody waits for.
const NO_TOKEN: u32 = 0;

/// Tells an engine how it reaches its peers. Its data rests on majorities and not on leases, so it outlives these.
#[derive(Clone, Debug)]
pub struct WiredHalf {
    wires: Vec<Wire>,
}

impl WiredHalf {
    /// For an engine that reaches its peers by these.
    pub fn new(wires: Vec<Wire>) -> Self {
        Self { wires }
    }
}

impl HostHalf for WiredHalf {
    fn outlives_lease(&self) -> bool {
        true
    }

    fn begin(&mut self, io: &mut HostIo<'_>) {
        for wire in &self.wires {
            io.call(NO_TOKEN, WIRE, &wire.encode());
        }
    }
}
