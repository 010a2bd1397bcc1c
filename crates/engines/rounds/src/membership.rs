//! Membership: which nodes take part in which instance.
//!
//! Members change by decisions. A change that is decided in instance *c* takes effect in instance *c* + 3 windows;
//! by then every running node has released *c*. Of several changes decided meanwhile the first one counts, so that
//! there is always at most one pending change: one set of members and one instance.
//!
//! A member is removed at its own request, or when so many members report its silence that one of them must be
//! correct. One report is not enough: the reporting member may itself be the one that fails to receive.

use crate::members::{MEMBERS_MAX, Members};
use crate::message::Change;
use crate::parameters::{Parameters, PlantedBug};

/// The members of the instance that begins in the running round, and the pending change.
#[derive(Clone, Debug)]
pub struct Membership {
    parameters: Parameters,
    node: usize,
    /// Number of the running round.
    round: u64,
    epoch: u16,
    members: Members,
    /// The first instance of `members`.
    since: u64,
    /// The members before that.
    former: Members,
    /// A decided change: the instance in which it takes effect, and the members from then on.
    next: Option<(u64, Members)>,

    /// By node: the last round in which its message arrived, or in which it became a member.
    heard: [u64; MEMBERS_MAX],
    /// By node: the members that have reported its silence in decided changes.
    accusers: [Members; MEMBERS_MAX],
    /// Nodes that are no members and ask to be added.
    joining: Members,
    leaving: bool,
    /// The instance in which this node has proposed a change, until that instance is released.
    proposed: Option<u64>,
}

impl Membership {
    pub(crate) fn new(parameters: &Parameters) -> Self {
        Self {
            parameters: parameters.clone(),
            node: 0,
            round: 0,
            epoch: 0,
            members: Members::EMPTY,
            since: 0,
            former: Members::EMPTY,
            next: None,
            heard: [0; MEMBERS_MAX],
            accusers: [Members::EMPTY; MEMBERS_MAX],
            joining: Members::EMPTY,
            leaving: false,
            proposed: None,
        }
    }

    /// Node `node` takes part in the instances from `first` on.
    pub(crate) fn start(&mut self, node: usize, first: u64, epoch: u16, members: Members) {
        (self.node, self.round, self.epoch) = (node, first, epoch);
        (self.members, self.former) = (members, members);
        (self.since, self.next) = (first, None);
        self.heard = [first; MEMBERS_MAX];
        self.accusers = [Members::EMPTY; MEMBERS_MAX];
        (self.joining, self.leaving, self.proposed) = (Members::EMPTY, false, None);
    }

    /// The epoch of the instance that begins in the running round.
    pub fn epoch(&self) -> u16 {
        self.epoch
    }

    /// The members of the instance that begins in the running round.
    pub fn members(&self) -> Members {
        self.members
    }

    /// The pending change: rounds until it takes effect, and the next members.
    pub fn next(&self) -> Option<(u8, Members)> {
        self.next.map(|(first, members)| ((first - self.round) as u8, members))
    }

    /// The nodes to which a message of the running round is sent: the members of every instance in flight, and the
    /// next members.
    pub(crate) fn audience(&self) -> Members {
        let former =
            if self.round < self.since + self.parameters.window { self.former } else { Members::EMPTY };
        let next = self.next.map_or(Members::EMPTY, |(_, members)| members);
        self.members.union(former).union(next).without(self.node)
    }

    /// Whether the node was removed so long ago that all instances in which it took part are over.
    pub(crate) fn has_left(&self) -> bool {
        !self.members.contains(self.node) && self.round >= self.since + self.parameters.slots()
    }

    /// Begins round `round`. Returns whether a change of the members takes effect in it.
    pub(crate) fn advance(&mut self, round: u64) -> bool {
        self.round = round;
        let Some((_, members)) = self.next.filter(|(first, _)| *first == round) else { return false };
        for node in members.difference(self.members).iter() {
            self.heard[node] = round;
        }
        (self.former, self.members) = (self.members, members);
        (self.since, self.next) = (round, None);
        self.epoch = self.epoch.wrapping_add(1);
        true
    }

    /// Notes that a message of `from` has arrived in the running round.
    pub(crate) fn hear(&mut self, from: usize) {
        self.heard[from] = self.round;
    }

    /// Notes that `node` asks to be added. A member that has restarted must first be removed for its silence.
    pub(crate) fn ask(&mut self, node: usize) {
        let coming = self.next.map_or(Members::EMPTY, |(_, members)| members);
        let fits = self.members.with(node).len() <= self.parameters.members_max();
        if fits && !self.members.union(coming).contains(node) {
            self.joining = self.joining.with(node);
        }
    }

    /// Notes that this node is to leave.
    pub(crate) fn leave(&mut self) {
        self.leaving = true;
    }

    /// The change that this node proposes in the running round, if one is needed.
    pub(crate) fn propose(&mut self) -> Option<Change> {
        if self.next.is_some() || self.proposed.is_some() || !self.members.contains(self.node) {
            return None;
        }
        let goes = |&node: &usize| {
            let silent = self.round - self.heard[node] > self.parameters.silence;
            let reason = if node == self.node { self.leaving } else { silent };
            reason && !self.accusers[node].contains(self.node)
        };
        let remove: Members = self.members.iter().filter(goes).collect();
        let add = std::mem::take(&mut self.joining).difference(self.members);
        if add.is_empty() && remove.is_empty() {
            return None;
        }
        self.proposed = Some(self.round);
        Some(Change { add, remove })
    }

