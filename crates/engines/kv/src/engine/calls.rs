//! Requests of clients and their replies.

use weft_time::Instant;
use weft_waist::{Caller, Io, Memory, Message};

use super::{Kv, NUMBER_MASK, Role, TIMER_LEAD, answer, arm, entry_of, version};
use crate::message::{Kind, Operation, Reply, Request, SCAN_COUNTS, Status, Write};
use crate::parameters::PlantedBug;
use crate::placement::{PARTITIONS, Placement};
use crate::session::{NotAdmitted, Seen};
use crate::table::{Header, SlotNumber};

/// The most slots that one scan looks at. For a free slot the scan reads only the tag, which a card has on chip.
const SCAN_SLOTS: u32 = 4_096;

impl Kv {
    pub(super) fn may_serve(&self, now: Instant) -> bool {
        let leased = now < self.lease_until || self.parameters.planted(PlantedBug::EpochNotChecked);
        self.role == Role::Full && leased
    }

    pub(super) fn call(&mut self, now: Instant, caller: Caller, message: Message<'_>, io: &mut Io<'_>) {
        if message.kind == Kind::Leave as u8
            && self.parameters.beyond_gates
            && let Ok(client) = message.payload.try_into()
        {
            self.sessions.leave(u64::from_be_bytes(client));
            return;
        }
        if message.kind != Kind::Request as u8 {
            self.counters.dropped_malformed += 1;
            return;
        }
        let request = match Request::parse(message.payload, self.parameters.key_bytes) {
            Ok(request)
                if request.value.len() <= self.parameters.value_bytes_max
                    && self.parameters.has(request.operation) =>
            {
                request
            }
            _ => {
                self.counters.refused_bad_request += 1;
                if let Some(identity) = Request::identity(message.payload) {
                    answer(self.view, io.effects, caller, identity, Status::BadRequest, 0, &[]);
                }
                return;
            }
        };
        if request.operation == Operation::Backup {
            return self.back_up(now, caller, &request, io);
        }
        let place = self.table.place(request.key);
        let leader = usize::from(self.leaders[place.partition() as usize]);
        let refusal = if !self.may_serve(now) {
            self.counters.refused_not_serving += 1;
            Err(Status::NotServing)
        } else if request.operation == Operation::Get {
            self.read(caller, &request, place, leader, io)
        } else if request.operation == Operation::Scan {
            self.scan(caller, &request, io);
            Ok(())
        } else if leader != self.node.index() {
            self.counters.refused_not_leader += 1;
            Err(Status::NotLeader)
        } else {
            self.write(now, caller, &request, place, io)
        };
        if let Err(status) = refusal {
            answer(self.view, io.effects, caller, (request.client, request.request), status, 0, &[]);
        }
    }

    /// Answers a get at once, or queues it until the last accepted write to its key is decided.
    pub(super) fn read(
        &mut self,
        caller: Caller,
        request: &Request<'_>,
        place: Placement,
        leader: usize,
        io: &mut Io<'_>,
    ) -> Result<(), Status> {
        let found = self.table.read(io.memory, place, request.key);
        let identity = (request.client, request.request);
        if let Some((header, _)) = found
            && header.is_undecided()
            && leader != self.node.index()
            && !self.parameters.planted(PlantedBug::StaleReadAtFollower)
        {
            let window = &mut self.windows[leader];
            let first = &mut window.entry_mut(header.latest & NUMBER_MASK).waiting;
            let Some(new_first) = self.waiting.add(*first, caller, request.client, request.request) else {
                self.counters.refused_busy += 1;
                return Err(Status::Busy);
            };
            *first = new_first;
            return Ok(());
        }
        self.counters.reads += 1;
        match found {
            Some((header, value)) if header.present => {
                answer(self.view, io.effects, caller, identity, Status::Ok, header.version, value);
            }
            _ => answer(self.view, io.effects, caller, identity, Status::NotFound, 0, &[]),
        }
        Ok(())
    }

    /// Answers with the keys in a part of the table, or with their number, as the latest accepted writes leave
    /// them. Every write that a client has an answer to is accepted at all members, so the answer includes it.
    fn scan(&mut self, caller: Caller, request: &Request<'_>, io: &mut Io<'_>) {
        let counts = request.expected & SCAN_COUNTS != 0;
        let from = u32::try_from(request.expected & !SCAN_COUNTS).unwrap_or(u32::MAX);
        let room = (self.parameters.chunk_bytes - Reply::HEADER) / self.key_field;
        let slots = self.table.slots();
        let end = from.saturating_add(SCAN_SLOTS).min(slots);
        let (mut count, mut next) = (0u64, if end == slots { 0 } else { end });
        self.scanned.clear();
        for slot in (from..end).map(SlotNumber) {
            let Some((header, key)) = self.table.peek(io.memory, slot) else { continue };
            let leader = usize::from(self.leaders[(self.table.bucket(slot) % PARTITIONS) as usize]);
            let is_there = if header.is_undecided() {
                !self.windows[leader].get(header.latest & NUMBER_MASK).0.operation.removes()
            } else {
                header.present
            };
            if !is_there {
                continue;
            }
            if !counts {
                if count as usize == room {
                    next = slot.0;
                    break;
                }
                self.scanned.extend_from_slice(key);
            }
            count += 1;
        }
        self.counters.reads += 1;
        let count = count.to_be_bytes();
        let found = if counts { &count[..] } else { &self.scanned[..] };
        let identity = (request.client, request.request);
        answer(self.view, io.effects, caller, identity, Status::Ok, next.into(), found);
    }

