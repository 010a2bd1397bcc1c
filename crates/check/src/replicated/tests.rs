use std::collections::VecDeque;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::*;

const DEPOSIT: u8 = 0;
const WITHDRAW: u8 = 1;
const ADD: u8 = 2;
const REMOVE: u8 = 3;
const ASSIGN: u8 = 4;
const METHODS: u8 = 5;

/// The state of an account, a set whose elements can be removed after they were added, and a register in which the
/// last writer wins.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    balance: i64,
    added: u64,
    removed: u64,
    register: (i64, i64),
}

struct Type;

impl Specification for Type {
    type State = State;

    fn initial(&self) -> State {
        State::default()
    }

    fn group(&self, method: u8) -> Option<usize> {
        (method == WITHDRAW).then_some(0)
    }

    fn stream(&self, method: u8) -> u8 {
        method
    }

    fn depends(&self, method: u8, on: u8) -> bool {
        (method, on) == (REMOVE, ADD)
    }

    fn filled_in(&self, method: u8) -> u8 {
        if method == ASSIGN { 2 } else { 0 }
    }

    fn permissible(&self, state: &State, call: &Call) -> bool {
        match call.method {
            WITHDRAW => state.balance >= call.arguments[0],
            REMOVE => state.added >> call.arguments[0] & 1 == 1,
            _ => true,
        }
    }

    fn apply(&self, state: &mut State, call: &Call) {
        let argument = call.arguments[0];
        match call.method {
            DEPOSIT => state.balance += argument,
            WITHDRAW => state.balance -= argument,
            ADD => state.added |= 1 << argument,
            REMOVE => state.removed |= 1 << argument,
            _ => state.register = state.register.max((call.arguments[1], argument)),
        }
    }

    fn query(&self, state: &State, _: &Call) -> i64 {
        state.balance
    }

    fn broken(&self, state: &State, _: Option<&Call>) -> Option<String> {
        if state.balance < 0 {
            return Some("the balance is not negative".into());
        }
        (state.removed & !state.added != 0).then(|| "what was removed was added".into())
    }

    fn same(&self, state: &State, reference: &State, _: Option<&Call>) -> bool {
        state == reference
    }

    fn describe(&self, call: &Call) -> String {
        let name = ["deposit", "withdraw", "add", "remove", "assign"][call.method as usize];
        format!("{name}({})", call.arguments[0])
    }
}

/// Bugs of the test system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// A call is applied twice by another replica.
    Twice,
    /// A call does not reach one replica.
    Drop,
    /// A call is answered but reaches no other replica.
    AnswerEarly,
    /// A refused call takes effect.
    ApplyRefused,
    /// A call arrives with changed arguments.
    Garble,
    /// A call arrives that no client made.
    Invent,
    /// A call of a client overtakes an earlier one of the same client.
    Overtake,
    /// A replica applies calls of the group in another order.
    Reorder,
    /// A replica does not wait for a call's dependencies.
    ForgetNeeds,
    /// It is not checked whether a call of the group is permissible.
    SkipCheck,
    /// The last call overwrites a summary instead of being added to it.
    LastDelta,
    /// A query is answered from an old state.
    OldAnswer,
}

/// A call in flight: its client, its number, the call, and how many calls of which kinds must be applied before.
#[derive(Clone)]
struct Travelling {
    client: Client,
    number: u64,
    call: Call,
    needs: [u64; 2 * REPLICAS],
}

/// A small replicated system with a network that delivers in order, after any delay.
struct System {
    check: Replicated<Type>,
    states: Vec<State>,
    clients: Vec<Client>,
    /// Calls in flight, indexed [to][from].
    links: Vec<Vec<VecDeque<Travelling>>>,
    /// Number of calls that each replica has applied on which others can depend: additions by node, then deposits
    /// by node.
    taken: Vec<[u64; 2 * REPLICAS]>,
    log: Vec<Travelling>,
    places: Vec<usize>,
    up: Vec<bool>,
    random: Xoshiro256PlusPlus,
    bug: Bug,
}

const REPLICAS: usize = 3;

