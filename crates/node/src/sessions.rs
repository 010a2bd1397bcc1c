//! The host half of an engine whose clients have sessions on the host: each call reaches the engine at most once.

use std::fmt;
use std::net::SocketAddrV4;

use weft_cluster::Incarnation;
use weft_session::{Body, Sessions, TOKENS};
use weft_time::Instant;

use crate::half::{HostHalf, HostIo};
use crate::processes::SESSIONS;

/// Sessions between the clients of an engine and the engine. The engine has no notion of sessions: its host calls
/// it.
///
/// Used directly as a host half, it is that of an engine whose data depends on the lease.
pub struct SessionHalf {
    sessions: Sessions<SocketAddrV4>,
    /// The kinds of calls that clients may make.
    admitted: &'static [u8],
    payload: Vec<u8>,
}

impl fmt::Debug for SessionHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionHalf").field("running", &self.sessions.running()).finish_non_exhaustive()
    }
}

impl SessionHalf {
    /// Sessions whose numbers count up from `first`, for these kinds of calls to the engine.
    pub fn new(first: u64, admitted: &'static [u8]) -> Self {
        Self { sessions: Sessions::new(first, SESSIONS, admitted), admitted, payload: Vec::new() }
    }
}

impl HostHalf for SessionHalf {
    fn requested(
        &mut self,
        now: Instant,
        from: SocketAddrV4,
        message: (u8, &[u8]),
        serves: bool,
        io: &mut HostIo<'_>,
    ) {
        // Malformed requests are ignored.
        if let Ok(Some(begin)) = self.sessions.receive(now, from, message, serves) {
            io.call(begin.token, begin.body.kind, begin.body.bytes);
        }
    }

    fn replied(&mut self, _: Instant, token: u32, (kind, bytes): (u8, &[u8]), _: &mut HostIo<'_>) {
        if token & TOKENS != 0 {
            self.sessions.finish(token, Some(Body { kind, bytes }));
        }
    }

    fn sessions(&self) -> Option<(usize, usize)> {
        Some(self.sessions.count())
    }

    fn settle(&mut self, _: Instant, io: &mut HostIo<'_>) {
        let sessions = &mut self.sessions;
        io.respond_all(&mut self.payload, |payload| sessions.poll_transmit(payload));
    }

    fn rejoin(&mut self, _: Instant, incarnation: Incarnation, _: &mut HostIo<'_>) {
        let first = self.sessions.next_session().max(incarnation.get());
        self.sessions = Sessions::new(first, SESSIONS, self.admitted);
    }
}
