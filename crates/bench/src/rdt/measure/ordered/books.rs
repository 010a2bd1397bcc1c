//! The record and check of a run in which all operations are in one log.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use weft_check::replicated::{Call, ReplicatedReport, Specification};
use weft_rdt::Object;
use weft_time::{Duration, Instant};

use crate::rdt::books::NodeRecord;
use crate::rdt::reference::Subject;
use crate::rdt::workload::Operation;

/// Maximum number of violations that are described. All are counted.
const DESCRIBED_MAX: usize = 8;

/// Result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The answer of a query.
    Value(i64),
    Done,
    /// The call was refused because a guard did not hold.
    Refused,
}

/// Applies an operation to an object. Both the replicas and the reference object use this.
pub(super) fn perform(object: &mut Object, operation: &Operation) -> Outcome {
    match *operation {
        Operation::Query(Call { method, arguments }) => {
            Outcome::Value(object.query(method.into(), &arguments))
        }
        Operation::Update(Call { method, mut arguments }) => {
            let method = usize::from(method);
            // All calls have the log as their origin, so that their stamps are equal at all replicas.
            object.prepare(0, method, &mut arguments);
            if !object.permissible(method, &arguments) {
                return Outcome::Refused;
            }
            object.apply(method, &arguments);
            Outcome::Done
        }
    }
}

/// An outstanding operation of a client.
#[derive(Clone, Copy, Debug)]
struct Asked {
    sequence: u64,
    operation: Operation,
    /// Operations that were answered before this request have smaller indices in the log than this.
    above: u64,
    /// Index of the operation in the log.
    index: Option<u64>,
}

/// An entry of the log that not all replicas have applied yet.
#[derive(Clone, Copy, Debug)]
struct Entry {
    index: u64,
    client: usize,
    sequence: u64,
    operation: Operation,
    outcome: Outcome,
}

/// The record, which all hosts share.
#[derive(Debug)]
pub(super) struct OrderedRecord {
    subject: Subject,
    reference: Object,
    pub(super) clients: Vec<NodeRecord>,
    asked: Vec<VecDeque<Asked>>,
    log: VecDeque<Entry>,
    /// Number of entries that all replicas have applied.
    gone: u64,
    /// Number of entries that each replica has applied.
    told: Vec<u64>,
    last_index: Option<u64>,
    answered_below: u64,
    pub(super) begins_at: Instant,
    calls: u64,
    queries: u64,
    refused: u64,
    steps: u64,
    pub(super) wrong: Vec<String>,
}

impl OrderedRecord {
    /// The record of a run with a replica and a client for each quota.
    pub(super) fn new(subject: &Subject, quotas: &[u64]) -> Rc<RefCell<Self>> {
        let methods = subject.kind().method_count();
        Rc::new(RefCell::new(Self {
            reference: subject.initial(),
            subject: subject.clone(),
            clients: quotas.iter().map(|quota| NodeRecord::new(*quota, methods)).collect(),
            asked: vec![VecDeque::new(); quotas.len()],
            log: VecDeque::new(),
            gone: 0,
            told: vec![0; quotas.len()],
            last_index: None,
            answered_below: 0,
            begins_at: Instant::ZERO,
            calls: 0,
            queries: 0,
            refused: 0,
            steps: 0,
            wrong: Vec::new(),
        }))
    }

    pub(super) fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Whether all operations of all clients are answered.
    pub(super) fn is_done(&self) -> bool {
        self.clients.iter().all(|client| client.is_done)
    }

    /// Number of answered operations.
    pub(super) fn answered(&self) -> u64 {
        self.clients.iter().map(|client| client.answered).sum()
    }

    fn require(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.wrong.len() < DESCRIBED_MAX {
            self.wrong.push(what());
        }
    }

    /// Records a new request of a client.
    pub(super) fn asked(&mut self, client: usize, sequence: u64, operation: Operation) {
        let above = self.answered_below;
        self.asked[client].push_back(Asked { sequence, operation, above, index: None });
        match operation {
            Operation::Query(_) => self.queries += 1,
            Operation::Update(_) => self.calls += 1,
        }
    }

    /// Records that a replica has applied the entry at `index`, with this result.
    pub(super) fn told(
        &mut self,
        node: usize,
        index: u64,
        client: usize,
        sequence: u64,
        operation: Operation,
        outcome: Outcome,
    ) {
        let number = self.told[node];
        self.told[node] += 1;
        self.steps += 1;
        let place = (number - self.gone) as usize;
        if place == self.log.len() {
            self.append(index, client, sequence, operation);
        }
        let entry = self.log[place];
        let agrees = (entry.index, entry.client, entry.sequence, entry.operation)
            == (index, client, sequence, operation);
        self.require(agrees, || {
            format!("node{node} has number {sequence} of client {client} at {index}, where {entry:?} stands")
        });
        self.require(entry.outcome == outcome, || {
            format!("node{node} came to {outcome:?}, the reference to {entry:?}")
        });
        while self.told.iter().all(|told| *told > self.gone) {
            self.log.pop_front();
            self.gone += 1;
        }
    }

