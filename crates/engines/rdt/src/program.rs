//! Expressions and effects, compiled to flat programs over the words of an object.
//!
//! A program is postfix code for a small stack machine. True is all ones, so the same instructions combine
//! single truth values, and 64 of them at a time. A quantifier is evaluated word by word if its variable
//! occurs only as the last index of sets and relations (a *lane* is one of the 64 bits). Any other quantifier
//! is evaluated element by element. A program allocates nothing while it runs.

use crate::definition::{Definition, Update};
use crate::expression::Expression;

/// The arguments of a call, in the order of its parameters. Elements are given by number; unused arguments
/// are 0.
pub type Arguments = [i64; crate::PARAMETERS_MAX];

const STACK: usize = 32;
const VARIABLES: usize = 4;

/// The position of a field in the words of an object.
#[derive(Clone, Copy, Debug)]
struct FieldPlace {
    base: usize,
    /// Words from one first index to the next: those of a row in a relation, 1 in an array.
    stride: usize,
    numeric: bool,
    arity: usize,
}

/// The number of elements of each sort, and the position of each field.
///
/// Fields follow each other in the order of the definition. A scalar takes one word. An array takes one word
/// for each element. A set takes one bit for each element, rounded up to words. A relation takes such a row
/// of bits for each first element.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    sizes: Vec<(&'static str, usize)>,
    places: Vec<FieldPlace>,
    words: usize,
}

impl Layout {
    pub(crate) fn new(definition: &Definition, size: impl Fn(&str) -> usize) -> Self {
        let sizes: Vec<_> = definition.sorts.iter().map(|&sort| (sort, size(sort))).collect();
        let mut layout = Self { sizes, places: vec![], words: 0 };
        for field in &definition.fields {
            let numeric = field.numeric;
            let sizes: Vec<_> = field.indices.iter().map(|sort| layout.size(sort)).collect();
            let (stride, words) = match (numeric, sizes.as_slice()) {
                (true, []) => (0, 1),
                (true, &[size]) => (1, size),
                (false, &[size]) => (0, size.div_ceil(64)),
                (false, &[rows, columns]) => (columns.div_ceil(64), rows * columns.div_ceil(64)),
                _ => unreachable!("the builder makes scalars, sets, relations and arrays only"),
            };
            layout.places.push(FieldPlace { base: layout.words, stride, numeric, arity: sizes.len() });
            layout.words += words;
        }
        layout
    }

    pub(crate) fn size(&self, sort: &str) -> usize {
        self.sizes.iter().find(|(name, _)| *name == sort).expect("a sort of this definition").1
    }

    pub(crate) const fn words(&self) -> usize {
        self.words
    }

