//! Claims that a generated module does what its definition says, for a solver.
//!
//! The module is given as SMT-LIB, as yosys writes it: a sort of states, and a relation between one state and the
//! next. The definition is translated by the same printer that asks for verdicts ([`crate::derive`]), over words
//! instead of integers. The claims are about one cycle that begins in any state, with any inputs, and are an
//! induction together:
//!
//! - the reset begins to clear the module, and a module that is clearing ends with all of its fields zero;
//! - what the second stage has read is the state as it is, whatever waits to be written;
//! - each call that is executed is answered as the definition says, and leaves the state that it says;
//! - no sum or difference overflows the words of the module, which are those of the claims;
//! - a cycle in which no call is executed leaves the state, and an answer that waits, as they are.
//!
//! Universes have a fixed, small number of elements; numbers have all of their values.

use super::Gates;
use super::action::{Action, Kind, has_key, is_set};
use super::storage::{FieldPlan, MEMBERS, NUMBER};
use crate::definition::{Fold, ParameterKind, Summary, Update};
use crate::expression::Expression;
use crate::object::{NUMBER_MAX, STAMP_MAX, SUM_MAX, argument_range};
use crate::smt::{Numbers, Script, Universe, apply, join, no_overflow};
use crate::{PARAMETERS_MAX, SUMMARY_WORDS_MAX};

/// A claim: it holds if the solver finds its script, which follows the module's, unsatisfiable.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The claim in words.
    pub about: String,
    /// What is to be refuted, in SMT-LIB.
    pub script: String,
}

/// The sorts' elements as the solver knows them have one number for all sorts.
///
/// # Panics
/// If the sorts have different numbers of elements.
pub fn claims(gates: &Gates) -> Vec<Claim> {
    let mut claims = vec![];
    let mut claim = |about: &str, build: fn(&mut Step<'_>) -> String| {
        let mut step = Step::new(gates);
        let goal = build(&mut step);
        claims.push(Claim { about: about.to_owned(), script: step.finish(&goal) });
    };
    claim("a reset begins to clear the module", |step| {
        step.script.assert(&format!("(not {})", step.wire("rst_ni", BEFORE)));
        let cleared = step.clearing(AFTER);
        let fresh = step.gates.memories().map(|plan| {
            let memory = |signal: &str, bits| step.vector(&format!("i_{}.{signal}", plan.name), bits, AFTER);
            let zero = word(0, plan.address_bits());
            format!(
                "(and (= {} #b1) (= {} {zero}))",
                memory("clearing_q", 1),
                memory("clear_q", plan.address_bits())
            )
        });
        let fresh = join("and", fresh.collect());
        let valid = step.wire("answer_valid_q", AFTER);
        format!("(and {cleared} {fresh} (not {valid}))")
    });
    claim("a module that is clearing goes on, and ends with an empty state", |step| {
        step.out_of_reset();
        let begins = step.clearing(BEFORE);
        step.script.assert(&format!("(and {begins} {})", step.wire("clearing", BEFORE)));
        let [clearing, empty, ready] = [step.clearing(AFTER), step.empty(AFTER), step.ready(AFTER)];
        let still = step.wire("clearing", AFTER);
        format!("(and {clearing} (=> (not {still}) (and {empty} {ready})))")
    });
    claim("the second stage sees the state as it is", |step| {
        step.in_operation();
        step.ready(AFTER)
    });
    claim("a call is accepted, executed and answered in turn", |step| {
        step.in_operation();
        step.flow()
    });
    claim("without a call the state and the answer stay", |step| {
        step.in_operation();
        step.script.assert(&format!("(not {})", step.wire("execute", BEFORE)));
        let [before, after] = [BEFORE, AFTER].map(|state| step.vector("answer_q", ANSWER, state));
        format!("(and {} (= {before} {after}))", step.unchanged())
    });
    claim("what is no call changes nothing", |step| {
        step.in_operation();
        let labels: Vec<_> = step.gates.actions().iter().flat_map(Action::codes).collect();
        let known = join("or", labels.iter().map(|code| step.has_code(*code)).collect());
        step.script.assert(&format!("(and {} (not {known}))", step.wire("execute", BEFORE)));
        let outcome = step.answer(OUTCOME, 2);
        format!("(and (= {outcome} {}) {})", word(OUT_OF_RANGE, 2), step.unchanged())
    });
    for action in gates.actions() {
        let mut step = Step::new(gates);
        let goal = step.exact(&action);
        let about = format!("no number in {} overflows", action.block());
        claims.push(Claim { about, script: step.finish(&goal) });
        for code in action.codes() {
            for case in Step::new(gates).cases(&action) {
                let mut step = Step::new(gates);
                step.in_operation();
                step.script.assert(&step.wire("execute", BEFORE));
                step.script.assert(&step.has_code(code));
                step.script.assert(&case);
                let goal = step.executed(&action, code.0);
                let about =
                    format!("{} as operation {} does what the definition says", action.block(), code.0);
                claims.push(Claim { about, script: step.finish(&goal) });
            }
        }
    }
    claims
}

