//! Conflicting calls: how they reach the leader of their group, and how a leader handles them.

use std::collections::VecDeque;

use weft_smr::NODES_MAX;
use weft_time::Instant;
use weft_waist::Io;

use super::message::{Datagram, Forward};
use super::observer::Observer;
use super::parameters::{ORDERED_WINDOW, Path};
use super::state::{EntryContent, Ordered, TERM_TICKET};
use super::vector::Vector;
use super::{Phase, Replica};

/// The most conflicting calls of a node that may be undecided, in each group.
pub(crate) const ASKED_MAX: u64 = ORDERED_WINDOW as u64;

/// A leader's calls that are still to be checked, and calls that it has checked but not proposed yet.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    calls: VecDeque<(usize, Forward)>,
    checked: VecDeque<Ordered>,
    /// By origin: the latest calls that were accepted into the queue while this node leads.
    taken: [[(u32, u64); ORDERED_WINDOW]; NODES_MAX],
    tickets: u64,
    /// When this node last sent its own calls to a leader, and to which one.
    asked_at: Instant,
    asked_of: Option<usize>,
}

impl Queue {
    pub fn new(nodes: usize) -> Self {
        Self {
            calls: VecDeque::with_capacity(nodes * ORDERED_WINDOW),
            checked: VecDeque::with_capacity(ORDERED_WINDOW),
            taken: [[(0, 0); ORDERED_WINDOW]; NODES_MAX],
            tickets: 0,
            asked_at: Instant::ZERO,
            asked_of: None,
        }
    }

    /// Whether no checked call waits until its dependencies are stable.
    pub fn is_idle(&self) -> bool {
        self.checked.is_empty()
    }

    fn clear(&mut self) {
        self.calls.clear();
        self.checked.clear();
        self.taken = [[(0, 0); ORDERED_WINDOW]; NODES_MAX];
    }

    fn take(&mut self, origin: usize, forward: &Forward) -> bool {
        let taken = &mut self.taken[origin][forward.number as usize % ORDERED_WINDOW];
        let call = (forward.incarnation, forward.number);
        let is_new = *taken < call;
        if is_new {
            *taken = call;
            self.calls.push_back((origin, *forward));
        }
        is_new
    }
}

impl<W: Observer> Replica<W> {
    /// Sends one of this node's calls to the leader.
    pub(super) fn forward(&mut self, group: usize, number: u64, now: Instant, io: &mut Io<'_>) {
        let leader = self.groups[group].leader(now, io.memory);
        let asked = self.state.groups[group].asked.iter().find(|asked| asked.number == number);
        let (Some(leader), Some(asked)) = (leader, asked) else { return };
        let forward = Forward {
            group: group as u8,
            method: asked.method as u8,
            incarnation: self.state.incarnation,
            number,
            sequence: asked.sequence,
            arguments: asked.arguments,
        };
        let me = self.me();
        if self.queues[group].asked_of != Some(leader) || self.state.groups[group].asked.len() == 1 {
            (self.queues[group].asked_of, self.queues[group].asked_at) = (Some(leader), now);
        }
        if leader == me {
            self.forwarded(me, &forward, now, io);
        } else {
            self.send(leader, &Datagram::Forward(forward), io.effects);
        }
    }

    /// Sends undecided calls to the leader again, if they wait for long or another node leads now.
    pub(super) fn ask_leader(&mut self, group: usize, now: Instant, io: &mut Io<'_>) {
        if self.phase != Phase::Full || self.state.groups[group].asked.is_empty() {
            return;
        }
        let leader = self.groups[group].leader(now, io.memory);
        let queue = &mut self.queues[group];
        if queue.asked_of == leader && now < queue.asked_at + self.parameters.ask_again {
            return;
        }
        (queue.asked_of, queue.asked_at) = (leader, now);
        for place in 0..self.state.groups[group].asked.len() {
            let Some(asked) = self.state.groups[group].asked.get(place) else { break };
            let number = asked.number;
            self.state.counters.repeated += 1;
            self.forward(group, number, now, io);
        }
    }

