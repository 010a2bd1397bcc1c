//! A failure detector with membership, for members that crash.
//!
//! If a node's message is missing in a round, its receiver suspects the node, and every suspicion is passed on
//! with its age. Once a suspicion is one round older than the number of members that may fail, there was a round
//! without a crash in between, so all remaining members have the suspicion (FloodSet; Lynch, Distributed
//! Algorithms, 6.2) and remove the member in the same round. Requests of nodes to be added are flooded in the same
//! way. A member that receives a suspicion of itself has omitted messages, and stops.

use crate::algorithm::{Algorithm, Contradiction, Decision, MustStop, Output};
use crate::members::{MEMBERS_MAX, Members, Quorums};
use crate::message::{Change, Proposal};
use crate::parameters::Parameters;

/// Suspicions or requests that are being flooded: for each node, the round in which the flooding began, or `None`.
type Flood = [Option<u64>; MEMBERS_MAX];

/// The failure detector of one member.
#[derive(Clone, Debug)]
pub struct Detector {
    node: usize,
    round: u64,
    members: Members,
    heard: Members,
    suspected: Flood,
    asking: Flood,
    leaving: bool,
    /// A round that has ended and is not reported yet, and its change of the membership.
    ended: Option<(u64, Change)>,
}

impl Detector {
    /// The nodes that this node suspects.
    pub fn suspected(&self) -> Members {
        (0..MEMBERS_MAX).filter(|&node| self.suspected[node].is_some()).collect()
    }

    /// Ages as encoded in messages: rounds since the flooding began, at least 1; 0 if there is none.
    fn ages(&self, flood: &Flood) -> [u8; MEMBERS_MAX] {
        flood.map(|since| since.map_or(0, |since| (self.round - since).clamp(1, 255) as u8))
    }

    /// Merges the ages that another node has sent.
    fn merge(round: u64, flood: &mut Flood, ages: &[u8]) {
        for (since, &age) in flood.iter_mut().zip(ages).filter(|(_, age)| **age > 0) {
            let told = round.saturating_sub(age.into());
            *since = Some(since.map_or(told, |since| since.min(told)));
        }
    }

    /// Nodes whose suspicion or request all members have by now.
    fn known_to_all(&self, flood: &Flood) -> Members {
        let age = Quorums::tolerated(self.members.len()) as u64 + 1;
        (0..MEMBERS_MAX).filter(|&node| flood[node].is_some_and(|since| since + age == self.round)).collect()
    }

    fn begin_flood(flood: &mut Flood, of: Members, round: u64) {
        for node in of.iter() {
            flood[node].get_or_insert(round);
        }
    }

    /// Handles a proposal of a member: it may leave, and report nodes that ask to be added.
    fn propose(&mut self, from: usize, proposal: &Proposal<'_>) {
        if proposal.change
            && let Ok(change) = Change::parse(proposal.bytes)
        {
            Self::begin_flood(&mut self.asking, change.add.difference(self.members), self.round);
            // Only the proposer's own removal counts: silent members are detected by the suspicions.
            let leaves = change.remove.intersection(Members::only(from));
            Self::begin_flood(&mut self.suspected, leaves, self.round);
            self.leaving |= leaves.contains(self.node);
        }
    }
}

impl Algorithm for Detector {
    const ID: u8 = 2;
    const DECIDES_CHANGES: bool = true;

    fn new(_: &Parameters) -> Self {
        Self {
            node: 0,
            round: 0,
            members: Members::EMPTY,
            heard: Members::EMPTY,
            suspected: Flood::default(),
            asking: Flood::default(),
            leaving: false,
            ended: None,
        }
    }

    fn area_bytes(&self) -> usize {
        2 * MEMBERS_MAX
    }

    fn start(&mut self, node: usize, _: u64) {
        (self.node, self.leaving, self.ended) = (node, false, None);
        (self.suspected, self.asking) = (Flood::default(), Flood::default());
    }

    fn begin(&mut self, round: u64, members: Members, proposal: &Proposal<'_>, area: &mut [u8]) {
        if members != self.members {
            // The membership has changed: drop the suspicions and requests that led to it.
            (self.suspected, self.asking) = (Flood::default(), Flood::default());
        }
        (self.round, self.members, self.heard) = (round, members, Members::only(self.node));
        let (suspected, asking) = area.split_at_mut(MEMBERS_MAX);
        suspected.copy_from_slice(&self.ages(&self.suspected));
        asking.copy_from_slice(&self.ages(&self.asking));
        self.propose(self.node, proposal);
    }

    fn receive(&mut self, from: usize, area: &[u8], proposal: &Proposal<'_>) -> Result<(), Contradiction> {
        self.heard = self.heard.with(from);
        let (suspected, asking) = area.split_at(MEMBERS_MAX);
        Self::merge(self.round, &mut self.suspected, suspected);
        Self::merge(self.round, &mut self.asking, asking);
        self.propose(from, proposal);
        Ok(())
    }

    fn end(&mut self) -> Result<(), MustStop> {
        let unheard = self.members.difference(self.heard);
        Self::begin_flood(&mut self.suspected, unheard, self.round);
        let add = self.known_to_all(&self.asking).difference(self.members);
        let remove = self.known_to_all(&self.suspected).intersection(self.members);
        self.ended = Some((self.round, Change { add, remove }));
        if remove.contains(self.node) && !self.leaving { Err(MustStop) } else { Ok(()) }
    }

    fn settle(&mut self, output: &mut dyn Output) {
        let Some((instance, Change { add, remove })) = self.ended.take() else { return };
        let mut decide = |proposer, change: Change| {
            let proposal = Proposal { change: true, bytes: &change.encode() };
            output.decide(&Decision { instance, proposer, proposal });
        };
        // Only the first decision of a round takes effect; nodes that remain silent are suspected again.
        for node in remove.iter() {
            decide(node, Change { add: Members::EMPTY, remove: Members::only(node) });
        }
        if !add.is_empty() {
            decide(self.node, Change { add, remove: Members::EMPTY });
        }
        output.close(instance);
    }
}
