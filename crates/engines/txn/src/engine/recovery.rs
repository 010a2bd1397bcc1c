//! View changes. Each attempt that was under way takes effect at all nodes, or at none.
//!
//! The full members of the new view report to each other the attempts of which they hold records. A node that
//! has all reports *marks* each attempt by a rule that is the same at all nodes. An attempt is committed if
//! some node knows that it is, or if every surviving replica of each shard that it writes has its records.
//! Otherwise it is aborted. Then the node announces that it has *settled*. No node acts on a mark before all
//! full members have settled. So a mark that a node has acted on is known to all, and a later view change
//! reaches the same verdict.

use weft_waist::{EngineState, Epoch, Io, NodeId, NodeSet, View};

use crate::engine::participant::UNLOGGED;
use crate::engine::{TAG_LOG, Transactions};
use crate::host_port::{HostKind, LOG_CALLER};
use crate::log;
use crate::message::{Base, HEADER_BYTES_MAX, Held, Kind, List, Verdict, Watermarks, write};
use crate::parameters::PlantedBug;
use crate::transaction::TransactionId;

/// Progress of a view change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// This node has no view yet, or takes no part in it.
    #[default]
    Idle,
    /// The members exchange reports.
    Reporting,
    /// This node has marked all attempts, and waits until its disk has the marks.
    Marked,
    /// This node has marked all attempts; other members may not have.
    Settled,
    /// All attempts are decided. The host is applying the log.
    Draining,
    /// The node serves transactions.
    Acting,
    /// The node is joining: it logs writes and copies shards (join.rs).
    Joining,
}

#[derive(Debug, Default)]
struct Report {
    base: Base,
    decided: Watermarks,
    parts: u16,
    got: Vec<bool>,
    held: Vec<Held>,
}

impl Report {
    fn is_complete(&self) -> bool {
        self.parts > 0 && self.got.iter().all(|&got| got)
    }
}

/// The present view change, or the last one.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    pub phase: Phase,
    /// The engine was restored, and has heard of no view since.
    pub is_restored: bool,
    /// The last view in which this node served, or became synced while joining.
    pub base: Base,
    reports: Vec<Report>,
    mine: Vec<Held>,
    settled: NodeSet,
    /// The shards whose primary this node was in that view.
    led: u16,
    /// Log position up to which the host had applied records when this node began to serve.
    pub drained: u64,
}

impl Recovery {
    pub fn acts(&self) -> bool {
        self.phase == Phase::Acting
    }

    /// Whether this node has the whole report of a node.
    fn has_reported(&self, node: usize) -> bool {
        self.reports.get(node).is_some_and(Report::is_complete)
    }

    /// The members whose reports, or whose announcements that they have settled, are outstanding.
    pub fn waits_for(&self, full: NodeSet) -> NodeSet {
        let is_awaited = |node: &NodeId| match self.phase {
            Phase::Reporting => !self.has_reported(node.index()),
            Phase::Settled => !self.settled.contains(*node),
            _ => false,
        };
        full.iter().filter(is_awaited).collect()
    }

    pub fn is_busy(&self) -> bool {
        matches!(self.phase, Phase::Reporting | Phase::Marked | Phase::Settled | Phase::Draining)
    }
}

impl Transactions {
    pub(crate) fn change_view(&mut self, view: View, io: &mut Io<'_>) {
        let node = NodeId::new(self.node).expect("a node");
        let first = self.state == EngineState::Starting;
        self.view = view;
        self.operations.abandon();
        self.place_shards();
        if !view.full.contains(node) {
            let may_join = first || matches!(self.state, EngineState::Joining { .. });
            if may_join && view.joining.contains(node) && self.parameters.variant.log_at_primary {
                return self.restart_join(io);
            }
            self.recovery.phase = Phase::Idle;
            self.state = EngineState::Lost;
            return;
        }
        if matches!(self.state, EngineState::Joining { synced: true } | EngineState::Restored) {
            self.state = EngineState::Full;
        }
        if first {
            // Only founding members start without recovery.
            self.state = if view.epoch.0 == 1 { EngineState::Full } else { EngineState::Lost };
            if self.state == EngineState::Full {
                self.begin_acting(io);
            }
            return;
        }
        if !self.parameters.variant.log_at_primary {
            // In this variant a primary logs after the outcome is reported, so it may lack a committed
            // record. The node cannot recover.
            self.state = EngineState::Lost;
        }
        if self.state != EngineState::Full {
            self.recovery.phase = Phase::Idle;
            return;
        }
        self.counters.recoveries += 1;
        self.recovery.phase = Phase::Reporting;
        self.recovery.settled = NodeSet::EMPTY;
        let mut mine: Vec<Held> = self.held_attempts().collect();
        self.marked_attempts(|id, verdict| mine.push(Held { id, shards: 0, held: 0, verdict }));
        self.recovery.reports = (0..self.parameters.nodes).map(|_| Report::default()).collect();
        self.recovery.mine = mine;
        self.report_if_on_disk(io);
    }

