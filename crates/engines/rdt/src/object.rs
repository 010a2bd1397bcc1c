//! A type made ready to run, and objects of it.

use std::sync::Arc;

use crate::definition::{
    Definition, Fold, PARAMETERS_MAX, Parameter, ParameterKind, Summary as SummaryDefinition,
};
use crate::expression::Expression;
use crate::near::near;
use crate::program::{Layout, Program};
use crate::verdict::{Category, Coordination, MethodSet, TypeVerdict, VerdictError, coordination};

pub use crate::program::Arguments;

/// The most words of a summary.
pub const SUMMARY_WORDS_MAX: usize = 2;

/// The largest magnitude of an amount or integer: 2^32 - 1.
pub const NUMBER_MAX: i64 = u32::MAX as i64;

/// The largest magnitude of an observed number: few of them add up without overflow.
const OBSERVED_MAX: i64 = 1 << 60;

/// The largest sum in a summary, far beyond what calls add up to.
const SUM_MAX: i64 = 1 << 60;

/// The latest stamp; there is room for later ones.
const STAMP_MAX: i64 = i64::MAX >> 8;

/// One cumulative summary: the words of one slot, of which [`SummaryShape::words`] are used. All zero means no call.
pub type SummaryWords = [i64; SUMMARY_WORDS_MAX];

/// Number of elements of each sort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    general: usize,
    particular: Vec<(&'static str, usize)>,
}

impl Bounds {
    /// Every sort has `elements` elements.
    pub const fn uniform(elements: usize) -> Self {
        Self { general: elements, particular: vec![] }
    }

    /// The sort of this name has `elements` elements.
    #[must_use]
    pub fn with(mut self, sort: &'static str, elements: usize) -> Self {
        self.particular.push((sort, elements));
        self
    }

    /// Number of elements of the sort of this name.
    pub fn of(&self, sort: &str) -> usize {
        let particular = self.particular.iter().rev().find(|(name, _)| *name == sort);
        particular.map_or(self.general, |&(_, elements)| elements)
    }
}

/// A time stamp: a time in the upper bits, the number of the replica in the lower four, so that stamps of different
/// replicas differ and of two with one time the higher replica's is later. 0 is before all stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub i64);

impl Stamp {
    /// The earliest stamp of `replica` (0 to 15) that is later than `self`.
    ///
    /// # Panics
    /// If there is no such replica.
    #[must_use]
    pub const fn next(self, replica: usize) -> Self {
        assert!(replica < 16, "a replica is 0 to 15");
        Self(((self.0 >> 4) + 1) << 4 | replica as i64)
    }

    /// Time of the stamp.
    pub const fn time(self) -> i64 {
        self.0 >> 4
    }

    /// The replica that made it.
    pub const fn replica(self) -> usize {
        (self.0 & 15) as usize
    }
}

/// The summaries of one method by one replica: how many slots, of how many words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryShape {
    /// Number of slots: one, one for each element of the key's sort, or one for each 64 elements of a set.
    pub slots: usize,
    /// Number of words of each: 1 or 2.
    pub words: usize,
}

/// A data type, compiled for universes of fixed sizes, with what was derived about it.
#[derive(Debug)]
pub struct Type {
    definition: Definition,
    layout: Layout,
    invariant: Vec<Program>,
    methods: Vec<MethodCode>,
    queries: Vec<QueryCode>,
    coordination: Vec<Coordination>,
}

#[derive(Debug)]
struct MethodCode {
    domain: Domain,
    /// Parameters that the checking replica fills in: index, whether it is a stamp, and source.
    filled: Vec<(usize, bool, Program)>,
    guards: Vec<Program>,
    effect: Program,
    /// The invariant where the effect can change it.
    near: Vec<Program>,
    summary: Option<SummaryCode>,
}

#[derive(Debug)]
struct QueryCode {
    domain: Domain,
    answer: Program,
    numeric: bool,
}

#[derive(Debug)]
struct SummaryCode {
    shape: SummaryShape,
    /// Number of elements that the slots of a union have room for.
    members: usize,
    /// The number of the element that decides which slot.
    key: Option<Program>,
    /// Of the words of a slot, in order.
    folds: Vec<(Fold, Program)>,
    effect: Program,
    /// The invariant where the effect can change it.
    near: Vec<Program>,
}

