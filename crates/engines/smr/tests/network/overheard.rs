//! An engine wrapped so that all it does is logged: datagrams, permissions, and the content of its READs and
//! WRITEs.
//!
//! A test that plays scripts makes its nodes of this type and compares the lines. Heartbeats are not logged,
//! because there are too many of them.

use std::cell::RefCell;
use std::rc::Rc;

use weft_smr::message::{Control, PULSE};
use weft_smr::slot::{Kind, Slot, word};
use weft_time::Instant;
use weft_verbs::{AccessFlags, Operation, QueuePairNumber};
use weft_waist::{
    Caller, Capabilities, ENGINE_MEMORY, Effect, Effects, Engine, EngineStatus, Event, Io, Memory, Message,
};

/// The purpose number of a heartbeat's queue pair in this network.
const PULSE_PURPOSE: u8 = 15;

/// How a test describes messages and memory.
pub trait Words: Clone {
    /// Describes a datagram that is not one of the log's.
    fn datagram(&self, kind: u8, payload: &[u8]) -> Option<String>;
    /// Describes the answer to the call with this token.
    fn answer(&self, token: u32, kind: u8, payload: &[u8]) -> Option<String>;
    /// Describes these bytes, written to an address. `None` if it is not worth a line.
    fn written(&self, purpose: u8, address: usize, bytes: &[u8]) -> Option<String>;
    /// Describes a range that is read. `None` if it is not worth a line.
    fn read(&self, purpose: u8, address: usize, length: usize) -> Option<String>;
}

/// The logged lines of all nodes, in order.
pub type Lines = Rc<RefCell<Vec<String>>>;

/// The engine of one node.
pub struct Overheard<E, W> {
    pub engine: E,
    pub node: usize,
    pub words: W,
    pub lines: Lines,
}

impl<E, W: Words> Overheard<E, W> {
    fn say(&self, line: String) {
        let mut lines = self.lines.borrow_mut();
        // The same message to several peers is one line: `0 => 1: x` and `0 => 2: x` become `0 => 1,2: x`.
        if let Some(last) = lines.last_mut()
            && let Some((head, rest)) = last.split_once(": ")
            && let Some((new_head, new_rest)) = line.split_once(": ")
            && rest == new_rest
            && let Some((from, _)) = head.split_once(" => ")
            && let Some((new_from, new_to)) = new_head.split_once(" => ")
            && from == new_from
        {
            *last = format!("{head},{new_to}: {rest}");
            return;
        }
        lines.push(line);
    }

    fn effect(&self, effect: &Effect, effects: &Effects, memory: &Memory) {
        let me = self.node;
        match effect {
            Effect::Send { to, kind, payload } => {
                let payload = effects.message(*kind, payload).payload;
                let text = match Control::parse(*kind, payload) {
                    Ok(control) if control.group() == PULSE => None,
                    Ok(Control::Request(request)) => {
                        Some(format!("let me write to your log (request {})", numbered(request.number)))
                    }
                    Ok(Control::Granted(granted)) => {
                        Some(format!("you may (request {})", numbered(granted.number)))
                    }
                    Err(_) => self.words.datagram(*kind, payload),
                };
                for peer in to.iter().filter(|_| text.is_some()) {
                    self.say(format!("{me} -> {}: {}", peer.index(), text.as_deref().unwrap_or_default()));
                }
            }
            Effect::Reply { to, kind, payload } => {
                let payload = effects.message(*kind, payload).payload;
                if let Caller::Host(token) = to
                    && let Some(text) = self.words.answer(*token, *kind, payload)
                {
                    self.say(format!("{me} tells its host: {text}"));
                }
            }
            Effect::Access { queue_pair, access } => {
                let (purpose, peer) = ends(*queue_pair);
                if purpose != PULSE_PURPOSE && access.contains(AccessFlags::REMOTE_WRITE) {
                    self.say(format!("{me} lets {peer} write"));
                } else if purpose != PULSE_PURPOSE {
                    self.say(format!("{me} lets {peer} write no more"));
                }
            }
            Effect::Post { queue_pair, request } => {
                let (purpose, peer) = ends(*queue_pair);
                let place = |address: u64| (address & !ENGINE_MEMORY) as usize;
                let length = request.local.length as usize;
                let text = match request.operation {
                    _ if purpose == PULSE_PURPOSE => None,
                    Operation::Write { remote, .. } => {
                        let bytes = &memory.image()[place(request.local.address)..][..length];
                        self.words.written(purpose, place(remote.address), bytes)
                    }
                    Operation::Read { remote } => self
                        .words
                        .read(purpose, place(remote.address), length)
                        .map(|what| format!("READ {what}")),
                    ref other => panic!("no engine posts {other:?}"),
                };
                if let Some(text) = text {
                    self.say(format!("{me} => {peer}: {text}"));
                }
            }
            _ => {}
        }
    }
}

