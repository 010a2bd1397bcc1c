//! The definition of a data type: fields, an invariant, methods with guards and effects, and queries.
//!
//! A method is *permissible* in a state if its guards hold there and the invariant holds afterwards. The
//! guards must suffice for that: for each method, the derivation proves that the invariant and the guards
//! together preserve the invariant. A call is checked where it is issued (a conflicting call at the leader of
//! its group). Then it takes effect at every replica without another check. The derivation finds the
//! coordination that makes it permissible there too.
//!
//! Effects are simultaneous: all values are computed in the state before the call. If two effects write the
//! same place, the later one wins.

use std::ops::{Deref, DerefMut};

use crate::expression::{Array, Element, Expression, Formula, Number, Relation, Scalar, Set, Sort};

/// The most parameters of a method or query.
pub const PARAMETERS_MAX: usize = 4;

/// The most methods of a type.
pub const METHODS_MAX: usize = 16;

/// A data type.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The type's name: lower case, words joined by hyphens.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// The sorts that fields and parameters mention, in the order of first mention.
    pub sorts: Vec<&'static str>,
    /// The state. At first all sets are empty and all numbers are 0.
    pub fields: Vec<Field>,
    /// The invariant, which holds in every state of every replica: named conjuncts.
    pub invariant: Vec<Named>,
    /// The calls that change the state.
    pub methods: Vec<Method>,
    /// The calls that read the state.
    pub queries: Vec<Query>,
}

/// A part of the state: a function from indices to truth values or numbers.
#[derive(Clone, Debug)]
pub struct Field {
    /// Name of the field.
    pub name: &'static str,
    /// The sorts of its indices: none for a scalar, one for a set or an array, two for a relation.
    pub indices: Vec<&'static str>,
    /// Whether the values are numbers. Otherwise they are truth values.
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
    /// Parameters whose combination is different in any two calls of this method, at all replicas and at all
    /// times. Empty if there are no such parameters.
    pub unique: Vec<usize>,
    /// The preconditions of a call.
    pub guards: Vec<Named>,
    /// The effect of a call.
    pub updates: Vec<Update>,
    /// How the calls of one replica combine into a summary, if they do.
    pub summary: Option<Summary>,
}

/// A call that reads the state.
#[derive(Clone, Debug)]
pub struct Query {
    /// Name of the query.
    pub name: &'static str,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// The answer.
    pub answer: Expression,
    /// Whether the answer is a number. Otherwise it is a truth value.
    pub numeric: bool,
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Name of the parameter.
    pub name: &'static str,
    /// Its range, and whether the caller or the replica chooses the value.
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
    /// A time stamp. The checking replica fills in a stamp of its own that exceeds this number
    /// ([`crate::Stamp`]).
    Stamp(Expression),
    /// A number that the checking replica reads from its state, so that the effect is the same at all
    /// replicas.
    Observed(Expression),
    /// A total of amounts; not negative. Only in summaries.
    Total,
    /// A set of elements of the sort. Only in summaries.
    Elements(&'static str),
}

/// A change of the state.
#[derive(Clone, Debug)]
pub enum Update {
    /// The field gets the value at these indices.
    At {
        /// The field.
        field: usize,
        /// The indices.
        indices: Vec<Expression>,
        /// The new value of the field at these indices.
        value: Expression,
    },
    /// All elements of a parameter of kind [`ParameterKind::Elements`] are added to the set.
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
    /// The parameters of the bulk method. Each has the value that a single call contributes, and a rule to
    /// combine two values.
    pub parameters: Vec<BulkParameter>,
    /// The effect of the bulk method.
    pub updates: Vec<Update>,
}

/// A parameter of a bulk method.
#[derive(Clone, Debug)]
pub struct BulkParameter {
    /// Name and range.
    pub parameter: Parameter,
    /// What a single call contributes, as an expression over its parameters. For a set, the one element.
    pub single: Expression,
    /// How the values of two calls combine.
    pub fold: Fold,
}

/// How two values of a bulk parameter combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// The values do not combine: each element has a summary of its own.
    Key,
    /// The sum of both values.
    Sum,
    /// The union of both sets.
    Union,
    /// The larger value wins, together with the [`Fold::Carried`] values of its call.
    Latest,
    /// The value belongs to the [`Fold::Latest`] value of the same call.
    Carried,
}

impl Definition {
    /// The number of the method with this name.
    pub fn method(&self, name: &str) -> Option<usize> {
        self.methods.iter().position(|method| method.name == name)
    }

