//! Tests what the verdicts guarantee: replicas coordinate as the verdicts demand, and no more.
//!
//! Every replica makes calls and applies those of others in a random order, within the limits of groups and
//! dependencies. Conflicting calls are checked at one replica per group, and applied in its order everywhere.
//! Reducible calls travel as cumulative summaries, or like irreducible ones. Then each call must be
//! permissible wherever it is applied, the invariant must hold at every step, and all replicas must end in
//! one state.

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_rdt::definition::ParameterKind;
use weft_rdt::{Arguments, Bounds, Category, METHODS_MAX, Object, Stamp, SummaryWords, Type, types};

const REPLICAS: usize = 3;
const ELEMENTS: usize = 6;

struct Random(Xoshiro256PlusPlus);

impl Random {
    fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound as u64) as usize
    }

    /// Random arguments, as a client at `replica` may choose them.
    fn arguments(&mut self, kind: &Type, method: usize, replica: usize) -> Arguments {
        let method = &kind.definition().methods[method];
        let mut arguments = Arguments::default();
        for (index, parameter) in method.parameters.iter().enumerate() {
            arguments[index] = match parameter.kind {
                ParameterKind::Element(sort) if method.unique == [index] => {
                    (self.below(kind.elements(sort).div_ceil(REPLICAS)) * REPLICAS + replica) as i64
                }
                ParameterKind::Element(sort) => self.below(kind.elements(sort)) as i64,
                ParameterKind::Amount => self.below(5) as i64,
                ParameterKind::Integer => self.below(9) as i64 - 4,
                _ => 0,
            };
        }
        arguments
    }
}

/// Number of applied calls of each method: in total for a conflicting method, by origin for others.
type Counts = [[usize; REPLICAS]; METHODS_MAX];

#[derive(Clone, Debug)]
struct Call {
    method: usize,
    arguments: Arguments,
    /// How many calls of the methods that this one depends on the checking replica had applied.
    needed: Counts,
}

struct Replica {
    object: Object,
    applied: Counts,
    /// By origin: number of its irreducible calls that were applied.
    taken: [usize; REPLICAS],
    /// By group: number of calls of its log that were applied.
    logged: Vec<usize>,
    /// By origin: number of its summary writes that have arrived.
    arrived: [usize; REPLICAS],
    /// By origin: the summaries that were applied, by method and slot.
    summaries: Vec<Vec<Vec<SummaryWords>>>,
}

/// Coordination that is omitted on purpose, to show that the checks notice it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Omitted {
    Nothing,
    Dependences,
    Order,
}

struct Cluster {
    kind: Arc<Type>,
    replicas: Vec<Replica>,
    /// By origin: its irreducible calls.
    queues: Vec<Vec<Call>>,
    /// By origin: its writes of cumulative summaries, which arrive in order. Each has method, slot and words.
    writes: Vec<Vec<(usize, usize, SummaryWords)>>,
    /// By group: its log. Replica `group % REPLICAS` leads it.
    logs: Vec<Vec<Call>>,
    /// Whether reducible calls travel as summaries.
    reduce: bool,
    omitted: Omitted,
    permitted: usize,
}

impl Cluster {
    fn new(name: &str, reduce: bool, omitted: Omitted) -> Self {
        let kind = Type::shipped(name, &Bounds::uniform(ELEMENTS)).expect("a shipped type");
        let summaries = (0..kind.method_count())
            .map(|method| vec![SummaryWords::default(); kind.summary(method).map_or(0, |shape| shape.slots)])
            .collect::<Vec<_>>();
        let replica = || Replica {
            object: Object::new(&kind),
            applied: Counts::default(),
            taken: [0; REPLICAS],
            logged: vec![0; kind.group_count()],
            arrived: [0; REPLICAS],
            summaries: vec![summaries.clone(); REPLICAS],
        };
        let replicas = (0..REPLICAS).map(|_| replica()).collect();
        let logs = vec![vec![]; kind.group_count()];
        let queues = vec![vec![]; REPLICAS];
        let writes = vec![vec![]; REPLICAS];
        Self { kind, replicas, queues, writes, logs, reduce, omitted, permitted: 0 }
    }