    /// The position of a field's value at these indices: the word, and the bit if the value is a truth value.
    pub(crate) fn locate(&self, field: usize, indices: &[usize]) -> (usize, Option<u32>) {
        let place = self.places[field];
        match (place.numeric, indices) {
            (true, &[]) => (place.base, None),
            (true, &[index]) => (place.base + index, None),
            (false, &[index]) => (place.base + index / 64, Some(index as u32 % 64)),
            (false, &[row, index]) => (place.base + row * place.stride + index / 64, Some(index as u32 % 64)),
            _ => unreachable!("as many indices as the field has"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Push(i64),
    Argument(u8),
    Variable(u8),
    /// Pushes a scalar.
    Word(u32),
    /// Pops an element, and pushes its number in an array.
    WordAt(u32),
    /// Pops an element, and pushes whether it is in a set.
    Bit(u32),
    /// Pops the second and the first element, and pushes whether the pair is in a relation.
    BitAt {
        base: u32,
        stride: u32,
    },
    /// Pushes the lanes of a set.
    Lanes(u32),
    /// Pops the first element, and pushes the lanes of its row.
    LanesAt {
        base: u32,
        stride: u32,
    },
    /// Pops an element, and pushes a word with its lane set if the lane is in the current word.
    LaneOf,
    Not,
    And,
    Or,
    Less,
    AtMost,
    Same,
    Add,
    Subtract,
    /// Pops the value for false, the value for true, and the condition; pushes the value that the condition
    /// selects.
    Choose,
    /// Runs the next `length` instructions for each element, and combines the results: by conjunction if
    /// `all`, otherwise by disjunction.
    Elements {
        variable: u8,
        size: u32,
        length: u32,
        all: bool,
    },
    /// Runs the next `length` instructions for each word of lanes; `last` masks the last word.
    Words {
        words: u32,
        last: u64,
        length: u32,
        all: bool,
    },
    /// Pops a value, and stores it in a scalar.
    StoreWord(u32),
    /// Pops a value and an element, and stores the value in an array.
    StoreWordAt(u32),
    /// Pops a value, then an element. Adds the element to a set if the value is not 0, otherwise removes it.
    StoreBit(u32),
    /// Pops a value, then the second element of a pair, then the first. Adds the pair to a relation if the
    /// value is not 0, otherwise removes it.
    StoreBitAt {
        base: u32,
        stride: u32,
    },
    /// Adds elements to one word of a set: one argument is the number of the word, another its bits.
    Unite {
        base: u32,
        word: u8,
        with: u8,
    },
}

/// The state that a program runs over.
trait State {
    fn get(&self, word: usize) -> u64;
    fn set(&mut self, word: usize, value: u64);
}

struct ReadOnly<'a>(&'a [u64]);

impl State for ReadOnly<'_> {
    #[inline]
    fn get(&self, word: usize) -> u64 {
        self.0[word]
    }
    fn set(&mut self, _: usize, _: u64) {
        unreachable!("an expression stores nothing");
    }
}

impl State for &mut [u64] {
    #[inline]
    fn get(&self, word: usize) -> u64 {
        self[word]
    }
    #[inline]
    fn set(&mut self, word: usize, value: u64) {
        self[word] = value;
    }
}

struct Machine {
    stack: [i64; STACK],
    depth: usize,
    variables: [i64; VARIABLES],
    lane: usize,
}

impl Machine {
    #[inline]
    fn push(&mut self, value: i64) {
        self.stack[self.depth] = value;
        self.depth += 1;
    }

    #[inline]
    fn pop(&mut self) -> i64 {
        self.depth -= 1;
        self.stack[self.depth]
    }

    #[inline]
    fn binary(&mut self, combine: impl FnOnce(i64, i64) -> i64) {
        let second = self.pop();
        let first = self.pop();
        self.push(combine(first, second));
    }
}

#[inline]
const fn truth(holds: bool) -> i64 {
    -(holds as i64)
}

/// A compiled expression or effect.
#[derive(Clone, Debug)]
pub(crate) struct Program(Box<[Op]>);

impl Program {
    /// Compiles an expression. Its value is a number, or 0 for false and -1 for true.
    pub(crate) fn expression(layout: &Layout, expression: &Expression) -> Self {
        let mut compiler = Compiler { layout, ops: vec![], variables: vec![] };
        compiler.expression(expression);
        compiler.finish()
    }

    /// Compiles updates that take effect simultaneously. For a union, argument 0 is the number of the word
    /// and argument 1 its bits.
    pub(crate) fn updates(layout: &Layout, updates: &[Update]) -> Self {
        let mut compiler = Compiler { layout, ops: vec![], variables: vec![] };
        // The last update is computed first. So its value is at the bottom of the stack, and is stored last.
        for update in updates.iter().rev() {
            if let Update::At { indices, value, .. } = update {
                indices.iter().for_each(|index| compiler.expression(index));
                compiler.expression(value);
            }
        }
        for update in updates {
            let place = |field: usize| {
                let place = layout.places[field];
                (place, place.base as u32, place.stride as u32)
            };
            compiler.ops.push(match update {
                Update::At { field, .. } => match place(*field) {
                    (FieldPlace { numeric: true, arity: 0, .. }, base, _) => Op::StoreWord(base),
                    (FieldPlace { numeric: true, .. }, base, _) => Op::StoreWordAt(base),
                    (FieldPlace { arity: 1, .. }, base, _) => Op::StoreBit(base),
                    (_, base, stride) => Op::StoreBitAt { base, stride },
                },
                Update::Union { field, .. } => Op::Unite { base: place(*field).1, word: 0, with: 1 },
            });
        }
        compiler.finish()
    }

    /// Evaluates an expression.
    #[inline]
    pub(crate) fn evaluate(&self, words: &[u64], arguments: &Arguments) -> i64 {
        let mut machine = self.run(ReadOnly(words), arguments);
        machine.pop()
    }

