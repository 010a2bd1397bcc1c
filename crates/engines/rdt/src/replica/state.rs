//! The state of a replica: the object, the calls that have taken effect, and the progress of each group.

use std::collections::VecDeque;
use std::sync::Arc;

use weft_smr::message::PULSE;
use weft_smr::{GROUPS_MAX, NODES_MAX, StateMachine, slot::word};
use weft_waist::{Caller, Effects};

use super::counters::Counters;
use super::layout::{COUNT_MAX, Entry, Layout, SUMMARY_BYTES, Summary, put};
use super::message::{DATA, Incarnations, Status, arguments, half, put_arguments};
use super::observer::{Counts, Observer};
use super::parameters::{ORDERED_WINDOW, POSTS_MAX, Path, PlantedBug, ReplicaParameters};
use super::placement::Placement;
use super::vector::{Requires, Vector};
use crate::object::{Arguments, Object, Type};

/// A conflicting call of this node that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub number: u64,
    pub caller: Caller,
    pub sequence: u32,
    pub method: usize,
    pub arguments: Arguments,
}

/// The last decided call in a slot of the window: its incarnation and number, and whether it was refused.
type Done = (u32, u64, bool);

/// Progress of a group at this replica.
#[derive(Clone, Debug)]
pub(crate) struct GroupState {
    /// Index of the first log entry that is not in the object.
    pub included: u64,
    /// Index of the first entry that can be read from the log. Earlier ones are only in snapshots.
    pub needs: u64,
    /// Index after the entry that starts the latest term.
    pub term: u64,
    /// Number of calls that took effect.
    pub effective: u64,
    done: [[Done; ORDERED_WINDOW]; NODES_MAX],
    pub asked: VecDeque<Asked>,
    pub next_number: u64,
    /// Whether the next entry waits for its dependencies.
    pub blocked: bool,
    pub lead: Lead,
}

/// State of this node's leadership of a group.
#[derive(Clone, Debug)]
pub(crate) struct Lead {
    /// Whether this node leads, and has proposed or will propose the start of its term.
    pub leading: bool,
    pub begun: bool,
    /// Whether the start of the term is decided.
    pub established: bool,
    /// The object with all checked calls applied, also those that are not decided yet.
    pub ahead: Object,
    /// Number of proposals that are not decided.
    pub in_flight: usize,
    /// Whether the leadership has ended, so that its checks are void.
    pub broken: bool,
}

impl GroupState {
    fn new(kind: &Arc<Type>) -> Self {
        Self {
            included: 0,
            needs: 0,
            term: 0,
            effective: 0,
            done: [[(0, 0, false); ORDERED_WINDOW]; NODES_MAX],
            asked: VecDeque::with_capacity(ORDERED_WINDOW),
            next_number: 1,
            blocked: false,
            lead: Lead {
                leading: false,
                begun: false,
                established: false,
                ahead: Object::new(kind),
                in_flight: 0,
                broken: false,
            },
        }
    }

    /// Whether this call, or a later one in the same slot of the window, is decided.
    pub fn is_done(&self, origin: usize, incarnation: u32, number: u64) -> bool {
        self.done[origin][number as usize % ORDERED_WINDOW] >= (incarnation, number, false)
    }
}

/// An entry of a group's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ordered {
    pub what: EntryContent,
    pub origin: u8,
    pub method: u8,
    pub incarnation: u32,
    pub number: u64,
    pub term: u64,
    pub sequence: u32,
    pub arguments: Arguments,
    pub depends: Vector,
}

/// Content of an entry of a group's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EntryContent {
    /// A call takes effect.
    Call = 1,
    /// A call was refused, because it was not permissible.
    Refused = 2,
    /// The term of a leader starts.
    Term = 3,
}

impl Ordered {
    const HEAD: usize = 64;
    /// Bytes of the longest entry.
    pub const BYTES_MAX: usize = Self::HEAD + Vector::bytes(NODES_MAX);

    pub const fn bytes(nodes: usize) -> usize {
        Self::HEAD + Vector::bytes(nodes)
    }