    /// Reports what this node holds, once it cannot forget any of it: another node's mark may rest on that.
    pub(crate) fn report_if_on_disk(&mut self, io: &mut Io<'_>) {
        let is_due = self.recovery.phase == Phase::Reporting && !self.recovery.has_reported(self.node);
        if !is_due || !self.log.is_on_disk() && !self.bug(PlantedBug::ReportedBeforeFlush) {
            return;
        }
        let (base, decided) = (self.recovery.base, self.participants.watermarks());
        let held = self.recovery.mine.clone();
        self.recovery.reports[self.node] = Report { base, decided, parts: 1, got: vec![true], held };
        let node = NodeId::new(self.node).expect("a node");
        self.send_report(self.view.full.without(node), io);
        self.continue_if_reported(io);
    }

    /// The attempts with records here that may not be decided at every node.
    pub(crate) fn held_attempts(&self) -> impl Iterator<Item = Held> {
        self.participants.held().map(|(slot, id)| Held {
            id,
            shards: slot.shards,
            held: slot.held(),
            verdict: slot.verdict,
        })
    }

    /// The present view as a base.
    pub(crate) const fn present_base(&self) -> Base {
        Base { epoch: self.view.epoch, full: self.view.full, joining: self.view.joining }
    }

    fn send_report(&mut self, to: NodeSet, io: &mut Io<'_>) {
        let mine = std::mem::take(&mut self.recovery.mine);
        let a_message = ((self.parameters.message_bytes - HEADER_BYTES_MAX - write::REPORT_HEAD_BYTES)
            / Held::BYTES_MAX)
            .min(255);
        let parts = mine.len().div_ceil(a_message).max(1);
        let asks = self.recovery.phase == Phase::Reporting;
        for part in 0..parts {
            let items = mine.iter().skip(part * a_message).take(a_message).copied();
            let base = self.recovery.base;
            let mut out = self.message();
            let decided = self.participants.watermarks();
            write::report(&mut out, asks, (&base, &decided), (part as u16, parts as u16), items);
            self.post(io.effects, to, Kind::Report, out);
        }
        self.recovery.mine = mine;
    }

    fn send_settled(&mut self, to: NodeSet, io: &mut Io<'_>) {
        let acts = matches!(self.recovery.phase, Phase::Draining | Phase::Acting);
        let mut out = self.message();
        out.push(u8::from(acts));
        self.post(io.effects, to, Kind::Settled, out);
    }

    /// Repeats what peers may have missed. A node that lacks reports sends its own again, which asks for
    /// theirs. A node that does not serve yet announces again that it has settled.
    pub(crate) fn repeat_recovery(&mut self, io: &mut Io<'_>) {
        let others = self.view.full.without(NodeId::new(self.node).expect("a node"));
        match self.recovery.phase {
            Phase::Reporting if self.recovery.has_reported(self.node) => self.send_report(others, io),
            Phase::Reporting => {}
            Phase::Settled => {
                self.send_settled(others, io);
                self.continue_if_settled(io);
            }
            Phase::Joining => self.repeat_copy(io),
            Phase::Idle | Phase::Marked | Phase::Draining | Phase::Acting => {}
        }
    }