/// The states before and after the cycle.
const BEFORE: &str = "before";
const AFTER: &str = "after";

/// Bits of a call and of an answer, and the lowest bits of their parts (rdt_pkg.sv).
const CALL: usize = SELECTOR + 4 + 3;
const SELECTOR: usize = (PARAMETERS_MAX + SUMMARY_WORDS_MAX) * NUMBER;
const SUMMARY: usize = PARAMETERS_MAX * NUMBER;
const VALUE: usize = SUMMARY + SUMMARY_WORDS_MAX * NUMBER;
const OUTCOME: usize = VALUE + NUMBER;
const ANSWER: usize = OUTCOME + 2;

/// Operations and outcomes (rdt_pkg.sv).
const UPDATE: usize = 0;
const APPLY: usize = 1;
const ABSORB: usize = 2;
const FOLD: usize = 3;
const QUERY: usize = 4;
const DONE: usize = 0;
const OUT_OF_RANGE: usize = 1;
const REFUSED: usize = 2;
const OVERFLOW: usize = 3;

fn word(value: usize, bits: usize) -> String {
    format!("(_ bv{value} {bits})")
}

fn extract(value: &str, low: usize, bits: usize) -> String {
    format!("((_ extract {} {low}) {value})", low + bits - 1)
}

impl Action<'_> {
    /// The operations and the selector that it is for.
    fn codes(&self) -> Vec<(usize, usize)> {
        let operations = match self.kind {
            Kind::Update(_) => vec![UPDATE, APPLY],
            Kind::Absorb(_) => vec![ABSORB],
            Kind::Fold(..) => vec![FOLD],
            Kind::Query(_) => vec![QUERY],
        };
        operations.into_iter().map(|operation| (operation, self.selector)).collect()
    }
}

impl Gates {
    fn memories(&self) -> impl Iterator<Item = &FieldPlan> {
        self.fields.iter().filter(|plan| plan.in_memory)
    }
}

/// A script about one cycle.
struct Step<'a> {
    gates: &'a Gates,
    script: Script<'a>,
    numbers: Numbers,
    wide: usize,
    elements: usize,
}

impl<'a> Step<'a> {
    fn new(gates: &'a Gates) -> Self {
        let mut sizes = gates.definition.sorts.iter().map(|sort| gates.elements(sort));
        let elements = sizes.next().unwrap_or(1);
        assert!(sizes.all(|size| size == elements), "a proof is about sorts of one size");
        let wide = gates.number_bits;
        let numbers = Numbers::Words(wide);
        let script = Script::over(&gates.definition, Universe::Of(elements), numbers);
        let mut step = Self { gates, script, numbers, wide, elements };
        let module = gates.module_name();
        for state in [BEFORE, AFTER] {
            step.script.line(&format!("(declare-const {state} |{module}_s|)"));
        }
        step.script.assert(&format!("(|{module}_t| {BEFORE} {AFTER})"));
        step.bind_state();
        step
    }

