//! Replicated data types whose calls coordinate only if necessary: checks clients' answers and replicas' states
//! against the guarantees of such objects.
//!
//! The check uses a [`Specification`] of the type and does not depend on the protocol. It gets events in the order
//! in which they happen in the whole system: calls are made and answered, and take effect at replicas. For each
//! replica it keeps a reference state, to which it applies the calls as their clients made them. After each step
//! the replica's own state is compared with the reference. So a wrongly combined summary, a call that was applied
//! twice, or a lost delta shows in that state. The rules are those of [`Rule`] (Houshmand and Lesani, "Hamsaz",
//! POPL 2019: convergence, integrity; and recency of acknowledged calls).
//!
//! A call may take effect only after the calls on which it depends. This is checked exactly for calls without a
//! group, because the client's replica checks their dependencies. Calls of a group are checked by the group's
//! leader, which the check does not know; for these, [`Rule::Permissible`] checks the purpose of the dependencies
//! instead.
//!
//! Calls that all replicas have applied are dropped, so that runs of millions of operations can be checked. If
//! replicas may come back, all calls are kept, because a replica that does may begin anywhere.
//!
//! ```
//! use weft_check::replicated::{Call, Replicated, Rule, Specification};
//!
//! /// An account: method 0 deposits, method 1 withdraws.
//! struct Account;
//!
//! impl Specification for Account {
//!     type State = i64;
//!     fn initial(&self) -> i64 {
//!         0
//!     }
//!     fn group(&self, method: u8) -> Option<usize> {
//!         (method == 1).then_some(0)
//!     }
//!     fn stream(&self, method: u8) -> u8 {
//!         method
//!     }
//!     fn depends(&self, _: u8, _: u8) -> bool {
//!         false
//!     }
//!     fn filled_in(&self, _: u8) -> u8 {
//!         0
//!     }
//!     fn permissible(&self, state: &i64, call: &Call) -> bool {
//!         call.method == 0 || *state >= call.arguments[0]
//!     }
//!     fn apply(&self, state: &mut i64, call: &Call) {
//!         *state += if call.method == 0 { call.arguments[0] } else { -call.arguments[0] };
//!     }
//!     fn query(&self, state: &i64, _: &Call) -> i64 {
//!         *state
//!     }
//!     fn broken(&self, state: &i64, _: Option<&Call>) -> Option<String> {
//!         (*state < 0).then(|| format!("the balance is {state}"))
//!     }
//!     fn same(&self, state: &i64, reference: &i64, _: Option<&Call>) -> bool {
//!         state == reference
//!     }
//!     fn describe(&self, call: &Call) -> String {
//!         format!("{}({})", ["deposit", "withdraw"][call.method as usize], call.arguments[0])
//!     }
//! }
//!
//! let mut check = Replicated::new(Account, 2, 1, false);
//! let client = check.client(0);
//! let deposit = check.invoked(client, Call { method: 0, arguments: [5, 0, 0, 0] });
//! check.applied(0, client, deposit, [5, 0, 0, 0], &5);
//! check.done(client, deposit);
//! let withdraw = check.invoked(client, Call { method: 1, arguments: [5, 0, 0, 0] });
//! check.applied(0, client, withdraw, [5, 0, 0, 0], &0);
//! // The other replica lets the withdrawal overtake the deposit.
//! check.applied(1, client, withdraw, [5, 0, 0, 0], &-5);
//! let report = check.report();
//! assert_eq!((report.count(Rule::Permissible), report.count(Rule::Invariant)), (1, 1));
//! assert_eq!(
//!     report.violations[0].to_string(),
//!     "permissible: withdraw(5), call 2 of node0, takes effect at node1, where it is not permissible"
//! );
//! ```

mod ledger;
mod order;
mod report;
mod violation;

#[cfg(test)]
mod tests;

pub use report::ReplicatedReport;
pub use violation::{Rule, Violation};

use std::collections::BTreeSet;

use ledger::{CallState, Fate, Ledger, Record, Stream};
use order::{GroupOrder, Step};
use violation::Findings;

/// The most methods of a type.
pub const METHODS_MAX: usize = 16;

/// The most replicas.
pub const REPLICAS_MAX: usize = 8;

