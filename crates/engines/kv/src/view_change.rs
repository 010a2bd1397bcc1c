//! The view change: at which lengths the streams of the closed epoch end.
//!
//! The members of a new view may last have taken part in different epochs (their *base*), because a view can
//! follow another before all members have completed the first. Let the newest base be *b*. A write of epoch *b*
//! was committed only if every member of *b* accepted it:
//!
//! - if all full members have base *b*, each stream ends at the shortest accepted prefix;
//! - if a member has an older base, it accepted nothing in *b*, so nothing was committed in *b*: the streams of
//!   *b* end at 0. That member itself needs the cut that the others made when they left its base; they keep their
//!   last few cuts.
//!
//! A member that was not in *b* at all, or whose cut no other member has any more, cannot go on: it is lost and
//! has to join again.
//!
//! Where the hosts keep logs, a member that was restored from its log may lack entries that it had accepted and that
//! were committed. Its report is not *certain*, and no stream is cut by it. It first fetches what it lacks
//! ([`ViewChange::targets`]), and then reports again.

use weft_waist::{Epoch, NODES_MAX, NodeId, NodeSet};

use crate::message::{Lengths, Sealed};

/// This member has missed too many epochs and cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost;

/// The reports of the full members of the new view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ViewChange {
    node: NodeId,
    full: NodeSet,
    heard: NodeSet,
    /// Those of them whose reports are certain; all of them where the hosts keep no logs.
    certain: NodeSet,
    has_logs: bool,
    gathered: [Option<Sealed>; NODES_MAX],
}

impl ViewChange {
    /// No view change is in progress.
    pub fn idle(node: NodeId) -> Self {
        let (full, heard, certain) = (NodeSet::EMPTY, NodeSet::EMPTY, NodeSet::EMPTY);
        Self { node, full, heard, certain, has_logs: false, gathered: [None; NODES_MAX] }
    }

    /// Starts a view change with the node's own report.
    pub fn begin(&mut self, node: NodeId, full: NodeSet, has_logs: bool, own: Sealed) {
        *self = Self { full, has_logs, ..Self::idle(node) };
        self.add(node, own);
    }

    /// Adds the report of a full member. Only its first certain report counts: then it accepts nothing more.
    pub fn add(&mut self, from: NodeId, sealed: Sealed) {
        let is_certain = !self.has_logs || sealed.certain.contains(from);
        let is_new = !self.heard.contains(from) || is_certain && !self.certain.contains(from);
        if self.full.contains(from) && is_new {
            self.heard = self.heard.with(from);
            self.gathered[from.index()] = Some(sealed);
            if is_certain {
                self.certain = self.certain.with(from);
            }
        }
    }

    /// The node's own report, with the members whose reports it has by now. `None` if no view change has taken
    /// place.
    pub fn own(&self) -> Option<Sealed> {
        let certain = if self.has_logs { self.certain } else { NodeSet::EMPTY };
        self.gathered[self.node.index()].map(|own| Sealed { heard: self.heard, certain, ..own })
    }

    /// Whether another member that has sent `sealed` lacks this node's latest report.
    pub fn is_news_to(&self, sealed: &Sealed) -> bool {
        let is_certain = self.has_logs && self.certain.contains(self.node);
        !sealed.heard.contains(self.node) || is_certain && !sealed.certain.contains(self.node)
    }

    /// Members that have not reported yet, or with no certain report.
    pub fn missing(&self) -> NodeSet {
        self.full.minus(self.certain)
    }

    /// Which length of each stream a restored node needs in order to have every committed entry, and the member that
    /// has it; `None` while that is unknown. One certain report is enough: every member had accepted what was
    /// committed. Without any, all full members must be restored ones, and among them at least `quorum` of `voters`,
    /// the full members of the node's base: then the longest prefix of each stream contains every committed entry.
    pub fn targets(&self, voters: NodeSet, quorum: usize) -> Option<[(NodeId, u64); NODES_MAX]> {
        let own = self.own()?;
        let of = |node: NodeId| self.gathered[node.index()].filter(|sealed| sealed.base == own.base);
        let model = self.certain.iter().find_map(|node| Some((node, of(node)?)));
        if let Some((node, sealed)) = model {
            return Some(std::array::from_fn(|stream| (node, sealed.accepted[stream])));
        }
        let all_restored = self.full.iter().all(|node| of(node).is_some());
        if !all_restored || self.full.intersection(voters).len() < quorum {
            return None;
        }
        Some(std::array::from_fn(|stream| {
            let lengths = self.full.iter().filter_map(|node| Some((node, of(node)?.accepted[stream])));
            lengths.max_by_key(|(_, length)| *length).expect("a view has a full member")
        }))
    }