    fn finish(self, goal: &str) -> String {
        self.script.claim(goal)
    }

    /// A signal of one bit, as a truth value.
    fn wire(&self, name: &str, state: &str) -> String {
        format!("(|{}_n {name}| {state})", self.gates.module_name())
    }

    /// A signal as a word. Yosys makes truth values of single bits.
    fn vector(&self, name: &str, bits: usize, state: &str) -> String {
        let wire = self.wire(name, state);
        if bits == 1 { format!("(ite {wire} #b1 #b0)") } else { wire }
    }

    fn answer(&self, low: usize, bits: usize) -> String {
        extract(&self.vector("answer_q", ANSWER, AFTER), low, bits)
    }

    fn call(&self, low: usize, bits: usize) -> String {
        extract(&self.vector("call_q", CALL, BEFORE), low, bits)
    }

    fn argument(&self, position: usize) -> String {
        self.call(position * NUMBER, NUMBER)
    }

    fn has_code(&self, (operation, selector): (usize, usize)) -> String {
        format!("(= {} {})", self.call(SELECTOR, 7), word(operation << 4 | selector, 7))
    }

    /// A word as a number.
    fn number(&self, value: &str) -> String {
        format!("((_ sign_extend {}) {value})", self.wide - NUMBER)
    }

    fn out_of_reset(&mut self) {
        let reset = self.wire("rst_ni", BEFORE);
        self.script.assert(&reset);
    }

    /// The module is out of reset, has cleared its memories, and keeps its promises so far.
    fn in_operation(&mut self) {
        self.out_of_reset();
        let ready = self.ready(BEFORE);
        self.script.assert(&ready);
    }

    /// The row of a field, as it will be when nothing waits to be written.
    fn row(&self, plan: &FieldPlan, row: usize, state: &str) -> String {
        let name = &plan.name;
        if !plan.in_memory {
            let all = self.vector(&format!("{name}_q"), plan.rows * plan.width, state);
            return extract(&all, row * plan.width, plan.width);
        }
        let memory = |signal: &str, bits| self.vector(&format!("i_{name}.{signal}"), bits, state);
        let mut value = memory(&format!("gen_port[0].memory[{row}]"), plan.width);
        let (ports, bits) = (plan.ports.max(1), plan.address_bits());
        let [pending, address, rows] = [
            memory("pending_q", ports),
            memory("pending_address_q", ports * bits),
            memory("pending_row_q", ports * plan.width),
        ];
        for port in 0..ports {
            let waits = format!(
                "(and (= {} #b1) (= {} {}))",
                extract(&pending, port, 1),
                extract(&address, port * bits, bits),
                word(row, bits)
            );
            value = format!("(ite {waits} {} {value})", extract(&rows, port * plan.width, plan.width));
        }
        value
    }

    /// The value of a field at these indices in a state of the module: a word, or a truth value.
    fn value(&self, field: usize, indices: &[usize], state: &str) -> String {
        let plan = &self.gates.fields[field];
        let (row, bit) = match (is_set(&self.gates.definition, field), indices) {
            (true, &[index]) if plan.in_memory => (index / MEMBERS, Some(index % MEMBERS)),
            (true, &[index]) => (0, Some(index)),
            (false, &[row, column]) => (row, Some(column)),
            (_, indices) => (indices.first().copied().unwrap_or(0), None),
        };
        let row = self.row(plan, row, state);
        bit.map_or_else(|| row.clone(), |bit| format!("(= {} #b1)", extract(&row, bit, 1)))
    }