/// A call of a method or a query: its number in the type, and its arguments; unused arguments are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// The number of the method, or of the query.
    pub method: u8,
    /// The arguments: numbers, or numbers of elements.
    pub arguments: [i64; 4],
}

/// The specification of a data type.
pub trait Specification {
    /// The state of an object.
    type State;

    /// The initial state of an object.
    fn initial(&self) -> Self::State;

    /// The group in which the method's calls are ordered, counted from 0; `None` if they need no order.
    fn group(&self, method: u8) -> Option<usize>;

    /// The stream of a method without a group, below [`METHODS_MAX`]. Calls of one node on the same stream take
    /// effect in the order in which the node made them.
    fn stream(&self, method: u8) -> u8;

    /// Whether a replica always knows exactly which calls its state contains. If not, its state may contain later
    /// calls than it reports, for example when summaries are sent again after a failure; then states are compared
    /// only at the end.
    fn is_exact(&self) -> bool {
        true
    }

    /// Whether calls of `method` depend on earlier calls of `on`, a method without a group.
    fn depends(&self, method: u8, on: u8) -> bool;

    /// Bit mask of the arguments that the replica which checks a call fills in.
    fn filled_in(&self, method: u8) -> u8;

    /// Whether the call is permitted in this state.
    fn permissible(&self, state: &Self::State, call: &Call) -> bool;

    /// Applies the call.
    fn apply(&self, state: &mut Self::State, call: &Call);

    /// The answer to the query in this state.
    fn query(&self, state: &Self::State, query: &Call) -> i64;

    /// The part of the invariant that is violated, if any. For a type with a large state, only the part that
    /// `touched` has changed need be checked; without `touched`, the whole state must be.
    fn broken(&self, state: &Self::State, touched: Option<&Call>) -> Option<String>;

    /// Whether a replica's state equals the reference. With `touched`, only the part that the call has changed
    /// need be compared.
    fn same(&self, state: &Self::State, reference: &Self::State, touched: Option<&Call>) -> bool;

    /// Describes the call.
    fn describe(&self, call: &Call) -> String;
}

/// A client: one incarnation of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Client(u32);

/// A call: its client and its sequence number, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct CallId {
    client: u32,
    number: u64,
}

/// The calls that the new state of a replica contains, after its state was replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contained {
    /// Node, stream, and the number of calls in it, over all incarnations of the node.
    pub streams: Vec<(usize, u8, u64)>,
    /// Number of calls of each group.
    pub groups: Vec<u64>,
}

/// A query that is not answered yet.
#[derive(Clone, Debug)]
struct Query {
    number: u64,
    call: Call,
    /// The answers that are correct for it.
    answers: Vec<i64>,
}

/// Numbers of calls, by node and by method or stream.
type Counts = [[u64; METHODS_MAX]; REPLICAS_MAX];

/// The check's record of a replica.
#[derive(Debug)]
struct Replica<S> {
    /// The state that results from the calls which the replica has applied.
    reference: S,
    /// By node and method without a group: the number of calls that the replica has applied.
    methods: Counts,
    /// By node and stream: the number of calls that the replica has applied.
    streams: Counts,
    queries: Vec<Query>,
    next_query: u64,
}

impl<S> Replica<S> {
    fn new(reference: S) -> Self {
        Self {
            reference,
            methods: Counts::default(),
            streams: Counts::default(),
            queries: Vec::new(),
            next_query: 0,
        }
    }
}

/// Number of events after which old records are dropped.
const FORGET_EVERY: u64 = 256;

/// Checks a run.
#[derive(Debug)]
pub struct Replicated<T: Specification> {
    specification: T,
    replicas: Vec<Replica<T::State>>,
    /// Bit mask of the replicas that run, or may come back: calls that they lack are kept.
    awaited: u8,
    keep: bool,
    clients: Vec<Ledger>,
    /// By node: its streams.
    streams: Vec<[Stream; METHODS_MAX]>,
    groups: Vec<GroupOrder>,
    /// If all calls are kept: the calls in the order in which each first took effect at any replica.
    history: Vec<CallId>,
    /// The calls in the last summary.
    touched: Vec<Call>,
    /// Number of events so far, which the check uses as its time.
    now: u64,
    findings: Findings,
    tally: report::Tally,
}

