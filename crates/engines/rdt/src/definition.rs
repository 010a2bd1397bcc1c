//! What a data type is: fields, an invariant, methods with guards and effects, queries.
//!
//! A method is *permissible* in a state if its guards hold there and the invariant holds after it. Guards must
//! suffice for that: the derivation proves, for each method, that invariant and guards together keep the invariant. A
//! call is checked where it is issued (a conflicting one at the leader of its group), and then takes effect at every
//! replica without another check; the derivation tells what coordination makes it permissible there too.
//!
//! Effects are simultaneous: all values are computed in the state before. If two of them name the same place, the later
//! one stands.

use std::ops::{Deref, DerefMut};

use crate::expression::{Array, Element, Expression, Formula, Number, Relation, Scalar, Set, Sort};

/// The most parameters of a method or query.
pub const PARAMETERS_MAX: usize = 4;

/// The most methods of a type.
pub const METHODS_MAX: usize = 16;

/// A data type.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Name: lower case, words joined by hyphens.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// The sorts that fields and parameters mention, in the order of first mention.
    pub sorts: Vec<&'static str>,
    /// The state. Initially all sets are empty and all numbers 0.
    pub fields: Vec<Field>,
    /// Invariant of every state of every replica: named conjuncts.
    pub invariant: Vec<Named>,
    /// The calls that change the state.
    pub methods: Vec<Method>,
    /// The calls that read it.
    pub queries: Vec<Query>,
}

/// A part of the state: a function from its indices to truth values or numbers.
#[derive(Clone, Debug)]
pub struct Field {
    /// Name of the field.
    pub name: &'static str,
    /// The sorts of its indices: none for a scalar, one for a set or an array, two for a relation.
    pub indices: Vec<&'static str>,
    /// It holds numbers, not truth values.
    pub numeric: bool,
}

/// A formula with a name.
#[derive(Clone, Debug)]
pub struct Named {
    /// Description in words.
    pub name: &'static str,
    /// The formula.
    pub formula: Expression,
}

/// A call that changes the state.
#[derive(Clone, Debug)]
pub struct Method {
    /// Name of the method.
    pub name: &'static str,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// Parameters that together are different in any two calls of this method, ever, anywhere. Empty: no such promise.
    pub unique: Vec<usize>,
    /// Preconditions of a call.
    pub guards: Vec<Named>,
    /// Effect of a call.
    pub updates: Vec<Update>,
    /// How calls of one replica combine, if they do.
    pub summary: Option<Summary>,
}

/// A call that reads the state.
#[derive(Clone, Debug)]
pub struct Query {
    /// Name of the query.
    pub name: &'static str,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// Its answer.
    pub answer: Expression,
    /// The answer is a number, not a truth value.
    pub numeric: bool,
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Name of the parameter.
    pub name: &'static str,
    /// Its range, and who fills it in.
    pub kind: ParameterKind,
}

/// Range of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// An element of the sort, chosen by the caller.
    Element(&'static str),
    /// A number from 0 to 2^32 - 1, chosen by the caller.
    Amount,
    /// A number from -(2^32 - 1) to 2^32 - 1, chosen by the caller.
    Integer,
    /// A time stamp: the checking replica fills in one of its own that exceeds this number ([`crate::Stamp`]).
    Stamp(Expression),
    /// A number that the checking replica reads from its state, so that the effect does not depend on where it takes
    /// place.
    Observed(Expression),
    /// A total of amounts: not negative. Of summaries only.
    Total,
    /// A set of elements of the sort. Of summaries only.
    Elements(&'static str),
}

/// A change of the state.
#[derive(Clone, Debug)]
pub enum Update {
    /// The field takes the value at these indices.
    At {
        /// The field.
        field: usize,
        /// The indices.
        indices: Vec<Expression>,
        /// The new value there.
        value: Expression,
    },
    /// The set takes in all elements of a parameter of kind [`ParameterKind::Elements`].
    Union {
        /// The set.
        field: usize,
        /// The parameter.
        parameter: usize,
    },
}

/// How one replica's calls of a method combine into one cumulative call of a *bulk* method.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The parameters of the bulk method, each with the value that stands for a single call, and how two combine.
    pub parameters: Vec<BulkParameter>,
    /// Effect of the bulk method.
    pub updates: Vec<Update>,
}

/// A parameter of a bulk method.
#[derive(Clone, Debug)]
pub struct BulkParameter {
    /// Name and range.
    pub parameter: Parameter,
    /// Contribution of a single call, over that call's parameters. For a set, its one element.
    pub single: Expression,
    /// How the values of two calls combine.
    pub fold: Fold,
}