    /// All places of the state: the field, the indices, and the indices as the solver names them.
    fn places(&self) -> Vec<(usize, Vec<usize>, Vec<String>)> {
        let mut places = vec![];
        for (number, field) in self.gates.definition.fields.iter().enumerate() {
            for indices in crate::smt::tuples(field.indices.len(), self.elements) {
                let names = indices.iter().zip(&field.indices).map(|(index, sort)| format!("{sort}{index}"));
                let names = names.collect();
                places.push((number, indices, names));
            }
        }
        places
    }

    /// The state of the definition before the call is that of the module.
    fn bind_state(&mut self) {
        for (field, indices, names) in self.places() {
            let defined = &self.gates.definition.fields[field];
            let held = self.value(field, &indices, BEFORE);
            let held = if defined.numeric { self.number(&held) } else { held };
            let said = apply(&format!("s/{}", defined.name), &names);
            self.script.assert(&format!("(= {said} {held})"));
        }
    }

    /// The state of the module after the cycle is this one of the definition.
    fn leaves(&self, state: &str) -> String {
        let same = self.places().into_iter().map(|(field, indices, names)| {
            let defined = &self.gates.definition.fields[field];
            let held = self.value(field, &indices, AFTER);
            let held = if defined.numeric { self.number(&held) } else { held };
            format!("(= {} {held})", apply(&format!("{state}/{}", defined.name), &names))
        });
        join("and", same.collect())
    }

    fn unchanged(&self) -> String {
        self.leaves("s")
    }

    fn empty(&self, state: &str) -> String {
        let rows = self.gates.fields.iter().flat_map(|plan| (0..plan.rows).map(move |row| (plan, row)));
        let zero =
            rows.map(|(plan, row)| format!("(= {} {})", self.row(plan, row, state), word(0, plan.width)));
        join("and", zero.collect())
    }

    /// A module that is clearing holds no call, and is empty as far as it has come.
    fn clearing(&self, state: &str) -> String {
        let mut parts = vec![format!("(not {})", self.wire("valid_q", state))];
        for plan in self.gates.fields.iter().filter(|plan| !plan.in_memory) {
            parts.extend(
                (0..plan.rows)
                    .map(|row| format!("(= {} {})", self.row(plan, row, state), word(0, plan.width))),
            );
        }
        for plan in self.gates.memories() {
            let memory = |signal: &str, bits| self.vector(&format!("i_{}.{signal}", plan.name), bits, state);
            let ports = plan.ports.max(1);
            parts.push(format!("(= {} {})", memory("pending_q", ports), word(0, ports)));
            let bits = plan.address_bits();
            let (clearing, clear) = (memory("clearing_q", 1), memory("clear_q", bits));
            parts.push(format!("(=> (= {clearing} #b1) (bvule {clear} {}))", word(plan.rows - 1, bits)));
            for row in 0..plan.rows {
                let done = format!("(or (= {clearing} #b0) (bvult {} {clear}))", word(row, bits));
                for port in 0..ports {
                    let held = memory(&format!("gen_port[{port}].memory[{row}]"), plan.width);
                    parts.push(format!("(=> {done} (= {held} {}))", word(0, plan.width)));
                }
            }
        }
        join("and", parts)
    }

