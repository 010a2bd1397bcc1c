//! Replicated data types whose calls coordinate only when they must: what clients were told and what replicas did, held
//! against what such an object promises.
//!
//! The check knows the type ([`Specification`]) and nothing of the protocol. It is told of events in the order in which they happen in the
//! whole system: calls made and answered, calls taking effect at a replica. For each replica it keeps a reference state, to which it applies
//! the calls as their clients made them; so a summary that was combined wrongly, a call that was applied twice or a delta
//! that was lost shows in the state of the replica itself, which it is shown at every step. The rules are those of [`Rule`]
//! (Houshmand and Lesani, "Hamsaz", POPL 2019: convergence, integrity; and recency of what was acknowledged).
//!
//! That a call takes effect only after what it depends on is checked exactly for calls without a group, which are
//! checked by the replica that their client asks. Calls of a group are checked by whoever leads it, which the check
//! does not know; of these [`Rule::Permissible`] asks what dependencies are for.
//!
//! What all replicas have taken in is forgotten, so that runs of millions of operations can be followed; not if replicas may come back,
//! because one that does may begin anywhere.
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

use ledger::{Fate, Ledger, Place, Record};
use order::{GroupOrder, Step};
use violation::Findings;

/// The most methods of a type.
pub const METHODS_MAX: usize = 16;

/// The most replicas.
pub const REPLICAS_MAX: usize = 8;

/// A call of a method or a query: its number in the type, and its arguments; unused ones are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// The number of the method, or of the query.
    pub method: u8,
    /// Elements by number, numbers as such.
    pub arguments: [i64; 4],
}

/// What the check must know of a data type.
pub trait Specification {
    /// The state of an object.
    type State;

    /// The state of an object that was never called.
    fn initial(&self) -> Self::State;

    /// The group in which the method's calls are ordered, from 0; none if they need no order.
    fn group(&self, method: u8) -> Option<usize>;

    /// Whether calls of `method` depend on earlier ones of `on`, which are not ordered in a group.
    fn depends(&self, method: u8, on: u8) -> bool;

    /// Which arguments the replica that checks a call fills in, one bit for each.
    fn filled_in(&self, method: u8) -> u8;

    /// Whether the call may be made in this state.
    fn permissible(&self, state: &Self::State, call: &Call) -> bool;

    /// Makes the call.
    fn apply(&self, state: &mut Self::State, call: &Call);

    /// What the query answers in this state.
    fn query(&self, state: &Self::State, query: &Call) -> i64;

    /// What of the invariant does not hold, if anything. A type with a large state may look only at what `touched` has touched; without it,
    /// it must look at everything.
    fn broken(&self, state: &Self::State, touched: Option<&Call>) -> Option<String>;

    /// Whether a replica's state is the reference; with `touched`, a large type may compare only that.
    fn same(&self, state: &Self::State, reference: &Self::State, touched: Option<&Call>) -> bool;

    /// The call in the type's own words.
    fn describe(&self, call: &Call) -> String;
}

/// A client: one life of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Client(u32);

/// A call: whose, and the how many-th, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct CallId {
    client: u32,
    number: u64,
}

/// What a replica has whose state was replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contained {
    /// Of a client and a method without a group: how many of its calls.
    pub streams: Vec<(Client, u8, u64)>,
    /// Of each group: how many calls.
    pub groups: Vec<u64>,
}

/// An open query.
#[derive(Clone, Debug)]
struct Query {
    number: u64,
    call: Call,
    /// What it may answer.
    answers: Vec<i64>,
}

/// What is known of a replica.
#[derive(Debug)]
struct Replica<S> {
    /// Its state by the calls that it has taken in.
    reference: S,
    /// By client: of each method without a group, how many calls it has taken in.
    taken: Vec<[u64; METHODS_MAX]>,
    queries: Vec<Query>,
    next_query: u64,
}

impl<S> Replica<S> {
    fn new(reference: S) -> Self {
        Self { reference, taken: Vec::new(), queries: Vec::new(), next_query: 0 }
    }