impl<T: Specification> Replicated<T> {
    /// A run of an object with `replicas` replicas and `groups` groups. If replicas may come back (`keep`), all
    /// calls are kept.
    ///
    /// # Panics
    /// If there are more than 8 replicas.
    pub fn new(specification: T, replicas: usize, groups: usize, keep: bool) -> Self {
        assert!(replicas <= REPLICAS_MAX, "at most eight replicas");
        let states = (0..replicas).map(|_| Replica::new(specification.initial())).collect();
        Self {
            specification,
            replicas: states,
            awaited: (0..replicas).fold(0, |all, replica| all | 1 << replica),
            keep,
            clients: Vec::new(),
            streams: vec![Default::default(); replicas],
            groups: (0..groups).map(|_| GroupOrder::new(replicas)).collect(),
            history: Vec::new(),
            touched: Vec::new(),
            now: 0,
            findings: Findings::default(),
            tally: report::Tally::default(),
        }
    }

    /// A new client, which calls the replica at `node`.
    pub fn client(&mut self, node: usize) -> Client {
        self.clients.push(Ledger::new(node));
        Client(self.clients.len() as u32 - 1)
    }

    /// The specification of the type.
    pub const fn specification(&self) -> &T {
        &self.specification
    }

    /// Records that a client calls a method. Returns the number of the call: 1, 2, 3, …
    pub fn invoked(&mut self, client: Client, call: Call) -> u64 {
        let invoked = self.tick();
        self.tally.calls += 1;
        let ledger = &mut self.clients[client.0 as usize];
        let number = ledger.next();
        ledger.push(Record {
            call,
            fate: Fate::Open,
            applied: 0,
            begun: false,
            invoked,
            answered: u64::MAX,
            newest_before: None,
            needs: Vec::new(),
        });
        number
    }

    /// Records the answer that a call has taken effect.
    pub fn done(&mut self, client: Client, number: u64) {
        self.answered(client, number, Fate::Done);
    }

    /// Records the answer that a call was not permissible, or not accepted, and never will take effect.
    pub fn refused(&mut self, client: Client, number: u64) {
        self.tally.refused += 1;
        self.answered(client, number, Fate::Refused);
    }

    fn answered(&mut self, client: Client, number: u64, fate: Fate) {
        let answered = self.tick();
        let id = CallId { client: client.0, number };
        let ledger = &mut self.clients[client.0 as usize];
        let CallState::Kept = ledger.find(number) else {
            return self.findings.add(Rule::Invented, || format!("call {number} was answered again"));
        };
        let record = ledger.record(number);
        (record.fate, record.answered) = (fate, answered);
        let record = record.clone();
        if fate == Fate::Refused && record.begun {
            let call = self.name(id, &record.call);
            self.findings.add(Rule::Invented, || format!("{call}, was refused and had taken effect"));
        }
        self.real_time(id, &record);
        self.forget();
    }

    /// Checks that a call was not answered before another call was made that precedes it in its group's order.
    fn real_time(&mut self, id: CallId, record: &Record) {
        if let Some((newest, earlier)) = record.newest_before
            && record.fate == Fate::Done
            && record.answered < newest
        {
            let call = self.name(id, &record.call);
            let node = self.clients[earlier.client as usize].node;
            self.findings.add(Rule::RealTime, || {
                format!(
                    "{call}, was answered before call {} of node{node} was made, which is before it in their order",
                    earlier.number
                )
            });
        }
    }

    /// Records that a call has taken effect at a replica, after all events recorded before: the arguments, and the
    /// resulting state.
    pub fn applied(
        &mut self,
        replica: usize,
        client: Client,
        number: u64,
        arguments: [i64; 4],
        state: &T::State,
    ) {
        self.tick();
        let id = CallId { client: client.0, number };
        if let Some(call) = self.take(replica, id, Some(arguments)) {
            self.look(replica, state, &call);
        }
        self.forget();
    }