    /// A module in operation: the ports of a memory read equal copies, and have read for the call in the second
    /// stage what the state is.
    fn ready(&self, state: &str) -> String {
        let mut parts = vec![format!("(not {})", self.wire("clearing", state))];
        let call = self.vector("call_q", CALL, state);
        let is_valid = self.wire("valid_q", state);
        for (field, plan) in self.gates.fields.iter().enumerate().filter(|(_, plan)| plan.in_memory) {
            let memory = |signal: &str, bits| self.vector(&format!("i_{}.{signal}", plan.name), bits, state);
            let (ports, bits) = (plan.ports.max(1), plan.address_bits());
            for (port, row) in (1..ports).flat_map(|port| (0..plan.rows).map(move |row| (port, row))) {
                let [first, other] =
                    [0, port].map(|port| memory(&format!("gen_port[{port}].memory[{row}]"), plan.width));
                parts.push(format!("(= {first} {other})"));
            }
            for port in 0..ports {
                let address = extract(&memory("address_q", ports * bits), port * bits, bits);
                let read = extract(&memory("row_o", ports * plan.width), port * plan.width, plan.width);
                for row in 0..plan.rows {
                    let is_row = format!("(= {address} {})", word(row, bits));
                    parts.push(format!(
                        "(=> (and {is_valid} {is_row}) (= {read} {}))",
                        self.row(plan, row, state)
                    ));
                }
                for action in self.gates.actions() {
                    let Some(needs) = action.places[field].get(port) else { continue };
                    let low =
                        needs.argument * NUMBER + if needs.is_member { MEMBERS.ilog2() as usize } else { 0 };
                    for (operation, selector) in action.codes() {
                        let code = extract(&call, SELECTOR, 7);
                        let is_code = format!("(= {code} {})", word(operation << 4 | selector, 7));
                        let needed = extract(&call, low, bits);
                        parts.push(format!("(=> (and {is_valid} {is_code}) (= {address} {needed}))"));
                    }
                }
            }
        }
        join("and", parts)
    }

    /// How calls go through the stages.
    fn flow(&self) -> String {
        let before = |name: &str| self.wire(name, BEFORE);
        let [call, answer] = ["call_ready_o", "answer_valid_o"].map(before);
        let executes = format!(
            "(and {} (not {}) (or (not {answer}) {}))",
            before("valid_q"),
            before("busy"),
            before("answer_ready_i")
        );
        let accepts = format!("(and {} (or (not {}) {executes}))", before("call_valid_i"), before("valid_q"));
        let [held, offered] = ["call_q", "call_i"].map(|name| self.vector(name, CALL, BEFORE));
        let next = self.vector("call_q", CALL, AFTER);
        join(
            "and",
            vec![
                format!("(= {} {executes})", before("execute")),
                format!("(= (and {call} {}) {accepts})", before("call_valid_i")),
                format!("(= {next} (ite {accepts} {offered} {held}))"),
                format!(
                    "(= {} (or {accepts} (and {} (not {executes}))))",
                    self.wire("valid_q", AFTER),
                    before("valid_q")
                ),
                format!(
                    "(= {} (or {executes} (and {answer} (not {}))))",
                    self.wire("answer_valid_o", AFTER),
                    before("answer_ready_i")
                ),
                format!(
                    "(= {} {})",
                    self.vector("answer_o", ANSWER, AFTER),
                    self.vector("answer_q", ANSWER, AFTER)
                ),
            ],
        )
    }

    /// All cases of the elements that a call names: those in which each is a certain one, and that in which one does
    /// not exist. With certain elements, the solver has only one place to think of.
    fn cases(&self, action: &Action<'_>) -> Vec<String> {
        let parameters = action.parameters().into_iter().enumerate();
        let is_element = |kind: &ParameterKind| matches!(kind, ParameterKind::Element(_));
        let named: Vec<_> = parameters
            .filter(|(_, parameter)| is_element(&parameter.kind))
            .map(|(number, _)| self.argument(action.position(number)))
            .collect();
        let certain = |tuple: Vec<usize>| {
            let parts = named.iter().zip(tuple);
            join(
                "and",
                parts
                    .map(|(argument, element)| format!("(= {argument} {})", word(element, NUMBER)))
                    .collect(),
            )
        };
        let mut cases: Vec<_> =
            crate::smt::tuples(named.len(), self.elements).into_iter().map(certain).collect();
        cases.push(format!("(not {})", join("or", cases.clone())));
        cases
    }

