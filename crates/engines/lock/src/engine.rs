//! The engine: its roles as leader and member, and its calls.

use weft_time::{Duration, Instant};
use weft_waist::{
    Caller, Configuration, Effects, Engine, EngineState, EngineStatus, Epoch, Event, Io, Message, NodeId,
    View,
};

use crate::counters::Counters;
use crate::message::{ACCEPTED, Accepted, Answer, AnswerKind, Call, ENTRY, Entry};
use crate::parameters::Parameters;
#[cfg(feature = "planted-bugs")]
use crate::parameters::PlantedBug;
use crate::stream::{RESEND, Stream};
use crate::table::{Name, Row, Table};

/// Role of the node in its view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The node is no member, or has no view yet.
    Outside,
    /// The lowest full member: grants locks.
    Leader {
        /// All members have entered the epoch.
        serves: bool,
    },
    /// Any other member.
    Member {
        /// Entries of this epoch that it has accepted.
        accepted: u64,
        /// The entries include the whole snapshot.
        is_synced: bool,
    },
    /// The view lists the node as a full member, but it does not have the data. It must rejoin as a new
    /// incarnation.
    Lost,
}

/// An answer that waits until all members have accepted an entry.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    entry: u64,
    to: Caller,
    answer: Answer,
}

/// State of a row that only the leader of an epoch has.
#[derive(Clone, Copy, Debug)]
struct Term {
    /// End of the holder's time to live, on this node's clock.
    ends: Instant,
    /// Number of the entry that has written the row.
    entry: u64,
}

/// The lock engine of one node. See the crate's PROTOCOL.md.
#[derive(Clone, Debug)]
pub struct Lock {
    parameters: Parameters,
    node: Option<NodeId>,
    view: View,
    lease_until: Instant,
    part: Part,
    /// Whether the table is that of a full member.
    has_data: bool,
    table: Table,
    /// The snapshot of the epoch, until it is complete.
    staged: Table,
    stream: Stream,
    /// State of each row at the leader.
    terms: Vec<Term>,
    waiting: Vec<Waiting>,
    /// Tokens granted in this epoch.
    grants: u32,
    counters: Counters,
}

impl Lock {
    /// An engine before its first event.
    ///
    /// # Panics
    /// If a size is zero.
    pub fn new(parameters: Parameters) -> Self {
        let Parameters { locks, window, waiting, retransmit, .. } = parameters;
        assert!(locks > 0 && window > 0 && waiting > 0, "sizes are at least 1");
        Self {
            node: None,
            view: View::default(),
            lease_until: Instant::ZERO,
            part: Part::Outside,
            has_data: false,
            table: Table::new(locks),
            staged: Table::new(locks),
            stream: Stream::new(window, retransmit, locks),
            terms: vec![Term { ends: Instant::ZERO, entry: 0 }; locks],
            waiting: Vec::with_capacity(waiting),
            grants: 0,
            counters: Counters::default(),
            parameters,
        }
    }

    /// Whether the node grants locks, as long as its lease lasts.
    pub fn leads(&self) -> bool {
        self.part == Part::Leader { serves: true }
    }

    /// Locks in the table, held or expired: name, owner and token.
    pub fn locks(&self) -> impl Iterator<Item = (Name, u64, u64)> {
        let row = |number: &u32| self.table.row(*number);
        self.table.used().iter().filter_map(row).map(|row| (row.name, row.owner, row.token))
    }

    #[cfg(feature = "planted-bugs")]
    fn has(&self, bug: PlantedBug) -> bool {
        self.parameters.planted_bug == Some(bug)
    }

    /// Enters a new view with the node's role in it.
    fn enter(&mut self, now: Instant, configuration: &Configuration, effects: &mut Effects) {
        let Configuration { node, view, lease_until } = *configuration;
        // Waiting calls are redirected, because their answers may be wrong in the new epoch. Calls are
        // idempotent, so clients repeat them.
        for Waiting { to, .. } in self.waiting.drain(..) {
            reply(effects, to, Answer::new(AnswerKind::Elsewhere));
        }
        (self.node, self.view, self.lease_until) = (Some(node), view, lease_until);
        self.staged.clear();
        self.part = if view.full.contains(node) {
            // The first view founds the cluster, so there is no data that this node could lack.
            self.has_data |= view.epoch == Epoch(1);
            match (self.has_data, view.full.nth(0) == Some(node)) {
                (false, _) => Part::Lost,
                (true, true) => Part::Leader { serves: false },
                (true, false) => Part::Member { accepted: 0, is_synced: false },
            }
        } else if view.joining.contains(node) {
            self.has_data = false;
            Part::Member { accepted: 0, is_synced: false }
        } else {
            Part::Outside
        };
        if let Part::Leader { .. } = self.part {
            self.grants = 0;
            self.stream.begin(now, view.epoch, view.members().without(node), &self.table);
            self.stream.send(now, &self.table, effects);
            self.serve_if_entered(now);
        } else {
            self.stream.stop();
        }
    }