impl System {
    fn new(seed: u64, bug: Bug, keep: bool) -> Self {
        let mut check = Replicated::new(Type, REPLICAS, 1, keep);
        let clients = (0..REPLICAS).map(|node| check.client(node)).collect();
        Self {
            check,
            states: vec![State::default(); REPLICAS],
            clients,
            links: vec![vec![VecDeque::new(); REPLICAS]; REPLICAS],
            taken: vec![[0; 2 * REPLICAS]; REPLICAS],
            log: Vec::new(),
            places: vec![0; REPLICAS],
            up: vec![true; REPLICAS],
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            bug,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    /// Whether the bug occurs now.
    fn strikes(&mut self, bug: Bug) -> bool {
        self.bug == bug && self.below(10) == 0
    }

    fn take(&mut self, replica: usize, call: &Travelling) {
        Type.apply(&mut self.states[replica], &call.call);
        let state = &self.states[replica];
        self.check.applied(replica, call.client, call.number, call.call.arguments, state);
    }

    fn call(&mut self, node: usize) {
        let method = self.below(u64::from(METHODS)) as u8;
        let argument = self.below(20) as i64;
        let mut call = Call { method, arguments: [argument, 0, 0, 0] };
        let client = self.clients[node];
        let number = self.check.invoked(client, call);
        if method == ASSIGN {
            call.arguments[1] = (self.states[node].register.0 / 8 + 1) * 8 + node as i64;
        }
        let mut travelling = Travelling { client, number, call, needs: self.taken[node] };
        if method == WITHDRAW {
            // Replica 0 leads; it first applies the whole log.
            self.catch_up(0);
            if self.bug != Bug::SkipCheck && !Type.permissible(&self.states[0], &call) {
                return self.check.refused(client, number);
            }
            travelling.needs = self.taken[0];
            self.log.push(travelling);
            self.catch_up(0);
            return self.check.done(client, number);
        }
        if !Type.permissible(&self.states[node], &call) {
            self.check.refused(client, number);
            if self.strikes(Bug::ApplyRefused) {
                self.take(node, &travelling);
            }
            return;
        }
        self.take(node, &travelling);
        self.count(node, node, method);
        if self.strikes(Bug::Garble) {
            travelling.call.arguments[0] ^= 1;
        }
        if self.strikes(Bug::Invent) {
            travelling.number += 1_000_000;
        }
        let early = self.strikes(Bug::AnswerEarly);
        let up = self.up.clone();
        for replica in (0..REPLICAS).filter(|&replica| replica != node && up[replica]) {
            if !early && !self.strikes(Bug::Drop) {
                self.links[replica][node].push_back(travelling.clone());
            }
            if self.strikes(Bug::Twice) {
                self.links[replica][node].push_back(travelling.clone());
            }
        }
        self.check.done(client, number);
    }

    fn count(&mut self, replica: usize, from: usize, method: u8) {
        match method {
            ADD => self.taken[replica][from] += 1,
            DEPOSIT => self.taken[replica][REPLICAS + from] += 1,
            _ => {}
        }
    }

    /// Whether a replica has not applied all calls on which this one depends.
    fn waits(&self, replica: usize, call: &Travelling) -> bool {
        let behind = call.needs.iter().zip(&self.taken[replica]).any(|(needed, there)| needed > there);
        behind && self.bug != Bug::ForgetNeeds
    }

    /// A replica applies the entries of the log.
    fn catch_up(&mut self, replica: usize) {
        while let Some(call) = self.log.get(self.places[replica]).cloned()
            && !self.waits(replica, &call)
        {
            self.places[replica] += 1;
            self.take(replica, &call);
        }
    }

    fn deliver(&mut self, replica: usize, from: usize) {
        if self.strikes(Bug::Overtake) && self.links[replica][from].len() > 1 {
            self.links[replica][from].swap(0, 1);
        }
        let Some(next) = self.links[replica][from].front().cloned() else { return };
        if next.call.method == REMOVE && self.waits(replica, &next) {
            return;
        }
        self.links[replica][from].pop_front();
        self.count(replica, from, next.call.method);
        if self.bug == Bug::LastDelta && next.call.method == DEPOSIT {
            // Two deposits are combined: the second overwrites the first.
            if let Some(second) = self.links[replica][from].front().cloned()
                && second.call.method == DEPOSIT
            {
                self.links[replica][from].pop_front();
                self.count(replica, from, DEPOSIT);
                Type.apply(&mut self.states[replica], &second.call);
                let count = self.check.replicas[replica].streams[from][DEPOSIT as usize] + 2;
                return self.check.absorbed(replica, from, DEPOSIT, count, &self.states[replica]);
            }
        }
        self.take(replica, &next);
    }

    fn step(&mut self) {
        let replica = self.below(REPLICAS as u64) as usize;
        if !self.up[replica] {
            return;
        }
        match self.below(4) {
            0 => self.call(replica),
            1 => {
                let old = self.states[replica].balance;
                let query = self.check.asked(self.clients[replica], Call { method: 0, arguments: [0; 4] });
                let from = self.below(REPLICAS as u64) as usize;
                self.deliver(replica, from);
                let answer = if self.bug == Bug::OldAnswer { old - 1 } else { self.states[replica].balance };
                self.check.told(self.clients[replica], query, Some(answer));
            }
            2 => {
                let behind = self.log.len() - self.places[replica];
                let place = self.places[replica];
                if self.strikes(Bug::Reorder) && behind > 1 {
                    let (first, second) = (self.log[place].clone(), self.log[place + 1].clone());
                    self.take(replica, &second);
                    self.take(replica, &first);
                    self.places[replica] += 2;
                }
                self.catch_up(replica);
            }
            _ => {
                let from = self.below(REPLICAS as u64) as usize;
                self.deliver(replica, from);
            }
        }
    }

    fn finish(mut self) -> ReplicatedReport {
        for _ in 0..10_000 {
            for replica in (0..REPLICAS).filter(|&replica| self.up[replica]).collect::<Vec<_>>() {
                self.catch_up(replica);
                (0..REPLICAS).for_each(|from| self.deliver(replica, from));
            }
        }
        let up = self.up.clone();
        self.check.end(self.states.iter().enumerate().filter(|(replica, _)| up[*replica]), |node| up[node]);
        self.check.report()
    }
}

fn run(seed: u64, bug: Bug) -> ReplicatedReport {
    let mut system = System::new(seed, bug, false);
    (0..4_000).for_each(|_| system.step());
    system.finish()
}

#[test]
fn a_system_without_a_bug_holds() {
    for seed in 0..20 {
        let report = run(seed, Bug::None);
        assert!(report.holds() && report.unanswered == 0, "{report:#?}");
        assert!(report.calls > 500 && report.refused > 0 && report.queries > 500 && report.steps > 1_000);
    }
}

#[test]
fn every_bug_breaks_its_rule() {
    let found = |bug| {
        let reports = (0..20).map(|seed| run(seed, bug));
        let counts = reports.map(|report| Rule::ALL.map(|rule| report.count(rule)));
        counts.fold([0; 10], |sum, one| std::array::from_fn(|rule| sum[rule] + one[rule]))
    };
    for (bug, rule) in [
        (Bug::Twice, Rule::Doubled),
        (Bug::Drop, Rule::Lost),
        (Bug::AnswerEarly, Rule::Lost),
        (Bug::ApplyRefused, Rule::Invented),
        (Bug::Garble, Rule::Invented),
        (Bug::Invent, Rule::Invented),
        (Bug::Overtake, Rule::Order),
        (Bug::Reorder, Rule::Order),
        (Bug::ForgetNeeds, Rule::Dependency),
        (Bug::ForgetNeeds, Rule::Permissible),
        (Bug::ForgetNeeds, Rule::Invariant),
        (Bug::SkipCheck, Rule::Permissible),
        (Bug::SkipCheck, Rule::Invariant),
        (Bug::LastDelta, Rule::Convergence),
        (Bug::OldAnswer, Rule::Answer),
    ] {
        assert!(found(bug)[rule as usize] > 0, "{bug:?} does not break {rule}");
    }
}

/// Withdrawals of two clients, applied in either order; the second is made after the first was answered, unless
/// `answer_late`.
fn two_withdrawals(reversed: bool, answer_late: bool) -> ReplicatedReport {
    let mut check = Replicated::new(Type, 2, 1, false);
    let clients = [check.client(0), check.client(1)];
    let call = Call { method: WITHDRAW, arguments: [0; 4] };
    let first = check.invoked(clients[0], call);
    if !answer_late {
        check.done(clients[0], first);
    }
    let second = check.invoked(clients[1], call);
    let order = if reversed { [(1, second), (0, first)] } else { [(0, first), (1, second)] };
    for replica in 0..2 {
        for (client, number) in order {
            check.applied(replica, clients[client], number, [0; 4], &State::default());
        }
    }
    if answer_late {
        check.done(clients[0], first);
    }
    check.done(clients[1], second);
    check.end([(0, &State::default()), (1, &State::default())], |_| true);
    check.report()
}

#[test]
fn the_order_of_a_group_respects_real_time() {
    assert!(two_withdrawals(false, false).holds());
    // The calls overlap, so any order is allowed.
    assert!(two_withdrawals(true, true).holds());
    let report = two_withdrawals(true, false);
    assert_eq!(report.count(Rule::RealTime), 1, "{report:?}");
    assert_eq!(
        report.violations[0].to_string(),
        "real_time: withdraw(0), call 1 of node0, was answered before call 1 of node1 was made, which is before it in their order"
    );
}

#[test]
fn memory_is_bounded_by_what_is_on_its_way() {
    let mut system = System::new(7, Bug::None, false);
    let mut most = 0;
    for round in 0..100_000 {
        system.step();
        if round % 64 == 0 {
            // Let the network deliver everything from time to time.
            for replica in 0..REPLICAS {
                system.catch_up(replica);
                for from in 0..REPLICAS {
                    (0..64).for_each(|_| system.deliver(replica, from));
                }
            }
        }
        let streams = system.check.streams.iter().flatten().map(|stream| stream.kept());
        most = most.max(system.check.kept()).max(streams.sum());
    }
    assert!(most < 600, "{most} calls kept");
    assert!(system.finish().holds());
}

/// When a replica stops, its calls are lost with it, or have reached all other replicas.
#[test]
fn what_a_stopped_replica_leaves_behind() {
    let run = |delivered: usize, answered: bool, survives: bool| {
        let mut check = Replicated::new(Type, 3, 1, false);
        let client = check.client(0);
        let number = check.invoked(client, Call { method: DEPOSIT, arguments: [3, 0, 0, 0] });
        let state = State { balance: 3, ..State::default() };
        check.applied(0, client, number, [3, 0, 0, 0], &state);
        if answered {
            check.done(client, number);
        }
        check.stopped(0);
        for replica in 1..=delivered {
            check.applied(replica, client, number, [3, 0, 0, 0], &state);
        }
        let initial = State::default();
        let states = (1..3).map(|replica| (replica, if replica <= delivered { &state } else { &initial }));
        check.end(states, |node| node != 0 || survives);
        check.report().count(Rule::Lost)
    };
    for (delivered, answered, survives, lost) in [
        (2, true, true, 0),
        (2, false, true, 0),
        (1, false, true, 1),
        (1, true, true, 1),
        (0, false, true, 0),
        (0, true, true, 1),
        (0, true, false, 0),
        (1, true, false, 1),
    ] {
        assert_eq!(run(delivered, answered, survives), lost, "{delivered} {answered} {survives}");
    }
}

/// Three replicas; the last one stops, and comes back with a copy of another's state, which `tamper` may change.
fn restored(seed: u64, tamper: impl Fn(&mut Contained, &mut State)) -> ReplicatedReport {
    let mut system = System::new(seed, Bug::None, true);
    (0..600).for_each(|_| system.step());
    system.check.stopped(2);
    system.up[2] = false;
    (0..300).for_each(|_| system.step());
    // Calls that were in flight to the replica are in its new state, or are sent again; its own calls arrive at
    // the others.
    system.check.restarted(2);
    for from in 0..2 {
        system.links[2][from].clear();
        let other = 1 - from;
        while !system.links[from][2].is_empty() || !system.links[from][other].is_empty() {
            system.deliver(from, 2);
            system.deliver(from, other);
        }
        system.catch_up(from);
    }
    system.catch_up(0);
    let mut contained = Contained { streams: Vec::new(), groups: vec![system.log.len() as u64] };
    for node in 0..REPLICAS {
        for method in (0..METHODS).filter(|method| *method != WITHDRAW) {
            let count = system.check.replicas[0].streams[node][method as usize];
            contained.streams.push((node, method, count));
        }
    }
    let mut state = system.states[0].clone();
    tamper(&mut contained, &mut state);
    system.check.restored(2, &contained, &state);
    system.states[2] = state;
    system.places[2] = system.log.len();
    system.taken[2] = system.taken[0];
    system.clients[2] = system.check.client(2);
    system.up[2] = true;
    (0..600).for_each(|_| system.step());
    system.finish()
}

#[test]
fn a_replica_that_came_back_goes_on_with_what_it_was_given() {
    for seed in 0..10 {
        let report = restored(seed, |_, _| {});
        assert!(report.holds(), "{report:#?}");
    }
}

#[test]
fn a_replica_that_was_given_less_than_is_said_is_found() {
    let state = restored(1, |_, state| state.balance += 1);
    assert!(state.count(Rule::Convergence) > 0, "{state:#?}");
    let streams = restored(1, |contained, _| contained.streams[0].2 -= 1);
    assert!(streams.count(Rule::Convergence) > 0 && streams.count(Rule::Lost) > 0, "{streams:#?}");
    let group = restored(1, |contained, _| contained.groups[0] -= 1);
    assert!(group.count(Rule::Lost) > 0, "{group:#?}");
    let invented = restored(1, |contained, _| contained.groups[0] += 1);
    assert!(invented.count(Rule::Invented) > 0, "{invented:#?}");
}

/// Node 0 makes three deposits, which node 1 applies. Then node 0 gets a state that contains only the first of
/// them, and applies the calls `again` again. Before the last of these, node 2 applies the calls `between`.
fn taken_in_again(again: &[u64], between: &[u64]) -> ReplicatedReport {
    let mut check = Replicated::new(Type, 3, 1, true);
    let client = check.client(0);
    let take = |check: &mut Replicated<Type>, replica: usize, balances: &mut [i64; 3], number: u64| {
        balances[replica] += number as i64;
        let state = State { balance: balances[replica], ..State::default() };
        check.applied(replica, client, number, [number as i64, 0, 0, 0], &state);
    };
    let mut balances = [0; 3];
    for amount in 1..=3 {
        let number = check.invoked(client, Call { method: DEPOSIT, arguments: [amount, 0, 0, 0] });
        take(&mut check, 0, &mut balances, number);
        take(&mut check, 1, &mut balances, number);
        check.done(client, number);
    }
    let contained = Contained { streams: vec![(0, DEPOSIT, 1)], groups: vec![0] };
    check.restored(0, &contained, &State { balance: 1, ..State::default() });
    balances[0] = 1;
    let (last, first) = again.split_last().expect("some are taken in again");
    first.iter().for_each(|&number| take(&mut check, 0, &mut balances, number));
    between.iter().for_each(|&number| take(&mut check, 2, &mut balances, number));
    take(&mut check, 0, &mut balances, *last);
    let states = balances.map(|balance| State { balance, ..State::default() });
    check.end((0..).zip(&states), |_| true);
    check.report()
}

#[test]
fn own_calls_are_taken_in_again_in_their_order() {
    let report = taken_in_again(&[2, 3], &[1, 2, 3]);
    assert!(report.holds(), "{report:#?}");
    let overtaken = taken_in_again(&[3, 2], &[1, 2, 3]);
    assert!(overtaken.count(Rule::Order) > 0, "{overtaken:#?}");
    let left_out = taken_in_again(&[3], &[1, 2, 3]);
    assert!(left_out.count(Rule::Order) > 0 && left_out.count(Rule::Lost) > 0, "{left_out:#?}");
    let lost = taken_in_again(&[2], &[1, 2, 3]);
    assert_eq!((lost.count(Rule::Order), lost.count(Rule::Lost)), (0, 1), "{lost:#?}");
}

#[test]
fn nodes_are_named_by_number() {
    assert_eq!(nodes(0b101), "node0, node2");
    assert_eq!(nodes(1 << 7), "node7");
    assert_eq!(nodes(0), "no node");
}
