//! How a node that crashed rejoins with empty memory. It logs what the other replicas log and copies the
//! shards that it replicates. A later view lists it as a full member.
//!
//! From the start of a view that lists it as joining, the node answers LOG like any replica. It copies each
//! shard from the shard's primary, page by page ([`crate::copy`]). It requests a page when its host has
//! applied the page before. **Why the copy is correct**: a primary serves only once its table holds
//! everything that was committed in earlier views. Whatever it commits in this view, the joining node logs
//! first. So all earlier writes are in the pages, and every write of this view is in the log, whether or not
//! a page shows it. Of each object the host keeps the newest version from either source, deletions included.
//! So pages and records may arrive in any order, and the log need not wait for the copy.
//!
//! If the next view still lists the node as joining, it restarts the join. The survivors do not count its
//! records, so it rolls back its undecided ones. Its host empties the table once the log is drained. The node
//! logs nothing before that.

use weft_time::Instant;
use weft_waist::{EngineState, Epoch, Io, NodeId};

use crate::copy::PageWriter;
use crate::engine::Transactions;
use crate::engine::recovery::Phase;
use crate::host_port::{HostKind, LOG_CALLER};
use crate::key::SHARDS_MAX;
use crate::message::{Base, Cursor, HEADER_BYTES_MAX, Kind, Page};
use crate::parameters::PlantedBug;

/// Progress of the copy of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Progress {
    /// The copy is complete, or this node does not replicate the shard.
    #[default]
    Whole,
    /// A page was requested from the primary.
    Asked { from: Cursor, repeat_at: Instant },
    /// The host is applying a page.
    Keeping { next: Cursor },
    /// No node of the view holds the shard, so this node will never be full.
    Lost,
}

/// The copies of a joining node.
#[derive(Debug, Default)]
pub(crate) struct Join {
    shards: [Progress; SHARDS_MAX],
}

impl Transactions {
    /// Whether the node is joining and logs the writes of its shards.
    pub(crate) fn keeps_logs(&self) -> bool {
        self.recovery.phase == Phase::Joining && self.now < self.lease_until
    }

    /// Whether a requested page is outstanding.
    pub(crate) fn is_copying(&self) -> bool {
        self.recovery.phase == Phase::Joining
            && self.join.shards.iter().any(|progress| matches!(progress, Progress::Asked { .. }))
    }

