//! Taking over as leader: collects the entries in the logs of a majority, and adopts them under a new proposal.

use std::ops::Range;

use weft_waist::NodeSet;

use super::{Follower, PostKind, Stage};
use crate::group::{Group, Role};
use crate::layout::{self, Gap, NUMBER_MAX, Zeroed};
use crate::link::Transfer;
use crate::machine::Ports;
use crate::message::node;
use crate::parameters::{Parameters, PlantedBug, SLOT_BYTES_MAX};
use crate::slot::{Kind, Slot};

/// Rank of a decided entry, above any proposal number.
const DECIDED: u64 = u64::MAX;

impl Group {
    /// The followers whose lines have been read and that take part in decisions.
    pub(super) fn known_members(&self) -> NodeSet {
        let known = |&peer: &usize| {
            let follower = &self.followers[peer];
            follower.stage >= Stage::Known && follower.member
        };
        self.peers().filter(known).map(node).collect()
    }

    pub(crate) fn read_lines(&mut self, peer: usize, ports: &mut Ports<'_>) {
        self.followers[peer] = Follower { stage: Stage::Reading, ..Follower::default() };
        let from = self.layout.line(0);
        let transfer = Transfer::Read { from, to: self.layout.inbox_lines(peer), bytes: layout::LINES };
        self.post(peer, PostKind::Lines, transfer, ports);
        if self.role == Role::Requesting {
            // No other replica writes to the slots any more, so they may be read before the proposal is written.
            self.read_slots(peer, PostKind::Slots, self.decided, ports);
        }
    }

    /// Handles the arrival of a follower's lines.
    pub(super) fn lines_arrived(&mut self, peer: usize, ports: &mut Ports<'_>) {
        let at = self.layout.inbox_lines(peer);
        let lines = &ports.memory.image()[at..at + layout::LINES];
        let word = |field| crate::slot::word(lines, field);
        let gap = Gap::parse(lines);
        let incarnation = word(layout::INCARNATION) as u32;
        let numbers =
            [word(layout::PROPOSAL), word(layout::DECIDED), word(layout::APPLIED), gap.to, gap.forgotten];
        let zeroed = Zeroed::parse(word(layout::ZEROED));
        if numbers.iter().any(|number| *number > NUMBER_MAX) || zeroed.below > NUMBER_MAX {
            self.counters.malformed += 1;
            self.lose(peer, ports);
            return;
        }
        self.followers[peer] = Follower {
            stage: Stage::Known,
            incarnation,
            member: word(layout::MEMBER) == u64::from(incarnation),
            proposal: word(layout::PROPOSAL),
            decided: word(layout::DECIDED).max(word(layout::APPLIED)).max(gap.to),
            zeroed,
            applied: word(layout::APPLIED),
            gap,
            ..self.followers[peer]
        };
        self.note_incarnation(peer, incarnation, ports);
        match self.role {
            Role::Requesting => self.consider(ports),
            Role::Leading => self.settle(ports),
            Role::Follower | Role::Collecting { .. } => {}
        }
    }

    /// If the lines of a majority have arrived, the candidate sends its proposal and begins to collect the entries in
    /// their logs. Replicas that have lost their memory do not count.
    pub(crate) fn consider(&mut self, ports: &mut Ports<'_>) {
        let confirmed = self.known_members();
        let forgotten = self.peers().filter(|&peer| {
            let follower = &self.followers[peer];
            follower.stage >= Stage::Known && !follower.member
        });
        self.halted = self.parameters.nodes - forgotten.count() < self.parameters.majority();
        if confirmed.len() + 1 < self.parameters.majority() {
            return;
        }
        let members = || confirmed.iter().map(|peer| &self.followers[peer.index()]);
        let zeroed = members().map(|member| member.zeroed.below).max().unwrap_or(0).max(self.zeroed(ports));
        if zeroed > self.applied {
            self.defer_to_longer_log(zeroed, ports);
            return;
        }
        let own = self.layout.get(ports.memory, layout::PROPOSAL).min(NUMBER_MAX).max(self.proposal);
        let highest = members().map(|member| member.proposal).max().unwrap_or(0).max(own);
        // Proposal numbers are unique to a replica: the lower three bits are its number.
        self.proposal = (highest >> 3).wrapping_add(1) << 3 | self.node as u64;
        self.layout.set(ports.memory, layout::PROPOSAL, self.proposal);
        self.first = members().map(|member| member.decided).max().unwrap_or(0).max(self.decided);
        self.tail = self.first;
        self.zero_own(zeroed, ports);
        // The READs of the first slots were posted before the WRITE of the proposal, so they complete before it.
        self.role = Role::Collecting { cursor: self.decided, empty: 0, waiting: confirmed };
        for peer in confirmed.iter() {
            self.promise(peer.index(), ports);
        }
        if confirmed.is_empty() {
            self.adopt(ports);
        }
    }

