//! The host half of an engine with queue pairs of its own.

use std::fmt;
use std::net::SocketAddrV4;

use weft_session::{Body, Sessions, TOKENS};
use weft_smr::log::Wire;
use weft_time::Instant;

use crate::half::{HostHalf, HostIo, NO_TOKEN};

/// The kind of the call that tells an engine how a peer is reached: the same in [`weft_smr::log::Call`] and in the
/// engines that embed its groups.
const WIRE: u8 = weft_smr::log::Call::Wire as u8;

/// Tells an engine how it reaches its peers, and keeps the sessions of its clients where the engine does not. Its
/// data rests on majorities and not on leases, so it outlives these.
pub struct WiredHalf {
    wires: Vec<Wire>,
    sessions: Option<Sessions<SocketAddrV4>>,
    payload: Vec<u8>,
}

impl fmt::Debug for WiredHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WiredHalf").field("wires", &self.wires.len()).finish_non_exhaustive()
    }
}

impl WiredHalf {
    /// For an engine that reaches its peers by these. With sessions, clients speak to the host.
    pub fn new(wires: Vec<Wire>, sessions: Option<Sessions<SocketAddrV4>>) -> Self {
        Self { wires, sessions, payload: Vec::new() }
    }

    /// Whether the host keeps the sessions of clients.
    pub const fn has_sessions(&self) -> bool {
        self.sessions.is_some()
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

    fn requested(
        &mut self,
        now: Instant,
        from: SocketAddrV4,
        message: (u8, &[u8]),
        serves: bool,
        io: &mut HostIo<'_>,
    ) {
        let Some(sessions) = &mut self.sessions else { return };
        // What is malformed is not answered.
        if let Ok(Some(begin)) = sessions.receive(now, from, message, serves) {
            io.call(begin.token, begin.body.kind, begin.body.bytes);
        }
    }

    fn replied(&mut self, _: Instant, token: u32, (kind, bytes): (u8, &[u8]), _: &mut HostIo<'_>) {
        if let Some(sessions) = self.sessions.as_mut().filter(|_| token & TOKENS != 0) {
            sessions.finish(token, Some(Body { kind, bytes }));
        }
    }

    fn sessions(&self) -> Option<(usize, usize)> {
        self.sessions.as_ref().map(Sessions::count)
    }

    fn settle(&mut self, _: Instant, io: &mut HostIo<'_>) {
        let Some(sessions) = &mut self.sessions else { return };
        io.respond_all(&mut self.payload, |payload| sessions.poll_transmit(payload));
    }
}