    /// The call in the second stage is answered as the definition says, and leaves the state that it says.
    fn executed(&mut self, action: &Action<'_>, operation: usize) -> String {
        let mut in_range = self.bind_arguments(action, operation);
        let mut arguments: Vec<_> = (0..PARAMETERS_MAX).map(|position| self.argument(position)).collect();
        if operation == UPDATE {
            for (number, parameter) in action.parameters().into_iter().enumerate() {
                if matches!(parameter.kind, ParameterKind::Stamp(_) | ParameterKind::Observed(_)) {
                    arguments[number] = extract(&format!("c.{}", parameter.name), 0, NUMBER);
                }
            }
        }
        let mut guards = "true".to_owned();
        let mut fits = vec![];
        let mut state = "s".to_owned();
        let mut value = word(0, NUMBER);
        let mut summary = vec![word(0, NUMBER); SUMMARY_WORDS_MAX];
        match action.kind {
            Kind::Update(method) => {
                if operation == UPDATE {
                    guards = self.script.guards("s", "c", method);
                }
                state = self.script.after("s", "c", &method.parameters, &method.updates);
                fits.extend(self.results_fit(action, &method.updates));
            }
            Kind::Absorb(bulk) => {
                let parameters: Vec<_> = bulk.parameters.iter().map(|bulk| bulk.parameter.clone()).collect();
                state = self.script.after("s", "c", &parameters, &bulk.updates);
                fits.extend(self.results_fit(action, &bulk.updates));
            }
            Kind::Fold(_, bulk) => (value, fits) = self.folded(action, bulk, &mut summary),
            Kind::Query(query) => {
                let answer = self.script.over_call(&query.answer, "c", &query.parameters);
                if query.numeric {
                    fits.push(self.fits(&answer));
                    value = extract(&answer, 0, NUMBER);
                } else {
                    value = format!("(ite {answer} {} {})", word(1, NUMBER), word(0, NUMBER));
                }
            }
        }
        in_range.push("true".into());
        let [in_range, fits] = [in_range, fits].map(|parts| join("and", parts));
        let outcome = format!(
            "(ite {in_range} (ite {guards} (ite {fits} {} {}) {}) {})",
            word(DONE, 2),
            word(OVERFLOW, 2),
            word(REFUSED, 2),
            word(OUT_OF_RANGE, 2)
        );
        let is_done = format!("(and {in_range} {guards} {fits})");
        let mut parts = vec![
            format!("(= {} {outcome})", self.answer(OUTCOME, 2)),
            format!("(=> {is_done} (= {} {value}))", self.answer(VALUE, NUMBER)),
            format!("(=> {is_done} {})", self.leaves(&state)),
            format!("(=> (not {is_done}) {})", self.unchanged()),
        ];
        for (number, word) in summary.iter().enumerate() {
            parts.push(format!(
                "(=> {is_done} (= {} {word}))",
                self.answer(SUMMARY + number * NUMBER, NUMBER)
            ));
        }
        for (number, argument) in arguments.iter().enumerate() {
            parts.push(format!("(=> {in_range} (= {} {argument}))", self.answer(number * NUMBER, NUMBER)));
        }
        join("and", parts)
    }

    /// No sum or difference of an action overflows.
    fn exact(&mut self, action: &Action<'_>) -> String {
        let in_range = self.bind_arguments(action, APPLY);
        self.script.assert(&join("and", in_range));
        let parameters: Vec<_> = action.parameters().into_iter().cloned().collect();
        let expressions = action.expressions().into_iter();
        let mut parts: Vec<_> =
            expressions.map(|expression| self.script.exact(expression, "c", &parameters)).collect();
        if let Kind::Fold(_, summary) = action.kind {
            let words = summary.parameters.iter().filter(|bulk| bulk.fold != Fold::Key);
            for (number, bulk) in words.enumerate().filter(|(_, bulk)| bulk.fold == Fold::Sum) {
                let old = self.number(&self.call(SUMMARY + number * NUMBER, NUMBER));
                parts.push(no_overflow("bvadd", &old, &self.over(action, &bulk.single)));
            }
        }
        join("and", parts)
    }