/// Least and greatest value of each argument.
#[derive(Clone, Copy, Debug)]
struct Domain([(i64, i64); PARAMETERS_MAX]);

impl Domain {
    fn new(layout: &Layout, parameters: &[Parameter]) -> Self {
        let mut domain = Self([(0, 0); PARAMETERS_MAX]);
        for (range, parameter) in domain.0.iter_mut().zip(parameters) {
            *range = match parameter.kind {
                ParameterKind::Element(sort) => (0, layout.size(sort) as i64 - 1),
                ParameterKind::Amount => (0, NUMBER_MAX),
                ParameterKind::Integer => (-NUMBER_MAX, NUMBER_MAX),
                // 0 is not filled in yet.
                ParameterKind::Stamp(_) => (0, STAMP_MAX),
                ParameterKind::Observed(_) => (-OBSERVED_MAX, OBSERVED_MAX),
                ParameterKind::Total | ParameterKind::Elements(_) => {
                    unreachable!("parameters of summaries only")
                }
            };
        }
        domain
    }

    #[inline]
    fn admits(&self, arguments: &Arguments) -> bool {
        self.0.iter().zip(arguments).all(|(&(least, most), &value)| least <= value && value <= most)
    }
}

impl Type {
    /// Compiles a definition for universes of these sizes.
    ///
    /// # Errors
    /// If the verdict does not fit the definition.
    pub fn new(
        definition: Definition,
        verdict: &TypeVerdict,
        bounds: &Bounds,
    ) -> Result<Arc<Self>, VerdictError> {
        let coordination = coordination(&definition, verdict)?;
        Ok(Arc::new(Self::compile(definition, coordination, bounds)))
    }

    /// A type of [`crate::types`] with the verdict that was checked in.
    ///
    /// # Errors
    /// If there is no such type.
    pub fn shipped(name: &str, bounds: &Bounds) -> Result<Arc<Self>, VerdictError> {
        let verdicts = crate::verdict::shipped()?;
        let unknown = || VerdictError::NoType(name.into());
        let verdict = verdicts.get(name).ok_or_else(unknown)?;
        let definition = crate::types::by_name(name).ok_or_else(unknown)?;
        Self::new(definition, verdict, bounds)
    }

    /// Compiles a definition about which nothing was derived, for evaluation only: all of its methods count as one
    /// synchronization group.
    pub fn underived(definition: Definition, bounds: &Bounds) -> Arc<Self> {
        let all =
            Coordination { category: Category::Conflicting, group: Some(0), dependencies: MethodSet::EMPTY };
        let coordination = vec![all; definition.methods.len()];
        Arc::new(Self::compile(definition, coordination, bounds))
    }

    fn compile(definition: Definition, coordination: Vec<Coordination>, bounds: &Bounds) -> Self {
        let layout = Layout::new(&definition, |sort| bounds.of(sort));
        let formula = |expression: &Expression| Program::expression(&layout, expression);
        let invariant = definition.invariant.iter().map(|named| formula(&named.formula)).collect();
        let methods = definition.methods.iter().map(|method| {
            let filled =
                method.parameters.iter().enumerate().filter_map(|(index, parameter)| match &parameter.kind {
                    ParameterKind::Stamp(clock) => Some((index, true, formula(clock))),
                    ParameterKind::Observed(value) => Some((index, false, formula(value))),
                    _ => None,
                });
            MethodCode {
                domain: Domain::new(&layout, &method.parameters),
                filled: filled.collect(),
                guards: method.guards.iter().map(|named| formula(&named.formula)).collect(),
                effect: Program::updates(&layout, &method.updates),
                near: near(&definition, &method.updates).iter().map(formula).collect(),
                summary: method
                    .summary
                    .as_ref()
                    .map(|summary| SummaryCode::new(&layout, &definition, summary)),
            }
        });
        let methods = methods.collect();
        let queries = definition.queries.iter().map(|query| QueryCode {
            domain: Domain::new(&layout, &query.parameters),
            answer: formula(&query.answer),
            numeric: query.numeric,
        });
        let queries = queries.collect();
        Self { definition, layout, invariant, methods, queries, coordination }
    }

    /// Its definition: names and parameters of fields, methods and queries.
    pub const fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Number of methods; they are numbered in the order of the definition.
    pub const fn method_count(&self) -> usize {
        self.methods.len()
    }