    /// Applies a change by `proposer` that was decided in `instance`; all earlier decisions have been applied. All
    /// nodes compute the same result.
    pub(crate) fn decided(&mut self, instance: u64, proposer: usize, change: Change) {
        // A change decided before the last change took effect does not count.
        if self.next.is_some() || instance < self.since {
            return;
        }
        for node in change.remove.iter() {
            self.accusers[node] = self.accusers[node].with(proposer);
        }
        let careless = self.parameters.planted(PlantedBug::OneAccuserIsEnough);
        let enough = if careless { 1 } else { self.parameters.quorums(self.members.len()).holders.into() };
        let goes = |&node: &usize| {
            let accusers = self.accusers[node].intersection(self.members);
            accusers.contains(node) || accusers.len() >= enough
        };
        let remove = self.members.iter().filter(goes).collect();
        let members = self.members.union(change.add.difference(change.remove)).difference(remove);
        if members != self.members && (1..=self.parameters.members_max()).contains(&members.len()) {
            self.next = Some((instance + self.parameters.change_delay(), members));
            self.accusers = [Members::EMPTY; MEMBERS_MAX];
        }
    }

    /// Notes that all decisions of `instance` are released.
    pub(crate) fn closed(&mut self, instance: u64) {
        if self.proposed == Some(instance) {
            self.proposed = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn membership() -> Membership {
        let mut membership = Membership::new(&Parameters { window: 4, silence: 8, ..Parameters::default() });
        membership.start(0, 0, 1, Members::first(3));
        membership
    }

    #[test]
    fn a_change_takes_effect_three_windows_later() {
        let mut membership = membership();
        membership.advance(7);
        let change = Change { add: Members::only(4), remove: Members::only(2) };
        membership.decided(5, 2, change);
        assert_eq!(membership.next(), Some((10, Members::from_iter([0, 1, 4]))));
        assert_eq!(membership.audience(), Members::from_iter([1, 2, 4]));
        // Until the first change has taken effect, no other counts.
        membership.decided(6, 1, Change { add: Members::only(5), ..Change::default() });
        assert!(!membership.advance(16) && membership.advance(17));
        assert_eq!((membership.epoch(), membership.members()), (2, Members::from_iter([0, 1, 4])));
        membership.decided(16, 1, Change { add: Members::only(5), ..Change::default() });
        assert_eq!(membership.next(), None, "it was decided before the last one took effect");
        assert_eq!(membership.audience(), Members::from_iter([1, 2, 4]), "old instances are still in flight");
        membership.advance(21);
        assert_eq!(membership.audience(), Members::from_iter([1, 4]));
    }

    #[test]
    fn silent_members_go_and_who_asks_comes() {
        let mut membership = membership();
        membership.advance(8);
        membership.hear(1);
        membership.ask(1);
        assert_eq!(membership.propose(), None);
        membership.ask(6);
        membership.advance(9);
        assert_eq!(membership.propose(), Some(Change { add: Members::only(6), remove: Members::only(2) }));
        assert_eq!(membership.propose(), None, "one at a time");
        membership.closed(9);
        assert_eq!(membership.propose(), Some(Change { add: Members::EMPTY, remove: Members::only(2) }));
    }

    #[test]
    fn a_leaving_member_stays_until_its_instances_are_over() {
        let mut membership = membership();
        membership.leave();
        assert_eq!(membership.propose(), Some(Change { add: Members::EMPTY, remove: Members::only(0) }));
        membership.decided(0, 0, Change { add: Members::EMPTY, remove: Members::only(0) });
        membership.closed(0);
        membership.advance(12);
        assert!(!membership.members().contains(0) && !membership.has_left());
        assert_eq!(membership.propose(), None);
        membership.advance(20);
        assert!(membership.has_left());
    }

    #[test]
    fn one_accuser_is_not_enough() {
        let mut membership = membership();
        let accuse = Change { add: Members::EMPTY, remove: Members::only(2) };
        membership.advance(9);
        membership.hear(1);
        membership.decided(4, 0, accuse);
        membership.decided(5, 0, accuse);
        assert_eq!(membership.next(), None);
        assert_eq!(membership.propose(), None, "it has said so");
        membership.decided(6, 1, accuse);
        assert_eq!(membership.next(), Some((9, Members::first(2))));
    }

    #[test]
    fn no_change_leaves_nobody_or_too_many() {
        let mut membership = membership();
        for proposer in 0..3 {
            membership.decided(0, proposer, Change { add: Members::first(8), remove: Members::EMPTY });
        }
        assert_eq!(membership.next(), None, "a window of four is too short for eight members");
        membership.start(0, 0, 1, Members::first(6));
        membership.ask(6);
        assert_eq!(membership.propose(), None, "nor is that proposed");
        // The last member stays until another node is added.
        membership.start(0, 0, 1, Members::only(0));
        membership.leave();
        let leave = membership.propose().unwrap();
        membership.decided(0, 0, leave);
        membership.closed(0);
        assert_eq!((membership.next(), membership.propose()), (None, None));
        membership.decided(1, 0, Change { add: Members::only(1), remove: Members::EMPTY });
        assert_eq!(membership.next(), Some((13, Members::only(1))));
    }
}