    /// The number of the query with this name.
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

    /// Declares a number.
    pub fn scalar(&mut self, name: &'static str) -> Scalar {
        Scalar::new(self.field(name, vec![], true))
    }

    /// Declares a set.
    pub fn set<S: Sort>(&mut self, name: &'static str) -> Set<S> {
        Set::new(self.field(name, vec![S::NAME], false))
    }

    /// Declares a relation.
    pub fn relation<A: Sort, B: Sort>(&mut self, name: &'static str) -> Relation<A, B> {
        Relation::new(self.field(name, vec![A::NAME, B::NAME], false))
    }

    /// Declares an array of numbers.
    pub fn array<S: Sort>(&mut self, name: &'static str) -> Array<S> {
        Array::new(self.field(name, vec![S::NAME], true))
    }

    /// Adds a conjunct to the invariant.
    pub fn invariant(&mut self, name: &'static str, formula: Formula) {
        self.0.invariant.push(Named { name, formula: formula.0 });
    }

    /// Declares a call that changes the state.
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

    /// Declares a query whose answer is a truth value.
    pub fn query_whether(&mut self, name: &'static str, build: impl FnOnce(&mut Parameters) -> Formula) {
        let mut parameters = Parameters::default();
        let answer = build(&mut parameters).0;
        self.query(name, parameters, answer, false);
    }

    /// Declares a query whose answer is a number.
    pub fn query_number(&mut self, name: &'static str, build: impl FnOnce(&mut Parameters) -> Number) {
        let mut parameters = Parameters::default();
        let answer = build(&mut parameters).0;
        self.query(name, parameters, answer, true);
    }

    /// The finished definition.
    ///
    /// # Panics
    /// If there are more than [`METHODS_MAX`] methods, or more than [`PARAMETERS_MAX`] parameters of one.
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

/// The parameters of a query, under construction.
#[derive(Debug, Default)]
pub struct Parameters(Vec<Parameter>);

impl Parameters {
    /// Declares a parameter: an element.
    pub fn element<S: Sort>(&mut self, name: &'static str) -> Element<S> {
        Element::new(declare(&mut self.0, name, ParameterKind::Element(S::NAME)))
    }
}

/// A method under construction. It dereferences to its [`Effect`].
#[derive(Debug)]
pub struct Call(Method, Effect);

impl Call {
    /// Declares a parameter: an element that the caller chooses.
    pub fn element<S: Sort>(&mut self, name: &'static str) -> Element<S> {
        Element::new(declare(&mut self.0.parameters, name, ParameterKind::Element(S::NAME)))
    }

    /// Declares a parameter: an element that no other call of this method ever names. Each replica uses
    /// elements of its own ([`crate::Type::owns`]). The guards must refuse an element that was used; the
    /// derivation proves that they do.
    pub fn fresh<S: Sort>(&mut self, name: &'static str) -> Element<S> {
        self.0.unique = vec![self.0.parameters.len()];
        self.element(name)
    }

    /// Declares a parameter: a number from 0 to 2^32 - 1.
    pub fn amount(&mut self, name: &'static str) -> Number {
        Number(declare(&mut self.0.parameters, name, ParameterKind::Amount))
    }

    /// Declares a parameter: a number of at most 2^32 - 1 in magnitude.
    pub fn integer(&mut self, name: &'static str) -> Number {
        Number(declare(&mut self.0.parameters, name, ParameterKind::Integer))
    }

    /// Declares a parameter that the checking replica fills in: a time stamp of its own that exceeds `clock`.
    /// No two calls have the same stamp together with the same elements in the parameters declared before.
    pub fn stamp(&mut self, name: &'static str, clock: Number) -> Number {
        let is_element = |&index: &usize| matches!(self.0.parameters[index].kind, ParameterKind::Element(_));
        let count = self.0.parameters.len();
        self.0.unique = (0..count).filter(is_element).chain([count]).collect();
        Number(declare(&mut self.0.parameters, name, ParameterKind::Stamp(clock.0)))
    }

    /// Declares a parameter that the checking replica fills in from its state.
    pub fn observed(&mut self, name: &'static str, value: Number) -> Number {
        Number(declare(&mut self.0.parameters, name, ParameterKind::Observed(value.0)))
    }

    /// Adds a guard: the call is permissible only if `formula` holds. `name` describes the guard in words.
    pub fn require(&mut self, name: &'static str, formula: Formula) {
        self.0.guards.push(Named { name, formula: formula.0 });
    }