    /// A client makes a random call at replica `at`. A conflicting call goes to the leader of its group.
    fn call(&mut self, random: &mut Random, at: usize) -> Result<(), String> {
        let method = random.below(self.kind.method_count());
        let coordination = *self.kind.coordination(method);
        let is_reduced = self.reduce && coordination.category == Category::Reducible;
        let is_ordered = coordination.group.is_some() && self.omitted != Omitted::Order;
        let checker = coordination.group.filter(|_| is_ordered).map_or(at, |group| group % REPLICAS);
        let mut arguments = random.arguments(&self.kind, method, at);
        if !self.kind.admits(method, &arguments) {
            return Ok(());
        }
        let replica = &mut self.replicas[checker];
        replica.object.prepare(checker, method, &mut arguments);
        if !replica.object.permissible(method, &arguments) {
            return Ok(());
        }
        assert!(self.kind.owns(method, &arguments, checker, REPLICAS));
        self.permitted += 1;
        let mut needed = Counts::default();
        if self.omitted != Omitted::Dependences {
            for dependency in coordination.dependencies.iter() {
                needed[dependency] = replica.applied[dependency];
            }
        }
        let call = Call { method, arguments, needed };
        if is_ordered {
            let group = coordination.group.expect("it is ordered");
            // The leader has applied its whole log.
            self.logs[group].push(call.clone());
            replica.logged[group] += 1;
            replica.applied[method][0] += 1;
        } else {
            replica.applied[method][at] += 1;
            if is_reduced {
                let slot = self.kind.slot(method, &arguments);
                let summary = &mut replica.summaries[at][method][slot];
                self.kind.fold(method, &arguments, summary);
                self.writes[at].push((method, slot, *summary));
            } else {
                self.queues[at].push(call.clone());
            }
        }
        self.apply(checker, &call)
    }

    fn apply(&mut self, at: usize, call: &Call) -> Result<(), String> {
        let object = &mut self.replicas[at].object;
        let name = self.kind.definition().methods[call.method].name;
        let refusing: Vec<_> = object.refusing(call.method, &call.arguments).collect();
        if !refusing.is_empty() {
            return Err(format!(
                "{name}{:?} is not permissible at replica {at}: {refusing:?}",
                call.arguments
            ));
        }
        object.apply(call.method, &call.arguments);
        let broken: Vec<_> = object.broken().collect();
        if broken.is_empty() { Ok(()) } else { Err(format!("{name} breaks {broken:?} at replica {at}")) }
    }