    /// Applies an effect.
    #[inline]
    pub(crate) fn execute(&self, words: &mut [u64], arguments: &Arguments) {
        let machine = self.run(words, arguments);
        debug_assert_eq!(machine.depth, 0);
    }

    #[inline]
    fn run(&self, mut state: impl State, arguments: &Arguments) -> Machine {
        let mut machine = Machine { stack: [0; STACK], depth: 0, variables: [0; VARIABLES], lane: 0 };
        run(&self.0, &mut state, arguments, &mut machine);
        machine
    }
}

fn run(ops: &[Op], state: &mut impl State, arguments: &Arguments, machine: &mut Machine) {
    let mut next = 0;
    while let Some(&op) = ops.get(next) {
        next += 1;
        match op {
            Op::Push(value) => machine.push(value),
            Op::Argument(index) => machine.push(arguments[index as usize]),
            Op::Variable(index) => machine.push(machine.variables[index as usize]),
            Op::Word(base) => machine.push(state.get(base as usize) as i64),
            Op::WordAt(base) => {
                let element = machine.pop() as usize;
                machine.push(state.get(base as usize + element) as i64);
            }
            Op::Bit(base) => {
                let element = machine.pop() as usize;
                machine.push(truth(state.get(base as usize + element / 64) >> (element % 64) & 1 == 1));
            }
            Op::BitAt { base, stride } => {
                let second = machine.pop() as usize;
                let first = machine.pop() as usize;
                let word = state.get(base as usize + first * stride as usize + second / 64);
                machine.push(truth(word >> (second % 64) & 1 == 1));
            }
            Op::Lanes(base) => machine.push(state.get(base as usize + machine.lane) as i64),
            Op::LanesAt { base, stride } => {
                let first = machine.pop() as usize;
                machine.push(state.get(base as usize + first * stride as usize + machine.lane) as i64);
            }
            Op::LaneOf => {
                let element = machine.pop() as usize;
                machine.push(if element / 64 == machine.lane { 1 << (element % 64) } else { 0 });
            }
            Op::Not => {
                let value = machine.pop();
                machine.push(!value);
            }
            Op::And => machine.binary(|first, second| first & second),
            Op::Or => machine.binary(|first, second| first | second),
            Op::Less => machine.binary(|first, second| truth(first < second)),
            Op::AtMost => machine.binary(|first, second| truth(first <= second)),
            Op::Same => machine.binary(|first, second| truth(first == second)),
            Op::Add => machine.binary(|first, second| first.checked_add(second).expect(OVERFLOW)),
            Op::Subtract => machine.binary(|first, second| first.checked_sub(second).expect(OVERFLOW)),
            Op::Choose => {
                let otherwise = machine.pop();
                let then = machine.pop();
                let condition = machine.pop();
                machine.push(if condition != 0 { then } else { otherwise });
            }
            Op::Elements { variable, size, length, all } => {
                let body = &ops[next..next + length as usize];
                next += length as usize;
                let mut holds = all;
                for element in 0..size {
                    machine.variables[variable as usize] = i64::from(element);
                    run(body, state, arguments, machine);
                    holds = machine.pop() != 0;
                    if holds != all {
                        break;
                    }
                }
                machine.push(truth(holds));
            }
            Op::Words { words, last, length, all } => {
                let body = &ops[next..next + length as usize];
                next += length as usize;
                let mut holds = all;
                for lane in 0..words as usize {
                    machine.lane = lane;
                    run(body, state, arguments, machine);
                    let mask = if lane + 1 == words as usize { last } else { u64::MAX };
                    let lanes = machine.pop() as u64 & mask;
                    holds = if all { lanes == mask } else { lanes != 0 };
                    if holds != all {
                        break;
                    }
                }
                machine.push(truth(holds));
            }
            Op::StoreWord(base) => {
                let value = machine.pop();
                state.set(base as usize, value as u64);
            }
            Op::StoreWordAt(base) => {
                let value = machine.pop();
                let element = machine.pop() as usize;
                state.set(base as usize + element, value as u64);
            }
            Op::StoreBit(base) => {
                let value = machine.pop();
                let element = machine.pop() as usize;
                store_bit(state, base as usize + element / 64, element % 64, value);
            }
            Op::StoreBitAt { base, stride } => {
                let value = machine.pop();
                let second = machine.pop() as usize;
                let first = machine.pop() as usize;
                let word = base as usize + first * stride as usize + second / 64;
                store_bit(state, word, second % 64, value);
            }
            Op::Unite { base, word, with } => {
                let word = base as usize + arguments[word as usize] as usize;
                let value = state.get(word) | arguments[with as usize] as u64;
                state.set(word, value);
            }
        }
    }
}

const OVERFLOW: &str = "a field overflows only after 2^31 calls with the largest amounts";

#[inline]
fn store_bit(state: &mut impl State, word: usize, bit: usize, value: i64) {
    let bit = 1 << bit;
    let old = state.get(word);
    state.set(word, if value != 0 { old | bit } else { old & !bit });
}

struct Compiler<'a> {
    layout: &'a Layout,
    ops: Vec<Op>,
    variables: Vec<&'static str>,
}