    /// Records that a replica has applied, from summaries, the first `count` calls of a stream of `node`, over all
    /// its incarnations, in the order in which they took effect at that node; and the resulting state.
    pub fn absorbed(&mut self, replica: usize, node: usize, stream: u8, count: u64, state: &T::State) {
        self.tick();
        let stream = stream as usize;
        let before = self.replicas[replica].streams[node][stream];
        if count < before {
            self.findings.add(Rule::Order, || {
                format!(
                    "node{replica} had {before} calls of a stream of node{node}, and has only {count} now"
                )
            });
        }
        for index in before..count {
            let Some(id) = self.streams[node][stream].get(index) else {
                let made = self.streams[node][stream].length();
                self.findings.add(Rule::Invented, || {
                    format!("node{replica} has {count} calls of a stream of node{node}, which made {made}")
                });
                break;
            };
            let taken = self.take(replica, id, None);
            self.touched.extend(taken);
        }
        let touched = std::mem::take(&mut self.touched);
        for call in &touched {
            self.look(replica, state, call);
        }
        self.touched = touched;
        self.touched.clear();
        self.forget();
    }

    /// Applies one call at one replica. Returns the call as it is applied, if its record is kept.
    fn take(&mut self, replica: usize, id: CallId, arguments: Option<[i64; 4]>) -> Option<Call> {
        let ledger = &mut self.clients[id.client as usize];
        let node = ledger.node;
        match ledger.find(id.number) {
            CallState::Kept => {}
            CallState::Forgotten => {
                self.findings.add(Rule::Doubled, || {
                    format!(
                        "call {} of node{node} takes effect at node{replica}, after it was refused or has taken effect everywhere",
                        id.number
                    )
                });
                return None;
            }
            CallState::NeverMade => {
                self.findings.add(Rule::Invented, || {
                    format!("call {} of node{node} takes effect at node{replica} and was not made", id.number)
                });
                return None;
            }
        }
        let filled_in = self.specification.filled_in(ledger.record(id.number).call.method);
        let record = ledger.record(id.number);
        let made = record.call;
        let is_first = !record.begun;
        let again = record.applied >> replica & 1 == 1;
        let refused = record.fate == Fate::Refused;
        if let Some(arguments) = arguments {
            let differs = |index: usize| {
                made.arguments[index] != arguments[index] && !(is_first && filled_in >> index & 1 == 1)
            };
            let different = (0..4).any(differs);
            if is_first {
                record.call.arguments = arguments;
            }
            if different {
                let call = self.name(id, &made);
                self.findings.add(Rule::Invented, || {
                    format!("{call}, takes effect at node{replica} with arguments {arguments:?}")
                });
            }
        }
        let record = self.clients[id.client as usize].record(id.number);
        record.applied |= 1 << replica;
        record.begun = true;
        let (call, invoked) = (record.call, record.invoked);
        self.tally.applications += 1;
        if again || refused {
            let name = self.name(id, &call);
            let rule = if again { Rule::Doubled } else { Rule::Invented };
            let how = if again { "again" } else { "although it was refused" };
            self.findings.add(rule, || format!("{name}, takes effect at node{replica} {how}"));
        }
        match self.specification.group(call.method) {
            Some(group) => self.in_group(replica, group, id, invoked),
            None => self.in_stream(replica, id, &call),
        }
        if is_first && self.keep {
            self.history.push(id);
        }
        if !self.specification.permissible(&self.replicas[replica].reference, &call) {
            let name = self.name(id, &call);
            self.findings.add(Rule::Permissible, || {
                format!("{name}, takes effect at node{replica}, where it is not permissible")
            });
        }
        let Replica { reference, queries, .. } = &mut self.replicas[replica];
        self.specification.apply(reference, &call);
        for query in queries {
            query.answers.push(self.specification.query(reference, &query.call));
        }
        Some(call)
    }

    /// Checks the next call of a group at a replica.
    fn in_group(&mut self, replica: usize, group: usize, id: CallId, invoked: u64) {
        match self.groups[group].step(replica, id, invoked) {
            Step::Same => {}
            Step::New(before) => {
                let record = self.clients[id.client as usize].record(id.number);
                record.newest_before = before;
                let record = record.clone();
                self.real_time(id, &record);
            }
            Step::Different(other) => {
                let call = self.clients[id.client as usize].record(id.number).call;
                let name = self.name(id, &call);
                let node = self.clients[other.client as usize].node;
                self.findings.add(Rule::Order, || {
                    format!(
                        "{name}, takes effect at node{replica} where others took call {} of node{node}",
                        other.number
                    )
                });
            }
        }
    }