    /// Begins to serve when all members have entered the epoch, because no node serves in an older epoch
    /// then.
    fn serve_if_entered(&mut self, now: Instant) {
        let is_entered = self.stream.is_entered();
        #[cfg(feature = "planted-bugs")]
        let is_entered = is_entered || self.has(PlantedBug::ServeBeforeEntered);
        if self.part != (Part::Leader { serves: false }) || !is_entered {
            return;
        }
        self.part = Part::Leader { serves: true };
        self.counters.takeovers += 1;
        for &number in self.table.used() {
            let row = self.table.row(number).expect("it is in use");
            // The previous leader may have renewed the lock until now, and only the holder knows.
            let ends = now + row.ttl;
            #[cfg(feature = "planted-bugs")]
            let ends = if self.has(PlantedBug::NoTimeAfterTakeover) { now } else { ends };
            self.terms[number as usize] = Term { ends, entry: 0 };
        }
    }

    fn call(&mut self, now: Instant, caller: Caller, message: Message<'_>, effects: &mut Effects) {
        let Some(call) = Call::parse(message.kind, message.payload) else {
            self.counters.dropped_malformed += 1;
            return reply(effects, caller, Answer::new(AnswerKind::BadRequest));
        };
        let has_lease = now < self.lease_until;
        #[cfg(feature = "planted-bugs")]
        let has_lease = has_lease || self.has(PlantedBug::LeaseIgnored);
        if !self.leads() || !has_lease {
            self.counters.elsewhere += 1;
            return reply(effects, caller, Answer::new(AnswerKind::Elsewhere));
        }
        if !self.stream.has_room() || self.waiting.len() == self.parameters.waiting {
            self.counters.busy += 1;
            return reply(effects, caller, Answer::new(AnswerKind::Busy));
        }
        let (entry, answer) = match call {
            Call::Acquire { name, owner, ttl } => self.acquire(now, name, (owner, ttl)),
            Call::Renew { name, token } => match self.held_with(&name, token) {
                Some((number, row)) => self.extend(now, number, row),
                None => self.deny(Answer::new(AnswerKind::Lost)),
            },
            Call::Release { name, token } => match self.held_with(&name, token) {
                Some((number, _)) => {
                    self.counters.released += 1;
                    (self.write(now, number, None), Answer::new(AnswerKind::Free))
                }
                None => self.deny(Answer::new(AnswerKind::Lost)),
            },
            Call::Query { name } => match self.table.find(&name) {
                Some((number, row)) if now < self.terms[number as usize].ends => {
                    let Term { ends, entry } = self.terms[number as usize];
                    let time = ends.saturating_since(now);
                    (entry, Answer { kind: AnswerKind::Held, token: row.token, time })
                }
                // The lock may just have been released.
                _ => (self.stream.last(), Answer::new(AnswerKind::Free)),
            },
        };
        self.stream.send(now, &self.table, effects);
        let is_committed = entry <= self.stream.committed();
        #[cfg(feature = "planted-bugs")]
        let is_committed = is_committed || self.has(PlantedBug::AnswerBeforeAccepted);
        if is_committed {
            reply(effects, caller, answer);
        } else {
            self.waiting.push(Waiting { entry, to: caller, answer });
        }
    }

    /// The row that this token holds.
    fn held_with(&self, name: &Name, token: u64) -> Option<(u32, Row)> {
        let (number, row) = self.table.find(name)?;
        (row.token == token).then_some((number, *row))
    }

    /// Grants a free lock. Returns the entry that the members have to accept, and the answer.
    fn acquire(&mut self, now: Instant, name: Name, (owner, ttl): (u64, Duration)) -> (u64, Answer) {
        let number = match self.table.find(&name) {
            Some((number, row)) if row.owner == owner => {
                let row = *row;
                return self.extend(now, number, row);
            }
            Some((number, row)) => {
                let (token, ends) = (row.token, self.terms[number as usize].ends);
                if now < ends {
                    let time = ends.saturating_since(now);
                    return self.deny(Answer { kind: AnswerKind::Held, token, time });
                }
                self.counters.expired += 1;
                number
            }
            None => match self.table.free().or_else(|| self.expired(now)) {
                Some(number) => number,
                None => return (0, Answer::new(AnswerKind::Full)),
            },
        };
        self.grants += 1;
        self.counters.granted += 1;
        // The token is larger than all tokens of earlier epochs, and than all earlier tokens of this epoch.
        let token = u64::from(self.view.epoch.0) << 32 | u64::from(self.grants);
        let entry = self.write(now, number, Some(Row { name, owner, token, ttl }));
        (entry, Answer { kind: AnswerKind::Granted, token, time: ttl })
    }

    /// A row whose lock has expired, to be reused for another lock.
    fn expired(&self, now: Instant) -> Option<u32> {
        self.table.used().iter().copied().find(|number| self.terms[*number as usize].ends <= now)
    }

    /// Renews a lock. The members do not need to know, because a new leader gives every holder a whole time
    /// to live.
    fn extend(&mut self, now: Instant, number: u32, row: Row) -> (u64, Answer) {
        self.counters.renewed += 1;
        let term = &mut self.terms[number as usize];
        term.ends = now + row.ttl;
        (term.entry, Answer { kind: AnswerKind::Granted, token: row.token, time: row.ttl })
    }

