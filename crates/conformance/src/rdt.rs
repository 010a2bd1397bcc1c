//! Data types in gates against the evaluator that replicas run ([`weft_rdt::Object`]): the same random calls, and
//! after each burst of calls the same answers and the same state.

use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_gateware::Pressure;
use weft_gateware::engine_package::{
    RDT_ABSORB, RDT_APPLY, RDT_DONE, RDT_FOLD, RDT_OUT_OF_RANGE, RDT_OVERFLOW, RDT_QUERY, RDT_REFUSED,
    RDT_UPDATE, RdtAnswer, RdtCall,
};
use weft_gateware::rdt::RtlTypes;
use weft_rdt::definition::{Fold, Parameter, ParameterKind};
use weft_rdt::gates::{shipped, shipped_bounds};
use weft_rdt::{Arguments, NUMBER_MAX, Object, Stamp, SummaryWords, Type, types};

/// The replica to which the objects belong.
const REPLICA: usize = 5;

/// The most calls that are made one right after the other.
const BURST_MAX: usize = 8;

/// The largest sum in a summary, as in `weft-rdt`.
const SUM_MAX: i64 = 1 << 60;

/// Sums that a run makes stay below, so that no state overflows: the evaluator would end the process.
const GROWTH_MAX: i64 = 1 << 40;

/// What a run has covered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Covered {
    /// Calls.
    pub calls: u64,
    /// Calls with each outcome, in the order of `rdt_outcome_t`.
    pub outcomes: [u64; 4],
}

/// Both halves of one type.
struct Pair {
    name: &'static str,
    number: usize,
    window: usize,
    soft: Object,
    /// For each method, its cumulative summaries by slot, which grow without end.
    slots: Vec<Vec<SummaryWords>>,
    random: Xoshiro256PlusPlus,
}

/// Makes random calls to the type with this name in both halves, until there were `calls`.
///
/// # Errors
/// The first difference, in words.
///
/// # Panics
/// If there is no such type.
pub fn run(name: &str, calls: u64, seed: u64, pressure: Option<Pressure>) -> Result<Covered, String> {
    let number = types::NAMES.iter().position(|known| *known == name).expect("a type that ships");
    let kind = Type::shipped(name, &shipped_bounds(name)).expect("a type that ships");
    let mut pair = Pair {
        name: types::NAMES[number],
        number,
        window: shipped()[..number].iter().map(|gates| gates.windows()).sum(),
        slots: (0..kind.method_count())
            .map(|method| vec![SummaryWords::default(); kind.summary(method).map_or(0, |shape| shape.slots)])
            .collect(),
        soft: Object::new(&kind),
        random: Xoshiro256PlusPlus::seed_from_u64(seed),
    };
    let mut gates = RtlTypes::new(REPLICA, pressure, seed as u32);
    let mut covered = Covered::default();
    // Without calls it waits until RAM is cleared.
    gates.call(number, &[]);
    pair.compare_state(&mut gates)?;
    while covered.calls < calls {
        pair.burst(&mut gates, &mut covered)?;
    }
    Ok(covered)
}

impl Pair {
    fn burst(&mut self, gates: &mut RtlTypes, covered: &mut Covered) -> Result<(), String> {
        // Half of all bursts are one call.
        let length = if self.chance(2) { 1 } else { 2 + self.below(BURST_MAX - 1) };
        let mut calls = vec![];
        let mut expected = vec![];
        for _ in 0..length {
            let call = self.any_call();
            expected.push(self.execute(&call));
            calls.push(call);
        }
        let burst = gates.call(self.number, &calls);
        for ((call, expected), answer) in calls.iter().zip(&expected).zip(&burst.answers) {
            covered.calls += 1;
            covered.outcomes[usize::from(expected.outcome)] += 1;
            if !agree(expected, answer) {
                return Err(format!(
                    "{}: {call:?} is answered {answer:?} in gates, and {expected:?} in software",
                    self.name
                ));
            }
        }
        self.compare_state(gates)
    }

    fn compare_state(&mut self, gates: &mut RtlTypes) -> Result<(), String> {
        let mut words = vec![0; self.soft.words().len()];
        gates.read(self.window, &mut words);
        let differs = self.soft.words().iter().zip(&words).position(|(soft, gates)| soft != gates);
        differs.map_or(Ok(()), |word| {
            let (soft, gates) = (self.soft.words()[word], words[word]);
            Err(format!(
                "{}: word {word} of the state is {gates:#x} in gates, {soft:#x} in software",
                self.name
            ))
        })
    }