    /// Declares how the calls of one replica combine: `build` declares the bulk method's parameters and
    /// effects.
    ///
    /// # Panics
    /// If the folds cannot be combined: at most one key and one latest value are allowed, a union must be the
    /// only parameter, and carried values need a latest value.
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

/// A bulk method under construction. It dereferences to its [`Effect`].
#[derive(Debug)]
pub struct Bulk {
    parameters: Vec<BulkParameter>,
    effect: Effect,
}

impl Bulk {
    /// Declares a key: each of these elements has a summary of its own.
    pub fn key<S: Sort>(&mut self, name: &'static str, single: &Element<S>) -> Element<S> {
        let kind = ParameterKind::Element(S::NAME);
        Element::new(self.declare(name, kind, single.expression.clone(), Fold::Key))
    }

    /// Declares the sum of the calls' values, which must not be negative.
    pub fn sum(&mut self, name: &'static str, single: impl Into<Number>) -> Number {
        Number(self.declare(name, ParameterKind::Total, single.into().0, Fold::Sum))
    }

    /// Declares the set of the elements that the calls name.
    pub fn union<S: Sort>(&mut self, name: &'static str, single: &Element<S>) -> Elements<S> {
        let kind = ParameterKind::Elements(S::NAME);
        self.declare(name, kind, single.expression.clone(), Fold::Union);
        Elements { parameter: self.parameters.len() - 1, sort: std::marker::PhantomData }
    }

    /// Declares the largest of the calls' values, which must not be negative.
    pub fn latest(&mut self, name: &'static str, single: Number) -> Number {
        Number(self.declare(name, ParameterKind::Total, single.0, Fold::Latest))
    }

    /// Declares the value of the call that has the latest value.
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

/// A parameter of a bulk method whose value is a set.
#[derive(Clone, Copy, Debug)]
pub struct Elements<S> {
    parameter: usize,
    sort: std::marker::PhantomData<fn() -> S>,
}

/// The effect of a call, under construction.
#[derive(Debug, Default)]
pub struct Effect {
    updates: Vec<Update>,
}

impl Effect {
    /// Sets the scalar to `value`.
    pub fn set(&mut self, scalar: Scalar, value: Number) {
        self.at(scalar.field, vec![], value.0);
    }

    /// Adds `amount` to the scalar.
    pub fn add(&mut self, scalar: Scalar, amount: Number) {
        self.set(scalar, scalar.get() + amount);
    }

    /// Subtracts `amount` from the scalar.
    pub fn subtract(&mut self, scalar: Scalar, amount: Number) {
        self.set(scalar, scalar.get() - amount);
    }

    /// Adds the element to the set.
    pub fn insert<S>(&mut self, set: Set<S>, element: &Element<S>) {
        self.at(set.field, vec![element.expression.clone()], Expression::Boolean(true));
    }

    /// Adds the element to the set if the condition holds.
    pub fn insert_if<S>(&mut self, set: Set<S>, element: &Element<S>, condition: Formula) {
        let value = set.contains(element) | condition;
        self.at(set.field, vec![element.expression.clone()], value.0);
    }

    /// Adds all elements of the parameter to the set.
    pub fn insert_all<S>(&mut self, set: Set<S>, elements: Elements<S>) {
        self.updates.push(Update::Union { field: set.field, parameter: elements.parameter });
    }

    /// Removes the element from the set.
    pub fn remove<S>(&mut self, set: Set<S>, element: &Element<S>) {
        self.at(set.field, vec![element.expression.clone()], Expression::Boolean(false));
    }

    /// Adds the pair to the relation.
    pub fn insert_pair<A, B>(&mut self, relation: Relation<A, B>, first: &Element<A>, second: &Element<B>) {
        let indices = vec![first.expression.clone(), second.expression.clone()];
        self.at(relation.field, indices, Expression::Boolean(true));
    }

    /// Sets the array's number for the element to `value`.
    pub fn set_at<S>(&mut self, array: Array<S>, element: &Element<S>, value: Number) {
        self.at(array.field, vec![element.expression.clone()], value.0);
    }

    /// Adds `amount` to the array's number for the element.
    pub fn add_at<S>(&mut self, array: Array<S>, element: &Element<S>, amount: Number) {
        self.set_at(array, element, array.at(element) + amount);
    }

    /// Subtracts `amount` from the array's number for the element.
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