    /// Checks the next call of a stream at a replica.
    fn in_stream(&mut self, replica: usize, id: CallId, call: &Call) {
        let ledger = &self.clients[id.client as usize];
        let node = ledger.node;
        let stream = self.specification.stream(call.method) as usize;
        let index = self.replicas[replica].streams[node][stream];
        // Calls that the current incarnation has made keep their index, also if it applies them again after its
        // state was replaced. A call of an earlier incarnation, and those behind it, are lost if a new call takes
        // its index.
        let stands =
            self.streams[node][stream].get(index).is_some_and(|id| !self.clients[id.client as usize].over);
        if node == replica && !ledger.over && !stands {
            self.streams[node][stream].extend(index, id);
            let needs = self.needs(replica, call.method);
            self.clients[id.client as usize].record(id.number).needs = needs;
        }
        let expected = self.streams[node][stream].get(index);
        if expected != Some(id) {
            let name = self.name(id, call);
            self.findings.add(Rule::Order, || {
                let expected = expected.map_or("nothing".to_owned(), |id| format!("call {}", id.number));
                format!("{name}, takes effect at node{replica}, where {expected} would be next")
            });
        }
        let needs = std::mem::take(&mut self.clients[id.client as usize].record(id.number).needs);
        for &(of, method, count) in &needs {
            let taken = self.replicas[replica].methods[of as usize][method as usize];
            if taken < count {
                let name = self.name(id, call);
                self.findings.add(Rule::Dependency, || {
                    format!(
                        "{name}, takes effect at node{replica}, which has {taken} calls of method {method} of node{of}; \
                         it was made after {count}"
                    )
                });
            }
        }
        self.clients[id.client as usize].record(id.number).needs = needs;
        self.replicas[replica].streams[node][stream] += 1;
        self.replicas[replica].methods[node][call.method as usize] += 1;
    }

    /// The calls on which a new call depends, as far as they have taken effect at its replica.
    fn needs(&self, replica: usize, method: u8) -> Vec<(u8, u8, u64)> {
        let on = (0..METHODS_MAX as u8).filter(|&on| self.specification.depends(method, on));
        let counts = &self.replicas[replica].methods;
        let of_all = on
            .flat_map(|on| counts.iter().zip(0..).map(move |(counts, node)| (node, on, counts[on as usize])));
        of_all.filter(|(.., count)| *count > 0).collect()
    }

    /// Compares a replica's state with the reference, and checks its invariant.
    fn look(&mut self, replica: usize, state: &T::State, call: &Call) {
        if self.specification.is_exact()
            && !self.specification.same(state, &self.replicas[replica].reference, Some(call))
        {
            let call = self.specification.describe(call);
            self.findings.add(Rule::Convergence, || {
                format!(
                    "node{replica} is in another state after {call} than the calls that it has taken in give"
                )
            });
        }
        if let Some(broken) = self.specification.broken(state, Some(call)) {
            let call = self.specification.describe(call);
            self.findings.add(Rule::Invariant, || {
                format!("after {call}, at node{replica} it does not hold that {broken}")
            });
        }
    }

    /// Records that a client makes a query at its replica. Returns the number for [`Replicated::told`].
    pub fn asked(&mut self, client: Client, query: Call) -> u64 {
        self.tally.queries += 1;
        let replica = &mut self.replicas[self.clients[client.0 as usize].node];
        let number = replica.next_query;
        replica.next_query += 1;
        let answers = vec![self.specification.query(&replica.reference, &query)];
        replica.queries.push(Query { number, call: query, answers });
        number
    }

    /// Records the answer to a query; `None` if it was not answered.
    pub fn told(&mut self, client: Client, number: u64, answer: Option<i64>) {
        let node = self.clients[client.0 as usize].node;
        let queries = &mut self.replicas[node].queries;
        let Some(index) = queries.iter().position(|query| query.number == number) else { return };
        let query = queries.swap_remove(index);
        if let Some(answer) = answer
            && self.specification.is_exact()
            && !query.answers.contains(&answer)
        {
            self.findings.add(Rule::Answer, || {
                format!(
                    "query {} at node{node} was answered {answer}, and may be {:?}",
                    query.call.method, query.answers
                )
            });
        }
    }

