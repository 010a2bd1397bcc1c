//! One instance of the consensus: the state machine of one member, without messages, time or values.
//!
//! Every member proposes its *row*: the set of members whose values it holds. The instance decides which values
//! count. A member sends one [`Record`] per round; it depends on earlier rounds only. A record is not trusted: if
//! no correct member could send it, it is refused, and its sender is suspected like a member whose record did not
//! arrive.
//!
//! `PROTOCOL.md` says why the consensus is correct. In short: if a member suspects at most *r* members at the end
//! of round *r*, it has every row that any member will ever receive (it is *locked*); members that are locked and
//! accept each other's records have equal rows; two majorities share a member.

use crate::members::{MEMBERS_MAX, Members, Quorums};
use crate::parameters::PlantedBug;

/// What a member sends to the others about an instance in one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// By member: its row, as far as the sender has it; empty otherwise.
    pub rows: [Members; MEMBERS_MAX],
    /// The members that the sender suspects.
    pub suspected: Members,
    /// Whether the sender is locked.
    pub locked: bool,
    /// The sender's decision, if it has one.
    pub decision: Option<Members>,
}

/// Result of taking a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// The record is valid and was used.
    Accepted,
    /// Sender or receiver suspects the other: only a decision in the record counts.
    Suspected,
    /// The record is invalid, or contradicts this member's state. It changed nothing.
    Contradiction,
}

/// The state of one member in one instance: about 40 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    node: u8,
    members: Members,
    quorums: Quorums,
    /// The running round, from 0.
    round: u8,
    rows: [Members; MEMBERS_MAX],
    suspected: Members,
    locked: bool,
    /// Members whose records were accepted while they were locked: their rows equal this member's.
    heard_locked: Members,
    decision: Option<Members>,

    // State of the running round:
    /// Rows that the accepted records add to `rows`.
    learned: [Members; MEMBERS_MAX],
    accepted: Members,
    /// A decision in some received record.
    adopted: Option<Members>,

    #[cfg(feature = "planted-bugs")]
    planted: Option<PlantedBug>,
}

impl Instance {
    /// Member `node` begins round 0, and holds the values of the members in `row`.
    ///
    /// # Panics
    /// If `node` is not in `members` or not in its own row, if the row has nodes that are no members, or if the
    /// quorums are not valid for this number of members.
    pub fn open(node: usize, members: Members, quorums: Quorums, row: Members) -> Self {
        assert!(members.contains(node), "only a member takes part");
        assert!(row.contains(node), "a member holds its own value");
        assert!(members.includes(row), "only members propose");
        assert!(quorums.are_valid(members.len()), "{quorums:?} are not valid for {} members", members.len());
        let mut rows = [Members::EMPTY; MEMBERS_MAX];
        rows[node] = row;
        Self {
            node: node as u8,
            members,
            quorums,
            round: 0,
            rows,
            suspected: Members::EMPTY,
            locked: false,
            heard_locked: Members::EMPTY,
            decision: None,
            learned: rows,
            accepted: Members::EMPTY,
            adopted: None,
            #[cfg(feature = "planted-bugs")]
            planted: None,
        }
    }

    /// The member's record of the running round. It does not change during the round.
    pub fn record(&self) -> Record {
        Record { rows: self.rows, suspected: self.suspected, locked: self.locked, decision: self.decision }
    }

    /// Processes a record that `from` sent in the running round. The order of records within a round does not
    /// matter. Pass at most one record of each sender.
    pub fn receive(&mut self, from: usize, record: &Record) -> Receipt {
        if !self.is_plausible(from, record) {
            return Receipt::Contradiction;
        }
        self.adopted = self.adopted.or(record.decision);
        let mutual =
            record.suspected.contains(self.node()) && !self.is_planted(PlantedBug::SuspicionNotMutual);
        if self.suspected.contains(from) || mutual {
            return Receipt::Suspected;
        }
        for (known, told) in self.learned.iter_mut().zip(record.rows) {
            *known = known.union(told);
        }
        self.accepted = self.accepted.with(from);
        if record.locked {
            self.heard_locked = self.heard_locked.with(from);
        }
        Receipt::Accepted
    }

    /// Whether a member that follows the protocol could send this record to this member.
    fn is_plausible(&self, from: usize, record: &Record) -> bool {
        let from_another_member = from != self.node() && self.members.contains(from);
        let knows_itself = !record.rows[from % MEMBERS_MAX].is_empty() && !record.suspected.contains(from);
        let rows = record.rows.iter().enumerate().all(|(owner, row)| {
            let known = self.learned[owner];
            row.is_empty()
                || (row.contains(owner) && self.members.includes(*row) && (known.is_empty() || known == *row))
        });
        let decided = self.decision.or(self.adopted);
        let decision = record.decision.is_none_or(|decision| {
            self.members.includes(decision) && decided.is_none_or(|decided| decided == decision)
        });
        from_another_member && knows_itself && rows && self.members.includes(record.suspected) && decision
    }

