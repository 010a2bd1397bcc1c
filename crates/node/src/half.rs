//! The host half of an engine: the part of it that runs on the host.

use std::net::SocketAddrV4;

use weft_cluster::Incarnation;
use weft_nic::HostCommand;
use weft_time::Instant;
use weft_waist::{Configuration, EngineStatus};

/// A host's access to its card.
pub trait CardPort {
    /// Submits a command to the card.
    fn submit(&mut self, command: HostCommand<'_>);

    /// The host memory that engines access by HostRead and HostWrite.
    fn host_memory(&mut self) -> &mut Vec<u8>;
}

/// Token of calls whose reply is ignored.
pub(crate) const NO_TOKEN: u32 = 0;

/// A host half's access to the card and to its engine there.
pub struct HostIo<'a> {
    slot: u8,
    card: &'a mut dyn CardPort,
}

impl<'a> HostIo<'a> {
    /// Access to the engine in `slot`.
    pub fn new(slot: u8, card: &'a mut dyn CardPort) -> Self {
        Self { slot, card }
    }

    /// The engine's slot.
    pub const fn slot(&self) -> u8 {
        self.slot
    }

    /// Access to the card.
    pub fn card(&mut self) -> &mut dyn CardPort {
        self.card
    }

    /// Calls the engine. The reply arrives at [`HostHalf::replied`] with the token.
    pub fn call(&mut self, token: u32, kind: u8, payload: &[u8]) {
        self.card.submit(HostCommand::Call { engine: self.slot, token, kind, payload });
    }

    /// Answers a client whose request came to [`HostHalf::requested`].
    pub fn respond(&mut self, to: SocketAddrV4, kind: u8, payload: &[u8]) {
        self.card.submit(HostCommand::Respond { engine: self.slot, to, kind, payload });
    }

    /// Sends clients all answers that `poll` returns. `poll` appends an answer's content to the buffer and returns
    /// (address, kind). `payload` is a buffer for reuse.
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

    /// Resets the engine.
    pub fn reset(&mut self) {
        self.card.submit(HostCommand::Reset { engine: self.slot });
    }

    /// The host memory that the engine accesses by HostRead and HostWrite.
    pub fn host_memory(&mut self) -> &mut [u8] {
        self.card.host_memory()
    }

    /// Sets the host memory to zero, as [`weft_waist::Memory::clear`] does that of the engine.
    pub fn clear_host_memory(&mut self) {
        let memory = self.card.host_memory();
        *memory = vec![0; memory.len()];
    }
}

/// The host half of an engine. Methods without an implementation do nothing.
pub trait HostHalf {
    /// Whether the engine keeps its data after the node's lease has ended, because its protocol does not depend on
    /// leases. Then it is not emptied when the node has to rejoin; it loses its data only when its process ends.
    fn keeps_data_without_lease(&self) -> bool {
        false
    }

    /// Whether the engine receives each view, so that the node is full only if this engine is. An engine with its
    /// own members, such as the rounds, is configured by its half instead.
    fn follows_views(&self) -> bool {
        true
    }

    /// Called when the node's process starts.
    fn begin(&mut self, io: &mut HostIo<'_>) {
        let _ = io;
    }

    /// Called just before the engine receives this configuration.
    fn configure(&mut self, now: Instant, configuration: &Configuration, io: &mut HostIo<'_>) {
        let _ = (now, configuration, io);
    }

    /// Called when the status registers of the engine have changed.
    fn status(&mut self, now: Instant, status: EngineStatus, io: &mut HostIo<'_>) {
        let _ = (now, status, io);
    }

    /// Called when the engine has answered a call, or sends a message to the host.
    fn replied(&mut self, now: Instant, token: u32, message: (u8, &[u8]), io: &mut HostIo<'_>) {
        let _ = (now, token, message, io);
    }

    /// Called when a client has sent a message, if the card passes these to the host. `serves`: the engine is full
    /// and the lease is valid.
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

    /// Handles expired deadlines.
    fn handle_deadline(&mut self, now: Instant) {
        let _ = now;
    }

    /// Submits pending commands. Called after each of the other methods.
    fn settle(&mut self, now: Instant, io: &mut HostIo<'_>) {
        let _ = (now, io);
    }

    /// Called when the engine was reset: the node's next incarnation starts without data.
    fn rejoin(&mut self, now: Instant, incarnation: Incarnation, io: &mut HostIo<'_>) {
        let _ = (now, incarnation, io);
    }
}

/// The half of an engine that runs completely on the card, such as the key-value engine without a log.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHalf;

impl HostHalf for NoHalf {}