    pub fn encode<'b>(&self, bytes: &'b mut [u8; Self::BYTES_MAX], nodes: usize) -> &'b [u8] {
        bytes.fill(0);
        (bytes[0], bytes[1], bytes[2]) = (self.what as u8, self.origin, self.method);
        bytes[4..8].copy_from_slice(&self.incarnation.to_be_bytes());
        put(bytes, 8, self.number);
        put(bytes, 16, self.term);
        bytes[24..28].copy_from_slice(&self.sequence.to_be_bytes());
        put_arguments(&mut bytes[32..64], &self.arguments);
        self.depends.write(&mut bytes[Self::HEAD..], nodes);
        &bytes[..Self::bytes(nodes)]
    }

    pub fn parse(bytes: &[u8], nodes: usize) -> Option<Self> {
        if bytes.len() != Self::bytes(nodes) || usize::from(bytes[1]) >= nodes {
            return None;
        }
        let what = [EntryContent::Call, EntryContent::Refused, EntryContent::Term]
            .into_iter()
            .find(|what| *what as u8 == bytes[0])?;
        Some(Self {
            what,
            origin: bytes[1],
            method: bytes[2],
            incarnation: half(bytes, 4),
            number: word(bytes, 8),
            term: word(bytes, 16),
            sequence: half(bytes, 24),
            arguments: arguments(&bytes[32..]),
            depends: Vector::read(&bytes[Self::HEAD..], nodes),
        })
    }
}

impl ReplicaParameters {
    /// The most outstanding work requests on a queue pair.
    pub fn posts_max(&self, purpose: u8) -> usize {
        match purpose {
            PULSE => 2,
            DATA => POSTS_MAX,
            _ => self.log().posts_max(),
        }
    }

    /// Parameters of each group's log, for this number of nodes and for the size of a call.
    pub(crate) fn log(&self) -> weft_smr::Parameters {
        let slot_bytes = (Ordered::bytes(self.nodes) + weft_smr::slot::OVERHEAD).next_multiple_of(64);
        weft_smr::Parameters { nodes: self.nodes, slot_bytes, snapshot_bytes: 0, ..self.log.clone() }
    }
}

/// The replicated state, and the answers to be sent.
#[derive(Clone, Debug)]
pub(crate) struct State<W> {
    pub kind: Arc<Type>,
    pub paths: Vec<Path>,
    pub requires: Vec<Requires>,
    pub placement: Placement,
    pub nodes: usize,
    pub node: usize,
    pub incarnation: u32,
    pub object: Object,
    /// By origin: the number of summarized calls, and of ring entries, that have taken effect.
    pub summaries: [u64; NODES_MAX],
    pub entries: [u64; NODES_MAX],
    /// By origin: the number of summarized calls that the observer was notified of.
    told: [u64; NODES_MAX],
    /// By origin: the latest incarnation of which a call has taken effect.
    pub written: Incarnations,
    /// By origin and slot: the summary that was applied last.
    pub absorbed: Vec<Summary>,
    pub groups: Vec<GroupState>,
    /// Answers to be sent at the end of the event.
    pub answers: VecDeque<(Caller, u32, Status)>,
    /// Whether a call took effect, so that waiting calls may be deliverable.
    pub moved: bool,
    /// Whether the replica lacks calls that it can get only with a snapshot.
    pub is_behind: bool,
    /// Whether the replica has state that all others have lost.
    pub is_forked: bool,
    /// Whether the replica has lost its memory and does not serve yet; and whether it has loaded a snapshot.
    pub joining: bool,
    pub has_snapshot: bool,
    pub stale_terms_count: bool,
    pub forgets_calls: bool,
    pub counters: Counters,
    pub observer: W,
}

impl<W: Observer> State<W> {
    pub fn new(parameters: &ReplicaParameters, layout: &Layout, observer: W) -> Self {
        let kind = &parameters.kind;
        let requires = (0..kind.method_count()).map(|method| Requires::of(parameters, method)).collect();
        Self {
            paths: (0..kind.method_count()).map(|method| parameters.path(method)).collect(),
            requires,
            placement: Placement::new(parameters),
            nodes: parameters.nodes,
            node: 0,
            incarnation: 0,
            object: Object::new(kind),
            summaries: [0; NODES_MAX],
            entries: [0; NODES_MAX],
            told: [0; NODES_MAX],
            written: [0; NODES_MAX],
            absorbed: vec![Summary::default(); layout.slots * parameters.nodes],
            groups: (0..kind.group_count()).map(|_| GroupState::new(kind)).collect(),
            answers: VecDeque::with_capacity(parameters.window + GROUPS_MAX * ORDERED_WINDOW),
            moved: false,
            is_behind: false,
            is_forked: false,
            joining: false,
            has_snapshot: false,
            stale_terms_count: parameters.planted(PlantedBug::StaleTerm),
            forgets_calls: parameters.planted(PlantedBug::ForgottenCall),
            counters: Counters::default(),
            observer,
            kind: kind.clone(),
        }
    }