    /// Ends the running round and begins the next one. Returns the decision in the round in which it is made.
    pub fn end_round(&mut self) -> Option<Members> {
        let unheard = self.members.without(self.node()).difference(self.accepted);
        self.suspected = self.suspected.union(unheard);
        self.rows = self.learned;
        // A locked member has all rows that any member will ever receive; so has a member that accepts a locked
        // member's record.
        let closed = self.suspected.len() <= usize::from(self.round)
            || !self.heard_locked.is_empty()
            || self.is_planted(PlantedBug::LockAtOnce);
        self.locked |= closed && !self.is_passive();
        let decision = if self.decision.is_none() { self.adopted.or_else(|| self.decide()) } else { None };
        self.decision = self.decision.or(decision);
        (self.accepted, self.adopted) = (Members::EMPTY, None);
        self.round = self.round.saturating_add(1);
        decision
    }

    /// The decision that this member can make from the rows it has.
    fn decide(&self) -> Option<Members> {
        if self.is_passive() {
            return None;
        }
        let row = self.rows[self.node()];
        let unanimous = self.members.iter().all(|member| self.rows[member] == row);
        if unanimous {
            return Some(row);
        }
        let agreed = self.heard_locked.with(self.node()).len() >= usize::from(self.quorums.decision);
        (self.locked && (agreed || self.is_planted(PlantedBug::DecideWhenLocked))).then(|| self.held())
    }

    /// Members whose values are held by enough members.
    fn held(&self) -> Members {
        let enough = if self.is_planted(PlantedBug::HoldersNotCounted) {
            1
        } else {
            usize::from(self.quorums.holders)
        };
        self.members.iter().filter(|&value| self.holders(value).len() >= enough).collect()
    }

    /// Whether the member trusts too few others to lock or to decide by itself: it can only adopt a decision of
    /// others.
    pub fn is_passive(&self) -> bool {
        self.members.difference(self.suspected).len() < usize::from(self.quorums.survival)
    }

    /// Index of this member.
    pub fn node(&self) -> usize {
        self.node.into()
    }

    /// All members of the instance, this one included.
    pub fn members(&self) -> Members {
        self.members
    }

    /// The running round, from 0.
    pub fn round(&self) -> u8 {
        self.round
    }

    /// Members that this one suspects; a suspicion is never withdrawn.
    pub fn suspected(&self) -> Members {
        self.suspected
    }

    /// Whether the member is locked: it has all rows that count.
    pub fn is_locked(&self) -> bool {
        self.locked
    }

    /// By member: its row, empty if unknown.
    pub fn rows(&self) -> &[Members; MEMBERS_MAX] {
        &self.rows
    }

    /// The decision, once there is one.
    pub fn decision(&self) -> Option<Members> {
        self.decision
    }

    /// The members that hold the value of `member`, as far as this one has their rows.
    pub fn holders(&self, member: usize) -> Members {
        (0..MEMBERS_MAX).filter(|&holder| self.rows[holder].contains(member)).collect()
    }

