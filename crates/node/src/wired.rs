//! The host half of an engine with queue pairs of its own.

use std::net::SocketAddrV4;

use weft_smr::log::Wire;
use weft_time::Instant;

use crate::half::{HostHalf, HostIo, NO_TOKEN};
use crate::sessions::SessionHalf;

/// The kind of the call that sets the connection to a peer: the same in [`weft_smr::log::Call`] and in the engines
/// that embed its groups.
const WIRE: u8 = weft_smr::log::Call::Wire as u8;

/// Sets the connections of an engine to its peers, and keeps the sessions of its clients if the engine does not.
/// The engine's data depends on majorities and not on leases, so it keeps its data when a lease ends.
#[derive(Debug)]
pub struct WiredHalf {
    wires: Vec<Wire>,
    sessions: Option<SessionHalf>,
}

impl WiredHalf {
    /// A half for an engine with these connections to its peers. With `sessions`, clients' messages go to the
    /// host.
    pub const fn new(wires: Vec<Wire>, sessions: Option<SessionHalf>) -> Self {
        Self { wires, sessions }
    }

    /// Whether the host keeps the sessions of clients.
    pub const fn has_sessions(&self) -> bool {
        self.sessions.is_some()
    }
}

impl HostHalf for WiredHalf {
    fn keeps_data_without_lease(&self) -> bool {
        true
    }

    fn begin(&mut self, io: &mut HostIo<'_>) {
        for wire in &self.wires {
            io.call(NO_TOKEN, WIRE, &wire.encode());
        }
    }

    fn requested(
        &mut self,
        now: Instant,
        from: SocketAddrV4,
        message: (u8, &[u8]),
        serves: bool,
        io: &mut HostIo<'_>,
    ) {
        if let Some(sessions) = &mut self.sessions {
            sessions.requested(now, from, message, serves, io);
        }
    }

    fn replied(&mut self, now: Instant, token: u32, message: (u8, &[u8]), io: &mut HostIo<'_>) {
        if let Some(sessions) = &mut self.sessions {
            sessions.replied(now, token, message, io);
        }
    }

    fn sessions(&self) -> Option<(usize, usize)> {
        self.sessions.as_ref().and_then(HostHalf::sessions)
    }

    fn settle(&mut self, now: Instant, io: &mut HostIo<'_>) {
        if let Some(sessions) = &mut self.sessions {
            sessions.settle(now, io);
        }
    }
}