    fn kind(&self) -> Arc<Type> {
        Arc::clone(self.soft.kind())
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.random.next_u64() % bound as u64) as usize
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// A random call, mostly with arguments in range.
    fn any_call(&mut self) -> RdtCall {
        let kind = self.kind();
        let operations =
            [RDT_UPDATE, RDT_UPDATE, RDT_UPDATE, RDT_APPLY, RDT_ABSORB, RDT_FOLD, RDT_QUERY, RDT_QUERY];
        let operation = operations[self.below(operations.len())];
        let count =
            if operation == RDT_QUERY { kind.definition().queries.len() } else { kind.method_count() };
        let selector = if self.chance(100) { self.below(16) } else { self.below(count) };
        let mut summary = SummaryWords::default();
        let mut arguments = Arguments::default();
        if operation == RDT_ABSORB {
            (summary, arguments) = self.any_absorption(selector);
        } else if let Some(parameters) = parameters(&kind, operation, selector) {
            for (argument, parameter) in arguments.iter_mut().zip(parameters) {
                *argument = self.any_argument(&kind, parameter, operation == RDT_UPDATE);
            }
            if operation == RDT_FOLD && kind.summary(selector).is_some() && kind.admits(selector, &arguments)
            {
                summary = self.slots[selector][kind.slot(selector, &arguments)];
            }
        }
        // A flipped bit may make a word wrong, but not a sum that is right and huge.
        for word in arguments.iter_mut().chain(&mut summary) {
            if self.chance(200) {
                let bit = self.below(44);
                *word ^= 1 << if bit < 40 { bit } else { bit + 20 };
            }
        }
        RdtCall {
            operation: operation as u8,
            selector: selector as u8,
            summary: halves(summary.map(|word| word as u64)),
            arguments: halves(arguments.map(|word| word as u64)),
        }
    }

    fn any_argument(&mut self, kind: &Type, parameter: &Parameter, is_filled: bool) -> i64 {
        match parameter.kind {
            // Few elements are named often, so that calls meet.
            ParameterKind::Element(sort) if self.chance(2) => self.below(kind.elements(sort).min(4)) as i64,
            ParameterKind::Element(sort) => self.below(kind.elements(sort)) as i64,
            ParameterKind::Stamp(_) | ParameterKind::Observed(_) if is_filled => {
                self.random.next_u64() as i64
            }
            ParameterKind::Stamp(_) => Stamp((self.below(1 << 20) as i64) << 4).next(self.below(16)).0,
            ParameterKind::Observed(_) => self.below(2000) as i64 - 1000,
            ParameterKind::Integer => (self.random.next_u64() as i64) % (NUMBER_MAX + 1),
            _ if self.chance(2) => self.below(100) as i64,
            _ => self.random.next_u64() as i64 & NUMBER_MAX,
        }
    }

    /// A slot's old and new summary: the new one contains some more calls.
    fn any_absorption(&mut self, method: usize) -> (SummaryWords, Arguments) {
        let kind = self.kind();
        let Some(shape) = (method < kind.method_count()).then(|| kind.summary(method)).flatten() else {
            return Default::default();
        };
        let parameters = &kind.definition().methods[method].parameters;
        let mut slot = self.below(shape.slots);
        let mut new = SummaryWords::default();
        for call in 0..self.below(4) {
            let mut arguments = Arguments::default();
            for (argument, parameter) in arguments.iter_mut().zip(parameters) {
                *argument = self.any_argument(&kind, parameter, false);
            }
            let of = kind.slot(method, &arguments);
            if call == 0 {
                slot = of;
                new = self.slots[method][slot];
            }
            if slot == of {
                kind.fold(method, &arguments, &mut new);
            }
        }
        let old = self.slots[method][slot];
        if new == SummaryWords::default() {
            new = old;
        }
        let parameters =
            kind.definition().methods[method].summary.iter().flat_map(|summary| &summary.parameters);
        let is_sum = parameters.into_iter().any(|bulk| bulk.fold == Fold::Sum);
        if !is_sum || new[0] < GROWTH_MAX {
            self.slots[method][slot] = new;
        }
        (old, [slot as i64, new[0], new[1], 0])
    }