    /// The shards that no full member of this view holds. They stay lost: a rejoining node has nobody to copy
    /// them from.
    pub fn lost_shards(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.parameters.nodes).filter(|&shard| self.primaries[shard].is_none())
    }

    /// Whether this node is joining and replicates a lost shard, so that it will never be full.
    pub(crate) fn never_serves(&self) -> bool {
        let node = NodeId::new(self.node).expect("a node");
        matches!(self.state, EngineState::Joining { .. })
            && self.lost_shards().any(|shard| self.replicas[shard].contains(node))
    }

    /// A view lists this node as joining: the join starts, or restarts.
    pub(crate) fn restart_join(&mut self, io: &mut Io<'_>) {
        self.state = EngineState::Joining { synced: false };
        let undecided = self.participants.held().filter(|(slot, _)| !slot.ended);
        let positions: Vec<u64> =
            undecided.flat_map(|(slot, _)| slot.parts.iter().map(|part| part.position)).collect();
        for position in positions {
            self.decide(position, false, io);
        }
        self.participants.clear(&mut self.executions, &mut self.shards, io.memory);
        self.join = Join::default();
        self.recovery.base = Base::default();
        self.recovery.phase = Phase::Draining;
        // If the log is not empty, the join goes on when the host reports that it has applied the records.
        if self.log.applied() == self.log.tail() {
            self.after_release(io);
        }
    }

    /// The log is empty. Records from now on belong to this view.
    pub(crate) fn begin_joining(&mut self, io: &mut Io<'_>) {
        self.recovery.phase = Phase::Joining;
        self.shards.empty(self.view.epoch);
        if !self.shards.are_in_engine() {
            io.effects.reply(LOG_CALLER, HostKind::Clear as u8, &[]);
        }
        let node = NodeId::new(self.node).expect("a node");
        for shard in 0..self.parameters.nodes {
            match self.primaries[shard] {
                _ if !self.replicas[shard].contains(node) => {}
                Some(_) => self.ask_for_page(shard, Cursor::START, io),
                None => self.join.shards[shard] = Progress::Lost,
            }
        }
        if self.bug(PlantedBug::FullBeforeCopied) {
            self.be_synced();
        }
    }

    fn ask_for_page(&mut self, shard: usize, from: Cursor, io: &mut Io<'_>) {
        let repeat_at = self.now + self.parameters.repeat;
        self.join.shards[shard] = Progress::Asked { from, repeat_at };
        let primary = self.primaries[shard].expect("the caller has looked");
        let mut out = self.message();
        out.push(shard as u8);
        from.write(&mut out);
        self.post_to(io.effects, primary, Kind::Copy, out);
    }

    pub(crate) fn repeat_copy(&mut self, io: &mut Io<'_>) {
        for shard in 0..SHARDS_MAX {
            if let Progress::Asked { from, repeat_at } = self.join.shards[shard]
                && repeat_at <= self.now
            {
                self.counters.repeats += 1;
                self.ask_for_page(shard, from, io);
            }
        }
    }

    /// A joining node requests a page of a shard.
    pub(crate) fn on_copy(&mut self, from: usize, shard: usize, cursor: Cursor, io: &mut Io<'_>) {
        if !self.is_primary(shard) || !self.view.joining.contains(NodeId::new(from).expect("a node")) {
            self.counters.stale += 1;
            return;
        }
        self.counters.pages_read += 1;
        let bytes = self.parameters.message_bytes - HEADER_BYTES_MAX;
        if self.shards.are_in_engine() {
            let mut out = self.message();
            self.shards.write_page(PageWriter::new(&mut out, shard, cursor, bytes), shard, cursor);
            self.post_to(io.effects, from, Kind::Copied, out);
        } else {
            let mut request = self.view.epoch.0.to_be_bytes().to_vec();
            request.push(from as u8);
            request.extend_from_slice(&(bytes as u16).to_be_bytes());
            request.push(shard as u8);
            cursor.write(&mut request);
            io.effects.reply(LOG_CALLER, HostKind::Read as u8, &[&request]);
        }
    }

    /// The host has read a page for a joining node. A page that was read in an earlier view may be too old:
    /// writes committed since then may be in no log of that node. So it is dropped.
    pub(crate) fn on_page(&mut self, epoch: Epoch, peer: usize, page: &[u8], io: &mut Io<'_>) {
        if epoch == self.view.epoch && self.serves() && peer < self.parameters.nodes {
            let mut out = self.message();
            out.extend_from_slice(page);
            self.post_to(io.effects, peer, Kind::Copied, out);
        }
    }

    /// A requested page has arrived.
    pub(crate) fn on_copied(&mut self, from: usize, page: &Page<'_>, io: &mut Io<'_>) {
        let expected =
            matches!(self.join.shards[page.shard], Progress::Asked { from, .. } if from == page.from);
        let fits = page.puts.iter().all(|put| self.shards.can_hold(put.value));
        if !self.keeps_logs() || !expected || !fits || self.primaries[page.shard] != Some(from) {
            self.counters.stale += 1;
            return;
        }
        self.counters.pages_kept += 1;
        self.join.shards[page.shard] = Progress::Keeping { next: page.next };
        if self.shards.are_in_engine() {
            for put in page.puts.iter() {
                self.shards.apply(io.memory, &put);
            }
            self.on_kept(page.shard, page.next, io);
        } else {
            let epoch = self.view.epoch.0.to_be_bytes();
            let mut bytes = std::mem::take(&mut self.scratch);
            bytes.clear();
            page.write(&mut bytes);
            io.effects.reply(LOG_CALLER, HostKind::Keep as u8, &[&epoch, &bytes]);
            self.scratch = bytes;
        }
    }

    /// The host has applied a page.
    pub(crate) fn on_kept(&mut self, shard: usize, next: Cursor, io: &mut Io<'_>) {
        if self.join.shards[shard] != (Progress::Keeping { next }) {
            return;
        }
        if next != Cursor::END {
            return self.ask_for_page(shard, next, io);
        }
        self.join.shards[shard] = Progress::Whole;
        if self.is_copied() {
            // While pages were outstanding, records were accepted without a check of the table's room. From
            // now on every accepted record must have room.
            if self.shards.room().is_some_and(|room| !room.covers(self.log.demand().needs)) {
                return self.stop_on_mismatch();
            }
            if !self.shards.are_in_engine() {
                let epoch = self.view.epoch.0.to_be_bytes();
                io.effects.reply(LOG_CALLER, HostKind::Whole as u8, &[&epoch]);
            }
            if !self.parameters.has_disk || self.bug(PlantedBug::SyncedBeforeSaved) {
                self.be_synced();
            }
        }
    }

    /// Whether this node has copied all its shards in this view.
    pub(crate) fn is_copied(&self) -> bool {
        self.join.shards.iter().all(|progress| *progress == Progress::Whole)
    }

    /// The disk has the copy that was whole in the view of this epoch.
    pub(crate) fn on_saved(&mut self, epoch: Epoch) {
        if epoch == self.view.epoch && self.recovery.phase == Phase::Joining {
            self.be_synced();
        }
    }

    /// The node holds all objects of its shards, and reports that it is synced.
    fn be_synced(&mut self) {
        self.state = EngineState::Joining { synced: true };
        // From now on survivors count this node's records: attempts of this view were committed only with its
        // answer.
        self.recovery.base = self.present_base();
    }
}
