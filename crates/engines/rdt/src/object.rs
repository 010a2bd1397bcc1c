//! A type compiled for execution, and objects of it.

use std::sync::Arc;

use crate::affected::affected_conjuncts;
use crate::definition::{
    Definition, Fold, PARAMETERS_MAX, Parameter, ParameterKind, Summary as SummaryDefinition,
};
use crate::expression::Expression;
use crate::program::{Layout, Program};
use crate::verdict::{Category, Coordination, MethodSet, TypeVerdict, VerdictError, coordination};

pub use crate::program::Arguments;

/// The most 64-bit words of a summary.
pub const SUMMARY_WORDS_MAX: usize = 2;

/// The largest magnitude of an amount or integer: 2^32 - 1.
pub const NUMBER_MAX: i64 = u32::MAX as i64;

/// The largest magnitude of an observed number. It is small enough that sums of a few do not overflow.
const OBSERVED_MAX: i64 = 1 << 60;

/// The largest sum in a summary, far above any sum of real calls.
pub(crate) const SUM_MAX: i64 = 1 << 60;

/// The largest stamp. Some bits are kept free so that later stamps do not overflow.
pub(crate) const STAMP_MAX: i64 = i64::MAX >> 8;

/// The cumulative summary of one slot, of which the first [`SummaryShape::words`] words are used. All zero
/// means no call.
pub type SummaryWords = [i64; SUMMARY_WORDS_MAX];

/// The number of elements of each sort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    general: usize,
    particular: Vec<(&'static str, usize)>,
}

impl Bounds {
    /// `elements` elements of every sort.
    pub const fn uniform(elements: usize) -> Self {
        Self { general: elements, particular: vec![] }
    }

    /// Sets the number of elements of the sort `sort`.
    #[must_use]
    pub fn with(mut self, sort: &'static str, elements: usize) -> Self {
        self.particular.push((sort, elements));
        self
    }

    /// The number of elements of the sort `sort`.
    pub fn of(&self, sort: &str) -> usize {
        let particular = self.particular.iter().rev().find(|(name, _)| *name == sort);
        particular.map_or(self.general, |&(_, elements)| elements)
    }
}

/// A time stamp: a time in the upper bits, and the number of the replica in the lower four. Stamps of
/// different replicas differ; of two stamps with the same time, that of the higher replica is later. 0
/// precedes all stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub i64);

impl Stamp {
    /// The earliest stamp of replica `replica` (0 to 15) that is later than `self`.
    ///
    /// # Panics
    /// If there is no such replica.
    #[must_use]
    pub const fn next(self, replica: usize) -> Self {
        assert!(replica < 16, "a replica is 0 to 15");
        Self(((self.0 >> 4) + 1) << 4 | replica as i64)
    }

    /// The stamp's time.
    pub const fn time(self) -> i64 {
        self.0 >> 4
    }

    /// The replica that made it.
    pub const fn replica(self) -> usize {
        (self.0 & 15) as usize
    }
}

/// The shape of one replica's summaries of a method: the number of slots, and the words of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryShape {
    /// Number of slots: one, one for each element of the key's sort, or one for each 64 elements of a set.
    pub slots: usize,
    /// Number of words in each slot: 1 or 2.
    pub words: usize,
}

/// A data type, compiled for universes of fixed sizes, with the verdict derived about it.
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
    /// Parameters that the checking replica fills in: the index, whether it is a stamp, and the program that
    /// computes the value.
    filled: Vec<(usize, bool, Program)>,
    guards: Vec<Program>,
    effect: Program,
    /// The parts of the invariant that the effect can change.
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
    /// Number of elements for which the slots of a union have room.
    members: usize,
    /// Computes the element whose number selects the slot.
    key: Option<Program>,
    /// For each word of a slot, how values combine and what a call contributes.
    folds: Vec<(Fold, Program)>,
    effect: Program,
    /// The parts of the invariant that the effect can change.
    near: Vec<Program>,
}

/// The smallest and the largest value of an argument.
pub(crate) fn argument_range(kind: &ParameterKind, elements: impl Fn(&str) -> usize) -> (i64, i64) {
    match kind {
        ParameterKind::Element(sort) => (0, elements(sort) as i64 - 1),
        ParameterKind::Amount => (0, NUMBER_MAX),
        ParameterKind::Integer => (-NUMBER_MAX, NUMBER_MAX),
        // 0 means that the stamp is not filled in yet.
        ParameterKind::Stamp(_) => (0, STAMP_MAX),
        ParameterKind::Observed(_) => (-OBSERVED_MAX, OBSERVED_MAX),
        ParameterKind::Total | ParameterKind::Elements(_) => unreachable!("parameters of summaries only"),
    }
}