    /// Gives way: this replica lacks entries before `behind` that are no longer in any log. A replica that has
    /// applied them must lead.
    pub(super) fn defer_to_longer_log(&mut self, behind: u64, ports: &mut Ports<'_>) {
        self.behind = behind;
        self.counters.behind += 1;
        self.elect(ports);
    }

    /// Frees this replica's slots of entries before `zeroed`.
    pub(super) fn zero_own(&mut self, zeroed: u64, ports: &mut Ports<'_>) {
        let before = self.zeroed_word(ports);
        if zeroed <= before.below {
            return;
        }
        self.zero_own_slots(before.below..zeroed.min(before.below + self.parameters.slots), ports);
        let word = before.advanced(zeroed, self.parameters.window).word();
        self.layout.set(ports.memory, layout::ZEROED, word);
    }

    /// Zeroes the slots of this replica's log that a former leader freed without zeroing them. Behind the adopted
    /// entries, the slots hold nothing that counts.
    fn clean_own(&mut self, ports: &mut Ports<'_>) {
        let zeroed = self.zeroed_word(ports);
        if zeroed.is_clean() {
            return;
        }
        let Parameters { slots, window, .. } = self.parameters;
        let from = zeroed.clean_below(slots, window).max(self.tail);
        self.zero_own_slots(from..zeroed.below + slots, ports);
        self.layout.set(ports.memory, layout::ZEROED, Zeroed::new(zeroed.below, 0).word());
    }

    fn zero_own_slots(&mut self, entries: Range<u64>, ports: &mut Ports<'_>) {
        if self.parameters.planted(PlantedBug::SlotNotZeroed) {
            return;
        }
        for index in entries {
            let zeros = [0; SLOT_BYTES_MAX];
            ports.memory.write(self.layout.slot(index), &zeros[..self.parameters.slot_bytes]);
        }
    }

    /// Reads the slots of the confirmed followers from `cursor` on.
    fn collect(&mut self, cursor: u64, empty: u64, confirmed: NodeSet, ports: &mut Ports<'_>) {
        self.role = Role::Collecting { cursor, empty, waiting: confirmed };
        for peer in confirmed.iter().map(|peer| peer.index()) {
            self.read_slots(peer, PostKind::Collect, cursor, ports);
        }
        if confirmed.is_empty() {
            self.adopt(ports);
        }
    }

    /// Handles the arrival of data from a follower for which a candidate has waited.
    pub(super) fn collected(&mut self, peer: usize, ports: &mut Ports<'_>) {
        if let Role::Collecting { waiting, .. } = &mut self.role {
            *waiting = waiting.without(node(peer));
            if waiting.is_empty() {
                self.adopt(ports);
            }
        }
    }

    pub(super) fn promise(&mut self, peer: usize, ports: &mut Ports<'_>) {
        if !std::mem::replace(&mut self.followers[peer].promised, true) {
            self.write_line(peer, layout::PROPOSAL, PostKind::Promise, ports);
        }
    }