    /// Executes a call in software.
    fn execute(&mut self, call: &RdtCall) -> RdtAnswer {
        let kind = self.kind();
        let operation = u64::from(call.operation);
        let method = usize::from(call.selector);
        let mut arguments: Arguments = words(&call.arguments);
        let mut summary: SummaryWords = words(&call.summary);
        let refuse = |outcome: u64| RdtAnswer { outcome: outcome as u8, ..RdtAnswer::default() };
        let Some(parameters) = parameters(&kind, operation, method) else { return refuse(RDT_OUT_OF_RANGE) };
        let mut value = 0;
        match operation {
            RDT_UPDATE => {
                // What is filled in is not looked at before.
                let mut given = arguments;
                for (argument, parameter) in given.iter_mut().zip(parameters) {
                    if matches!(parameter.kind, ParameterKind::Stamp(_) | ParameterKind::Observed(_)) {
                        *argument = 0;
                    }
                }
                if !kind.admits(method, &given) {
                    return refuse(RDT_OUT_OF_RANGE);
                }
                self.soft.prepare(REPLICA, method, &mut arguments);
                if !kind.admits(method, &arguments) {
                    return refuse(RDT_OUT_OF_RANGE);
                }
                if !self.soft.permissible(method, &arguments) {
                    let arguments = halves(arguments.map(|word| word as u64));
                    return RdtAnswer { arguments, ..refuse(RDT_REFUSED) };
                }
                self.soft.apply(method, &arguments);
            }
            RDT_APPLY if kind.admits(method, &arguments) => self.soft.apply(method, &arguments),
            RDT_ABSORB => {
                let new = [arguments[1], arguments[2]];
                let slot = usize::try_from(arguments[0]).unwrap_or(usize::MAX);
                if !kind.extends(method, slot, &summary, &new) {
                    return refuse(RDT_OUT_OF_RANGE);
                }
                self.soft.absorb(method, slot, &summary, &new);
            }
            RDT_FOLD if kind.summary(method).is_some() && kind.admits(method, &arguments) => {
                let mut single = SummaryWords::default();
                kind.fold(method, &arguments, &mut single);
                let is_sum = kind.definition().methods[method]
                    .summary
                    .as_ref()
                    .is_some_and(|summary| summary.parameters.iter().any(|bulk| bulk.fold == Fold::Sum));
                // The evaluator would end the process.
                if is_sum && summary[0].checked_add(single[0]).is_none_or(|sum| sum > SUM_MAX) {
                    return refuse(RDT_OVERFLOW);
                }
                value = kind.slot(method, &arguments) as i64;
                kind.fold(method, &arguments, &mut summary);
                let words = kind.summary(method).map_or(0, |shape| shape.words);
                summary[words..].fill(0);
            }
            RDT_QUERY if kind.admits_query(method, &arguments) => value = self.soft.query(method, &arguments),
            _ => return refuse(RDT_OUT_OF_RANGE),
        }
        let summary = if operation == RDT_FOLD { summary } else { SummaryWords::default() };
        RdtAnswer {
            outcome: RDT_DONE as u8,
            value: value as u64,
            summary: halves(summary.map(|word| word as u64)),
            arguments: halves(arguments.map(|word| word as u64)),
        }
    }
}

/// Whether the gates answer as expected. An answer that is not done has no value, no summary, and, if its arguments are
/// out of range, no arguments.
fn agree(expected: &RdtAnswer, answer: &RdtAnswer) -> bool {
    let outcome = u64::from(expected.outcome);
    answer.outcome == expected.outcome
        && (outcome != RDT_DONE || (answer.value, answer.summary) == (expected.value, expected.summary))
        && (outcome == RDT_OUT_OF_RANGE || outcome == RDT_OVERFLOW || answer.arguments == expected.arguments)
}

/// The parameters of the method or query; `None` if there is none.
fn parameters(kind: &Type, operation: u64, selector: usize) -> Option<&[Parameter]> {
    let definition = kind.definition();
    if operation == RDT_QUERY {
        definition.queries.get(selector).map(|query| &*query.parameters)
    } else {
        definition.methods.get(selector).map(|method| &*method.parameters)
    }
}

/// Words as the ports have them.
fn halves<const WORDS: usize, const HALVES: usize>(words: [u64; WORDS]) -> [u32; HALVES] {
    std::array::from_fn(|half| (words[half / 2] >> (half % 2 * 32)) as u32)
}

fn words<const WORDS: usize>(halves: &[u32]) -> [i64; WORDS] {
    std::array::from_fn(|word| (u64::from(halves[2 * word]) | u64::from(halves[2 * word + 1]) << 32) as i64)
}