    /// Coordination that a method needs.
    pub fn coordination(&self, method: usize) -> &Coordination {
        &self.coordination[method]
    }

    /// Number of synchronization groups; each needs one replicated log.
    pub fn group_count(&self) -> usize {
        self.coordination.iter().filter_map(|method| method.group).max().map_or(0, |last| last + 1)
    }

    /// Number of elements of the sort of this name.
    ///
    /// # Panics
    /// The type has no such sort.
    pub fn elements(&self, sort: &str) -> usize {
        self.layout.size(sort)
    }

    /// Number of words of the state.
    pub const fn words(&self) -> usize {
        self.layout.words()
    }

    /// Whether the arguments are within the ranges of the method's parameters. What comes from a client or a peer
    /// must be checked before anything else is done with it. A stamp or an observed number that is yet to be filled
    /// in may be 0.
    #[inline]
    pub fn admits(&self, method: usize, arguments: &Arguments) -> bool {
        self.methods[method].domain.admits(arguments)
    }

    /// Whether the arguments are within the ranges of the query's parameters.
    #[inline]
    pub fn admits_query(&self, query: usize, arguments: &Arguments) -> bool {
        self.queries[query].domain.admits(arguments)
    }

    /// Whether `origin` of `nodes` replicas may make this call as far as unique parameters go: the fresh elements of
    /// a replica are those whose number leaves the remainder `origin` when divided by `nodes`; a stamp carries its
    /// maker's number.
    pub fn owns(&self, method: usize, arguments: &Arguments, origin: usize, nodes: usize) -> bool {
        let method = &self.definition.methods[method];
        let [.., last] = method.unique.as_slice() else { return true };
        match method.parameters[*last].kind {
            ParameterKind::Stamp(_) => Stamp(arguments[*last]).replica() == origin,
            _ => arguments[*last] as usize % nodes == origin,
        }
    }

    /// The summaries of a method that can be summarized.
    pub fn summary(&self, method: usize) -> Option<SummaryShape> {
        self.methods[method].summary.as_ref().map(|summary| summary.shape)
    }

    /// Slot of a call of a summarizable method.
    ///
    /// # Panics
    /// The method cannot be summarized.
    #[inline]
    pub fn slot(&self, method: usize, arguments: &Arguments) -> usize {
        let summary = self.methods[method].summary();
        let element = summary.key.as_ref().map_or(0, |key| key.evaluate(&[], arguments) as usize);
        if summary.is_union() { element / 64 } else { element }
    }

    /// Whether `new` can be the cumulative summary of a slot after `old`: there is such a slot, its words are in
    /// range, and it says no less. What comes from a peer must be checked before it is absorbed.
    pub fn extends(&self, method: usize, slot: usize, old: &SummaryWords, new: &SummaryWords) -> bool {
        let Some(summary) = &self.methods[method].summary else { return false };
        let words = summary.folds.iter().zip(old.iter().zip(new));
        slot < summary.shape.slots
            && words.into_iter().all(|((fold, _), (&old, &new))| match fold {
                Fold::Sum => 0 <= old && old <= new && new <= SUM_MAX,
                Fold::Latest => 0 <= old && old <= new && new <= STAMP_MAX,
                Fold::Carried => (-NUMBER_MAX..=NUMBER_MAX).contains(&new),
                Fold::Union => {
                    let last = summary.members - 64 * slot;
                    let range = if last < 64 { (1 << last) - 1 } else { u64::MAX };
                    old & !new == 0 && new as u64 & !range == 0
                }
                Fold::Key => unreachable!("a key is no word of a slot"),
            })
    }

    /// Adds a call to the cumulative summary in its slot.
    ///
    /// # Panics
    /// If the method cannot be summarized.
    #[inline]
    pub fn fold(&self, method: usize, arguments: &Arguments, slot: &mut SummaryWords) {
        let summary = self.methods[method].summary();
        let mut single = SummaryWords::default();
        for (word, (fold, value)) in single.iter_mut().zip(&summary.folds) {
            let value = value.evaluate(&[], arguments);
            *word = if *fold == Fold::Union { (1u64 << (value % 64)) as i64 } else { value };
        }
        self.merge(method, &single, slot);
    }