    /// Records that a replica has stopped, with its client. If it may come back, the calls that it lacks are kept.
    pub fn stopped(&mut self, replica: usize) {
        self.replicas[replica].queries.clear();
        for ledger in self.clients.iter_mut().filter(|ledger| ledger.node == replica) {
            ledger.over = true;
        }
        if !self.keep {
            self.awaited &= !(1 << replica);
            self.now = self.now.next_multiple_of(FORGET_EVERY);
            self.forget();
        }
    }

    /// Records that a replica has come back with an empty state.
    ///
    /// # Panics
    /// If the run does not keep all calls.
    pub fn restarted(&mut self, replica: usize) {
        let initial = self.specification.initial();
        self.replaced(replica, initial, &Contained::default());
    }

    /// Records that the state of a replica was replaced by one that contains these calls.
    ///
    /// # Panics
    /// If the run does not keep all calls.
    pub fn restored(&mut self, replica: usize, contained: &Contained, state: &T::State) {
        let (ids, missing) = self.calls_in(contained);
        if missing > 0 {
            self.findings.add(Rule::Invented, || {
                format!("node{replica} was restored with {missing} calls more than had taken effect")
            });
        }
        // In the order in which calls first took effect at any replica, each one follows the calls on which it
        // depends.
        let mut reference = self.specification.initial();
        for id in self.history.iter().filter(|id| ids.contains(id)) {
            let call = self.clients[id.client as usize].record(id.number).call;
            self.specification.apply(&mut reference, &call);
        }
        if self.specification.is_exact() && !self.specification.same(state, &reference, None) {
            self.findings.add(Rule::Convergence, || {
                format!("node{replica} was restored to another state than the calls in it give")
            });
        }
        if let Some(broken) = self.specification.broken(state, None) {
            self.findings.add(Rule::Invariant, || {
                format!("in the state to which node{replica} was restored it does not hold that {broken}")
            });
        }
        self.replaced(replica, reference, contained);
    }

    /// The calls that a restored state contains, and how many of the stated ones do not exist.
    fn calls_in(&self, contained: &Contained) -> (BTreeSet<CallId>, u64) {
        let (mut ids, mut expected) = (BTreeSet::new(), 0);
        for &(node, stream, count) in &contained.streams {
            let stream = &self.streams[node][stream as usize];
            ids.extend((0..count).filter_map(|index| stream.get(index)));
            expected += count;
        }
        for (group, &place) in self.groups.iter().zip(&contained.groups) {
            ids.extend(group.prefix(place));
            expected += place;
        }
        let missing = expected - ids.len() as u64;
        (ids, missing)
    }

    fn replaced(&mut self, replica: usize, reference: T::State, contained: &Contained) {
        assert!(self.keep, "a replica comes back only in a run that keeps everything");
        let (ids, _) = self.calls_in(contained);
        let next_query = self.replicas[replica].next_query;
        let mut fresh = Replica { next_query, ..Replica::new(reference) };
        for &(node, stream, count) in &contained.streams {
            fresh.streams[node][stream as usize] = count;
        }
        for (client, ledger) in (0..).zip(&mut self.clients) {
            let node = ledger.node;
            for (number, record) in ledger.records_mut() {
                record.applied &= !(1 << replica);
                if ids.contains(&CallId { client, number }) {
                    record.applied |= 1 << replica;
                    if self.specification.group(record.call.method).is_none() {
                        fresh.methods[node][record.call.method as usize] += 1;
                    }
                }
            }
        }
        self.replicas[replica] = fresh;
        for (group, order) in self.groups.iter_mut().enumerate() {
            order.set_place(replica, contained.groups.get(group).copied().unwrap_or(0));
        }
    }