    /// The dependencies of a call of this method that is checked now.
    pub fn vector(&self, method: usize) -> Vector {
        let requires = &self.requires[method];
        let mut vector = Vector::default();
        let short = |count: u64| u32::try_from(count).expect("an incarnation has fewer than 2^32 calls");
        if requires.summaries {
            vector.summaries = self.summaries.map(short);
        }
        if requires.entries {
            vector.entries = self.entries.map(short);
        }
        for (group, state) in self.groups.iter().enumerate() {
            if requires.groups[group] {
                vector.groups[group] = short(state.included);
            }
        }
        vector
    }

    /// Whether all calls that the vector names have taken effect here.
    pub fn has(&self, vector: &Vector) -> bool {
        (0..self.nodes).all(|node| {
            self.summaries[node] >= vector.summaries[node].into()
                && self.entries[node] >= vector.entries[node].into()
        }) && self.groups.iter().zip(&vector.groups).all(|(group, &index)| group.included >= index.into())
    }

    /// Applies a call to the object, and to the copies of groups that this node leads, except group `but`.
    fn take_effect(&mut self, method: usize, arguments: &Arguments, but: Option<usize>) {
        self.object.apply(method, arguments);
        for (index, group) in self.groups.iter_mut().enumerate() {
            if group.lead.leading && but != Some(index) {
                group.lead.ahead.apply(method, arguments);
            }
        }
        self.moved = true;
    }

    /// Applies an own non-conflicting call.
    pub fn apply_own(&mut self, sequence: u32, method: usize, arguments: &Arguments) {
        self.placement.apply_checked(method, arguments);
        self.take_effect(method, arguments, None);
        self.observer.applied(self.node, self.incarnation, sequence, method, arguments, &self.object);
    }

    /// Applies the difference between a summary and the one applied before at the same place among all
    /// summaries.
    pub fn absorb(&mut self, summary: &Summary, place: usize) {
        let origin = usize::from(summary.origin);
        let method = usize::from(summary.method);
        let slot = summary.slot as usize;
        let old = std::mem::replace(&mut self.absorbed[place], *summary);
        self.placement.absorb(method, slot);
        self.object.absorb(method, slot, &old.words, &summary.words);
        for group in &mut self.groups {
            if group.lead.leading {
                group.lead.ahead.absorb(method, slot, &old.words, &summary.words);
            }
        }
        self.counters.absorbed += 1;
        self.written[origin] = self.written[origin].max(summary.incarnation);
        self.moved = true;
    }

    /// Notes that an origin's first `count` summarized calls are applied.
    pub fn complete(&mut self, origin: usize, count: u64) {
        if count > self.summaries[origin] {
            self.summaries[origin] = count;
            self.moved = true;
        }
    }

    /// Reports to the observer, which checks the replica, how many of an origin's summarized
    /// calls have been applied, if the number has grown since the last report.
    pub fn tell_absorbed(&mut self, origin: usize) {
        if self.told[origin] < self.summaries[origin] {
            self.told[origin] = self.summaries[origin];
            self.observer.absorbed(origin, self.summaries[origin], &self.object);
        }
    }

    /// Delivers the next entry of a ring, if its dependencies have taken effect. Returns whether it was
    /// delivered.
    pub fn deliver(&mut self, entry: &Entry) -> bool {
        let (origin, method) = (usize::from(entry.origin), usize::from(entry.method));
        if !self.has(&entry.depends) {
            return false;
        }
        self.entries[origin] = entry.number;
        self.written[origin] = self.written[origin].max(entry.incarnation);
        self.moved = true;
        if self.paths.get(method) != Some(&Path::Ring) || !self.kind.admits(method, &entry.arguments) {
            self.counters.malformed += 1;
            return true;
        }
        self.counters.delivered += 1;
        self.placement.apply(method, &entry.arguments);
        self.take_effect(method, &entry.arguments, None);
        let Entry { incarnation, sequence, ref arguments, .. } = *entry;
        self.observer.applied(origin, incarnation, sequence, method, arguments, &self.object);
        true
    }