    /// Executes a mutating request at the leader: appends it to the stream and sends it to the followers.
    pub(super) fn write(
        &mut self,
        now: Instant,
        caller: Caller,
        request: &Request<'_>,
        place: Placement,
        io: &mut Io<'_>,
    ) -> Result<(), Status> {
        let identity = (request.client, request.request);
        if !self.parameters.planted(PlantedBug::DuplicateApply) {
            match self.sessions.look_up(request.client, request.request) {
                Seen::Never => {}
                Seen::Recorded { status, version } => {
                    self.counters.duplicates_answered += 1;
                    answer(self.view, io.effects, caller, identity, status, version, &[]);
                    return Ok(());
                }
                Seen::Pending | Seen::Superseded => {
                    self.counters.duplicates_ignored += 1;
                    return Ok(());
                }
            }
        }
        let own = self.node.index();
        let lags =
            self.lags(own) || self.leading.lags(now) && !self.parameters.planted(PlantedBug::LagNotBounded);
        if self.windows[own].is_full() || lags || self.windows[own].accepted() == NUMBER_MASK {
            self.counters.refused_busy += 1;
            return Err(Status::Busy);
        }
        match self.sessions.admit(now, request.client) {
            Ok(()) => {}
            Err(NotAdmitted::Full) => {
                self.counters.refused_sessions_full += 1;
                return Err(Status::SessionsFull);
            }
            Err(NotAdmitted::Forgotten { horizon }) => {
                self.counters.refused_forgotten += 1;
                answer(self.view, io.effects, caller, identity, Status::Forgotten, horizon, &[]);
                return Ok(());
            }
        }
        self.sessions.mark_pending(request.client, request.request);

        let number = self.windows[own].accepted() + 1;
        let written = version(self.base, number);
        let (status, version, slot) = self.execute(request, place, written, io.memory);
        let value = if status == Status::Ok { request.value } else { &[] };
        let write = Write {
            epoch: self.base,
            operation: request.operation,
            status,
            number,
            committed: self.windows[own].committed(),
            client: request.client,
            request: request.request,
            version,
            key: request.key,
            value,
        };
        self.counters.writes_led += 1;
        if self.windows[own].is_empty() {
            self.leading.pace.progress(now);
        }
        self.windows[own].push(entry_of(&write, slot, Some(caller)), request.key, value);
        self.leading.accepted(now);
        self.log_entry(own, &write, io.effects);
        let followers = self.leading.followers();
        if !followers.is_empty() {
            io.effects.send(followers, Kind::Write as u8, &[&write.header(), request.key, value]);
            self.leading.told = write.committed;
            arm(&mut self.leading.pace, TIMER_LEAD, io.effects);
        }
        let is_decided = followers.is_empty() && !self.parameters.waits_for_disks();
        if is_decided || self.parameters.planted(PlantedBug::AcknowledgeBeforeReplicating) {
            self.commit_to(now, own, number, io);
        }
        Ok(())
    }

    /// Computes the outcome of a request from the newest accepted state of its key, and claims the slot that it
    /// will change.
    pub(super) fn execute(
        &mut self,
        request: &Request<'_>,
        place: Placement,
        written: u64,
        memory: &mut Memory,
    ) -> (Status, u64, Option<SlotNumber>) {
        let found = self.table.find(memory, place, request.key);
        let current = found.map_or(0, |(_, header)| self.accepted_version(header));
        match request.operation {
            Operation::Delete if current == 0 => return (Status::NotFound, 0, None),
            Operation::CompareAndSet | Operation::CompareAndDelete
                if current != request.expected
                    && !(request.operation == Operation::CompareAndDelete
                        && self.parameters.planted(PlantedBug::DeleteWithoutComparing)
                        && current != 0) =>
            {
                return (Status::Mismatch, current, None);
            }
            _ => {}
        }
        let slot = match found {
            Some((slot, _)) => {
                self.table.note_latest(memory, slot, written);
                Some(slot)
            }
            None => self.table.claim_free(memory, place, request.key, written),
        };
        if slot.is_none() {
            self.counters.table_full += 1;
            return (Status::TableFull, 0, None);
        }
        (Status::Ok, written, slot)
    }

    /// The version of a key this node leads, as of the latest accepted write; 0 if the key is absent.
    pub(super) fn accepted_version(&self, header: Header) -> u64 {
        let present = if header.is_undecided() {
            let (entry, _, _) = self.windows[self.node.index()].get(header.latest & NUMBER_MASK);
            !entry.operation.removes()
        } else {
            header.present
        };
        if present { header.latest } else { 0 }
    }
}