    /// Adds to a cumulative summary another one of later calls of the same slot.
    ///
    /// # Panics
    /// If the method cannot be summarized.
    #[inline]
    pub fn merge(&self, method: usize, later: &SummaryWords, slot: &mut SummaryWords) {
        let folds = &self.methods[method].summary().folds;
        let latest = folds.iter().position(|(fold, _)| *fold == Fold::Latest);
        let replace = latest.is_some_and(|word| later[word] > slot[word]);
        for ((word, &later), (fold, _)) in slot.iter_mut().zip(later).zip(folds) {
            match fold {
                Fold::Sum => {
                    *word += later;
                    assert!(*word <= SUM_MAX, "so many calls with the largest amounts are not made");
                }
                Fold::Union => *word |= later,
                Fold::Latest | Fold::Carried => *word = if replace { later } else { *word },
                Fold::Key => unreachable!("a key is no word of a slot"),
            }
        }
    }
}

impl MethodCode {
    #[inline]
    fn summary(&self) -> &SummaryCode {
        self.summary.as_ref().expect("a method that can be summarized")
    }
}

impl SummaryCode {
    fn new(layout: &Layout, definition: &Definition, summary: &SummaryDefinition) -> Self {
        let mut shape = SummaryShape { slots: 1, words: 0 };
        let mut members = 0;
        let mut key = None;
        let mut folds = vec![];
        // The bulk method's parameters are in order the slot's number, if there is a choice, and its words.
        let mut positions = vec![];
        for parameter in &summary.parameters {
            let program = Program::expression(layout, &parameter.single);
            match (parameter.fold, &parameter.parameter.kind) {
                (Fold::Key, ParameterKind::Element(sort)) => {
                    shape.slots = layout.size(sort);
                    key = Some(program);
                    positions.push(None);
                    continue;
                }
                (Fold::Union, ParameterKind::Elements(sort)) => {
                    members = layout.size(sort);
                    shape.slots = members.div_ceil(64);
                    key = Some(program.clone());
                }
                _ => {}
            }
            positions.push(Some(shape.words));
            shape.words += 1;
            folds.push((parameter.fold, program));
        }
        assert!(shape.words <= SUMMARY_WORDS_MAX, "a summary has at most two words");
        // `Object::absorb` passes the slot's number first and its words after it.
        let key_first = matches!(positions.first(), Some(None)) || positions.iter().all(Option::is_some);
        assert!(key_first, "the key of a summary is declared first");
        let near = near(definition, &summary.updates);
        Self {
            shape,
            members,
            key,
            folds,
            effect: Program::updates(layout, &summary.updates),
            near: near.iter().map(|formula| Program::expression(layout, formula)).collect(),
        }
    }

    fn is_union(&self) -> bool {
        matches!(self.folds.as_slice(), [(Fold::Union, _)])
    }
}

/// An object: its state, and its type. Two are equal if their states are.
#[derive(Clone, Debug)]
pub struct Object {
    kind: Arc<Type>,
    words: Box<[u64]>,
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Eq for Object {}

impl Object {
    /// An object in its initial state.
    pub fn new(kind: &Arc<Type>) -> Self {
        Self { kind: Arc::clone(kind), words: vec![0; kind.words()].into() }
    }

    /// The object's type.
    pub const fn kind(&self) -> &Arc<Type> {
        &self.kind
    }

    /// Its state, for transfer and comparison. The layout is that of the type's fields in order; see the
    /// documentation of data types.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The state, to be overwritten by that of another object of the same type.
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// Fills in what the checking replica has to: stamps and observed numbers. Then the call is the same everywhere.
    /// The elements must be admitted before.
    #[inline]
    pub fn prepare(&self, replica: usize, method: usize, arguments: &mut Arguments) {
        for (parameter, is_stamp, program) in &self.kind.methods[method].filled {
            let value = program.evaluate(&self.words, arguments);
            arguments[*parameter] = if *is_stamp { Stamp(value).next(replica).0 } else { value };
        }
    }

    /// Whether the call may be made in this state. Its guards are proved to keep the invariant, so only they are
    /// evaluated.
    #[inline]
    pub fn permissible(&self, method: usize, arguments: &Arguments) -> bool {
        let code = &self.kind.methods[method];
        code.domain.admits(arguments)
            && code.guards.iter().all(|guard| guard.evaluate(&self.words, arguments) != 0)
    }