impl Compiler<'_> {
    fn finish(self) -> Program {
        // No instruction pushes more than one value, so the depth after each instruction bounds the stack.
        let deepest = self.ops.iter().scan(0i32, |depth, op| {
            *depth += effect_on_depth(*op);
            Some(*depth)
        });
        assert!(deepest.max().unwrap_or(0) <= STACK as i32, "the formula nests too deeply");
        Program(self.ops.into())
    }

    fn expression(&mut self, expression: &Expression) {
        match expression {
            Expression::Boolean(value) => self.ops.push(Op::Push(truth(*value))),
            Expression::Number(value) => self.ops.push(Op::Push(*value)),
            Expression::Parameter(index) => self.ops.push(Op::Argument(*index as u8)),
            Expression::Variable(name) => {
                let index = self.variables.iter().position(|variable| variable == name);
                self.ops.push(Op::Variable(index.expect("a bound variable") as u8));
            }
            Expression::Not(inner) => {
                self.expression(inner);
                self.ops.push(Op::Not);
            }
            Expression::All(parts) => self.join(parts, Op::And, true),
            Expression::Any(parts) => self.join(parts, Op::Or, false),
            Expression::Same(first, second) => self.binary(first, second, Op::Same),
            Expression::Less(first, second) => self.binary(first, second, Op::Less),
            Expression::AtMost(first, second) => self.binary(first, second, Op::AtMost),
            Expression::Add(first, second) => self.binary(first, second, Op::Add),
            Expression::Subtract(first, second) => self.binary(first, second, Op::Subtract),
            Expression::If(condition, then, otherwise) => {
                self.expression(condition);
                self.expression(then);
                self.expression(otherwise);
                self.ops.push(Op::Choose);
            }
            Expression::Read { field, indices } => {
                indices.iter().for_each(|index| self.expression(index));
                let place = self.layout.places[*field];
                let (base, stride) = (place.base as u32, place.stride as u32);
                self.ops.push(match (place.numeric, place.arity) {
                    (true, 0) => Op::Word(base),
                    (true, _) => Op::WordAt(base),
                    (false, 1) => Op::Bit(base),
                    (false, _) => Op::BitAt { base, stride },
                });
            }
            Expression::Every { variable, sort, body } => self.quantifier(variable, sort, body, true),
            Expression::Some { variable, sort, body } => self.quantifier(variable, sort, body, false),
        }
    }

    fn binary(&mut self, first: &Expression, second: &Expression, op: Op) {
        self.expression(first);
        self.expression(second);
        self.ops.push(op);
    }

    fn join(&mut self, parts: &[Expression], op: Op, neutral: bool) {
        let Some((first, rest)) = parts.split_first() else {
            return self.ops.push(Op::Push(truth(neutral)));
        };
        self.expression(first);
        for part in rest {
            self.expression(part);
            self.ops.push(op);
        }
    }

    fn quantifier(&mut self, variable: &'static str, sort: &str, body: &Expression, all: bool) {
        assert!(!self.variables.contains(&variable), "nested quantifiers bind different names");
        let size = self.layout.size(sort);
        let start = self.ops.len();
        self.ops.push(Op::Push(0));
        if is_lanewise(body, variable) {
            self.lanes(body, variable);
            let length = (self.ops.len() - start - 1) as u32;
            let last = if size.is_multiple_of(64) { u64::MAX } else { (1 << (size % 64)) - 1 };
            self.ops[start] = Op::Words { words: size.div_ceil(64) as u32, last, length, all };
        } else {
            self.variables.push(variable);
            assert!(self.variables.len() <= VARIABLES, "quantifiers nest too deeply");
            let index = self.variables.len() as u8 - 1;
            self.expression(body);
            self.variables.pop();
            let length = (self.ops.len() - start - 1) as u32;
            self.ops[start] = Op::Elements { variable: index, size: size as u32, length, all };
        }
    }

    /// Emits code for all 64 values of `variable` in a word at once.
    fn lanes(&mut self, expression: &Expression, variable: &'static str) {
        if !mentions(expression, variable) {
            return self.expression(expression);
        }
        match expression {
            Expression::Not(inner) => {
                self.lanes(inner, variable);
                self.ops.push(Op::Not);
            }
            Expression::All(parts) | Expression::Any(parts) => {
                let op = if matches!(expression, Expression::All(_)) { Op::And } else { Op::Or };
                for (position, part) in parts.iter().enumerate() {
                    self.lanes(part, variable);
                    if position > 0 {
                        self.ops.push(op);
                    }
                }
            }
            Expression::Same(first, second) => {
                let other = if **first == Expression::Variable(variable) { second } else { first };
                self.expression(other);
                self.ops.push(Op::LaneOf);
            }
            Expression::Read { field, indices } => {
                let place = self.layout.places[*field];
                let (base, stride) = (place.base as u32, place.stride as u32);
                if place.arity == 1 {
                    self.ops.push(Op::Lanes(base));
                } else {
                    self.expression(&indices[0]);
                    self.ops.push(Op::LanesAt { base, stride });
                }
            }
            _ => unreachable!("checked to be lane-wise"),
        }
    }
}