    /// The same state, with a planted bug from now on.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub fn with_planted(self, planted: Option<PlantedBug>) -> Self {
        Self { planted, ..self }
    }

    /// [`PlantedBug::GuessInsteadOfFence`]: if the member is undecided, it decides its own row.
    #[cfg(feature = "planted-bugs")]
    pub(crate) fn guess(&mut self) -> &Self {
        if self.is_planted(PlantedBug::GuessInsteadOfFence) {
            self.decision = self.decision.or(Some(self.rows[self.node()]));
        }
        self
    }

    #[cfg(feature = "planted-bugs")]
    fn is_planted(&self, bug: PlantedBug) -> bool {
        self.planted == Some(bug)
    }

    #[cfg(not(feature = "planted-bugs"))]
    #[inline(always)]
    fn is_planted(&self, _: PlantedBug) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(rows: &[Members]) -> Vec<Instance> {
        let members = Members::first(rows.len());
        let quorums = Quorums::of(rows.len());
        rows.iter().enumerate().map(|(node, row)| Instance::open(node, members, quorums, *row)).collect()
    }

    /// Runs one round in which the messages are lost for which `lost(from, to)` is true.
    fn run(group: &mut [Instance], lost: impl Fn(usize, usize) -> bool) -> Vec<Option<Members>> {
        let records: Vec<_> = group.iter().map(Instance::record).collect();
        for (to, instance) in group.iter_mut().enumerate() {
            for (from, record) in records.iter().enumerate() {
                if from != to && !lost(from, to) {
                    assert_ne!(instance.receive(from, record), Receipt::Contradiction);
                }
            }
        }
        group.iter_mut().map(Instance::end_round).collect()
    }

    fn sets(bits: &[u8]) -> Vec<Members> {
        bits.iter().copied().map(Members::from_bits).collect()
    }

    #[test]
    fn without_faults_the_first_round_decides() {
        let all = Members::first(5);
        let mut group = open(&[all; 5]);
        assert_eq!(run(&mut group, |_, _| false), [Some(all); 5]);
        assert_eq!(run(&mut group, |_, _| false), [None; 5], "only once");
        assert!(group.iter().all(|instance| instance.is_locked() && instance.decision() == Some(all)));
    }

    #[test]
    fn different_rows_take_a_round_more_and_count_holders() {
        // Member 2's value reached no other member, member 1's only member 0.
        let mut group = open(&sets(&[0b011, 0b011, 0b101]));
        assert_eq!(run(&mut group, |_, _| false), [None; 3]);
        assert_eq!(run(&mut group, |_, _| false), [Some(Members::from_bits(0b011)); 3]);
    }

    #[test]
    fn a_crash_costs_a_round() {
        // Member 2 sends its proposal and nothing after that.
        let mut group = open(&[Members::first(3); 3]);
        let silent = |from, _| from == 2;
        assert_eq!(run(&mut group, silent)[..2], [None; 2]);
        assert!(!group[0].is_locked(), "one suspect is too many in round 0");
        assert_eq!(run(&mut group, silent)[..2], [None; 2]);
        assert!(group[0].is_locked() && group[1].is_locked());
        assert_eq!(run(&mut group, silent)[..2], [Some(Members::first(3)); 2]);
        // Member 2 received the others' records and adopts their decision.
        assert_eq!(group[2].decision(), Some(Members::first(3)));
    }

    #[test]
    fn suspicion_is_mutual_and_lasts() {
        let mut group = open(&[Members::first(4); 4]);
        run(&mut group, |from, to| (from, to) == (3, 0));
        assert_eq!(group[0].suspected(), Members::only(3));
        assert_eq!(group[3].suspected(), Members::EMPTY);
        run(&mut group, |_, _| false);
        assert_eq!(group[3].suspected(), Members::only(0));
        run(&mut group, |_, _| false);
        assert_eq!((group[0].suspected(), group[3].suspected()), (Members::only(3), Members::only(0)));
    }

    #[test]
    fn a_node_that_trusts_too_few_only_adopts() {
        let mut group = open(&[Members::first(5); 5]);
        // Member 0 receives records of one other member only: two of five are fewer than a quorum.
        let cut = |_, to| to == 0;
        run(&mut group, |from, to| cut(from, to) && from != 1);
        assert!(group[0].is_passive() && !group[0].is_locked());
        for _ in 0..3 {
            run(&mut group, cut);
            assert_eq!(group[0].decision(), None);
        }
        assert!(!group[0].is_locked());
        // A decision counts even in the record of a suspected member.
        let decided = run(&mut group, |from, to| cut(from, to) && from != 4);
        assert_eq!(decided[0], group[4].decision());
        assert!(decided[0].is_some());
    }

    #[test]
    fn what_cannot_be_true_is_refused() {
        let members = Members::first(3);
        let fresh = Instance::open(0, members, Quorums::of(3), members);
        let good = Instance::open(1, members, Quorums::of(3), members).record();
        let mut rows = good.rows;
        let bad = [
            (0, good),
            (3, good),
            (7, good),
            (2, good),
            (1, Record { suspected: Members::only(1), ..good }),
            (1, Record { suspected: Members::only(5), ..good }),
            (1, Record { decision: Some(Members::only(5)), ..good }),
            (
                1,
                Record {
                    rows: {
                        rows[2] = Members::only(1);
                        rows
                    },
                    ..good
                },
            ),
            (
                1,
                Record {
                    rows: {
                        rows[2] = Members::from_iter([2, 4]);
                        rows
                    },
                    ..good
                },
            ),
            (
                1,
                Record {
                    rows: {
                        rows[2] = Members::EMPTY;
                        rows[0] = Members::only(0);
                        rows
                    },
                    ..good
                },
            ),
        ];
        for (from, record) in bad {
            let mut instance = fresh;
            assert_eq!(instance.receive(from, &record), Receipt::Contradiction, "{from} {record:?}");
            assert_eq!(instance, fresh);
        }
        let mut instance = fresh;
        assert_eq!(instance.receive(1, &Record { decision: Some(members), ..good }), Receipt::Accepted);
        assert_eq!(instance.end_round(), Some(members));
        let other = Record { decision: Some(Members::only(2)), ..good };
        assert_eq!(instance.receive(1, &other), Receipt::Contradiction);
    }

    /// The schedule that breaks the consensus as printed in detPU: seven members, of which the last three omit
    /// messages. With the printed algorithm, one correct member decides without the value of member 4 while the
    /// others decide with it.
    #[test]
    fn the_schedule_that_breaks_the_printed_algorithm() {
        let lost = |round, from, to| match round {
            0 => (from == 4 && [0, 1, 2, 3, 5].contains(&to)) || (from == 6 && [0, 2, 3].contains(&to)),
            1 => (from, to) == (6, 1),
            2 => (from, to) == (5, 1),
            _ => false,
        };
        // In the printed algorithm the values are sent in round 0; here they are sent in the round before, and
        // rows follow.
        let rows: Vec<Members> =
            (0..7).map(|to| (0..7).filter(|&from| from == to || !lost(0, from, to)).collect()).collect();
        let mut group = open(&rows);
        for round in 1..=6 {
            run(&mut group, |from, to| lost(round, from, to));
        }
        let decisions: Vec<_> = group.iter().map(|instance| instance.decision().unwrap()).collect();
        assert!(decisions.iter().all(|decision| *decision == decisions[0]), "{decisions:?}");
    }
}
