//! Recovery: a member that was restored from its log fetches the entries that it lacks.
//!
//! An entry is committed when all members have accepted it, and some of them have it on disk. So a member that
//! restarts may lack committed entries that it had accepted. It takes part in the next view change only after it has
//! fetched them: from any member that lacks none, or, if all members were restored, each stream from the member
//! with the longest prefix of it.

use weft_time::Instant;
use weft_waist::{Effects, EngineState, EngineStatus, Io, NodeId, NodeSet};

use super::{Kv, Role, TIMER_SEAL, arm, entry_of};
use crate::message::{EntryRequest, Kind, Write};
use crate::parameters::PlantedBug;

impl Kv {
    /// The status of a node with a log that is between two epochs.
    pub(super) fn sealed_status(&self) -> EngineStatus {
        let logged = &self.logged;
        if logged.awaits_view || logged.is_uncertain {
            EngineStatus { epoch: self.base, state: EngineState::Restored }
        } else if logged.is_sealed && !logged.is_opening() {
            EngineStatus { epoch: self.view.epoch, state: EngineState::Sealed }
        } else {
            EngineStatus { epoch: logged.opened, state: EngineState::Full }
        }
    }

    /// Asks for the entries that this node lacks, or seals its epoch if it lacks none.
    pub(super) fn fetch_missing(&mut self, io: &mut Io<'_>) {
        if self.role != Role::Sealed || !self.logged.is_uncertain {
            return;
        }
        let Some(targets) = self.targets() else { return };
        if self.view_change.is_from_disks() {
            self.recovered_from_disks = Some(self.base);
        }
        let mut lacks_some = false;
        for (stream, (node, length)) in targets.into_iter().enumerate() {
            let accepted = self.windows[stream].accepted();
            if length <= accepted {
                continue;
            }
            lacks_some = true;
            self.logged.asked[stream] = length.min(accepted + self.parameters.burst as u64);
            let request = EntryRequest { base: self.base, stream: stream as u8, from: accepted + 1 };
            io.effects.send(NodeSet::EMPTY.with(node), Kind::EntryRequest as u8, &[&request.encode()]);
        }
        if lacks_some {
            arm(&mut self.seal_pace, TIMER_SEAL, io.effects);
        } else {
            self.logged.is_uncertain = false;
            self.log_sealing(io.effects);
        }
    }

    /// The member that has all of each stream that this node needs, and the length.
    fn targets(&self) -> Option<[(NodeId, u64); weft_waist::NODES_MAX]> {
        let quorum = self.parameters.quorum(self.base_full.len());
        let targets = self.view_change.targets(self.base_full, quorum);
        let own = std::array::from_fn(|stream| (self.node, self.windows[stream].accepted()));
        if self.parameters.planted(PlantedBug::TooFewReports) {
            return targets.or(Some(own));
        }
        if self.parameters.planted(PlantedBug::ShortestAtRecovery) {
            return targets.and(Some(own));
        }
        targets
    }

    pub(super) fn entries_requested(&mut self, from: NodeId, request: EntryRequest, effects: &mut Effects) {
        if self.role != Role::Sealed || request.base != self.base || !self.view.full.contains(from) {
            self.counters.dropped_wrong_role += 1;
            return;
        }
        let stream = usize::from(request.stream);
        for number in (request.from..).take(self.parameters.burst) {
            let Some(kept) = self.windows[stream].kept(number) else { return };
            let write = self.write_of(stream, number, kept);
            let parts = [&write.header()[..], write.key, write.value];
            effects.send(NodeSet::EMPTY.with(from), Kind::Entry as u8, &parts);
        }
    }

    pub(super) fn entry_arrived(&mut self, now: Instant, from: NodeId, write: &Write<'_>, io: &mut Io<'_>) {
        let is_awaited = self.role == Role::Sealed && self.logged.is_uncertain && write.epoch == self.base;
        if !is_awaited || !self.view.full.contains(from) {
            self.counters.dropped_wrong_role += 1;
            return;
        }
        let partition = self.table.place(write.key).partition() as usize;
        let leader = self.base_full.nth(partition % self.base_full.len());
        let stream = leader.expect("an epoch has a full member").index();
        let window = &mut self.windows[stream];
        let fits = write.value.len() <= self.parameters.value_bytes_max && !window.is_exhausted();
        if write.number != window.accepted() + 1 || !fits {
            return;
        }
        window.push(entry_of(write, None, None), write.key, write.value);
        self.log_entry(stream, write, io.effects);
        self.commit_to(now, stream, write.committed.min(write.number), io);
        self.seal_pace.progress(now);
        if write.number == self.logged.asked[stream] {
            self.fetch_missing(io);
        }
    }
}
