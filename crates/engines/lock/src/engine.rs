//! The engine: leader, member, and calls.

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
    /// No member, or without any view yet.
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
    /// Listed as a full member, and does not have the data: it must begin again as a new incarnation.
    Lost,
}

/// An answer that waits until all members have accepted an entry.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    entry: u64,
    to: Caller,
    answer: Answer,
}

/// State of a row at the leader of an epoch only.
#[derive(Clone, Copy, Debug)]
struct Term {
    /// Until when the row's holder has the lock, on this node's clock.
    ends: Instant,
    /// The entry that has written the row.
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
    /// The table is that of a full member.
    has_data: bool,
    table: Table,
    /// The snapshot of the epoch, until it is complete.
    staged: Table,
    stream: Stream,
    /// By row.
    terms: Vec<Term>,
    waiting: Vec<Waiting>,
    /// Tokens granted in this epoch.
    grants: u32,
    counters: Counters,
}

impl Lock {
    /// An engine that was told nothing yet.
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

    /// Locks that are known to be held, or whose time has run out: name, owner and token.
    pub fn locks(&self) -> impl Iterator<Item = (Name, u64, u64)> {
        let row = |number: &u32| self.table.row(*number);
        self.table.used().iter().filter_map(row).map(|row| (row.name, row.owner, row.token))
    }

    #[cfg(feature = "planted-bugs")]
    fn has(&self, bug: PlantedBug) -> bool {
        self.parameters.planted_bug == Some(bug)
    }

    /// Takes its part in a new view.
    fn enter(&mut self, now: Instant, configuration: &Configuration, effects: &mut Effects) {
        let Configuration { node, view, lease_until } = *configuration;
        // Whatever they were to be answered may not hold any more. Asking again does no harm.
        for Waiting { to, .. } in self.waiting.drain(..) {
            reply(effects, to, Answer::new(AnswerKind::Elsewhere));
        }
        (self.node, self.view, self.lease_until) = (Some(node), view, lease_until);
        self.staged.clear();
        self.part = if view.full.contains(node) {
            // The first view founds the cluster: there is no data that this node could lack.
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

    /// Serves from the moment at which all members have entered the epoch: nobody serves in an older one any more.
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
            // The leader before may have renewed it until just now, and has told nobody but the holder.
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
                // It may just have been released.
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

    /// Grants a lock that nobody holds: the entry that has to be accepted, and the answer.
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
        // Larger than all tokens of earlier epochs, and than all earlier ones of this epoch.
        let token = u64::from(self.view.epoch.0) << 32 | u64::from(self.grants);
        let entry = self.write(now, number, Some(Row { name, owner, token, ttl }));
        (entry, Answer { kind: AnswerKind::Granted, token, time: ttl })
    }

    /// A row whose holder's time has run out, to be used for another lock.
    fn expired(&self, now: Instant) -> Option<u32> {
        self.table.used().iter().copied().find(|number| self.terms[*number as usize].ends <= now)
    }

    /// Renews a lock. Only this node needs to know: whoever leads after it gives the holder a whole time to live.
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

    /// Writes a row here, and appends it for the members: the number of the entry.
    fn write(&mut self, now: Instant, number: u32, holds: Option<Row>) -> u64 {
        assert!(self.table.set(number, holds), "no other row has the name");
        let entry = self.stream.append(number, holds);
        self.terms[number as usize] = Term { ends: now + holds.map_or(Duration::ZERO, |row| row.ttl), entry };
        entry
    }

    /// A member takes an entry of its leader. False if it can be none.
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
            // All at once: until now the table was that of the epoch before, which the next leader may need.
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
            // Once for all entries of a datagram. If it is lost, the leader sends an entry again.
            let accepted = Accepted { epoch: self.view.epoch, number };
            effects.send([from].into_iter().collect(), ACCEPTED, &[&accepted.encode()]);
        }
    }

    /// Answers what all members have accepted meanwhile, and sends on.
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
            // The engine posts nothing and has no other timer.
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

    /// A leader waits for whoever lacks entries; the others wait for nobody.
    fn waits_for(&self, peer: NodeId) -> Option<u64> {
        self.stream.lacks(peer)
    }
}