/// The purpose of a queue pair of this network, and its peer.
fn ends(queue_pair: QueuePairNumber) -> (u8, usize) {
    ((queue_pair.0 >> 4 & 0xf) as u8, (queue_pair.0 & 0xf) as usize)
}

/// Describes a number whose upper half is the incarnation: `incarnation.number`.
pub fn numbered(number: u64) -> String {
    format!("{}.{}", number >> 32, number & u64::from(u32::MAX))
}

impl<E: Engine, W: Words> Engine for Overheard<E, W> {
    const NEEDS: Capabilities = E::NEEDS;

    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        let first = io.effects.iter().count();
        self.engine.handle(now, event, io);
        for effect in io.effects.iter().skip(first) {
            self.effect(effect, io.effects, io.memory);
        }
    }

    fn status(&self) -> EngineStatus {
        self.engine.status()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.engine.counters()
    }
}

/// Offsets of a log in an engine's memory, as `weft_smr` lays it out.
#[derive(Clone)]
pub struct LogPlaces {
    /// Offset of the group.
    pub base: usize,
    pub slots: u64,
    pub slot_bytes: usize,
}

impl LogPlaces {
    /// Bytes before the ring: the leader's line and the replica's own line.
    const LINES: usize = 128;

    /// The first slot in a range of the ring, and the number of slots.
    fn range(&self, address: usize, length: usize) -> Option<(u64, u64)> {
        let ring = self.base + Self::LINES;
        let inside = (ring..ring + self.slots as usize * self.slot_bytes).contains(&address);
        inside.then(|| (((address - ring) / self.slot_bytes) as u64, length.div_ceil(self.slot_bytes) as u64))
    }

    pub fn written(&self, address: usize, bytes: &[u8], entry: impl Fn(&[u8]) -> String) -> Option<String> {
        if let Some((first, slots)) = self.range(address, bytes.len()) {
            if bytes.iter().all(|byte| *byte == 0) {
                return Some(format!("zeros to slots {first} to {}", first + slots - 1));
            }
            let Some(slot) = Slot::parse(bytes, word(bytes, 0).wrapping_sub(1)) else {
                return Some("part of an entry".to_owned());
            };
            let content = match slot.kind {
                Kind::Nothing => "nothing".to_owned(),
                Kind::Join => format!("join of {}", slot.entry[0]),
                Kind::Call => entry(slot.entry),
            };
            let Slot { index, proposal, decided, .. } = slot;
            return Some(format!("entry {index} {content}, proposal {proposal}, {decided} decided"));
        }
        match address.checked_sub(self.base)? {
            0 => Some(format!("no lower proposal than {}", word(bytes, 0))),
            8 => Some(format!("{} decided", word(bytes, 0))),
            16 => Some(format!("zeroed up to window {}", word(bytes, 0) / 8)),
            24 => Some(format!("incarnation {} takes part", word(bytes, 0))),
            32 => Some(format!("here is the state before entry {}", word(bytes, 0))),
            _ => Some(format!("{} bytes of a copy of the state", bytes.len())),
        }
    }

    pub fn read(&self, address: usize, length: usize) -> Option<String> {
        if address == self.base {
            return Some("its lines".to_owned());
        }
        match self.range(address, length) {
            Some((first, 1)) => Some(format!("slot {first}")),
            Some((first, slots)) => Some(format!("slots {first} to {}", first + slots - 1)),
            None => Some(format!("{length} bytes of its state")),
        }
    }
}

/// Calls an engine as its host.
pub fn call<E: Engine>(network: &mut super::Network<E>, node: usize, token: u32, kind: u8, payload: &[u8]) {
    let message = Message { kind, payload };
    network.handle(node, Event::Call { caller: Caller::Host(token), message, last: true });
}
