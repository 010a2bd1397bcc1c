//! The part of an engine that runs on the host.

use std::net::SocketAddrV4;

use weft_cluster::Incarnation;
use weft_nic::HostCommand;
use weft_time::Instant;
use weft_waist::{Configuration, EngineStatus};

/// A host's way to its card.
pub trait CardPort {
    /// Gives the card a command.
    fn submit(&mut self, command: HostCommand<'_>);

    /// The memory of the host that copies of engines reach.
    fn host_memory(&mut self) -> &mut [u8];
}

/// Token of calls whose reply nobody waits for.
pub(crate) const NO_TOKEN: u32 = 0;

/// The way of a host half to the card and to its engine there.
pub struct HostIo<'a> {
    slot: u8,
    card: &'a mut dyn CardPort,
}

impl<'a> HostIo<'a> {
    /// The way to the engine in `slot`.
    pub fn new(slot: u8, card: &'a mut dyn CardPort) -> Self {
        Self { slot, card }
    }

    /// The engine's slot.
    pub const fn slot(&self) -> u8 {
        self.slot
    }

    /// The way to the card.
    pub fn card(&mut self) -> &mut dyn CardPort {
        self.card
    }

    /// Calls the engine; the answer comes to [`HostHalf::replied`] with the token.
    pub fn call(&mut self, token: u32, kind: u8, payload: &[u8]) {
        self.card.submit(HostCommand::Call { engine: self.slot, token, kind, payload });
    }

    /// Answers a client whose request came to [`HostHalf::requested`].
    pub fn respond(&mut self, to: SocketAddrV4, kind: u8, payload: &[u8]) {
        self.card.submit(HostCommand::Respond { engine: self.slot, to, kind, payload });
    }

    /// Answers clients with all that `poll` gives: it appends an answer's content, and tells to whom it goes and its
    /// kind. `payload` is space to use again.
    pub fn respond_all(
        &mut self,
        payload: &mut Vec<u8>,
        mut poll: impl FnMut(&mut Vec<u8>) -> Option<(SocketAddrV4, u8)>,
    ) {
        loop {
            payload.clear();
            let Some((to, kind)) = poll(payload) else { return };
            self.respond(to, kind, payload);
        }
    }

    /// Writes the engine's membership registers.
    pub fn configure(&mut self, configuration: Configuration) {
        self.card.submit(HostCommand::Configure { engine: self.slot, configuration });
    }

    /// Resets the engine, which has not been configured yet.
    pub fn reset(&mut self) {
        self.card.submit(HostCommand::Reset { engine: self.slot });
    }

    /// The memory of the host that copies of the engine reach.
    pub fn host_memory(&mut self) -> &mut [u8] {
        self.card.host_memory()
    }
}

/// The part of an engine that runs on the host. Methods that are left out do nothing.
pub trait HostHalf {
    /// Whether the engine keeps its data when the node's lease has ended, because its protocol does not rest on
    /// leases: then it does not start over when the node has to rejoin. Such an engine loses its data only with the
    /// process.
    fn outlives_lease(&self) -> bool {
        false
    }

    /// Whether the engine is told each view and the node is full only with it. An engine that has members of its own,
    /// as rounds have, is told by its half what the half makes of the view.
    fn follows_views(&self) -> bool {
        true
    }

    /// The node's process begins.
    fn begin(&mut self, io: &mut HostIo<'_>) {
        let _ = io;
    }

    /// The engine is about to be told this.
    fn configure(&mut self, now: Instant, configuration: &Configuration, io: &mut HostIo<'_>) {
        let _ = (now, configuration, io);
    }

    /// The status registers of the engine have changed.
    fn status(&mut self, now: Instant, status: EngineStatus, io: &mut HostIo<'_>) {
        let _ = (now, status, io);
    }

    /// The engine has answered a call, or asks the host something.
    fn replied(&mut self, now: Instant, token: u32, message: (u8, &[u8]), io: &mut HostIo<'_>) {
        let _ = (now, token, message, io);
    }

    /// A client has sent a message, if the card gives these to the host. `serves`: the engine is full and the lease
    /// holds.
    fn requested(
        &mut self,
        now: Instant,
        from: SocketAddrV4,
        message: (u8, &[u8]),
        serves: bool,
        io: &mut HostIo<'_>,
    ) {
        let _ = (now, from, message, serves, io);
    }

    /// Number of clients with a session, and the most there can be, if the half keeps sessions.
    fn sessions(&self) -> Option<(usize, usize)> {
        None
    }

    /// When [`HostHalf::handle_deadline`] must be called.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Handles what is due.
    fn handle_deadline(&mut self, now: Instant) {
        let _ = now;
    }

    /// Submits what there is to submit. Called after everything else.
    fn settle(&mut self, now: Instant, io: &mut HostIo<'_>) {
        let _ = (now, io);
    }

    /// The engine was reset: the next life of the node begins with nothing.
    fn start_over(&mut self, now: Instant, incarnation: Incarnation, io: &mut HostIo<'_>) {
        let _ = (now, incarnation, io);
    }
}

/// The half of an engine that is all on the card, such as the key-value engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHalf;

impl HostHalf for NoHalf {}