    /// A call has arrived that this node is to check as leader.
    pub(super) fn forwarded(&mut self, origin: usize, forward: &Forward, now: Instant, io: &mut Io<'_>) {
        let (group, method) = (usize::from(forward.group), usize::from(forward.method));
        let known = group < self.groups.len()
            && self.state.paths.get(method) == Some(&Path::Ordered(group))
            && self.state.kind.admits(method, &forward.arguments)
            && forward.number > 0;
        if !known {
            self.state.counters.malformed += 1;
            return;
        }
        let leads = self.state.groups[group].lead.leading && self.groups[group].is_leading();
        if leads
            && forward.incarnation == self.incarnations[origin]
            && self.queues[group].take(origin, forward)
        {
            self.access(io);
            self.lead(group, now, io);
        }
    }

    /// Leads a group, if this node is its leader: starts a term, checks calls, and proposes checked ones.
    pub(super) fn lead(&mut self, group: usize, now: Instant, io: &mut Io<'_>) {
        let leads = self.phase == Phase::Full && self.groups[group].is_leading();
        let lead = &mut self.state.groups[group].lead;
        if lead.leading && (lead.broken || !leads) {
            (lead.leading, lead.begun, lead.established, lead.in_flight) = (false, false, false, 0);
            self.queues[group].clear();
        }
        lead.broken = false;
        if !leads {
            return;
        }
        if !lead.leading {
            lead.leading = true;
            self.state.counters.terms += 1;
            lead.ahead.words_mut().copy_from_slice(self.state.object.words());
        }
        if !self.state.groups[group].lead.begun {
            let ordered = Ordered {
                what: EntryContent::Term,
                origin: self.state.node as u8,
                method: 0,
                incarnation: self.state.incarnation,
                number: 0,
                term: 0,
                sequence: 0,
                arguments: Default::default(),
                depends: Vector::default(),
            };
            if !self.propose(group, TERM_TICKET, &ordered, now, io) {
                return;
            }
            self.state.groups[group].lead.begun = true;
        }
        if self.state.groups[group].lead.established {
            if !self.queues[group].calls.is_empty() {
                self.send_folded(io);
            }
            self.check(group);
            self.propose_checked(group, now, io);
        }
    }

    /// Checks calls, each in the state in which all earlier ones have taken effect.
    fn check(&mut self, group: usize) {
        let Self { queues, state, .. } = self;
        let queue = &mut queues[group];
        while queue.checked.len() < ORDERED_WINDOW
            && let Some((origin, forward)) = queue.calls.pop_front()
        {
            if state.groups[group].is_done(origin, forward.incarnation, forward.number)
                && !state.forgets_calls
            {
                continue;
            }
            let method = usize::from(forward.method);
            let mut arguments = forward.arguments;
            let depends = state.vector(method);
            let term = state.groups[group].term;
            state.placement.check(method, &arguments);
            let ahead = &mut state.groups[group].lead.ahead;
            ahead.prepare(state.node, method, &mut arguments);
            let is_permissible = ahead.permissible(method, &arguments);
            if is_permissible {
                ahead.apply(method, &arguments);
            }
            queue.checked.push_back(Ordered {
                what: if is_permissible { EntryContent::Call } else { EntryContent::Refused },
                origin: origin as u8,
                method: forward.method,
                incarnation: forward.incarnation,
                number: forward.number,
                term,
                sequence: forward.sequence,
                arguments,
                depends: if is_permissible { depends } else { Vector::default() },
            });
        }
    }

    /// Proposes checked calls as soon as a majority has their dependencies.
    fn propose_checked(&mut self, group: usize, now: Instant, io: &mut Io<'_>) {
        while let Some(&ordered) = self.queues[group].checked.front() {
            if !self.is_stable(&ordered.depends, true) {
                self.state.counters.held += 1;
                self.read_headers(io.effects);
                return;
            }
            let ticket = self.queues[group].tickets;
            self.queues[group].checked.pop_front();
            if !self.propose(group, ticket, &ordered, now, io) {
                self.queues[group].checked.push_front(ordered);
                return;
            }
            self.queues[group].tickets += 1;
            self.check(group);
        }
    }

    fn propose(
        &mut self,
        group: usize,
        ticket: u64,
        ordered: &Ordered,
        now: Instant,
        io: &mut Io<'_>,
    ) -> bool {
        let mut bytes = [0; Ordered::BYTES_MAX];
        let bytes = ordered.encode(&mut bytes, self.parameters.nodes);
        // Counted before the proposal, which may be decided at once.
        self.state.groups[group].lead.in_flight += 1;
        let mut taken = false;
        self.with_group(group, now, io, |group, ports| taken = group.propose(ticket, bytes, ports).is_ok());
        if !taken {
            self.state.groups[group].lead.in_flight -= 1;
        }
        taken
    }
}
