//! The instances that a node keeps, with their proposals: a ring of two windows.
//!
//! An instance has the number of the round in which it begins; in that round the proposals are sent. Its consensus
//! takes at most the next window of rounds. In a second window, decided proposals that this node or others lack
//! can still be fetched.

use crate::instance::Instance;
use crate::members::{MEMBERS_MAX, Members};
use crate::message::Proposal;

/// The state of one instance in the window of instances in flight.
#[derive(Clone, Debug)]
pub(crate) struct InstanceState {
    pub instance: u64,
    pub members: Members,
    /// Proposers whose proposals this node holds.
    pub held: Members,
    /// `None` in the round in which the proposals are sent.
    pub consensus: Option<Instance>,
    /// Whether a member was asked for missing proposals.
    pub asked: bool,
    changes: Members,
    lengths: [u16; MEMBERS_MAX],
}

impl InstanceState {
    /// The proposers whose proposals are decided; `None` as long as the instance is undecided.
    pub fn decision(&self) -> Option<Members> {
        self.consensus.as_ref().and_then(Instance::decision)
    }

    /// Decided proposers whose proposals are missing.
    pub fn lacking(&self) -> Members {
        self.decision().unwrap_or_default().difference(self.held)
    }
}

/// A ring of consecutive instances, released in order.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    value_bytes: usize,
    slots: Vec<InstanceState>,
    bytes: Vec<u8>,
    first: u64,
    /// The next instance to be released.
    released: u64,
    /// The next instance to be opened.
    end: u64,
}

impl Window {
    pub fn new(slots: u64, value_bytes: usize) -> Self {
        let slot = InstanceState {
            instance: 0,
            members: Members::EMPTY,
            held: Members::EMPTY,
            consensus: None,
            asked: false,
            changes: Members::EMPTY,
            lengths: [0; MEMBERS_MAX],
        };
        let slots = vec![slot; slots as usize];
        let bytes = vec![0; slots.len() * MEMBERS_MAX * value_bytes];
        Self { value_bytes, slots, bytes, first: 0, released: 0, end: 0 }
    }

    /// Drops all instances; `first` is the next instance.
    pub fn start(&mut self, first: u64) {
        (self.first, self.released, self.end) = (first, first, first);
    }

    fn index(&self, instance: u64) -> usize {
        (instance % self.slots.len() as u64) as usize
    }

    /// The instances in the ring, oldest first.
    pub fn instances(&self) -> std::ops::Range<u64> {
        self.first.max(self.end.saturating_sub(self.slots.len() as u64))..self.end
    }

    pub fn get(&self, instance: u64) -> Option<&InstanceState> {
        self.instances().contains(&instance).then(|| &self.slots[self.index(instance)])
    }

    pub fn get_mut(&mut self, instance: u64) -> Option<&mut InstanceState> {
        let index = self.index(instance);
        self.instances().contains(&instance).then(|| &mut self.slots[index])
    }

    /// The consensus of an instance that is in the ring and past its first round.
    pub fn consensus_mut(&mut self, instance: u64) -> Option<&mut Instance> {
        self.get_mut(instance)?.consensus.as_mut()
    }

    /// Whether the slot of the next instance is free.
    pub fn has_room(&self) -> bool {
        self.end - self.released < self.slots.len() as u64
    }

    /// Opens an instance, in the slot of the oldest one.
    pub fn open(&mut self, instance: u64, members: Members) {
        assert_eq!(instance, self.end, "instances follow each other");
        assert!(self.has_room(), "an instance is released before its slot is used again");
        let index = self.index(instance);
        self.slots[index] = InstanceState {
            instance,
            members,
            held: Members::EMPTY,
            consensus: None,
            asked: false,
            changes: Members::EMPTY,
            lengths: [0; MEMBERS_MAX],
        };
        self.end += 1;
    }

    /// Stores a proposal of an instance in the ring. The first one of each member counts.
    pub fn store(&mut self, instance: u64, proposer: usize, proposal: &Proposal<'_>) {
        let at = self.place(instance, proposer);
        let index = self.index(instance);
        let slot = &mut self.slots[index];
        assert_eq!(slot.instance, instance, "the instance is here");
        if !slot.members.contains(proposer) || slot.held.contains(proposer) {
            return;
        }
        slot.held = slot.held.with(proposer);
        slot.lengths[proposer] = proposal.bytes.len() as u16;
        if proposal.change {
            slot.changes = slot.changes.with(proposer);
        }
        self.bytes[at..at + proposal.bytes.len()].copy_from_slice(proposal.bytes);
    }

    /// A proposal, if it is in the ring.
    pub fn proposal(&self, instance: u64, proposer: usize) -> Option<Proposal<'_>> {
        let slot = self.get(instance).filter(|slot| slot.held.contains(proposer))?;
        let at = self.place(instance, proposer);
        let bytes = &self.bytes[at..at + usize::from(slot.lengths[proposer])];
        Some(Proposal { change: slot.changes.contains(proposer), bytes })
    }

    fn place(&self, instance: u64, proposer: usize) -> usize {
        (self.index(instance) * MEMBERS_MAX + proposer) * self.value_bytes
    }

    /// The next instance in order, if it is decided and none of its proposals is missing.
    pub fn complete(&self) -> Option<(u64, Members)> {
        let slot = self.get(self.released)?;
        let decision = slot.decision()?;
        slot.lacking().is_empty().then_some((slot.instance, decision))
    }

    /// Releases the next instance.
    pub fn release(&mut self) {
        self.released += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::Quorums;

    fn decided(window: &mut Window, instance: u64) {
        let slot = window.get_mut(instance).unwrap();
        let mut consensus = Instance::open(0, Members::only(0), Quorums::of(1), Members::only(0));
        consensus.end_round();
        slot.consensus = Some(consensus);
    }

    #[test]
    fn instances_are_released_in_order_and_complete() {
        let mut window = Window::new(4, 16);
        window.start(6);
        for instance in 6..9 {
            window.open(instance, Members::only(0));
        }
        decided(&mut window, 7);
        window.store(7, 0, &Proposal { change: false, bytes: b"seven" });
        assert_eq!(window.complete(), None, "6 is undecided");
        decided(&mut window, 6);
        assert_eq!(window.get(6).unwrap().lacking(), Members::only(0));
        assert_eq!(window.complete(), None, "the proposal of 6 is lacking");
        window.store(6, 0, &Proposal { change: false, bytes: b"six" });
        window.store(6, 0, &Proposal { change: true, bytes: b"again" });
        assert_eq!(window.complete(), Some((6, Members::only(0))));
        assert_eq!(window.proposal(6, 0), Some(Proposal { change: false, bytes: b"six" }));
        window.release();
        assert_eq!(window.complete(), Some((7, Members::only(0))));
        window.open(9, Members::only(0));
        assert_eq!(window.instances(), 6..10);
        window.open(10, Members::only(0));
        assert_eq!(window.proposal(6, 0), None, "its slot was used again");
        assert_eq!(window.proposal(10, 0), None);
        assert!(!window.has_room());
    }
}