    pub(crate) fn on_report(
        &mut self,
        from: usize,
        asks: bool,
        (base, decided): (Base, Watermarks),
        (part, parts): (u16, u16),
        held: &List<'_, Held>,
        io: &mut Io<'_>,
    ) {
        let peer = NodeId::new(from).expect("a node");
        if !self.view.full.contains(peer) || from == self.node {
            return;
        }
        match self.recovery.phase {
            Phase::Idle | Phase::Joining => {}
            Phase::Reporting => {
                let report = &mut self.recovery.reports[from];
                if report.parts == 0 {
                    let got = vec![false; parts.into()];
                    *report = Report { base, decided, parts, got, held: Vec::new() };
                }
                if report.parts == parts && !std::mem::replace(&mut report.got[usize::from(part)], true) {
                    report.held.extend(held.iter());
                }
                self.continue_if_reported(io);
            }
            Phase::Marked | Phase::Settled | Phase::Draining | Phase::Acting => {
                // The peer lacks this node's report.
                if asks && part == 0 {
                    self.send_report(NodeSet::EMPTY.with(peer), io);
                    if self.recovery.phase != Phase::Marked {
                        self.send_settled(NodeSet::EMPTY.with(peer), io);
                    }
                }
            }
        }
    }

    pub(crate) fn on_settled(&mut self, from: usize, acts: bool, io: &mut Io<'_>) {
        let peer = NodeId::new(from).expect("a node");
        self.recovery.settled = self.recovery.settled.with(peer);
        match self.recovery.phase {
            Phase::Settled => self.continue_if_settled(io),
            Phase::Draining | Phase::Acting if !acts => self.send_settled(NodeSet::EMPTY.with(peer), io),
            _ => {}
        }
    }

    /// The replicas of a shard among `members`.
    fn replicas_among(&self, shard: usize, members: NodeSet) -> NodeSet {
        (0..self.parameters.replicas)
            .map(|step| NodeId::new((shard + step) % self.parameters.nodes).expect("a node"))
            .filter(|&node| members.contains(node))
            .collect()
    }

    fn continue_if_reported(&mut self, io: &mut Io<'_>) {
        let full = self.view.full;
        if full.iter().any(|node| !self.recovery.reports[node.index()].is_complete()) {
            return;
        }
        let reports = std::mem::take(&mut self.recovery.reports);
        let base = full
            .iter()
            .map(|node| reports[node.index()].base)
            .max_by_key(|base| base.epoch)
            .expect("one at least");
        let of_base = || full.iter().map(|node| &reports[node.index()]).filter(|report| report.base == base);
        let decided: Watermarks = std::array::from_fn(|coordinator| {
            of_base().map(|report| report.decided[coordinator]).max().unwrap_or(0)
        });
        let mut all: Vec<(Held, usize)> = full
            .iter()
            .flat_map(|node| reports[node.index()].held.iter().map(move |held| (*held, node.index())))
            .collect();
        all.sort_by_key(|(held, node)| (held.id, *node));
        let mut committed: Vec<TransactionId> = Vec::new();
        for group in all.chunk_by(|(one, _), (other, _)| one.id == other.id) {
            let id = group[0].0.id;
            let is = |verdict| group.iter().any(|(held, _)| held.verdict == verdict);
            if is(Verdict::Committed) && is(Verdict::Aborted) {
                // Either a member or this protocol is faulty. To go on might contradict outcomes that were
                // reported.
                self.counters.contradictions += 1;
                return self.stop();
            }
            let shards = group.iter().fold(0, |set, (held, _)| set | held.shards);
            let logged = || {
                let members = base.full.union(base.joining).intersection(full);
                id.epoch() == base.epoch
                    && (0..self.parameters.nodes).filter(|shard| shards >> shard & 1 == 1).all(|shard| {
                        self.replicas_among(shard, members).iter().all(|replica| {
                            group
                                .iter()
                                .any(|(held, node)| *node == replica.index() && held.held >> shard & 1 == 1)
                        })
                    })
            };
            // A coordinator has said that it is decided, and it is not withdrawn here.
            let is_decided = id.epoch() == base.epoch && id.sequence() < decided[id.coordinator()];
            let commits =
                is(Verdict::Committed) || !is(Verdict::Aborted) && shards != 0 && (is_decided || logged());
            if commits {
                committed.push(id);
            }
            self.participants.mark(id, if commits { Verdict::Committed } else { Verdict::Aborted });
        }
        self.mark_attempts(|id| committed.binary_search(&id).is_ok());
        if self.parameters.has_disk {
            self.recovery.phase = Phase::Marked;
            return self.write_verdicts(io);
        }
        self.settle(io);
    }