    fn deny(&mut self, answer: Answer) -> (u64, Answer) {
        self.counters.denied += 1;
        (0, answer)
    }

    /// Writes a row in this node's table and appends it to the stream for the members. Returns the number of
    /// the entry.
    fn write(&mut self, now: Instant, number: u32, holds: Option<Row>) -> u64 {
        assert!(self.table.set(number, holds), "no other row has the name");
        let entry = self.stream.append(number, holds);
        self.terms[number as usize] = Term { ends: now + holds.map_or(Duration::ZERO, |row| row.ttl), entry };
        entry
    }

    /// Handles an entry from the leader. Returns false if the entry is invalid.
    fn take_entry(&mut self, from: NodeId, entry: Entry) -> bool {
        let Part::Member { accepted, .. } = &mut self.part else { return false };
        if entry.epoch != self.view.epoch || self.view.full.nth(0) != Some(from) {
            return false;
        }
        if entry.number != *accepted + 1 {
            self.counters.gaps += u64::from(entry.number > *accepted);
            return true;
        }
        let snapshot = u64::from(entry.snapshot);
        let table = if entry.number <= snapshot { &mut self.staged } else { &mut self.table };
        if entry.row as usize >= table.capacity() || !table.set(entry.row, entry.holds) {
            return false;
        }
        *accepted = entry.number;
        if entry.number == snapshot {
            // The snapshot replaces the table at once. Before, the table was that of the previous epoch,
            // which the next leader may need.
            std::mem::swap(&mut self.table, &mut self.staged);
            self.has_data = true;
            self.part = Part::Member { accepted: entry.number, is_synced: true };
        }
        true
    }

    fn deliver(
        &mut self,
        now: Instant,
        from: NodeId,
        message: Message<'_>,
        is_last: bool,
        effects: &mut Effects,
    ) {
        let is_taken = match message.kind {
            ENTRY => Entry::parse(message.payload).map(|entry| self.take_entry(from, entry)),
            ACCEPTED => Accepted::parse(message.payload).map(|Accepted { epoch, number }| {
                let leads = matches!(self.part, Part::Leader { .. });
                leads && self.stream.accepted(now, from, epoch, number)
            }),
            _ => None,
        };
        match is_taken {
            None => self.counters.dropped_malformed += 1,
            Some(false) => self.counters.dropped_epoch += 1,
            Some(true) => {}
        }
        if let Part::Leader { .. } = self.part {
            self.answer_committed(now, effects);
        } else if let Part::Member { accepted: number, .. } = self.part
            && message.kind == ENTRY
            && is_taken == Some(true)
            && is_last
        {
            // One acknowledgement serves all entries of a datagram. If it is lost, the leader retransmits an
            // entry.
            let accepted = Accepted { epoch: self.view.epoch, number };
            effects.send([from].into_iter().collect(), ACCEPTED, &[&accepted.encode()]);
        }
    }

    /// Answers calls whose entries all members have accepted, and sends further entries.
    fn answer_committed(&mut self, now: Instant, effects: &mut Effects) {
        self.serve_if_entered(now);
        let committed = self.stream.committed();
        self.waiting.retain(|waiting| {
            if waiting.entry <= committed {
                reply(effects, waiting.to, waiting.answer);
            }
            waiting.entry > committed
        });
        self.stream.send(now, &self.table, effects);
    }
}

fn reply(effects: &mut Effects, to: Caller, answer: Answer) {
    effects.reply(to, answer.kind as u8, &[&answer.encode()]);
}

impl Engine for Lock {
    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        match event {
            Event::Reset => *self = Self::new(self.parameters.clone()),
            Event::Configure(configuration) if configuration.view.epoch > self.view.epoch => {
                if self.part != Part::Lost {
                    self.enter(now, &configuration, io.effects);
                }
            }
            Event::Configure(configuration) => {
                if configuration.view.epoch == self.view.epoch {
                    self.lease_until = self.lease_until.max(configuration.lease_until);
                }
            }
            Event::Call { caller, message, .. } => self.call(now, caller, message, io.effects),
            Event::Deliver { from, message, last } => self.deliver(now, from, message, last, io.effects),
            Event::Timer { tag: RESEND } => {
                self.stream.resend(now, &self.table, io.effects);
            }
            // The engine posts no work requests and has no other timer.
            Event::Done { .. } | Event::Timer { .. } => {}
        }
    }

    fn status(&self) -> EngineStatus {
        let state = match self.part {
            Part::Outside => EngineState::Starting,
            Part::Lost => EngineState::Lost,
            Part::Member { is_synced: synced, .. }
                if self.node.is_some_and(|node| self.view.joining.contains(node)) =>
            {
                EngineState::Joining { synced }
            }
            Part::Leader { .. } | Part::Member { .. } => EngineState::Full,
        };
        EngineStatus { epoch: self.view.epoch, state }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Counters { resent: self.stream.resent, ..self.counters }.list()
    }

    /// A leader waits for members that lack entries; other members wait for no node.
    fn waits_for(&self, peer: NodeId) -> Option<u64> {
        self.stream.lacks(peer)
    }
}