    /// Replica `at` applies one call or summary, if it may. Returns whether there was one.
    fn take(&mut self, random: &mut Random, at: usize) -> Result<bool, String> {
        let choices = 2 * REPLICAS + self.logs.len();
        let first = random.below(choices);
        for choice in (0..choices).map(|step| (first + step) % choices) {
            let taken = match choice {
                _ if choice < REPLICAS => self.take_call(at, choice)?,
                _ if choice < 2 * REPLICAS => self.take_summaries(random, at, choice - REPLICAS)?,
                _ => self.take_entry(at, choice - 2 * REPLICAS)?,
            };
            if taken {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_ready(&self, at: usize, needed: &Counts) -> bool {
        let pairs = self.replicas[at].applied.iter().flatten().zip(needed.iter().flatten());
        pairs.into_iter().all(|(applied, needed)| applied >= needed)
    }

    fn take_call(&mut self, at: usize, origin: usize) -> Result<bool, String> {
        let Some(call) = self.queues[origin].get(self.replicas[at].taken[origin]).cloned() else {
            return Ok(false);
        };
        if origin == at || !self.is_ready(at, &call.needed) {
            return Ok(false);
        }
        self.replicas[at].taken[origin] += 1;
        self.replicas[at].applied[call.method][origin] += 1;
        self.apply(at, &call)?;
        Ok(true)
    }

    fn take_entry(&mut self, at: usize, group: usize) -> Result<bool, String> {
        let Some(call) = self.logs[group].get(self.replicas[at].logged[group]).cloned() else {
            return Ok(false);
        };
        if !self.is_ready(at, &call.needed) {
            return Ok(false);
        }
        self.replicas[at].logged[group] += 1;
        self.replicas[at].applied[call.method][0] += 1;
        self.apply(at, &call)?;
        Ok(true)
    }

    /// Up to three writes arrive before the replica reads its memory: it sees only the last one of each slot.
    fn take_summaries(&mut self, random: &mut Random, at: usize, origin: usize) -> Result<bool, String> {
        let waiting = self.writes[origin].len() - self.replicas[at].arrived[origin];
        if origin == at || waiting == 0 {
            return Ok(false);
        }
        let replica = &mut self.replicas[at];
        let first = replica.arrived[origin];
        let writes = &self.writes[origin][first..first + waiting.min(1 + random.below(3))];
        for (index, &(method, slot, new)) in writes.iter().enumerate() {
            replica.applied[method][origin] += 1;
            if writes[index + 1..].iter().any(|write| (write.0, write.1) == (method, slot)) {
                continue;
            }
            let old = std::mem::replace(&mut replica.summaries[origin][method][slot], new);
            replica.object.absorb(method, slot, &old, &new);
        }
        replica.arrived[origin] += writes.len();
        let broken: Vec<_> = replica.object.broken().collect();
        if broken.is_empty() { Ok(true) } else { Err(format!("a summary breaks {broken:?} at replica {at}")) }
    }

    fn run(&mut self, seed: u64, steps: usize) -> Result<(), String> {
        let mut random = Random::new(seed);
        for _ in 0..steps {
            let at = random.below(REPLICAS);
            if random.below(2) == 0 {
                self.call(&mut random, at)?;
            } else {
                self.take(&mut random, at)?;
            }
        }
        for at in 0..REPLICAS {
            while self.take(&mut random, at)? {}
            let replica = &self.replicas[at];
            let other = (0..REPLICAS).filter(|&origin| origin != at);
            let all = other.clone().all(|origin| replica.taken[origin] == self.queues[origin].len())
                && other.clone().all(|origin| replica.arrived[origin] == self.writes[origin].len())
                && replica.logged.iter().zip(&self.logs).all(|(logged, log)| *logged == log.len());
            if !all {
                return Err(format!("replica {at} waits for ever"));
            }
            if replica.object != self.replicas[0].object {
                return Err(format!("replicas 0 and {at} differ"));
            }
        }
        Ok(())
    }
}

#[test]
fn replicas_that_coordinate_as_derived_keep_the_promise() {
    for name in types::NAMES {
        for reduce in [true, false] {
            let mut permitted = 0;
            for seed in 0..60 {
                let mut cluster = Cluster::new(name, reduce, Omitted::Nothing);
                let result = cluster.run(seed, 200);
                result.unwrap_or_else(|error| panic!("{name}, seed {seed}, reduce {reduce}: {error}"));
                permitted += cluster.permitted;
            }
            assert!(permitted > 600, "{name}: only {permitted} calls were permissible");
        }
    }
}

/// Whether some seed shows that coordination was omitted.
fn is_missed(name: &str, omitted: Omitted) -> bool {
    (0..300).any(|seed| Cluster::new(name, true, omitted).run(seed, 200).is_err())
}

#[test]
fn what_is_left_out_is_missed() {
    for name in types::NAMES {
        let kind = Type::shipped(name, &Bounds::uniform(1)).expect("a shipped type");
        let methods = (0..kind.method_count()).map(|method| kind.coordination(method));
        let depends = methods.clone().any(|method| !method.dependencies.is_empty());
        let conflicts = methods.clone().any(|method| method.group.is_some());
        assert_eq!(is_missed(name, Omitted::Dependences), depends, "{name}: dependences");
        assert_eq!(is_missed(name, Omitted::Order), conflicts, "{name}: order");
    }
}

#[test]
fn every_replica_draws_its_own_stamps() {
    let stamp = Stamp(0).next(3);
    assert_eq!((stamp.time(), stamp.replica()), (1, 3));
    assert!(stamp.next(0) > stamp, "the next is later, whoever makes it");
    assert!(Stamp(0).next(4) > stamp, "of two with one time, the higher replica's is later");
}
