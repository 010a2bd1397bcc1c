//! The effects of one event, in the form in which twins are compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use weft_time::Instant;
use weft_waist::{Caller, Effect, Effects};

/// The parts of an event's effects that must be equal.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Messages in order, by destination node.
    pub peers: BTreeMap<usize, Vec<(u8, Vec<u8>)>>,
    pub callers: BTreeMap<Caller, Vec<(u8, Vec<u8>)>>,
    /// The final setting of each timer.
    pub timers: BTreeMap<u32, Instant>,
}

impl Said {
    /// Extracts the comparable parts of effects.
    ///
    /// # Panics
    /// If an effect concerns queue pairs: no engine with a twin in gates uses any.
    pub(crate) fn of(effects: &Effects) -> Self {
        let mut said = Self::default();
        for effect in effects.iter() {
            match effect {
                Effect::Send { to, kind, payload } => {
                    let payload = effects.message(*kind, payload).payload.to_vec();
                    for peer in to.iter() {
                        said.peers.entry(peer.index()).or_default().push((*kind, payload.clone()));
                    }
                }
                Effect::Reply { to, kind, payload } => {
                    let payload = effects.message(*kind, payload).payload.to_vec();
                    said.callers.entry(*to).or_default().push((*kind, payload));
                }
                Effect::SetTimer { tag, at } => {
                    said.timers.insert(*tag, *at);
                }
                Effect::Post { .. }
                | Effect::Access { .. }
                | Effect::Connect { .. }
                | Effect::HostRead { .. }
                | Effect::HostWrite { .. } => {
                    panic!("this engine has no queue pairs and leaves the host's memory alone")
                }
            }
        }
        said
    }

    /// All effects as text, one line each; `describe` formats messages.
    pub(crate) fn text(&self, describe: impl Fn(u8, &[u8]) -> String) -> String {
        let mut text = String::new();
        for (peer, messages) in &self.peers {
            for (kind, payload) in messages {
                let _ = writeln!(text, "    to node{peer}: {}", describe(*kind, payload));
            }
        }
        for (caller, messages) in &self.callers {
            for (kind, payload) in messages {
                let _ = writeln!(text, "    to {caller:?}: {}", describe(*kind, payload));
            }
        }
        for (tag, at) in &self.timers {
            let _ = writeln!(text, "    timer {tag} at {at}");
        }
        text
    }

    /// The first message that only one of the two has, byte by byte.
    pub(crate) fn first_difference(&self, other: &Self) -> String {
        for (peer, messages) in &self.peers {
            let others = other.peers.get(peer).map_or(&[][..], |list| list);
            for (index, pair) in messages.iter().zip(others).enumerate() {
                if pair.0 != pair.1 {
                    return format!(
                        "message {index} to node{peer}:\n    soft  {:02x?}\n    gates {:02x?}",
                        pair.0.1, pair.1.1
                    );
                }
            }
        }
        for (caller, messages) in &self.callers {
            let others = other.callers.get(caller).map_or(&[][..], |list| list);
            for pair in messages.iter().zip(others) {
                if pair.0 != pair.1 {
                    return format!("an answer:\n    soft  {:02x?}\n    gates {:02x?}", pair.0.1, pair.1.1);
                }
            }
        }
        "not within a message".into()
    }
}