    /// Declares the call `c` of the definition with the arguments of the call. Returns what must hold for them to be
    /// in range.
    fn bind_arguments(&mut self, action: &Action<'_>, operation: usize) -> Vec<String> {
        let mut in_range = vec![];
        let bulk = match action.kind {
            Kind::Absorb(summary) => Some(summary),
            _ => None,
        };
        if let Some(summary) = bulk.filter(|summary| !has_key(summary)) {
            let slots = summary.parameters.iter().find_map(|bulk| match bulk.parameter.kind {
                ParameterKind::Elements(_) => Some(self.elements.div_ceil(MEMBERS)),
                _ => None,
            });
            in_range.push(format!("(bvult {} {})", self.argument(0), word(slots.unwrap_or(1), NUMBER)));
        }
        let mut words = 0;
        for (number, parameter) in action.parameters().into_iter().enumerate() {
            let given = self.argument(action.position(number));
            let name = format!("c.{}", parameter.name);
            let sort = match parameter.kind {
                ParameterKind::Element(sort) => {
                    self.script.line(&format!("(declare-const {name} {sort})"));
                    for element in 0..self.elements {
                        let [is_number, is_element] = [
                            format!("(= {given} {})", word(element, NUMBER)),
                            format!("(= {name} {sort}{element})"),
                        ];
                        self.script.assert(&format!("(=> {is_number} {is_element})"));
                    }
                    in_range.push(format!("(bvult {given} {})", word(self.elements, NUMBER)));
                    continue;
                }
                ParameterKind::Elements(sort) => Some(sort),
                _ => None,
            };
            if let Some(summary) = bulk {
                let old = self.call(SUMMARY + words * NUMBER, NUMBER);
                words += 1;
                self.bind_word(&name, sort, summary.parameters[number].fold, &given, &old, &mut in_range);
                continue;
            }
            let bits = self.wide;
            self.script.line(&format!("(declare-const {name} (_ BitVec {bits}))"));
            let value = match &parameter.kind {
                ParameterKind::Stamp(clock) if operation == UPDATE => {
                    let clock = self.over(action, clock);
                    let time = format!("(bvadd (bvashr {clock} {}) {})", word(4, bits), word(1, bits));
                    let replica = self.vector("replica_i", 4, BEFORE);
                    format!(
                        "(bvor (bvshl {time} {}) ((_ zero_extend {}) {replica}))",
                        word(4, bits),
                        bits - 4
                    )
                }
                ParameterKind::Observed(value) if operation == UPDATE => self.over(action, value),
                _ => self.number(&given),
            };
            self.script.assert(&format!("(= {name} {value})"));
            let (least, most) = argument_range(&parameter.kind, |_| self.elements);
            in_range.extend(self.within(&name, least, most));
        }
        if bulk.is_none() {
            let unused = action.parameters().len()..PARAMETERS_MAX;
            in_range.extend(
                unused.map(|position| format!("(= {} {})", self.argument(position), word(0, NUMBER))),
            );
        }
        in_range
    }

    /// Declares a word of a summary, and adds what must hold for it to be in range.
    fn bind_word(
        &mut self,
        name: &str,
        sort: Option<&str>,
        fold: Fold,
        new: &str,
        old: &str,
        in_range: &mut Vec<String>,
    ) {
        if let Some(sort) = sort {
            self.script.line(&format!("(declare-fun {name} ({sort}) Bool)"));
            assert!(self.elements < MEMBERS, "a proof is about sorts of few elements");
            for element in 0..self.elements {
                let holds = format!("(= {} #b1)", extract(new, element, 1));
                self.script.assert(&format!("(= ({name} {sort}{element}) {holds})"));
            }
            in_range.push(format!("(= (bvand {old} (bvnot {new})) {})", word(0, NUMBER)));
            let beyond = extract(new, self.elements, MEMBERS - self.elements);
            in_range.push(format!("(= {beyond} {})", word(0, MEMBERS - self.elements)));
            return;
        }
        let bits = self.wide;
        self.script.line(&format!("(declare-const {name} (_ BitVec {bits}))"));
        let [new, old] = [new, old].map(|word| self.number(word));
        let value = if fold == Fold::Sum { format!("(bvsub {new} {old})") } else { new.clone() };
        self.script.assert(&format!("(= {name} {value})"));
        match fold {
            Fold::Sum | Fold::Latest => {
                let most = if fold == Fold::Sum { SUM_MAX } else { STAMP_MAX };
                in_range.push(format!("(bvsle {} {old})", self.numbers.literal(0)));
                in_range.push(format!("(bvsle {old} {new})"));
                in_range.push(format!("(bvsle {new} {})", self.numbers.literal(most)));
            }
            _ => in_range.extend(self.within(&new, -NUMBER_MAX, NUMBER_MAX)),
        }
    }