/// How two values of a bulk parameter combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// They do not: there is one summary for each element.
    Key,
    /// Sum.
    Sum,
    /// Union.
    Union,
    /// The larger stands, and the [`Fold::Carried`] values of its call with it.
    Latest,
    /// Goes with the [`Fold::Latest`] of its call.
    Carried,
}

impl Definition {
    /// The number of the method of this name.
    pub fn method(&self, name: &str) -> Option<usize> {
        self.methods.iter().position(|method| method.name == name)
    }

    /// The number of the query of this name.
    pub fn query(&self, name: &str) -> Option<usize> {
        self.queries.iter().position(|query| query.name == name)
    }
}

/// Builds a definition.
#[derive(Debug)]
pub struct Builder(Definition);

impl Builder {
    /// A type without fields.
    pub fn new(name: &'static str, about: &'static str) -> Self {
        Self(Definition {
            name,
            about,
            sorts: vec![],
            fields: vec![],
            invariant: vec![],
            methods: vec![],
            queries: vec![],
        })
    }

    /// A number.
    pub fn scalar(&mut self, name: &'static str) -> Scalar {
        Scalar::new(self.field(name, vec![], true))
    }

    /// A set.
    pub fn set<S: Sort>(&mut self, name: &'static str) -> Set<S> {
        Set::new(self.field(name, vec![S::NAME], false))
    }

    /// A relation.
    pub fn relation<A: Sort, B: Sort>(&mut self, name: &'static str) -> Relation<A, B> {
        Relation::new(self.field(name, vec![A::NAME, B::NAME], false))
    }

    /// An array of numbers.
    pub fn array<S: Sort>(&mut self, name: &'static str) -> Array<S> {
        Array::new(self.field(name, vec![S::NAME], true))
    }

    /// Adds a conjunct to the invariant of every state.
    pub fn invariant(&mut self, name: &'static str, formula: Formula) {
        self.0.invariant.push(Named { name, formula: formula.0 });
    }

    /// A call that changes the state.
    pub fn method(&mut self, name: &'static str, build: impl FnOnce(&mut Call)) {
        let mut call = Call(
            Method {
                name,
                parameters: vec![],
                unique: vec![],
                guards: vec![],
                updates: vec![],
                summary: None,
            },
            Effect::default(),
        );
        build(&mut call);
        let Call(mut method, effect) = call;
        method.updates = effect.updates;
        self.mention(&method.parameters);
        self.0.methods.push(method);
    }

    /// A call that reads whether something holds.
    pub fn query_whether(&mut self, name: &'static str, build: impl FnOnce(&mut Parameters) -> Formula) {
        let mut parameters = Parameters::default();
        let answer = build(&mut parameters).0;
        self.query(name, parameters, answer, false);
    }

    /// A call that reads a number.
    pub fn query_number(&mut self, name: &'static str, build: impl FnOnce(&mut Parameters) -> Number) {
        let mut parameters = Parameters::default();
        let answer = build(&mut parameters).0;
        self.query(name, parameters, answer, true);
    }

    /// The definition.
    ///
    /// # Panics
    /// If there are more methods or parameters than [`METHODS_MAX`] and [`PARAMETERS_MAX`].
    pub fn finish(self) -> Definition {
        let definition = self.0;
        assert!(definition.methods.len() <= METHODS_MAX, "too many methods");
        let counts = definition.methods.iter().map(|method| method.parameters.len());
        let counts = counts.chain(definition.queries.iter().map(|query| query.parameters.len()));
        assert!(counts.max() <= Some(PARAMETERS_MAX), "too many parameters");
        definition
    }

    fn query(&mut self, name: &'static str, parameters: Parameters, answer: Expression, numeric: bool) {
        self.mention(&parameters.0);
        self.0.queries.push(Query { name, parameters: parameters.0, answer, numeric });
    }

    fn field(&mut self, name: &'static str, indices: Vec<&'static str>, numeric: bool) -> usize {
        for sort in &indices {
            self.sort(sort);
        }
        self.0.fields.push(Field { name, indices, numeric });
        self.0.fields.len() - 1
    }

    fn mention(&mut self, parameters: &[Parameter]) {
        for parameter in parameters {
            if let ParameterKind::Element(sort) = parameter.kind {
                self.sort(sort);
            }
        }
    }

    fn sort(&mut self, sort: &'static str) {
        if !self.0.sorts.contains(&sort) {
            self.0.sorts.push(sort);
        }
    }
}