    pub fn answer(&mut self, to: Caller, sequence: u32, status: Status) {
        match status {
            Status::Done => self.counters.done += 1,
            Status::Refused => self.counters.refused += 1,
            Status::Busy => self.counters.busy += 1,
            Status::NotServing => self.counters.not_serving += 1,
            Status::BadRequest => self.counters.bad_requests += 1,
        }
        self.answers.push_back((to, sequence, status));
    }

    /// Answers own calls that were decided before the snapshot was taken.
    fn answer_decided(&mut self) {
        for index in 0..self.groups.len() {
            let group = &mut self.groups[index];
            for _ in 0..group.asked.len() {
                let Some(asked) = group.asked.pop_front() else { break };
                let done = group.done[self.node][asked.number as usize % ORDERED_WINDOW];
                if (done.0, done.1) != (self.incarnation, asked.number) {
                    group.asked.push_back(asked);
                    continue;
                }
                let status = if done.2 { Status::Refused } else { Status::Done };
                self.counters.done += u64::from(!done.2);
                self.counters.refused += u64::from(done.2);
                self.answers.push_back((asked.caller, asked.sequence, status));
            }
        }
    }

    // Saving and restoring the state, for snapshots.

    /// Saves the whole state, and returns its size in bytes.
    pub fn save(&self, into: &mut [u8]) -> usize {
        let mut at = 0;
        let mut push = |value: u64| {
            put(into, at, value);
            at += 8;
        };
        for node in 0..self.nodes {
            push(self.summaries[node]);
            push(self.entries[node]);
            push(self.written[node].into());
        }
        for group in &self.groups {
            push(group.included);
            push(group.term);
            push(group.effective);
            for &(incarnation, number, refused) in group.done[..self.nodes].iter().flatten() {
                push(u64::from(refused) << 32 | u64::from(incarnation));
                push(number);
            }
        }
        self.object.words().iter().for_each(|&word| push(word));
        for summary in &self.absorbed {
            into[at..at + SUMMARY_BYTES].copy_from_slice(&summary.encode());
            at += SUMMARY_BYTES;
        }
        at
    }

    /// Progress of each group, and of each origin's ring, in the saved state of another replica.
    pub fn saved(&self, from: &[u8]) -> ([u64; GROUPS_MAX], [u64; NODES_MAX]) {
        let group_words = 3 + 2 * self.nodes * ORDERED_WINDOW;
        let included = |group: usize| word(from, 8 * (3 * self.nodes + group * group_words));
        let count = self.groups.len();
        let groups = std::array::from_fn(|group| if group < count { included(group) } else { 0 });
        let entry = |node: usize| if node < self.nodes { word(from, 8 * (3 * node + 1)) } else { 0 };
        (groups, std::array::from_fn(entry))
    }

    /// Whether all counts in the saved state of another replica are possible.
    pub fn is_plausible(&self, from: &[u8]) -> bool {
        let (groups, entries) = self.saved(from);
        let summaries = (0..self.nodes).map(|node| word(from, 24 * node));
        groups.into_iter().chain(entries).chain(summaries).all(|count| count <= COUNT_MAX)
    }

    /// Replaces the state by the saved state of another replica.
    pub fn restore(&mut self, from: &[u8]) {
        let mut at = 0;
        let mut pop = || {
            at += 8;
            word(from, at - 8)
        };
        for node in 0..self.nodes {
            self.summaries[node] = pop();
            self.entries[node] = pop();
            self.written[node] = pop() as u32;
        }
        for group in &mut self.groups {
            (group.included, group.term, group.effective) = (pop(), pop(), pop());
            for done in group.done[..self.nodes].iter_mut().flatten() {
                let first = pop();
                *done = (first as u32, pop(), first >> 32 != 0);
            }
        }
        self.object.words_mut().iter_mut().for_each(|word| *word = pop());
        for summary in &mut self.absorbed {
            *summary = Summary::parse(&from[at..at + SUMMARY_BYTES]).unwrap_or_default();
            at += SUMMARY_BYTES;
        }
        (self.moved, self.has_snapshot) = (true, true);
        self.answer_decided();
        let mut groups = [0; GROUPS_MAX];
        for (count, group) in groups.iter_mut().zip(&mut self.groups) {
            *count = group.effective;
            group.blocked = true;
            group.lead.broken |= group.lead.leading;
        }
        self.told = self.summaries;
        let counts = Counts { summaries: self.summaries, entries: self.entries, groups };
        self.observer.restored(&self.object, &counts);
    }
}