    fn taken(&mut self, client: u32) -> &mut [u64; METHODS_MAX] {
        let index = client as usize;
        if self.taken.len() <= index {
            self.taken.resize(index + 1, [0; METHODS_MAX]);
        }
        &mut self.taken[index]
    }
}

/// Events between two rounds of forgetting.
const FORGET_EVERY: u64 = 256;

/// Follows a run.
#[derive(Debug)]
pub struct Replicated<T: Specification> {
    specification: T,
    replicas: Vec<Replica<T::State>>,
    /// Replicas that run, or may come back: what they lack is kept. One bit each.
    awaited: u8,
    keep: bool,
    clients: Vec<Ledger>,
    groups: Vec<GroupOrder>,
    /// Of a run that keeps all: the calls in the order in which each took effect anywhere for the first time.
    history: Vec<CallId>,
    /// Events so far: the time of this check.
    now: u64,
    findings: Findings,
    tally: report::Tally,
}

impl<T: Specification> Replicated<T> {
    /// A run of `replicas` replicas of an object with so many groups. If replicas may come back (`keep`), nothing is forgotten.
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
            groups: (0..groups).map(|_| GroupOrder::new(replicas)).collect(),
            history: Vec::new(),
            now: 0,
            findings: Findings::default(),
            tally: report::Tally::default(),
        }
    }

    /// A new client, which asks the replica at `node`.
    pub fn client(&mut self, node: usize) -> Client {
        self.clients.push(Ledger::new(node));
        Client(self.clients.len() as u32 - 1)
    }

    /// The type.
    pub const fn specification(&self) -> &T {
        &self.specification
    }

    /// A client calls a method. Returns the number of the call: 1, 2, 3, …
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

    /// The client was told that its call has taken effect.
    pub fn done(&mut self, client: Client, number: u64) {
        self.answered(client, number, Fate::Done);
    }

    /// The client was told that its call was not permissible, or not taken, and never will take effect.
    pub fn refused(&mut self, client: Client, number: u64) {
        self.tally.refused += 1;
        self.answered(client, number, Fate::Refused);
    }

    fn answered(&mut self, client: Client, number: u64, fate: Fate) {
        let answered = self.tick();
        let id = CallId { client: client.0, number };
        let ledger = &mut self.clients[client.0 as usize];
        let Place::Kept = ledger.find(number) else {
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

    /// Whether a call was answered before one was made that is before it in the order of its group.
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

    /// A call has taken effect at a replica, after all that was told before: with these arguments, which gave this state.
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

    /// A replica has taken in, by summaries, the first `count` calls of `method` of this client that have taken effect at the
    /// client's own replica, which gave this state.
    pub fn absorbed(&mut self, replica: usize, client: Client, method: u8, count: u64, state: &T::State) {
        self.tick();
        let before = self.replicas[replica].taken(client.0)[method as usize];
        if count < before {
            self.findings.add(Rule::Order, || {
                format!("node{replica} had {before} calls of a method of a client, and has only {count} now")
            });
        }
        let mut calls = Vec::new();
        for index in before..count {
            let Some(number) = self.clients[client.0 as usize].in_stream(method, index) else {
                let node = self.clients[client.0 as usize].node;
                let made = self.clients[client.0 as usize].stream_length(method);
                self.findings.add(Rule::Invented, || {
                    format!(
                        "node{replica} has {count} calls of method {method} of node{node}, which made {made}"
                    )
                });
                break;
            };
            calls.extend(self.take(replica, CallId { client: client.0, number }, None));
        }
        for call in &calls {
            self.look(replica, state, call);
        }
        self.forget();
    }

    /// What one call does at one replica. Returns the call as it is applied, if it is known.
    fn take(&mut self, replica: usize, id: CallId, arguments: Option<[i64; 4]>) -> Option<Call> {
        let ledger = &mut self.clients[id.client as usize];
        let node = ledger.node;
        match ledger.find(id.number) {
            Place::Kept => {}
            Place::Forgotten => {
                self.findings.add(Rule::Doubled, || {
                    format!(
                        "call {} of node{node} takes effect at node{replica}, after it was refused or has taken effect everywhere",
                        id.number
                    )
                });
                return None;
            }
            Place::NeverMade => {
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

    /// The next call of a group at a replica.
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

    /// The next call of a client and a method without a group at a replica.
    fn in_stream(&mut self, replica: usize, id: CallId, call: &Call) {
        let ledger = &mut self.clients[id.client as usize];
        let own = ledger.node == replica && !ledger.over;
        let index = self.replicas[replica].taken(id.client)[call.method as usize];
        self.replicas[replica].taken(id.client)[call.method as usize] += 1;
        if own && ledger.stream_length(call.method) == index {
            ledger.extend_stream(call.method, id.number);
            self.note_needs(replica, id, call.method);
            return;
        }
        let expected = ledger.in_stream(call.method, index);
        if expected != Some(id.number) {
            let name = self.name(id, call);
            self.findings.add(Rule::Order, || {
                let expected = expected.map_or("nothing".to_owned(), |number| format!("call {number}"));
                format!("{name}, takes effect at node{replica}, where {expected} would be next")
            });
        }
        let record = self.clients[id.client as usize].record(id.number);
        for (client, method, count) in std::mem::take(&mut record.needs) {
            let taken = self.replicas[replica].taken(client)[method as usize];
            if taken < count {
                let name = self.name(id, call);
                let node = self.clients[client as usize].node;
                self.findings.add(Rule::Dependency, || {
                    format!(
                        "{name}, takes effect at node{replica}, which has {taken} calls of method {method} of node{node}; \
                         it was made after {count}"
                    )
                });
            }
            let record = self.clients[id.client as usize].record(id.number);
            record.needs.push((client, method, count));
        }
    }

    /// What a call depends on that has taken effect where it is checked.
    fn note_needs(&mut self, replica: usize, id: CallId, method: u8) {
        let mut needs = Vec::new();
        for on in (0..METHODS_MAX as u8).filter(|&on| self.specification.depends(method, on)) {
            let taken = self.replicas[replica].taken.iter().enumerate();
            needs.extend(taken.map(|(client, counts)| (client as u32, on, counts[on as usize])));
        }
        needs.retain(|(.., count)| *count > 0);
        self.clients[id.client as usize].record(id.number).needs = needs;
    }

    /// Compares a replica's state with the reference, and looks at its invariant.
    fn look(&mut self, replica: usize, state: &T::State, call: &Call) {
        if !self.specification.same(state, &self.replicas[replica].reference, Some(call)) {
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

    /// A client asks a query of its replica. Returns what [`Replicated::told`] needs.
    pub fn asked(&mut self, client: Client, query: Call) -> u64 {
        self.tally.queries += 1;
        let replica = &mut self.replicas[self.clients[client.0 as usize].node];
        let number = replica.next_query;
        replica.next_query += 1;
        let answers = vec![self.specification.query(&replica.reference, &query)];
        replica.queries.push(Query { number, call: query, answers });
        number
    }

    /// The answer of a query; nothing if it was not answered.
    pub fn told(&mut self, client: Client, number: u64, answer: Option<i64>) {
        let node = self.clients[client.0 as usize].node;
        let queries = &mut self.replicas[node].queries;
        let Some(index) = queries.iter().position(|query| query.number == number) else { return };
        let query = queries.swap_remove(index);
        if let Some(answer) = answer
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

    /// A replica has stopped, with its client. If it may come back, what it lacks is kept.
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

    /// A replica has come back, with nothing.
    ///
    /// # Panics
    /// If the run does not keep everything.
    pub fn restarted(&mut self, replica: usize) {
        let initial = self.specification.initial();
        self.replaced(replica, initial, &Contained::default());
    }

    /// The state of a replica was replaced by one that has these calls in it.
    ///
    /// # Panics
    /// If the run does not keep everything.
    pub fn restored(&mut self, replica: usize, contained: &Contained, state: &T::State) {
        let mut reference = self.specification.initial();
        let mut has = vec![[0; METHODS_MAX]; self.clients.len()];
        for &(client, method, count) in &contained.streams {
            has[client.0 as usize][method as usize] = count;
            let made = self.clients[client.0 as usize].stream_length(method);
            if count > made {
                self.findings.add(Rule::Invented, || {
                    format!("node{replica} was restored with {count} calls of a method of a client that made {made}")
                });
            }
        }
        // In the order in which they first took effect anywhere, each call comes after what it depends on.
        let place = |group: usize| contained.groups.get(group).copied().unwrap_or(0);
        let ordered: BTreeSet<CallId> =
            (0..self.groups.len()).flat_map(|group| self.groups[group].prefix(place(group))).collect();
        let mut taken = vec![[0; METHODS_MAX]; self.clients.len()];
        for &id in &self.history {
            let call = self.clients[id.client as usize].record(id.number).call;
            let contains = match self.specification.group(call.method) {
                Some(_) => ordered.contains(&id),
                None => {
                    let counts: &mut [u64; METHODS_MAX] = &mut taken[id.client as usize];
                    counts[call.method as usize] += 1;
                    counts[call.method as usize] <= has[id.client as usize][call.method as usize]
                }
            };
            if contains {
                self.specification.apply(&mut reference, &call);
            }
        }
        if !self.specification.same(state, &reference, None) {
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

    fn replaced(&mut self, replica: usize, reference: T::State, contained: &Contained) {
        assert!(self.keep, "a replica comes back only in a run that keeps everything");
        for ledger in &mut self.clients {
            for (_, record) in ledger.records_mut() {
                record.applied &= !(1 << replica);
            }
        }
        self.replicas[replica] =
            Replica { next_query: self.replicas[replica].next_query, ..Replica::new(reference) };
        for &(client, method, count) in &contained.streams {
            self.replicas[replica].taken(client.0)[method as usize] = count;
            for index in 0..count {
                let ledger = &mut self.clients[client.0 as usize];
                if let Some(number) = ledger.in_stream(method, index) {
                    ledger.record(number).applied |= 1 << replica;
                }
            }
        }
        for group in 0..self.groups.len() {
            let place = contained.groups.get(group).copied().unwrap_or(0);
            let ids: Vec<CallId> = self.groups[group].prefix(place).collect();
            if (ids.len() as u64) < place {
                self.findings.add(Rule::Invented, || {
                    format!("node{replica} was restored with {place} calls of a group that has {}", ids.len())
                });
            }
            self.groups[group].set_place(replica, ids.len() as u64);
            for id in ids {
                self.clients[id.client as usize].record(id.number).applied |= 1 << replica;
            }
        }
    }

    /// At the end, when everything has been delivered that will be: the states of the replicas that run to the end. `survives` says of a
    /// node whether what it answered must have taken effect everywhere: a node that has failed in between may have taken along what it
    /// answered before others had it, if that was the rule.
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
        // All have the same calls: then equal references are one state.
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

    /// What was found so far.
    pub fn report(&self) -> ReplicatedReport {
        ReplicatedReport::new(&self.tally, &self.findings)
    }

    /// Whether a replica that runs lacks a call that has taken effect anywhere, of those for which `running` says so: the run is not at rest.
    pub fn lacks(&self, running: impl Fn(usize) -> bool) -> bool {
        let running = (0..self.replicas.len()).fold(0u8, |all, node| all | u8::from(running(node)) << node);
        let lacks = |record: &Record| {
            record.begun && record.applied & running != 0 && record.applied & running != running
        };
        self.clients.iter().any(|ledger| ledger.records().any(|(_, record)| lacks(record)))
    }

    /// Calls kept at this moment.
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

    /// Forgets what is no longer needed, from time to time.
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
    }
}

fn nodes(mask: u8) -> String {
    let names: Vec<String> =
        (0..REPLICAS_MAX).filter(|node| mask >> node & 1 == 1).map(|node| format!("node{node}")).collect();
    if names.is_empty() { "no node".to_owned() } else { names.join(", ") }
}