/// Whether a formula can be evaluated for 64 values of the variable at once.
fn is_lanewise(expression: &Expression, variable: &'static str) -> bool {
    let lanewise = |part: &Expression| !mentions(part, variable) || is_lanewise(part, variable);
    let is_variable = |part: &Expression| *part == Expression::Variable(variable);
    match expression {
        Expression::Not(inner) => lanewise(inner),
        Expression::All(parts) | Expression::Any(parts) => parts.iter().all(lanewise),
        Expression::Same(first, second) => {
            is_variable(first) && !mentions(second, variable)
                || is_variable(second) && !mentions(first, variable)
        }
        Expression::Read { indices, .. } => indices.split_last().is_some_and(|(last, others)| {
            // An array holds numbers, which have no lanes, so comparisons cannot be evaluated lane by lane.
            is_variable(last) && !others.iter().any(|index| mentions(index, variable))
        }),
        _ => false,
    }
}

fn mentions(expression: &Expression, variable: &'static str) -> bool {
    *expression == Expression::Variable(variable)
        || expression.parts().iter().any(|part| mentions(part, variable))
}

/// By how much an instruction may grow the stack.
const fn effect_on_depth(op: Op) -> i32 {
    match op {
        Op::Push(_) | Op::Argument(_) | Op::Variable(_) | Op::Word(_) | Op::Lanes(_) => 1,
        Op::WordAt(_) | Op::Bit(_) | Op::LanesAt { .. } | Op::LaneOf | Op::Not | Op::Unite { .. } => 0,
        Op::BitAt { .. } | Op::And | Op::Or | Op::Less | Op::AtMost | Op::Same => -1,
        Op::Add | Op::Subtract | Op::StoreWord(_) => -1,
        Op::Choose | Op::StoreWordAt(_) | Op::StoreBit(_) => -2,
        Op::StoreBitAt { .. } => -3,
        // These pop the value of the body and push the result.
        Op::Elements { .. } | Op::Words { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A conjunction within a conjunction, and so on: the program pushes one value for each before it joins any.
    fn nested(depth: usize) -> Expression {
        (1..depth).fold(Expression::Boolean(true), |inner, _| {
            Expression::All(vec![Expression::Boolean(true), inner])
        })
    }

    fn evaluated(expression: &Expression) -> i64 {
        let layout = Layout { sizes: vec![], places: vec![], words: 0 };
        Program::expression(&layout, expression).evaluate(&[], &[0; 4])
    }

    #[test]
    fn a_formula_may_fill_the_stack() {
        assert_eq!(evaluated(&nested(STACK)), truth(true));
    }

    #[test]
    #[should_panic(expected = "the formula nests too deeply")]
    fn a_formula_that_overflows_the_stack_is_refused() {
        evaluated(&nested(STACK + 1));
    }
}