    /// The slot of a call, whether its new summary can be represented, and that summary.
    fn folded(
        &mut self,
        action: &Action<'_>,
        bulk: &Summary,
        summary: &mut [String],
    ) -> (String, Vec<String>) {
        let mut fits = vec![];
        let mut slot = word(0, NUMBER);
        let words: Vec<_> = bulk.parameters.iter().filter(|bulk| bulk.fold != Fold::Key).collect();
        let singles: Vec<_> = bulk.parameters.iter().map(|bulk| &bulk.single).collect();
        let latest = words.iter().position(|bulk| bulk.fold == Fold::Latest).map(|word| {
            let old = self.number(&self.call(SUMMARY + word * NUMBER, NUMBER));
            format!("(bvslt {old} {})", self.over(action, &words[word].single))
        });
        for (bulk, single) in bulk.parameters.iter().zip(singles) {
            let element = match single {
                Expression::Parameter(parameter) => self.argument(action.position(*parameter)),
                _ => String::new(),
            };
            let Some(number) = words.iter().position(|word| std::ptr::eq(*word, bulk)) else {
                slot = element;
                continue;
            };
            let old = self.call(SUMMARY + number * NUMBER, NUMBER);
            summary[number] = match bulk.fold {
                Fold::Union => {
                    slot = format!("(bvlshr {element} {})", word(6, NUMBER));
                    let bit = format!("(bvand {element} {})", word(63, NUMBER));
                    format!("(bvor {old} (bvshl {} {bit}))", word(1, NUMBER))
                }
                Fold::Sum => {
                    let sum = format!("(bvadd {} {})", self.number(&old), self.over(action, single));
                    fits.push(self.fits(&sum));
                    fits.push(format!("(bvsle {sum} {})", self.numbers.literal(SUM_MAX)));
                    extract(&sum, 0, NUMBER)
                }
                Fold::Latest | Fold::Carried => {
                    let latest = latest.clone().expect("a carried value has a latest one");
                    format!("(ite {latest} {} {old})", extract(&self.over(action, single), 0, NUMBER))
                }
                Fold::Key => unreachable!("a key is no word of a slot"),
            };
        }
        (slot, fits)
    }

    fn over(&self, action: &Action<'_>, expression: &Expression) -> String {
        let parameters: Vec<_> = action.parameters().into_iter().cloned().collect();
        self.script.over_call(expression, "c", &parameters)
    }

    fn within(&self, value: &str, least: i64, most: i64) -> [String; 2] {
        let [least, most] = [least, most].map(|bound| self.numbers.literal(bound));
        [format!("(bvsle {least} {value})"), format!("(bvsle {value} {most})")]
    }

    /// Whether a number fits a word.
    fn fits(&self, value: &str) -> String {
        format!("(= {value} {})", self.number(&extract(value, 0, NUMBER)))
    }

    /// Whether the numbers that updates store fit words.
    fn results_fit(&self, action: &Action<'_>, updates: &[Update]) -> Vec<String> {
        let numbers = updates.iter().filter_map(|update| match update {
            Update::At { field, value, .. } if self.gates.definition.fields[*field].numeric => Some(value),
            _ => None,
        });
        numbers.map(|value| self.fits(&self.over(action, value))).collect()
    }
}