/// The parameters of a query while it is built.
#[derive(Debug, Default)]
pub struct Parameters(Vec<Parameter>);

impl Parameters {
    /// An element.
    pub fn element<S: Sort>(&mut self, name: &'static str) -> Element<S> {
        Element::new(declare(&mut self.0, name, ParameterKind::Element(S::NAME)))
    }
}

/// A method while it is built; its effects are those of [`Effect`].
#[derive(Debug)]
pub struct Call(Method, Effect);

impl Call {
    /// A parameter: an element that the caller chooses.
    pub fn element<S: Sort>(&mut self, name: &'static str) -> Element<S> {
        Element::new(declare(&mut self.0.parameters, name, ParameterKind::Element(S::NAME)))
    }

    /// A parameter: an element that no other call of this method names, ever. Each replica chooses among its own
    /// ([`crate::Type::owns`]), and the guards must refuse one that was used; the derivation proves that they do.
    pub fn fresh<S: Sort>(&mut self, name: &'static str) -> Element<S> {
        self.0.unique = vec![self.0.parameters.len()];
        self.element(name)
    }

    /// A parameter: a number from 0 to 2^32 - 1.
    pub fn amount(&mut self, name: &'static str) -> Number {
        Number(declare(&mut self.0.parameters, name, ParameterKind::Amount))
    }

    /// A parameter: a number of at most 2^32 - 1 in magnitude.
    pub fn integer(&mut self, name: &'static str) -> Number {
        Number(declare(&mut self.0.parameters, name, ParameterKind::Integer))
    }

    /// A parameter that the checking replica fills in: a time stamp of its own that exceeds `clock`. No two calls
    /// have the same stamp and the same elements as parameters declared before.
    pub fn stamp(&mut self, name: &'static str, clock: Number) -> Number {
        let is_element = |&index: &usize| matches!(self.0.parameters[index].kind, ParameterKind::Element(_));
        let count = self.0.parameters.len();
        self.0.unique = (0..count).filter(is_element).chain([count]).collect();
        Number(declare(&mut self.0.parameters, name, ParameterKind::Stamp(clock.0)))
    }

    /// A parameter that the checking replica fills in from its own state.
    pub fn observed(&mut self, name: &'static str, value: Number) -> Number {
        Number(declare(&mut self.0.parameters, name, ParameterKind::Observed(value.0)))
    }

    /// The call may be made only if this holds. `name` says it in words.
    pub fn require(&mut self, name: &'static str, formula: Formula) {
        self.0.guards.push(Named { name, formula: formula.0 });
    }

    /// How the calls of one replica combine: declare the bulk method's parameters and effects.
    ///
    /// # Panics
    /// If the folds do not go together: at most one key; a union alone; carried values only with a latest.
    pub fn summary(&mut self, build: impl FnOnce(&mut Bulk)) {
        let mut bulk = Bulk { parameters: vec![], effect: Effect::default() };
        build(&mut bulk);
        let count = |fold| bulk.parameters.iter().filter(|parameter| parameter.fold == fold).count();
        assert!(count(Fold::Key) <= 1, "a summary has at most one key");
        assert!(count(Fold::Latest) <= 1, "at most one value decides which call is the latest");
        assert!(count(Fold::Carried) == 0 || count(Fold::Latest) == 1, "what is carried needs a latest");
        assert!(count(Fold::Union) == 0 || bulk.parameters.len() == 1, "a union stands alone");
        self.0.summary = Some(Summary { parameters: bulk.parameters, updates: bulk.effect.updates });
    }
}

impl Deref for Call {
    type Target = Effect;
    fn deref(&self) -> &Effect {
        &self.1
    }
}

impl DerefMut for Call {
    fn deref_mut(&mut self) -> &mut Effect {
        &mut self.1
    }
}

/// A bulk method while it is built; its effects are those of [`Effect`].
#[derive(Debug)]
pub struct Bulk {
    parameters: Vec<BulkParameter>,
    effect: Effect,
}

impl Bulk {
    /// There is one summary for each of these elements.
    pub fn key<S: Sort>(&mut self, name: &'static str, single: &Element<S>) -> Element<S> {
        let kind = ParameterKind::Element(S::NAME);
        Element::new(self.declare(name, kind, single.expression.clone(), Fold::Key))
    }

    /// The sum of what the calls contribute, which must not be negative.
    pub fn sum(&mut self, name: &'static str, single: impl Into<Number>) -> Number {
        Number(self.declare(name, ParameterKind::Total, single.into().0, Fold::Sum))
    }