    /// This node will not forget its marks: it announces that.
    pub(crate) fn settle(&mut self, io: &mut Io<'_>) {
        self.recovery.phase = Phase::Settled;
        let node = NodeId::new(self.node).expect("a node");
        self.recovery.settled = self.recovery.settled.with(node);
        self.send_settled(self.view.full.without(node), io);
        self.continue_if_settled(io);
    }

    fn continue_if_settled(&mut self, io: &mut Io<'_>) {
        let full = self.view.full;
        if self.recovery.settled.intersection(full) != full || self.now >= self.lease_until {
            return;
        }
        let mut records = Vec::new();
        for (slot, _) in self.participants.held() {
            let commits = slot.verdict == Verdict::Committed;
            records
                .extend(slot.parts.iter().map(|part| (part.position, commits, slot.ended, part.place.shard)));
        }
        for (position, commits, ended, shard) in records {
            if ended || position == UNLOGGED || position < self.log.applied() {
                continue;
            }
            if commits && self.recovery.led >> shard & 1 == 1 {
                self.commit_part(position, io);
            }
            let counter = if commits { &mut self.counters.recovered } else { &mut self.counters.rolled_back };
            *counter += 1;
            self.decide(position, commits, io);
        }
        self.participants.clear(&mut self.executions, &mut self.shards, io.memory);
        self.close_attempts(io);
        self.recovery.phase = Phase::Draining;
        self.after_release(io);
    }

    /// Decides a record: it takes effect, or never will.
    pub(crate) fn decide(&mut self, position: u64, commits: bool, io: &mut Io<'_>) {
        if !self.log.decide(io.memory, position, commits) {
            return;
        }
        if self.shards.are_in_engine() {
            let _ = self.log.note_copied(position);
        } else {
            self.copy_verdict(position, io);
        }
    }

    /// Copies the head of a record, with its verdict, to the host.
    pub(crate) fn copy_verdict(&mut self, position: u64, io: &mut Io<'_>) {
        let (near, offset) = (self.log.near(position) as u64, self.log.offset(position) as u64);
        let host = self.parameters.log_address + offset;
        io.effects.host_write(TAG_LOG | position, near, host, log::ALIGN as u32);
    }

    /// Goes on with the view change once the host has applied the whole log, so that its tables are complete.
    pub(crate) fn after_release(&mut self, io: &mut Io<'_>) {
        self.reset_log_mark();
        let drained = self.log.applied() == self.log.tail() || self.bug(PlantedBug::LostLockOnPromotion);
        if self.recovery.phase == Phase::Draining && drained {
            match self.state {
                EngineState::Joining { .. } => self.begin_joining(io),
                _ => self.begin_acting(io),
            }
        }
    }

    /// The tables are complete: the node begins to serve in this view.
    fn begin_acting(&mut self, io: &mut Io<'_>) {
        let led =
            (0..self.parameters.nodes).fold(0, |set, shard| set | u16::from(self.is_primary(shard)) << shard);
        // If this node now leads other shards than before, its index starts empty: it lacks objects of the
        // new shards, and must not keep those of the former ones. In the first view in which the node serves,
        // the index keeps what was loaded.
        let leads_other_shards = led != self.recovery.led && self.recovery.base.epoch != Epoch::default();
        self.shards.begin_epoch(self.view.epoch, leads_other_shards);
        self.recovery.led = led;
        self.number = 0;
        self.recovery.base = self.present_base();
        self.write_opening(io);
        self.recovery.phase = Phase::Acting;
        self.recovery.drained = self.log.applied();
        if !self.shards.are_in_engine() {
            io.effects.reply(LOG_CALLER, HostKind::Serves as u8, &[&led.to_be_bytes()]);
        }
    }
}