    /// Handles that a first replica has applied an entry: the reference object applies it too.
    fn append(&mut self, index: u64, client: usize, sequence: u64, operation: Operation) {
        let is_later = self.last_index.is_none_or(|last| last < index);
        self.require(is_later, || format!("entry {index} comes after a later one"));
        self.last_index = Some(index);
        let outcome = perform(&mut self.reference, &operation);
        if let Operation::Update(call) = operation {
            self.refused += u64::from(outcome == Outcome::Refused);
            let broken = self.subject.broken(&self.reference, Some(&call));
            self.require(broken.is_none(), || format!("entry {index} breaks the invariant: {broken:?}"));
        }
        let waiting = self.asked.get_mut(client);
        let asked = waiting.and_then(|asked| asked.iter_mut().find(|asked| asked.sequence == sequence));
        let found = asked.map(|asked| (asked.operation, asked.above, asked.index.replace(index)));
        self.require(matches!(found, Some((asked, ..)) if asked == operation), || {
            format!("entry {index} is nothing that client {client} waits for: {operation:?}")
        });
        self.require(found.is_none_or(|(_, above, _)| above <= index), || {
            format!("entry {index} was asked for when a later one had been answered")
        });
        self.require(found.is_none_or(|(.., before)| before.is_none()), || {
            format!("number {sequence} of client {client} has effect twice")
        });
        self.log.push_back(Entry { index, client, sequence, operation, outcome });
    }

    /// Records that a client has received the result of its operation after this latency. `counts` tells
    /// whether the operation is measured.
    pub(super) fn answered_with(
        &mut self,
        client: usize,
        sequence: u64,
        outcome: Outcome,
        took: Duration,
        at: Instant,
        counts: bool,
    ) {
        let place = self.asked[client].iter().position(|asked| asked.sequence == sequence);
        let asked = place.and_then(|place| self.asked[client].remove(place));
        let Some(Asked { operation, index: Some(index), .. }) = asked else {
            self.require(false, || format!("client {client} is answered what it did not ask: {sequence}"));
            return;
        };
        self.answered_below = self.answered_below.max(index + 1);
        let of = &mut self.clients[client];
        of.answered += 1;
        if counts {
            of.record(&operation, took);
            of.ended = at;
            of.refused += u64::from(outcome == Outcome::Refused);
        }
    }

    /// Checks at the end of the run that a replica has the state of the reference.
    pub(super) fn end(&mut self, node: usize, object: &Object) {
        let differs = *object != self.reference;
        self.require(!differs, || format!("node{node} has another object in the end"));
        let (told, all) = (self.told[node], self.gone + self.log.len() as u64);
        self.require(told == all, || format!("node{node} has done {told} of {all} operations"));
    }

    /// Report of the check.
    pub(super) fn report(&self) -> ReplicatedReport {
        ReplicatedReport {
            calls: self.calls,
            refused: self.refused,
            unanswered: self.asked.iter().map(|asked| asked.len() as u64).sum(),
            queries: self.queries,
            steps: self.steps,
            verdict: if self.wrong.is_empty() { "holds" } else { "violation" },
            ..ReplicatedReport::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_rdt::Bounds;

    const ADD: Operation = Operation::Update(Call { method: 0, arguments: [5, 0, 0, 0] });
    const READ: Operation = Operation::Query(Call { method: 0, arguments: [0; 4] });

    fn books() -> OrderedRecord {
        let subject = Subject::shipped("g-counter", &Bounds::uniform(4)).unwrap();
        let books = OrderedRecord::new(&subject, &[2, 2]);
        Rc::into_inner(books).unwrap().into_inner()
    }

    fn asked(books: &mut OrderedRecord) {
        books.asked(0, 0, ADD);
        books.asked(1, 0, READ);
    }

    fn answer(books: &mut OrderedRecord, client: usize, outcome: Outcome) {
        books.answered_with(client, 0, outcome, Duration::ZERO, Instant::ZERO, true);
    }

    #[test]
    fn what_all_replicas_do_in_one_order_holds() {
        let mut books = books();
        asked(&mut books);
        for node in 0..2 {
            books.told(node, 1, 0, 0, ADD, Outcome::Done);
            books.told(node, 4, 1, 0, READ, Outcome::Value(5));
        }
        answer(&mut books, 0, Outcome::Done);
        answer(&mut books, 1, Outcome::Value(5));
        let object = books.reference.clone();
        (0..2).for_each(|node| books.end(node, &object));
        assert!(books.wrong.is_empty(), "{:?}", books.wrong);
        assert_eq!((books.report().steps, books.report().unanswered), (4, 0));
    }

    /// The check must find each of these violations.
    #[test]
    fn what_cannot_be_is_found() {
        type Wrong = fn(&mut OrderedRecord);
        let cases: [(&str, Wrong); 6] = [
            ("has number", |books| {
                books.told(0, 1, 0, 0, ADD, Outcome::Done);
                books.told(1, 4, 1, 0, READ, Outcome::Done);
            }),
            ("came to", |books| books.told(0, 1, 1, 0, READ, Outcome::Value(7))),
            ("twice", |books| {
                books.told(0, 1, 0, 0, ADD, Outcome::Done);
                books.told(0, 2, 0, 0, ADD, Outcome::Done);
            }),
            ("waits for", |books| books.told(0, 1, 0, 9, ADD, Outcome::Done)),
            ("had been answered", |books| {
                books.told(0, 8, 0, 0, ADD, Outcome::Done);
                answer(books, 0, Outcome::Done);
                books.asked(0, 1, ADD);
                books.last_index = None;
                books.told(0, 3, 0, 1, ADD, Outcome::Done);
            }),
            ("another object", |books| {
                books.told(0, 1, 0, 0, ADD, Outcome::Done);
                let empty = books.subject.initial();
                books.end(0, &empty);
            }),
        ];
        for (what, wrong) in cases {
            let mut books = books();
            asked(&mut books);
            wrong(&mut books);
            assert!(
                books.wrong.first().is_some_and(|found| found.contains(what)),
                "{what}: {:?}",
                books.wrong
            );
        }
    }
}
