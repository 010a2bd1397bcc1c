//! What runs beside the card in the process of a node.

use std::net::SocketAddrV4;

use weft_cluster::{Incarnation, NodeConfig};
use weft_kv::{Kv, Parameters, ParametersError, Role};
use weft_nic::{Card, HostCommand};
use weft_time::Instant;
use weft_waist::{Configuration, Engine, Memory};

use crate::node::message_bytes;
use crate::{Datagram, NodeError};

/// The longest message of a state transfer: one that the kernel can buffer many of.
const CHUNK_BYTES_MAX: usize = 8 << 10;

/// The program of a node's host, which drives the card's engine. What is left out does nothing.
pub trait Program {
    /// The engine on the card.
    type Engine: Engine;

    /// What the node is in its view, for announcements.
    fn role(&self, engine: &Self::Engine) -> Role;

    /// Takes a datagram of somebody who is no node of the cluster. `false`: it is the engine's.
    fn receive(&mut self, now: Instant, datagram: Datagram<'_>) -> bool {
        let _ = (now, datagram);
        false
    }

    /// The card has answered a call of the host, or asks the host something.
    fn replied(&mut self, now: Instant, token: u32, message: (u8, &[u8]), card: &mut Card<Self::Engine>) {
        let _ = (now, token, message, card);
    }

    /// The engine is about to be told this.
    fn configure(&mut self, now: Instant, configuration: &Configuration, card: &mut Card<Self::Engine>) {
        let _ = (now, configuration, card);
    }

    /// Tells the card what there is to tell. `false`: nothing.
    fn settle(&mut self, now: Instant, card: &mut Card<Self::Engine>) -> bool {
        let _ = (now, card);
        false
    }

    /// Puts on record what must be, before anything leaves the node.
    ///
    /// # Errors
    /// It cannot be.
    fn record(&mut self, card: &mut Card<Self::Engine>) -> Result<(), NodeError> {
        let _ = card;
        Ok(())
    }

    /// When [`Program::handle_deadline`] wants to be called.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Does what is due.
    fn handle_deadline(&mut self, now: Instant) {
        let _ = now;
    }

    /// Appends the next datagram to `out` and says where it goes.
    fn poll_datagram(&mut self, out: &mut Vec<u8>) -> Option<SocketAddrV4> {
        let _ = out;
        None
    }

    /// Empties the engine and itself: the node begins its next life.
    fn start_over(&mut self, now: Instant, incarnation: Incarnation, card: &mut Card<Self::Engine>) {
        let _ = incarnation;
        card.submit(now, HostCommand::Reset);
    }

    /// The node has stopped.
    ///
    /// # Errors
    /// What was to be put on record cannot be.
    fn end(&mut self, card: &mut Card<Self::Engine>) -> Result<(), NodeError> {
        let _ = card;
        Ok(())
    }
}

/// A key-value node: all of it is on the card.
#[derive(Clone, Copy, Debug)]
pub struct KeyValue;

impl KeyValue {
    /// The engine as configured, and its memory.
    pub(crate) fn engine(config: &NodeConfig) -> Result<(Kv, Memory), ParametersError> {
        let kv = config.engines.kv.expect("the node runs the key-value engine");
        let parameters = Parameters {
            key_bytes: kv.key_bytes as usize,
            value_bytes_max: kv.value_bytes as usize,
            // A slot of the longest value has to fit, whatever else is preferable.
            chunk_bytes: message_bytes(config).min(CHUNK_BYTES_MAX.max(2 * kv.value_bytes as usize)) & !7,
            ..Parameters::for_keys(kv.capacity_keys.into())
        };
        parameters.check()?;
        let memory = Memory::new(parameters.memory_bytes());
        Ok((Kv::new(parameters), memory))
    }
}

impl Program for KeyValue {
    type Engine = Kv;

    fn role(&self, engine: &Kv) -> Role {
        engine.role()
    }
}