/// The smallest and the largest value of each argument.
#[derive(Clone, Copy, Debug)]
struct Domain([(i64, i64); PARAMETERS_MAX]);

impl Domain {
    fn new(layout: &Layout, parameters: &[Parameter]) -> Self {
        let mut domain = Self([(0, 0); PARAMETERS_MAX]);
        for (range, parameter) in domain.0.iter_mut().zip(parameters) {
            *range = argument_range(&parameter.kind, |sort| layout.size(sort));
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

    /// A type of [`crate::types`], with the verdict that was checked in.
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

    /// Compiles a definition for which there is no verdict, for evaluation only. All of its methods count as
    /// one synchronization group.
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
                near: affected_conjuncts(&definition, &method.updates).iter().map(formula).collect(),
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

    /// The definition, with the names and parameters of fields, methods and queries.
    pub const fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Number of methods. They are numbered in the order of the definition.
    pub const fn method_count(&self) -> usize {
        self.methods.len()
    }

    /// The coordination that a method needs.
    pub fn coordination(&self, method: usize) -> &Coordination {
        &self.coordination[method]
    }

    /// Number of synchronization groups; each needs one replicated log.
    pub fn group_count(&self) -> usize {
        self.coordination.iter().filter_map(|method| method.group).max().map_or(0, |last| last + 1)
    }

    /// Number of elements of the sort `sort`.
    ///
    /// # Panics
    /// If the type has no such sort.
    pub fn elements(&self, sort: &str) -> usize {
        self.layout.size(sort)
    }

    /// Number of 64-bit words of the state.
    pub const fn words(&self) -> usize {
        self.layout.words()
    }

    /// Whether the arguments are within the ranges of the method's parameters. Arguments from a client or a
    /// peer must be checked before any other use. A stamp or an observed number that is not filled in yet may
    /// be 0.
    #[inline]
    pub fn admits(&self, method: usize, arguments: &Arguments) -> bool {
        self.methods[method].domain.admits(arguments)
    }

    /// Whether the arguments are within the ranges of the query's parameters.
    #[inline]
    pub fn admits_query(&self, query: usize, arguments: &Arguments) -> bool {
        self.queries[query].domain.admits(arguments)
    }

    /// Whether replica `origin` of `nodes` replicas may make this call, as far as unique parameters are
    /// concerned. A replica's fresh elements are those whose number modulo `nodes` is its own number. A stamp
    /// holds the number of the replica that made it.
    pub fn owns(&self, method: usize, arguments: &Arguments, origin: usize, nodes: usize) -> bool {
        let method = &self.definition.methods[method];
        let [.., last] = method.unique.as_slice() else { return true };
        match method.parameters[*last].kind {
            ParameterKind::Stamp(_) => Stamp(arguments[*last]).replica() == origin,
            _ => arguments[*last] as usize % nodes == origin,
        }
    }

    /// The shape of a method's summaries, if the method is summarizable.
    pub fn summary(&self, method: usize) -> Option<SummaryShape> {
        self.methods[method].summary.as_ref().map(|summary| summary.shape)
    }

    /// The slot of a call of a summarizable method.
    ///
    /// # Panics
    /// If the method is not summarizable.
    #[inline]
    pub fn slot(&self, method: usize, arguments: &Arguments) -> usize {
        let summary = self.methods[method].summary();
        let element = summary.key.as_ref().map_or(0, |key| key.evaluate(&[], arguments) as usize);
        if summary.is_union() { element / 64 } else { element }
    }

    /// Whether `new` can be the cumulative summary of a slot after `old`: the slot exists, the words are in
    /// range, and no word is less than before. Summaries from a peer must be checked before they are
    /// absorbed.
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

    /// Adds a call to the cumulative summary of its slot.
    ///
    /// # Panics
    /// If the method is not summarizable.
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

    /// Adds a cumulative summary of later calls of the same slot to a cumulative summary.
    ///
    /// # Panics
    /// If the method is not summarizable.
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
        // The bulk method's parameters are the number of the slot, if there are several, followed by the
        // slot's words.
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
        // `Object::absorb` passes the slot's number first, then its words.
        let key_first = matches!(positions.first(), Some(None)) || positions.iter().all(Option::is_some);
        assert!(key_first, "the key of a summary is declared first");
        let near = affected_conjuncts(definition, &summary.updates);
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

/// An object: its state and its type. Two objects are equal if their states are.
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

    /// The state, for transfer and comparison. The fields follow each other in the order of the definition;
    /// docs/data-types.md describes the layout.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The state, mutable: to be overwritten with the state of another object of the same type.
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// Fills in stamps and observed numbers, as the checking replica must. Afterwards the call is the same at
    /// all replicas. The elements must have been checked by [`Type::admits`].
    #[inline]
    pub fn prepare(&self, replica: usize, method: usize, arguments: &mut Arguments) {
        for (parameter, is_stamp, program) in &self.kind.methods[method].filled {
            let value = program.evaluate(&self.words, arguments);
            arguments[*parameter] = if *is_stamp { Stamp(value).next(replica).0 } else { value };
        }
    }

    /// Whether the call is permissible in this state. Only the guards are evaluated, since they are proved to
    /// preserve the invariant.
    #[inline]
    pub fn permissible(&self, method: usize, arguments: &Arguments) -> bool {
        let code = &self.kind.methods[method];
        code.domain.admits(arguments)
            && code.guards.iter().all(|guard| guard.evaluate(&self.words, arguments) != 0)
    }

    /// Applies the call, whether it is permissible or not.
    ///
    /// # Panics
    /// If the arguments are out of range.
    #[inline]
    pub fn apply(&mut self, method: usize, arguments: &Arguments) {
        let code = &self.kind.methods[method];
        assert!(code.domain.admits(arguments), "arguments are checked when they arrive");
        code.effect.execute(&mut self.words, arguments);
    }

    /// Applies the difference between two cumulative summaries of one slot of a replica: `new`, and `old`,
    /// which was applied before (all zero at first).
    ///
    /// # Panics
    /// If the method is not summarizable, the slot does not exist, or a sum shrinks; see [`Type::extends`].
    #[inline]
    pub fn absorb(&mut self, method: usize, slot: usize, old: &SummaryWords, new: &SummaryWords) {
        let summary = self.kind.methods[method].summary();
        assert!(slot < summary.shape.slots, "slots are checked when summaries arrive");
        let mut arguments = Arguments::default();
        let first = usize::from(summary.key.is_some());
        arguments[0] = slot as i64;
        for (word, (fold, _)) in summary.folds.iter().enumerate() {
            // The difference is needed for sums only: unions and latest values may be applied repeatedly.
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

    /// Whether the invariant holds after this call was applied, if it held before. Only the parts that the
    /// call can change are evaluated, so this is cheap enough after each call, whatever the sizes of the
    /// universes.
    #[inline]
    pub fn invariant_after(&self, method: usize, arguments: &Arguments) -> bool {
        let near = &self.kind.methods[method].near;
        near.iter().all(|part| part.evaluate(&self.words, arguments) != 0)
    }

    /// As [`Self::invariant_after`], after [`Self::absorb`] of this slot.
    ///
    /// # Panics
    /// If the method is not summarizable.
    #[inline]
    pub fn invariant_after_absorb(&self, method: usize, slot: usize) -> bool {
        let mut arguments = Arguments::default();
        arguments[0] = slot as i64;
        let near = &self.kind.methods[method].summary().near;
        near.iter().all(|part| part.evaluate(&self.words, &arguments) != 0)
    }

    /// The names of the parts of the invariant that do not hold.
    pub fn broken(&self) -> impl Iterator<Item = &'static str> {
        let parts = self.kind.invariant.iter().zip(&self.kind.definition.invariant);
        parts
            .filter(|(program, _)| program.evaluate(&self.words, &Arguments::default()) == 0)
            .map(|(_, named)| named.name)
    }

    /// The names of the guards that refuse a call whose arguments are in range.
    pub fn refusing(&self, method: usize, arguments: &Arguments) -> impl Iterator<Item = &'static str> {
        let guards = self.kind.methods[method].guards.iter();
        guards
            .zip(&self.kind.definition.methods[method].guards)
            .filter(|(program, _)| program.evaluate(&self.words, arguments) == 0)
            .map(|(_, named)| named.name)
    }

    /// The answer to a query: a number, or 0 or 1.
    ///
    /// # Panics
    /// If the arguments are out of range.
    #[inline]
    pub fn query(&self, query: usize, arguments: &Arguments) -> i64 {
        let code = &self.kind.queries[query];
        assert!(code.domain.admits(arguments), "arguments are checked when they arrive");
        let answer = code.answer.evaluate(&self.words, arguments);
        if code.numeric { answer } else { -answer }
    }

    /// The value of a field at these indices: a number, or 0 or 1.
    pub fn field(&self, field: usize, indices: &[usize]) -> i64 {
        match self.kind.layout.locate(field, indices) {
            (word, None) => self.words[word] as i64,
            (word, Some(bit)) => (self.words[word] >> bit & 1) as i64,
        }
    }

    /// Sets the value of a field at these indices: a number, or 0 or 1.
    pub fn set_field(&mut self, field: usize, indices: &[usize], value: i64) {
        match self.kind.layout.locate(field, indices) {
            (word, None) => self.words[word] = value as u64,
            (word, Some(bit)) => {
                self.words[word] = self.words[word] & !(1 << bit) | u64::from(value != 0) << bit;
            }
        }
    }
}