    /// The set of the elements that the calls name.
    pub fn union<S: Sort>(&mut self, name: &'static str, single: &Element<S>) -> Elements<S> {
        let kind = ParameterKind::Elements(S::NAME);
        self.declare(name, kind, single.expression.clone(), Fold::Union);
        Elements { parameter: self.parameters.len() - 1, sort: std::marker::PhantomData }
    }

    /// The largest of the calls' values, which must not be negative.
    pub fn latest(&mut self, name: &'static str, single: Number) -> Number {
        Number(self.declare(name, ParameterKind::Total, single.0, Fold::Latest))
    }

    /// The value of the call that has the latest.
    pub fn carried(&mut self, name: &'static str, single: Number) -> Number {
        Number(self.declare(name, ParameterKind::Integer, single.0, Fold::Carried))
    }

    fn declare(
        &mut self,
        name: &'static str,
        kind: ParameterKind,
        single: Expression,
        fold: Fold,
    ) -> Expression {
        self.parameters.push(BulkParameter { parameter: Parameter { name, kind }, single, fold });
        assert!(self.parameters.len() <= PARAMETERS_MAX, "too many parameters");
        Expression::Parameter(self.parameters.len() - 1)
    }
}

impl Deref for Bulk {
    type Target = Effect;
    fn deref(&self) -> &Effect {
        &self.effect
    }
}

impl DerefMut for Bulk {
    fn deref_mut(&mut self) -> &mut Effect {
        &mut self.effect
    }
}

/// A parameter of a bulk method that is a set.
#[derive(Clone, Copy, Debug)]
pub struct Elements<S> {
    parameter: usize,
    sort: std::marker::PhantomData<fn() -> S>,
}

/// Effect of a call, under construction.
#[derive(Debug, Default)]
pub struct Effect {
    updates: Vec<Update>,
}

impl Effect {
    /// The scalar becomes `value`.
    pub fn set(&mut self, scalar: Scalar, value: Number) {
        self.at(scalar.field, vec![], value.0);
    }

    /// `amount` is added to the scalar.
    pub fn add(&mut self, scalar: Scalar, amount: Number) {
        self.set(scalar, scalar.get() + amount);
    }

    /// `amount` is taken from the scalar.
    pub fn subtract(&mut self, scalar: Scalar, amount: Number) {
        self.set(scalar, scalar.get() - amount);
    }

    /// The element is in the set.
    pub fn insert<S>(&mut self, set: Set<S>, element: &Element<S>) {
        self.at(set.field, vec![element.expression.clone()], Expression::Boolean(true));
    }

    /// The element is in the set if it was before, or if the condition holds.
    pub fn insert_if<S>(&mut self, set: Set<S>, element: &Element<S>, condition: Formula) {
        let value = set.contains(element) | condition;
        self.at(set.field, vec![element.expression.clone()], value.0);
    }

    /// Adds all elements of the parameter to the set.
    pub fn insert_all<S>(&mut self, set: Set<S>, elements: Elements<S>) {
        self.updates.push(Update::Union { field: set.field, parameter: elements.parameter });
    }

    /// The element is not in the set.
    pub fn remove<S>(&mut self, set: Set<S>, element: &Element<S>) {
        self.at(set.field, vec![element.expression.clone()], Expression::Boolean(false));
    }

    /// The pair is in the relation.
    pub fn insert_pair<A, B>(&mut self, relation: Relation<A, B>, first: &Element<A>, second: &Element<B>) {
        let indices = vec![first.expression.clone(), second.expression.clone()];
        self.at(relation.field, indices, Expression::Boolean(true));
    }

    /// The array holds `value` for the element.
    pub fn set_at<S>(&mut self, array: Array<S>, element: &Element<S>, value: Number) {
        self.at(array.field, vec![element.expression.clone()], value.0);
    }

    /// `amount` is added to what the array holds for the element.
    pub fn add_at<S>(&mut self, array: Array<S>, element: &Element<S>, amount: Number) {
        self.set_at(array, element, array.at(element) + amount);
    }

    /// `amount` is taken from what the array holds for the element.
    pub fn subtract_at<S>(&mut self, array: Array<S>, element: &Element<S>, amount: Number) {
        self.set_at(array, element, array.at(element) - amount);
    }

    fn at(&mut self, field: usize, indices: Vec<Expression>, value: Expression) {
        self.updates.push(Update::At { field, indices, value });
    }
}

fn declare(parameters: &mut Vec<Parameter>, name: &'static str, kind: ParameterKind) -> Expression {
    parameters.push(Parameter { name, kind });
    Expression::Parameter(parameters.len() - 1)
}
