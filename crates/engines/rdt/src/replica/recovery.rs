//! Recovery of state that other replicas have and this one lacks: calls of dead origins, and all state while
//! it joins.

mod copying;
mod snapshots;

use weft_smr::NODES_MAX;
use weft_time::Instant;
use weft_waist::{Io, Memory, NodeSet};

use super::message::Datagram;
use super::observer::Observer;
use super::parameters::PlantedBug;
use super::stream::{ENTRIES, SUMMARIES, Stage};
use super::{Phase, Replica, node};

/// Number of retry intervals after which a step of joining starts again.
const PATIENCE: u64 = 8;

/// The step that a joining node is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    /// It connects to a majority of the full replicas.
    #[default]
    Connecting,
    /// It has requested a snapshot from a donor.
    Asked { donor: usize },
    /// It READs the snapshot.
    Reading { donor: usize, bytes: usize },
    /// It copies calls that are not in the snapshot from all full replicas.
    Collecting,
}

/// Progress of this node's join, and the snapshot that it has made for another joining node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Join {
    step: Step,
    donor: usize,
    attempt: u64,
    since: Instant,
    /// By origin: the counts of calls that this node must reach before it serves.
    targets: [[u64; NODES_MAX]; 2],
    /// The peers whose headers were included in the targets.
    targeted: NodeSet,
    /// The latest former incarnation of this node of which a peer has calls.
    former: u32,
    /// Number of own calls of former incarnations that this node sends to others while it joins. It has them
    /// in memory, and becomes full only after they have taken effect here.
    pub found: [u64; 2],
    /// Peers that have reported that they can no longer send their calls that this node lacks.
    pub told_by: NodeSet,
    /// Whether a peer lacked ring entries that its header had counted.
    misses: bool,
    /// The receiver of the snapshot in this node's memory, the attempt, its size in bytes, and when it was
    /// last requested.
    giving: Option<(usize, u64, usize, Instant)>,
}

impl Join {
    /// Starts the join again, without the results so far.
    pub fn begin_again(&mut self) {
        (self.step, self.targeted, self.misses) = (Step::Connecting, NodeSet::EMPTY, false);
        self.targets = [[0; NODES_MAX]; 2];
    }

    /// Handles the loss of the connection to a peer.
    pub fn lost(&mut self, peer: usize) {
        self.targeted = self.targeted.without(node(peer));
        if matches!(self.step, Step::Asked { donor } | Step::Reading { donor, .. } if donor == peer) {
            self.step = Step::Connecting;
        }
    }
}

impl<W: Observer> Replica<W> {
    /// The full peers that this node can read from. All of them have revoked the permissions of its former
    /// incarnation.
    fn sources(&self) -> NodeSet {
        let is_source = |peer: &usize| {
            let state = &self.peers[*peer];
            state.stage == Stage::UpToDate && state.header.is_some()
        };
        self.others().filter(is_source).map(node).collect()
    }

    /// Continues the join of this node.
    pub(super) fn keep_joining(&mut self, now: Instant, io: &mut Io<'_>) {
        let waited = now >= self.join.since + self.parameters.retry * PATIENCE;
        if self.phase == Phase::Lagging && !self.lags() {
            self.catch_up_ends();
            return;
        }
        match self.join.step {
            Step::Connecting => {
                if self.phase == Phase::Lagging {
                    self.read_headers(io.effects);
                }
                let sources = self.sources();
                let enough = match self.parameters.planted(PlantedBug::HastyJoin) {
                    true => 1,
                    false if self.phase == Phase::Lagging => 1,
                    false => self.parameters.majority(),
                };
                if sources.len() < enough {
                    return;
                }
                self.join.donor += 1;
                let donor = sources.nth(self.join.donor % sources.len()).expect("it is one of them").index();
                self.join.attempt += 1;
                (self.join.step, self.join.since) = (Step::Asked { donor }, now);
                // From now on no group applies entries: the snapshot may lack them.
                self.state.has_snapshot = false;
                let incarnation = self.state.incarnation;
                self.send(donor, &Datagram::Ask { incarnation, attempt: self.join.attempt }, io.effects);
            }
            Step::Asked { .. } | Step::Reading { .. } if waited => self.join.begin_again(),
            Step::Asked { .. } | Step::Reading { .. } => {}
            Step::Collecting => {
                for peer in self.others() {
                    if !self.peers[peer].pulling {
                        self.read_header(peer, io.effects);
                    }
                }
                self.consider(now, io);
                self.pass_on(io);
                let lags = self.state.groups.iter().any(|group| group.included < group.needs);
                if waited && lags && self.phase == Phase::Joining {
                    self.join.begin_again();
                }
            }
        }
    }

    /// Whether this node has the headers of a majority of full nodes, written after they knew of its
    /// incarnation. Every answered call is covered by these headers.
    fn has_heard_enough(&self) -> bool {
        let enough = match self.parameters.planted(PlantedBug::HastyJoin) {
            true => 1,
            false => self.parameters.majority(),
        };
        let targeted = self.join.targeted;
        let waits_for = self.sources().intersection(self.alive);
        targeted.len() >= enough && waits_for.iter().all(|peer| targeted.contains(peer))
    }