    /// Ends the run, when nothing more will be delivered: checks the states of the replicas that are still
    /// running. `survives` says of a node whether all calls that it answered must have taken effect everywhere. A
    /// node that failed may have answered calls before others had them, if the protocol allows that.
    pub fn end<'a>(
        &mut self,
        states: impl IntoIterator<Item = (usize, &'a T::State)>,
        survives: impl Fn(usize) -> bool,
    ) where
        T::State: 'a,
    {
        let mut running = 0;
        for (replica, state) in states {
            running |= 1 << replica;
            if !self.specification.same(state, &self.replicas[replica].reference, None) {
                self.findings.add(Rule::Convergence, || {
                    format!("node{replica} ends in another state than the calls that it has taken in give")
                });
            }
            if let Some(broken) = self.specification.broken(state, None) {
                self.findings.add(Rule::Invariant, || {
                    format!("in the end, at node{replica} it does not hold that {broken}")
                });
            }
        }
        for client in 0..self.clients.len() {
            let ledger = &self.clients[client];
            for (number, record) in ledger.records() {
                let there = record.applied & running;
                let lost = match record.fate {
                    Fate::Refused => false,
                    Fate::Done if survives(ledger.node) => there != running,
                    Fate::Done | Fate::Open => there != 0 && there != running,
                };
                self.tally.open += u64::from(record.fate == Fate::Open);
                if lost {
                    let call = self.specification.describe(&record.call);
                    let answered = if record.fate == Fate::Done { "was answered" } else { "has no answer" };
                    self.findings.add(Rule::Lost, || {
                        format!(
                            "{call}, call {number} of node{}, {answered} and took effect at {}, of {} in the end",
                            ledger.node,
                            nodes(there),
                            nodes(running)
                        )
                    });
                }
            }
        }
        // All running replicas have applied the same calls, so their references must be equal.
        let mut running = (0..self.replicas.len()).filter(|replica| running >> replica & 1 == 1);
        if let Some(one) = running.next() {
            for other in running {
                let [first, second] = [one, other].map(|replica| &self.replicas[replica].reference);
                if !self.specification.same(first, second, None) {
                    self.findings.add(Rule::Convergence, || {
                        format!("node{one} and node{other} end in different states")
                    });
                }
            }
        }
    }

    /// The results so far.
    pub fn report(&self) -> ReplicatedReport {
        ReplicatedReport::new(&self.tally, &self.findings)
    }

    /// Whether a running replica, by `running`, lacks a call that has taken effect at any replica: then the run
    /// has not come to rest.
    pub fn lacks(&self, running: impl Fn(usize) -> bool) -> bool {
        let running = (0..self.replicas.len()).fold(0u8, |all, node| all | u8::from(running(node)) << node);
        let lacks = |record: &Record| {
            record.begun && record.applied & running != 0 && record.applied & running != running
        };
        self.clients.iter().any(|ledger| ledger.records().any(|(_, record)| lacks(record)))
    }

    /// Number of calls kept at this moment.
    pub fn kept(&self) -> usize {
        self.clients.iter().map(|ledger| ledger.records().count()).sum()
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn name(&self, id: CallId, call: &Call) -> String {
        let node = self.clients[id.client as usize].node;
        format!("{}, call {} of node{node}", self.specification.describe(call), id.number)
    }

    /// From time to time, drops records that are no longer needed.
    fn forget(&mut self) {
        if self.keep || !self.now.is_multiple_of(FORGET_EVERY) {
            return;
        }
        for ledger in &mut self.clients {
            ledger.forget(self.awaited);
        }
        for group in &mut self.groups {
            group.forget(self.awaited);
        }
        for (node, streams) in self.streams.iter_mut().enumerate() {
            for (number, stream) in streams.iter_mut().enumerate().filter(|(_, stream)| stream.length() > 0) {
                let replicas = self.replicas.iter().enumerate();
                let taken = replicas.filter(|(replica, _)| self.awaited >> replica & 1 == 1);
                let least = taken.map(|(_, replica)| replica.streams[node][number]).min();
                stream.forget(least.unwrap_or(0));
            }
        }
    }
}

fn nodes(mask: u8) -> String {
    let names: Vec<String> =
        (0..REPLICAS_MAX).filter(|node| mask >> node & 1 == 1).map(|node| format!("node{node}")).collect();
    if names.is_empty() { "no node".to_owned() } else { names.join(", ") }
}