    /// Makes the call, whether it is permissible or not.
    ///
    /// # Panics
    /// If the arguments are not admitted.
    #[inline]
    pub fn apply(&mut self, method: usize, arguments: &Arguments) {
        let code = &self.kind.methods[method];
        assert!(code.domain.admits(arguments), "arguments are checked when they arrive");
        code.effect.execute(&mut self.words, arguments);
    }

    /// Takes in what `new`, a replica's cumulative summary in one slot, has more than `old`, the one of the same slot
    /// that was taken in before (all zero at first).
    ///
    /// # Panics
    /// If the method cannot be summarized, there is no such slot, or a sum shrinks; see [`Type::extends`].
    #[inline]
    pub fn absorb(&mut self, method: usize, slot: usize, old: &SummaryWords, new: &SummaryWords) {
        let summary = self.kind.methods[method].summary();
        assert!(slot < summary.shape.slots, "slots are checked when summaries arrive");
        let mut arguments = Arguments::default();
        let first = usize::from(summary.key.is_some());
        arguments[0] = slot as i64;
        for (word, (fold, _)) in summary.folds.iter().enumerate() {
            // Difference of cumulative summaries: unions and latest values may as well be applied twice.
            arguments[first + word] = match fold {
                Fold::Sum => {
                    assert!(old[word] <= new[word], "summaries are checked when they arrive");
                    new[word] - old[word]
                }
                _ => new[word],
            };
        }
        summary.effect.execute(&mut self.words, &arguments);
    }

    /// Whether the invariant holds.
    pub fn invariant(&self) -> bool {
        self.broken().next().is_none()
    }

    /// Whether the invariant holds, if it held before this call was applied: only what the call can have changed is
    /// looked at, so that the invariant can be checked after each call in universes of any size.
    #[inline]
    pub fn invariant_after(&self, method: usize, arguments: &Arguments) -> bool {
        let near = &self.kind.methods[method].near;
        near.iter().all(|part| part.evaluate(&self.words, arguments) != 0)
    }

    /// As [`Self::invariant_after`], after [`Self::absorb`] into this slot.
    ///
    /// # Panics
    /// If the method cannot be summarized.
    #[inline]
    pub fn invariant_after_absorb(&self, method: usize, slot: usize) -> bool {
        let mut arguments = Arguments::default();
        arguments[0] = slot as i64;
        let near = &self.kind.methods[method].summary().near;
        near.iter().all(|part| part.evaluate(&self.words, &arguments) != 0)
    }

    /// The parts of the invariant that do not hold, by name.
    pub fn broken(&self) -> impl Iterator<Item = &'static str> {
        let parts = self.kind.invariant.iter().zip(&self.kind.definition.invariant);
        parts
            .filter(|(program, _)| program.evaluate(&self.words, &Arguments::default()) == 0)
            .map(|(_, named)| named.name)
    }

    /// The guards that refuse a call with admitted arguments, by name.
    pub fn refusing(&self, method: usize, arguments: &Arguments) -> impl Iterator<Item = &'static str> {
        let guards = self.kind.methods[method].guards.iter();
        guards
            .zip(&self.kind.definition.methods[method].guards)
            .filter(|(program, _)| program.evaluate(&self.words, arguments) == 0)
            .map(|(_, named)| named.name)
    }

    /// Reads: a number, or 0 or 1.
    ///
    /// # Panics
    /// If the arguments are not admitted.
    #[inline]
    pub fn query(&self, query: usize, arguments: &Arguments) -> i64 {
        let code = &self.kind.queries[query];
        assert!(code.domain.admits(arguments), "arguments are checked when they arrive");
        let answer = code.answer.evaluate(&self.words, arguments);
        if code.numeric { answer } else { -answer }
    }

    /// The value of a field at these elements: a number, or 0 or 1.
    pub fn field(&self, field: usize, indices: &[usize]) -> i64 {
        match self.kind.layout.locate(field, indices) {
            (word, None) => self.words[word] as i64,
            (word, Some(bit)) => (self.words[word] >> bit & 1) as i64,
        }
    }

    /// Gives a field a value at these elements: a number, or whether it holds.
    pub fn set_field(&mut self, field: usize, indices: &[usize], value: i64) {
        match self.kind.layout.locate(field, indices) {
            (word, None) => self.words[word] = value as u64,
            (word, Some(bit)) => {
                self.words[word] = self.words[word] & !(1 << bit) | u64::from(value != 0) << bit;
            }
        }
    }
}