/// The replicated state, as the state machine of one of its groups.
pub(crate) struct Machine<'a, W> {
    pub state: &'a mut State<W>,
    pub group: usize,
}

/// The ticket of the proposal that starts a term. Tickets of calls are lower.
pub(crate) const TERM_TICKET: u64 = u64::MAX;

impl<W: Observer> StateMachine for Machine<'_, W> {
    fn apply(&mut self, index: u64, entry: &[u8], ticket: Option<u64>, _: &mut Effects) -> bool {
        let Self { state, group: number } = self;
        let group = &mut state.groups[*number];
        if index < group.included {
            return true;
        }
        if group.included < group.needs || state.joining && !state.has_snapshot {
            // A snapshot that covers this entry is being copied.
            return false;
        }
        let Some(ordered) = Ordered::parse(entry, state.nodes) else {
            state.counters.malformed += 1;
            group.included = index + 1;
            return true;
        };
        let (origin, method) = (usize::from(ordered.origin), usize::from(ordered.method));
        let is_void = ordered.term != group.term && !state.stale_terms_count;
        let is_done = group.is_done(origin, ordered.incarnation, ordered.number) && !state.forgets_calls;
        let takes_effect = ordered.what == EntryContent::Call && !is_void && !is_done;
        if takes_effect && !state.has(&ordered.depends) {
            let group = &mut state.groups[*number];
            state.counters.blocked += u64::from(!group.blocked);
            group.blocked = true;
            return false;
        }
        let group = &mut state.groups[*number];
        group.included = index + 1;
        state.moved = true;
        if ticket.is_some() {
            group.lead.in_flight -= 1;
        }
        if ordered.what == EntryContent::Term {
            group.term = index + 1;
            if ticket == Some(TERM_TICKET) {
                group.lead.established = true;
            }
            return true;
        }
        if is_void || is_done {
            state.counters.void += u64::from(is_void);
            state.counters.repeated_entries += u64::from(is_done && !is_void);
            return true;
        }
        let refused = ordered.what == EntryContent::Refused;
        group.done[origin][ordered.number as usize % ORDERED_WINDOW] =
            (ordered.incarnation, ordered.number, refused);
        let waiting = group.asked.iter().position(|asked| asked.number == ordered.number);
        let waiting = waiting.filter(|_| origin == state.node && ordered.incarnation == state.incarnation);
        let waiting = waiting.and_then(|place| group.asked.remove(place));
        if takes_effect {
            if state.paths.get(method) != Some(&Path::Ordered(*number))
                || !state.kind.admits(method, &ordered.arguments)
            {
                state.counters.malformed += 1;
                return true;
            }
            group.effective += 1;
            state.counters.ordered += 1;
            state.placement.apply(method, &ordered.arguments);
            // The leader's own copy already includes its proposals.
            state.take_effect(method, &ordered.arguments, ticket.map(|_| *number));
            let Ordered { incarnation, sequence, ref arguments, .. } = ordered;
            state.observer.applied(origin, incarnation, sequence, method, arguments, &state.object);
        }
        if let Some(asked) = waiting {
            let status = if takes_effect { Status::Done } else { Status::Refused };
            state.answer(asked.caller, asked.sequence, status);
        }
        true
    }

    fn abandoned(&mut self, _: u64, _: &mut Effects) {
        let lead = &mut self.state.groups[self.group].lead;
        (lead.broken, lead.in_flight) = (true, 0);
    }

    /// The log's own snapshot is empty: a replica that lacks earlier entries takes the whole state from
    /// another replica.
    fn snapshot(&mut self, _: u64, _: &mut [u8]) -> usize {
        0
    }

    fn restore(&mut self, next: u64, _: &[u8], _: &mut Effects) -> bool {
        let group = &mut self.state.groups[self.group];
        group.needs = next;
        let has_it = group.included >= next;
        if !has_it && !self.state.joining {
            self.state.is_behind = true;
        }
        has_it
    }
}