    /// Makes this node full if it has everything that the headers cover.
    fn consider(&mut self, now: Instant, io: &mut Io<'_>) {
        let targeted = self.join.targeted;
        let has_all = (0..self.parameters.nodes).all(|origin| {
            self.state.summaries[origin] >= self.join.targets[SUMMARIES][origin]
                && self.state.entries[origin] >= self.join.targets[ENTRIES][origin]
        });
        let is_ordered = self.groups.iter().all(|group| group.takes_part())
            && self.state.groups.iter().all(|group| group.included >= group.needs);
        let me = self.me();
        let own = [self.state.summaries[me], self.state.entries[me]];
        let has_found = (0..2).all(|kind| own[kind] >= self.join.found[kind]);
        if !has_all || !has_found || !is_ordered || !self.has_heard_enough() {
            return;
        }
        (self.stream.begun_behind, self.stream.former) = (own, self.join.former);
        for peer in targeted.iter().map(weft_waist::NodeId::index) {
            self.stream.found_at[peer] = self.incarnations[peer];
        }
        self.restore_outgoing(own[SUMMARIES], io.memory);
        (self.phase, self.state.joining) = (Phase::Full, false);
        self.groups.iter_mut().for_each(|group| group.set_ineligible(false));
        self.unpublished = true;
        self.state.moved = true;
        // From now on this node sends its own calls to the peers that lack some of them.
        for peer in self.others() {
            self.connect(peer, now, io);
        }
    }

    /// Sends this node's calls of former incarnations to the peers that lack them. No other node does so
    /// while this one is alive. Yet a log may be blocked until these calls arrive, and must go on before it
    /// can include this node. If peers copied the calls from each other instead, they might get calls that
    /// this node did not find, and that it will not continue from.
    fn pass_on(&mut self, io: &mut Io<'_>) {
        let me = self.me();
        let found = [self.state.summaries[me], self.join.targets[ENTRIES][me]];
        let has_them = found[SUMMARIES] >= self.join.targets[SUMMARIES][me]
            && self.first_missing(me, io.memory) > found[ENTRIES];
        if self.phase != Phase::Joining || !has_them || !self.has_heard_enough() {
            return;
        }
        if found[SUMMARIES] > self.join.found[SUMMARIES] {
            self.restore_outgoing(found[SUMMARIES], io.memory);
        }
        for (passed, found) in self.join.found.iter_mut().zip(found) {
            *passed = found.max(*passed);
        }
        for peer in self.join.targeted.iter().map(weft_waist::NodeId::index) {
            let Some(header) = self.peers[peer].header else { continue };
            let has = [header.summaries[me], header.entries[me]];
            if self.reaches_back(has, self.join.found, io.memory) {
                let next = &mut self.peers[peer].next;
                *next = std::array::from_fn(|kind| next[kind].max(has[kind] + 1));
                self.pump(peer, io);
            }
        }
    }

    /// The state was replaced by a snapshot, which may lack own calls that were already sent to others:
    /// applies them again.
    fn find_again(&mut self, io: &mut Io<'_>) {
        let me = self.me();
        if self.join.found[SUMMARIES] > 0 {
            self.scan_of(me, io);
            self.state.complete(me, self.join.found[SUMMARIES]);
            self.state.tell_absorbed(me);
        }
        self.deliver_ring(me, io.memory);
    }

    /// Prepares this node's own summaries of former incarnations to be sent again. The latest one says that
    /// all calls have arrived.
    fn restore_outgoing(&mut self, latest: u64, memory: &mut Memory) {
        let first = self.me() * self.layout.slots;
        for summary in &mut self.state.absorbed[first..first + self.layout.slots] {
            if summary.count > 0 {
                summary.complete = if summary.count == latest { latest } else { 0 };
                memory.write(self.layout.outgoing(summary.count), &summary.encode());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_smr::StateMachine;
    use weft_waist::Effects;

    use super::*;
    use crate::object::Arguments;
    use crate::replica::ReplicaParameters;
    use crate::replica::layout::Header;
    use crate::replica::state::{EntryContent, Machine, Ordered};
    use crate::replica::vector::Vector;
    use crate::{Bounds, Type};

    /// While a second snapshot is on its way, it may lack entries that a group applies. The log does not
    /// repeat these, so a third snapshot would be needed, and meanwhile another group would apply further
    /// entries, and so on.
    #[test]
    fn no_group_goes_on_while_another_snapshot_is_on_its_way() {
        let kind = Type::shipped("movie", &Bounds::uniform(4)).unwrap();
        let mut replica: Replica = Replica::new(ReplicaParameters::new(kind, 3));
        let mut memory = Memory::new(replica.parameters.memory_bytes());
        replica.phase = Phase::Joining;
        (replica.state.joining, replica.state.has_snapshot) = (true, true);
        for peer in replica.others() {
            (replica.peers[peer].stage, replica.peers[peer].header) =
                (Stage::UpToDate, Some(Header::default()));
        }
        let goes_on = |replica: &mut Replica, index: u64| {
            let entry = Ordered {
                what: EntryContent::Term,
                origin: 1,
                method: 0,
                incarnation: 1,
                number: 0,
                term: 0,
                sequence: 0,
                arguments: Arguments::default(),
                depends: Vector::default(),
            };
            let mut bytes = [0; Ordered::BYTES_MAX];
            let mut machine = Machine { state: &mut replica.state, group: 0 };
            machine.apply(index, entry.encode(&mut bytes, 3), None, &mut Effects::default())
        };
        assert!(goes_on(&mut replica, 0), "it has a snapshot");
        let mut effects = Effects::default();
        replica.keep_joining(Instant::ZERO, &mut Io { effects: &mut effects, memory: &mut memory });
        assert!(matches!(replica.join.step, Step::Asked { .. }), "{:?}", replica.join);
        assert!(!goes_on(&mut replica, 1));
        assert_eq!(replica.state.groups[0].included, 1);
    }
}