    /// Whether no member has reported yet that it has every committed entry.
    pub fn is_from_disks(&self) -> bool {
        self.certain.is_empty()
    }

    /// Where the streams of the node's base end; `None` while that is undecided.
    pub fn decide(&self) -> Result<Option<Lengths>, Lost> {
        let Some(own) = self.own() else { return Ok(None) };
        if self.heard != self.full {
            return Ok(None);
        }
        let all = || self.gathered.iter().flatten();
        let newest = all().map(|sealed| sealed.base).max().unwrap_or(Epoch(0));
        let members =
            all().find(|sealed| sealed.base == newest).map_or(NodeSet::EMPTY, |sealed| sealed.base_members);
        if !members.contains(self.node) {
            return Err(Lost);
        }
        if self.full.intersection(members) != self.full {
            // Another member is lost, and the membership service has to remove it first. If its report counted,
            // writes that were committed without it would be cut.
            return Ok(None);
        }
        let lengths = if own.base < newest {
            let cuts = all().filter(|sealed| sealed.base > own.base).flat_map(|sealed| sealed.cuts);
            cuts.filter(|cut| cut.epoch == own.base).map(|cut| cut.lengths).next().ok_or(Lost)?
        } else if all().all(|sealed| sealed.base == newest) {
            if !self.missing().is_empty() {
                return Ok(None);
            }
            std::array::from_fn(|stream| all().map(|sealed| sealed.accepted[stream]).min().unwrap_or(0))
        } else {
            [0; NODES_MAX]
        };
        let possible = lengths.iter().zip(&own.accepted).all(|(length, accepted)| length <= accepted);
        if possible { Ok(Some(lengths)) } else { Err(Lost) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{CUTS_MAX, Cut};

    fn node(index: usize) -> NodeId {
        NodeId::new(index).unwrap()
    }

    fn lengths(some: &[u64]) -> Lengths {
        std::array::from_fn(|stream| some.get(stream).copied().unwrap_or(0))
    }

    fn sealed(base: u32, members: usize, accepted: &[u64], cuts: &[(u32, &[u64])]) -> Sealed {
        let mut past = [Cut::default(); CUTS_MAX];
        for (place, &(epoch, ends)) in cuts.iter().enumerate() {
            past[place] = Cut { epoch: Epoch(epoch), lengths: lengths(ends) };
        }
        Sealed {
            epoch: Epoch(9),
            base: Epoch(base),
            base_members: NodeSet::first(members),
            heard: NodeSet::EMPTY,
            certain: NodeSet::EMPTY,
            accepted: lengths(accepted),
            cuts: past,
        }
    }

    fn decide(node_index: usize, all: &[Sealed]) -> Result<Option<Lengths>, Lost> {
        let mut change = ViewChange::idle(node(node_index));
        change.begin(node(node_index), NodeSet::first(all.len()), false, all[node_index]);
        for (index, &sealed) in all.iter().enumerate() {
            change.add(node(index), sealed);
        }
        change.decide()
    }

    #[test]
    fn streams_end_at_the_shortest_accepted_prefix() {
        let all = [sealed(4, 3, &[5, 7, 2], &[]), sealed(4, 3, &[6, 7, 1], &[])];
        assert_eq!(decide(0, &all), Ok(Some(lengths(&[5, 7, 1]))));
        assert_eq!(decide(1, &all), Ok(Some(lengths(&[5, 7, 1]))));
    }

    #[test]
    fn nothing_is_decided_before_all_were_heard() {
        let mut change = ViewChange::idle(node(0));
        assert_eq!(change.decide(), Ok(None));
        change.begin(node(0), NodeSet::first(2), false, sealed(4, 3, &[5], &[]));
        assert_eq!(change.decide(), Ok(None));
        assert_eq!(change.missing(), NodeSet::EMPTY.with(node(1)));
        change.add(node(2), sealed(4, 3, &[5], &[]));
        assert_eq!(change.decide(), Ok(None), "node 2 is not a full member");
    }

    /// A view change of node 0 whose members keep logs: the reports of nodes 0, 1, ... and whether each is certain.
    fn with_logs(all: &[(bool, Sealed)]) -> ViewChange {
        let report = |index: usize| {
            let (is_certain, sealed) = all[index];
            let certain = if is_certain { NodeSet::EMPTY.with(node(index)) } else { NodeSet::EMPTY };
            Sealed { certain, ..sealed }
        };
        let mut change = ViewChange::idle(node(0));
        change.begin(node(0), NodeSet::first(all.len()), true, report(0));
        (1..all.len()).for_each(|index| change.add(node(index), report(index)));
        change
    }

    #[test]
    fn a_restored_member_fetches_what_a_certain_one_has() {
        let mut change = with_logs(&[
            (false, sealed(4, 3, &[5, 7], &[])),
            (true, sealed(4, 3, &[8, 6], &[])),
            (false, sealed(4, 3, &[9, 9], &[])),
        ]);
        assert_eq!(change.decide(), Ok(None));
        let targets = change.targets(NodeSet::first(3), 2).unwrap();
        assert_eq!(targets[..2], [(node(1), 8), (node(1), 6)]);
        assert!(change.is_news_to(&sealed(4, 3, &[], &[])));
        for (index, accepted) in [(0, [8, 7]), (2, [9, 9])] {
            let certain = NodeSet::EMPTY.with(node(index));
            change.add(node(index), Sealed { certain, ..sealed(4, 3, &accepted, &[]) });
        }
        assert_eq!(change.decide(), Ok(Some(lengths(&[8, 6]))));
    }

    #[test]
    fn restored_members_take_the_longest_prefixes_once_there_are_enough() {
        let two = [(false, sealed(4, 3, &[5, 7], &[])), (false, sealed(4, 3, &[6, 2], &[]))];
        let change = with_logs(&two);
        assert_eq!(change.decide(), Ok(None));
        assert_eq!(change.targets(NodeSet::first(3), 2).unwrap()[..2], [(node(1), 6), (node(0), 7)]);
        assert_eq!(change.targets(NodeSet::first(3), 3), None, "three of them would be needed");
        assert_eq!(change.targets(NodeSet::from_iter([node(0), node(2)]), 2), None, "node 1 was joining");
        let mut change = with_logs(&two[..1]);
        change.full = NodeSet::first(2);
        assert_eq!(change.targets(NodeSet::first(3), 1), None, "node 1 may be certain");
    }

    #[test]
    fn where_nothing_was_committed_nobody_has_to_be_certain() {
        let change = with_logs(&[
            (false, sealed(5, 2, &[3, 4], &[(4, &[8, 9])])),
            (true, sealed(4, 3, &[8, 10], &[])),
        ]);
        assert_eq!(change.targets(NodeSet::first(2), 1), None);
        assert_eq!(change.decide(), Ok(Some(lengths(&[]))));
    }

    #[test]
    fn a_member_that_missed_a_view_gets_its_cut_and_voids_what_came_after() {
        let all = [sealed(5, 2, &[3, 4], &[(4, &[8, 9])]), sealed(4, 3, &[8, 10], &[])];
        assert_eq!(decide(0, &all), Ok(Some(lengths(&[]))));
        assert_eq!(decide(1, &all), Ok(Some(lengths(&[8, 9]))));
    }

    #[test]
    fn a_member_whose_cut_is_forgotten_is_lost() {
        let all = [sealed(7, 2, &[3, 4], &[(6, &[8, 9])]), sealed(4, 3, &[8, 10], &[])];
        assert_eq!(decide(1, &all), Err(Lost));
    }

    #[test]
    fn a_member_that_was_left_out_is_lost_and_voids_nothing() {
        let all = [sealed(5, 1, &[3], &[(4, &[8, 9])]), sealed(4, 2, &[8, 10], &[])];
        assert_eq!(decide(1, &all), Err(Lost));
        assert_eq!(decide(0, &all), Ok(None));
    }

    #[test]
    fn a_cut_beyond_what_the_member_has_is_no_cut_of_its_streams() {
        let all = [sealed(5, 2, &[3, 4], &[(4, &[9, 9])]), sealed(4, 3, &[8, 10], &[])];
        assert_eq!(decide(1, &all), Err(Lost));
    }
}