    /// Adopts entries, once the slots that a majority's logs hold for them have arrived. If some log shows an
    /// entry to be decided, that one is adopted. Otherwise the one with the highest proposal is adopted, provided
    /// that a majority still remembers what it accepted.
    fn adopt(&mut self, ports: &mut Ports<'_>) {
        let Role::Collecting { cursor, mut empty, .. } = self.role else { unreachable!("it collects") };
        let confirmed = self.confirmed();
        let slots = self.layout.piece(cursor, 2 * self.parameters.window);
        for place in 0..slots {
            let index = cursor + place;
            let own = self.layout.entry(ports.memory, index).map(|slot| (slot.proposal, self.node));
            let found = confirmed.iter().filter_map(|peer| {
                let peer = peer.index();
                let slot = Slot::parse(self.layout.inbox(ports.memory, peer, place), index)?;
                // Entries below the decided length of the follower's log are decided, except within its gap.
                let Follower { decided, gap, .. } = self.followers[peer];
                let is_decided = index < decided && !gap.contains(index);
                Some((if is_decided { DECIDED } else { slot.proposal }, peer))
            });
            let best = if self.parameters.planted(PlantedBug::HighestProposalIgnored) {
                own.into_iter().chain(found).next()
            } else {
                own.into_iter().chain(found).max_by_key(|(proposal, _)| *proposal)
            };
            // A decided entry may remain only in snapshots of the state, while the slots found here hold an entry
            // that lost against it. So without a majority that remembers what it accepted, an entry below `first`
            // is not adopted.
            let remember =
                || confirmed.iter().filter(|peer| self.followers[peer.index()].gap.forgotten <= index);
            let is_known = best.is_some_and(|(proposal, _)| proposal == DECIDED)
                || best.is_some()
                    && self.remembers(index, ports) + remember().count() >= self.parameters.majority();
            if index < self.first && !is_known {
                self.defer_to_longer_log(index + 1, ports);
                return;
            }
            let Some((_, holder)) = best else {
                empty += 1;
                continue;
            };
            self.take_over(index, place, holder, ports);
            (self.tail, empty) = (self.tail.max(index + 1), 0);
        }
        let next = cursor + slots;
        // A leader has at most one window of undecided entries, so no entry follows a window of empty slots.
        if next < self.first || empty < self.parameters.window {
            self.collect(next, empty, confirmed, ports);
        } else {
            self.lead(ports);
        }
    }

    /// 1 if this replica remembers what it accepted at this index, 0 if it may have forgotten it.
    fn remembers(&self, index: u64, ports: &Ports<'_>) -> usize {
        usize::from(self.layout.gap(ports.memory).forgotten <= index)
    }

    /// Copies an entry into this replica's log, under its new proposal.
    fn take_over(&mut self, index: u64, place: u64, holder: usize, ports: &mut Ports<'_>) {
        let from = match holder == self.node {
            true => self.layout.slot(index),
            false => self.layout.inbox_slots(holder, place),
        };
        let slot_bytes = self.parameters.slot_bytes;
        let found = Slot::parse(&ports.memory.image()[from..from + slot_bytes], index);
        let slot =
            Slot { proposal: self.proposal, decided: self.decided, ..found.expect("it was just read") };
        let mut bytes = [0; SLOT_BYTES_MAX];
        slot.write(&mut bytes[..slot_bytes]);
        ports.memory.write(self.layout.slot(index), &bytes[..slot_bytes]);
        self.counters.adopted += u64::from(index >= self.first);
    }

    /// Begins to lead: accepts the adopted entries under the new proposal, and replicates them.
    fn lead(&mut self, ports: &mut Ports<'_>) {
        self.role = Role::Leading;
        self.counters.leaderships += 1;
        self.progress_at = ports.now;
        self.timeline.leading = ports.now;
        for index in self.first..self.tail {
            if self.layout.entry(ports.memory, index).is_none() {
                self.counters.holes += 1;
                self.write_own(index, Kind::Nothing, &[], ports);
            }
        }
        self.clean_own(ports);
        self.decided = self.first;
        self.layout.set(ports.memory, layout::DECIDED, self.decided);
        self.apply(ports);
        self.settle(ports);
        self.decide(ports);
    }

    /// Members whose permission this replica has, and that have received its proposal.
    fn confirmed(&self) -> NodeSet {
        self.peers()
            .filter(|&peer| self.followers[peer].promised && self.followers[peer].member)
            .map(node)
            .collect()
    }

    /// Handles the loss of a peer's permission, or of the connection to it.
    pub(crate) fn lose(&mut self, peer: usize, ports: &mut Ports<'_>) {
        self.links[peer].fail();
        let lost = std::mem::take(&mut self.followers[peer]);
        if self.snapshot_for == Some(peer) {
            self.snapshot_for = None;
        }
        self.joining[peer] = 0;
        self.joined[peer] = 0;
        match self.role {
            Role::Collecting { cursor, empty, waiting } if lost.promised => {
                let waiting = waiting.without(node(peer));
                self.role = Role::Collecting { cursor, empty, waiting };
                if self.confirmed().len() + 1 < self.parameters.majority() {
                    self.campaign(ports);
                } else if waiting.is_empty() {
                    self.adopt(ports);
                }
            }
            Role::Leading if lost.member && self.known_members().len() + 1 < self.parameters.majority() => {
                self.campaign(ports);
            }
            _ => {}
        }
    }
}
