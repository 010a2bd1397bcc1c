//! Requests of hosts and clients.

use weft_smr::log::Wire;
use weft_smr::message::PULSE;
use weft_time::Instant;
use weft_waist::{Caller, Io, Message};

use super::leader::ASKED_MAX;
use super::message::{Answer, Ask, Call, DATA, Status};
use super::observer::Observer;
use super::parameters::{CommitRule, Path, Summaries};
use super::state::Asked;
use super::{Phase, Replica};

impl<W: Observer> Replica<W> {
    pub(super) fn call(&mut self, now: Instant, caller: Caller, message: Message<'_>, io: &mut Io<'_>) {
        let payload = message.payload;
        match Call::parse(message.kind) {
            Some(Call::Invoke) => self.invoke(now, caller, payload, io),
            Some(Call::Query) => self.query(now, caller, payload, io),
            Some(Call::Status) if payload.is_empty() || payload.len() == 8 => {
                let sequence = if payload.is_empty() { 0 } else { weft_smr::slot::word(payload, 0) };
                let asked: usize = self.state.groups.iter().map(|group| group.asked.len()).sum();
                let value = (self.waiting() + asked) as i64;
                self.reply(caller, sequence, Status::Done, value, now, io);
            }
            // Only the host may set up the connections to peers.
            Some(Call::Wire) if !matches!(caller, Caller::Host(_)) => {
                self.state.counters.refused_strangers += 1;
                self.reply(caller, 0, Status::BadRequest, 0, now, io);
            }
            Some(Call::Wire) => {
                let status = if self.wire(payload) { Status::Done } else { Status::BadRequest };
                self.reply(caller, 0, status, 0, now, io);
            }
            _ => self.state.answer(caller, 0, Status::BadRequest),
        }
    }

    /// Number of own non-conflicting updates that are not answered yet.
    fn waiting(&self) -> usize {
        self.stream.waiting() + self.fold.waiting()
    }

    fn wire(&mut self, payload: &[u8]) -> bool {
        let Ok(Wire { group, peer, wiring }) = Wire::parse(payload) else { return false };
        if self.phase != Phase::Starting || peer >= self.parameters.nodes {
            return false;
        }
        match group {
            PULSE => self.pulse.wire(peer, wiring),
            DATA => self.wirings[peer] = Some(wiring),
            group => match self.groups.get_mut(usize::from(group)) {
                Some(group) => group.wire(peer, wiring),
                None => return false,
            },
        }
        true
    }

    fn query(&mut self, now: Instant, caller: Caller, payload: &[u8], io: &mut Io<'_>) {
        let Ok(ask) = Ask::parse(payload) else {
            return self.state.answer(caller, 0, Status::BadRequest);
        };
        let query = usize::from(ask.method);
        let kind = &self.state.kind;
        let known = query < kind.definition().queries.len() && kind.admits_query(query, &ask.arguments);
        let status = match (known, self.phase) {
            (false, _) => Status::BadRequest,
            (true, Phase::Full) => Status::Done,
            (true, _) => Status::NotServing,
        };
        if status != Status::Done {
            return self.state.answer(caller, ask.sequence as u32, status);
        }
        self.access(io);
        self.state.counters.queries += 1;
        self.state.placement.query(query, &ask.arguments);
        let value = self.state.object.query(query, &ask.arguments);
        self.reply(caller, ask.sequence, Status::Done, value, now, io);
    }

    /// A call or query is about to access the object: reads unbuffered summaries first.
    pub(super) fn access(&mut self, io: &mut Io<'_>) {
        if self.parameters.summaries == Summaries::Unbuffered {
            self.scan(io);
        }
    }

    fn invoke(&mut self, now: Instant, caller: Caller, payload: &[u8], io: &mut Io<'_>) {
        let Ok(ask) = Ask::parse(payload) else {
            return self.state.answer(caller, 0, Status::BadRequest);
        };
        let (method, sequence) = (usize::from(ask.method), ask.sequence as u32);
        let kind = &self.state.kind;
        let known = method < kind.method_count() && kind.admits(method, &ask.arguments);
        if !known {
            return self.state.answer(caller, sequence, Status::BadRequest);
        }
        if self.phase != Phase::Full {
            return self.state.answer(caller, sequence, Status::NotServing);
        }
        let mut arguments = ask.arguments;
        let path = self.state.paths[method];
        if let Path::Ordered(group) = path {
            let nodes = self.parameters.nodes;
            if !kind.owns(method, &arguments, self.state.node, nodes) {
                return self.state.answer(caller, sequence, Status::BadRequest);
            }
            let state = &mut self.state.groups[group];
            let oldest = state.asked.front().map_or(state.next_number, |asked| asked.number);
            if state.next_number >= oldest + ASKED_MAX {
                return self.state.answer(caller, sequence, Status::Busy);
            }
            let number = state.next_number;
            state.next_number += 1;
            state.asked.push_back(Asked { number, caller, sequence, method, arguments });
            self.state.counters.forwarded += 1;
            self.forward(group, number, now, io);
            return;
        }
        if self.waiting() >= self.parameters.window || !self.has_room(path, io) {
            return self.state.answer(caller, sequence, Status::Busy);
        }
        self.access(io);
        let state = &mut self.state;
        state.object.prepare(state.node, method, &mut arguments);
        if !state.kind.owns(method, &arguments, state.node, self.parameters.nodes) {
            return state.answer(caller, sequence, Status::BadRequest);
        }
        state.placement.check(method, &arguments);
        if !state.object.permissible(method, &arguments) {
            return state.answer(caller, sequence, Status::Refused);
        }
        let is_local = self.parameters.commit == CommitRule::Local;
        if is_local {
            state.answer(caller, sequence, Status::Done);
        }
        let waits = (!is_local).then_some(caller);
        match path {
            Path::Summary => self.summarize(method, &arguments, sequence, waits, io),
            _ => self.enqueue(method, &arguments, sequence, waits, io),
        }
        self.send_all(io);
    }

    /// Sends the answers that became due in this event.
    pub(super) fn tell(&mut self, now: Instant, io: &mut Io<'_>) {
        while let Some((caller, sequence, status)) = self.state.answers.pop_front() {
            self.reply(caller, sequence.into(), status, 0, now, io);
        }
    }

    fn reply(
        &mut self,
        to: Caller,
        sequence: u64,
        status: Status,
        value: i64,
        now: Instant,
        io: &mut Io<'_>,
    ) {
        let answer = Answer {
            sequence,
            status,
            leader: self.groups.first().and_then(|group| group.leader(now, io.memory)),
            state: match self.phase {
                Phase::Starting => 0,
                Phase::Joining | Phase::Lagging => 1,
                Phase::Full => 2,
                Phase::Lost => 3,
            },
            value,
            incarnation: self.state.incarnation,
        };
        io.effects.reply(to, Call::Answer as u8, &[&answer.encode()]);
    }
}
