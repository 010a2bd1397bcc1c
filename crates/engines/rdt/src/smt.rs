//! Prints definitions as SMT-LIB 2.
//!
//! A state is one function per field, named `state/field`. `s` is the initial state of a question. `s+a` is
//! the state after call `a`; its functions are defined from those of `s`. The parameters of call `a` are
//! named `a.parameter`.
//!
//! For a proof, sorts are uninterpreted, so that it holds for universes of every size. For a counterexample
//! that can be shown, sorts have few elements, quantifiers are expanded, and numbers are small.

use std::fmt::Write;

use crate::definition::{Definition, Method, Named, Parameter, ParameterKind, Update};
use crate::expression::Expression;

/// The number of elements of each sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Universe {
    /// Any number.
    Any,
    /// This number for each sort.
    Of(usize),
}

/// The sort of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Integers.
    Integers,
    /// Signed words of this many bits, as gates compute.
    Words(usize),
}

impl Numbers {
    fn sort(self) -> String {
        match self {
            Self::Integers => "Int".into(),
            Self::Words(bits) => format!("(_ BitVec {bits})"),
        }
    }

    /// The operator for words in place of that for integers.
    fn operator(self, of_integers: &'static str) -> &'static str {
        match (self, of_integers) {
            (Self::Words(_), "<") => "bvslt",
            (Self::Words(_), "<=") => "bvsle",
            (Self::Words(_), "+") => "bvadd",
            (Self::Words(_), "-") => "bvsub",
            _ => of_integers,
        }
    }

    /// A literal.
    pub(crate) fn literal(self, value: i64) -> String {
        let (negate, magnitude) = match self {
            Self::Integers => ("-", value.unsigned_abs().to_string()),
            Self::Words(bits) => ("bvneg", format!("(_ bv{} {bits})", value.unsigned_abs())),
        };
        if value < 0 { format!("({negate} {magnitude})") } else { magnitude }
    }
}

/// Bits of an element if numbers are words.
const ELEMENT_BITS: usize = 4;

/// The largest magnitude of numbers in a counterexample.
const EXAMPLE_NUMBER_MAX: i64 = 6;

/// An SMT-LIB script under construction.
pub(crate) struct Script<'a> {
    definition: &'a Definition,
    universe: Universe,
    numbers: Numbers,
    text: String,
    /// Terms whose values make up the counterexample.
    observed: Vec<String>,
    /// States that are defined already.
    states: Vec<String>,
}

impl<'a> Script<'a> {
    /// A script about an arbitrary state `s` in which the invariant holds.
    pub(crate) fn new(definition: &'a Definition, universe: Universe) -> Self {
        Self::over(definition, universe, Numbers::Integers)
    }

    /// A script whose numbers have this sort.
    pub(crate) fn over(definition: &'a Definition, universe: Universe, numbers: Numbers) -> Self {
        let mut script = Self {
            definition,
            universe,
            numbers,
            text: String::new(),
            observed: vec![],
            states: vec!["s".into()],
        };
        for sort in &definition.sorts {
            match universe {
                Universe::Any => script.line(&format!("(declare-sort {sort} 0)")),
                // Words are all that a solver for words knows.
                Universe::Of(count) if numbers != Numbers::Integers => {
                    script.line(&format!("(define-sort {sort} () (_ BitVec {ELEMENT_BITS}))"));
                    for index in 0..count {
                        script.define(
                            &format!("{sort}{index}"),
                            "",
                            sort,
                            &format!("(_ bv{index} {ELEMENT_BITS})"),
                        );
                    }
                }
                Universe::Of(count) => {
                    let elements: Vec<_> = (0..count).map(|index| format!("({sort}{index})")).collect();
                    script.line(&format!("(declare-datatypes (({sort} 0)) (({})))", elements.join(" ")));
                }
            }
        }
        for field in &definition.fields {
            let sorts = field.indices.join(" ");
            let range = script.range(field.numeric);
            script.line(&format!("(declare-fun s/{} ({sorts}) {range})", field.name));
            for indices in script.tuples(&field.indices) {
                script.observe(apply(&format!("s/{}", field.name), &indices), field.numeric);
            }
        }
        script
    }

    /// Declares a call `name` with arbitrary arguments.
    pub(crate) fn call(&mut self, name: &str, parameters: &[Parameter]) {
        for Parameter { name: parameter, kind } in parameters {
            let constant = format!("{name}.{parameter}");
            let (sort, least) = match kind {
                ParameterKind::Element(sort) => (*sort, None),
                ParameterKind::Amount | ParameterKind::Total => ("Int", Some(0)),
                ParameterKind::Stamp(_) => ("Int", Some(1)),
                ParameterKind::Integer | ParameterKind::Observed(_) => ("Int", None),
                ParameterKind::Elements(sort) => {
                    self.line(&format!("(declare-fun {constant} ({sort}) Bool)"));
                    continue;
                }
            };
            self.line(&format!("(declare-const {constant} {sort})"));
            if let Some(least) = least {
                self.assert(&format!("(<= {least} {constant})"));
            }
            if sort == "Int" {
                self.observe(constant, true);
            } else {
                self.observed.push(constant);
            }
        }
    }

    /// Asserts that two calls of one method differ in their unique parameters.
    pub(crate) fn differ(&mut self, first: &str, second: &str, method: &Method) {
        let same = method.unique.iter().map(|&index| {
            let name = method.parameters[index].name;
            format!("(= {first}.{name} {second}.{name})")
        });
        let same = join("and", same.collect());
        if !method.unique.is_empty() {
            self.assert(&format!("(not {same})"));
        }
    }

    /// Defines a function of this name as a term.
    pub(crate) fn define(&mut self, name: &str, sorts: &str, range: &str, term: &str) {
        self.line(&format!("(define-fun {name} ({sorts}) {range} {term})"));
    }

    /// Defines the state after call `call`, with these updates, in state `from`.
    pub(crate) fn after(
        &mut self,
        from: &str,
        call: &str,
        parameters: &[Parameter],
        updates: &[Update],
    ) -> String {
        let to = format!("{from}+{call}");
        if self.states.contains(&to) {
            return to;
        }
        let scope = Scope { state: from, call, parameters };
        for (number, field) in self.definition.fields.iter().enumerate() {
            let variables: Vec<_> = (0..field.indices.len()).map(|index| format!("i{index}")).collect();
            let mut value = apply(&format!("{from}/{}", field.name), &variables);
            for update in updates {
                match update {
                    Update::At { field, indices, value: new } if *field == number => {
                        let here = indices.iter().zip(&variables).map(|(index, variable)| {
                            format!("(= {variable} {})", self.term(index, &scope, &mut vec![]))
                        });
                        let here: Vec<_> = here.collect();
                        let new = self.term(new, &scope, &mut vec![]);
                        value = match here.as_slice() {
                            [] => new,
                            _ => format!("(ite {} {new} {value})", join("and", here)),
                        };
                    }
                    Update::Union { field, parameter } if *field == number => {
                        let name = parameters[*parameter].name;
                        value = format!("(or {value} ({call}.{name} i0))");
                    }
                    _ => {}
                }
            }
            let arguments: Vec<_> = field
                .indices
                .iter()
                .zip(&variables)
                .map(|(sort, variable)| format!("({variable} {sort})"))
                .collect();
            let name = format!("{to}/{}", field.name);
            let range = self.range(field.numeric);
            self.define(&name, &arguments.join(" "), &range, &value);
        }
        self.states.push(to.clone());
        to
    }

    /// The invariant in a state, as a term.
    pub(crate) fn invariant(&self, state: &str) -> String {
        self.all(&self.definition.invariant, &Scope { state, call: "", parameters: &[] })
    }

    /// The guards of a method in a state, as a term.
    pub(crate) fn guards(&self, state: &str, call: &str, method: &Method) -> String {
        self.all(&method.guards, &Scope { state, call, parameters: &method.parameters })
    }

    /// The term for: a call is permissible in a state. Its guards hold, and the invariant holds afterwards.
    pub(crate) fn permissible(&mut self, state: &str, call: &str, method: &Method) -> String {
        let guards = self.guards(state, call, method);
        let next = self.after(state, call, &method.parameters, &method.updates);
        format!("(and {guards} {})", self.invariant(&next))
    }

    /// The term for: two states are equal.
    pub(crate) fn equal(&self, first: &str, second: &str) -> String {
        let mut equal = vec![];
        for field in &self.definition.fields {
            equal.push(self.for_all(&field.indices, |indices| {
                let [first, second] =
                    [first, second].map(|state| apply(&format!("{state}/{}", field.name), indices));
                format!("(= {first} {second})")
            }));
        }
        join("and", equal)
    }

    /// The term for: a formula holds for all elements of these sorts.
    pub(crate) fn for_all(&self, sorts: &[&str], body: impl Fn(&[String]) -> String) -> String {
        if self.universe != Universe::Any {
            return join("and", self.tuples(sorts).iter().map(|tuple| body(tuple)).collect());
        }
        let variables: Vec<_> = (0..sorts.len()).map(|index| format!("i{index}")).collect();
        let bound: Vec<_> =
            variables.iter().zip(sorts).map(|(name, sort)| format!("({name} {sort})")).collect();
        if sorts.is_empty() {
            body(&[])
        } else {
            format!("(forall ({}) {})", bound.join(" "), body(&variables))
        }
    }

    /// The term of an expression over the parameters of a call.
    pub(crate) fn over_call(&self, expression: &Expression, call: &str, parameters: &[Parameter]) -> String {
        self.term(expression, &Scope { state: "s", call, parameters }, &mut vec![])
    }

    /// The term for: no sum or difference in an expression over the parameters of a call overflows its words.
    pub(crate) fn exact(&self, expression: &Expression, call: &str, parameters: &[Parameter]) -> String {
        let mut found = vec![];
        self.sums(expression, &Scope { state: "s", call, parameters }, &mut vec![], &mut found);
        join("and", found)
    }

    /// Collects for each sum and difference in an expression the term that it does not overflow.
    fn sums(
        &self,
        expression: &Expression,
        scope: &Scope<'_>,
        bound: &mut Vec<(&'static str, String)>,
        found: &mut Vec<String>,
    ) {
        if let Expression::Every { variable, sort, body } | Expression::Some { variable, sort, body } =
            expression
        {
            for tuple in self.tuples(&[sort]) {
                bound.push((variable, tuple.concat()));
                self.sums(body, scope, bound, found);
                bound.pop();
            }
            return;
        }
        if let Expression::Add(first, second) | Expression::Subtract(first, second) = expression {
            let operator = if matches!(expression, Expression::Add(..)) { "bvadd" } else { "bvsub" };
            let [first, second] = [first, second].map(|part| self.term(part, scope, bound));
            found.push(no_overflow(operator, &first, &second));
        }
        expression.parts().into_iter().for_each(|part| self.sums(part, scope, bound, found));
    }

    pub(crate) fn assert(&mut self, formula: &str) {
        self.line(&format!("(assert {formula})"));
    }

    /// The finished script, which asks whether the claim follows from the assertions. If the universe is
    /// finite, it also asks for the values of the counterexample: those of the fields, then those of the
    /// calls in the order of [`Self::call`].
    pub(crate) fn claim(mut self, claim: &str) -> String {
        self.assert(&format!("(not {claim})"));
        self.line("(check-sat)");
        if self.universe != Universe::Any && !self.observed.is_empty() {
            let terms = self.observed.join(" ");
            self.line(&format!("(get-value ({terms}))"));
        }
        self.text
    }

    fn all(&self, parts: &[Named], scope: &Scope<'_>) -> String {
        join("and", parts.iter().map(|part| self.term(&part.formula, scope, &mut vec![])).collect())
    }

    /// Registers a term whose value a counterexample needs, and bounds it.
    fn observe(&mut self, term: String, numeric: bool) {
        if self.universe == Universe::Any || self.numbers != Numbers::Integers {
            return;
        }
        if numeric {
            let most = EXAMPLE_NUMBER_MAX;
            self.assert(&format!("(and (<= (- {most}) {term}) (<= {term} {most}))"));
        }
        self.observed.push(term);
    }

    fn term(
        &self,
        expression: &Expression,
        scope: &Scope<'_>,
        bound: &mut Vec<(&'static str, String)>,
    ) -> String {
        let mut many = |parts: &[&Expression]| -> Vec<String> {
            parts.iter().map(|part| self.term(part, scope, bound)).collect()
        };
        match expression {
            Expression::Boolean(value) => value.to_string(),
            Expression::Number(value) => self.numbers.literal(*value),
            Expression::Not(inner) => apply("not", &many(&[inner])),
            Expression::All(parts) => join("and", many(&parts.iter().collect::<Vec<_>>())),
            Expression::Any(parts) => join("or", many(&parts.iter().collect::<Vec<_>>())),
            Expression::Same(first, second) => apply("=", &many(&[first, second])),
            Expression::Less(first, second) => apply(self.numbers.operator("<"), &many(&[first, second])),
            Expression::AtMost(first, second) => apply(self.numbers.operator("<="), &many(&[first, second])),
            Expression::Add(first, second) => apply(self.numbers.operator("+"), &many(&[first, second])),
            Expression::Subtract(first, second) => apply(self.numbers.operator("-"), &many(&[first, second])),
            Expression::If(condition, then, otherwise) => apply("ite", &many(&[condition, then, otherwise])),
            Expression::Read { field, indices } => {
                let name = format!("{}/{}", scope.state, self.definition.fields[*field].name);
                apply(&name, &many(&indices.iter().collect::<Vec<_>>()))
            }
            Expression::Parameter(index) => format!("{}.{}", scope.call, scope.parameters[*index].name),
            Expression::Variable(name) => {
                let value = bound.iter().rev().find(|(variable, _)| variable == name);
                value.expect("a bound variable").1.clone()
            }
            Expression::Every { variable, sort, body } | Expression::Some { variable, sort, body } => {
                let every = matches!(expression, Expression::Every { .. });
                match self.universe {
                    Universe::Any => {
                        bound.push((variable, (*variable).into()));
                        let body = self.term(body, scope, bound);
                        bound.pop();
                        let quantifier = if every { "forall" } else { "exists" };
                        format!("({quantifier} (({variable} {sort})) {body})")
                    }
                    Universe::Of(count) => {
                        let instances = (0..count).map(|element| {
                            bound.push((variable, format!("{sort}{element}")));
                            let instance = self.term(body, scope, bound);
                            bound.pop();
                            instance
                        });
                        let instances = instances.collect();
                        join(if every { "and" } else { "or" }, instances)
                    }
                }
            }
        }
    }

    /// All tuples of elements of these sorts; none if the universe has any size.
    fn tuples(&self, sorts: &[&str]) -> Vec<Vec<String>> {
        let Universe::Of(count) = self.universe else { return vec![] };
        tuples(sorts.len(), count)
            .into_iter()
            .map(|tuple| tuple.iter().zip(sorts).map(|(index, sort)| format!("{sort}{index}")).collect())
            .collect()
    }

    fn range(&self, numeric: bool) -> String {
        if numeric { self.numbers.sort() } else { "Bool".into() }
    }

    pub(crate) fn line(&mut self, line: &str) {
        writeln!(self.text, "{line}").expect("a string takes everything");
    }
}

/// All tuples of `length` numbers below `count`, in lexicographic order.
pub(crate) fn tuples(length: usize, count: usize) -> Vec<Vec<usize>> {
    (0..length).fold(vec![vec![]], |tuples, _| {
        let longer = tuples.into_iter().flat_map(|tuple: Vec<usize>| {
            (0..count).map(move |element| tuple.iter().copied().chain([element]).collect())
        });
        longer.collect()
    })
}

/// The term for: a sum or difference of words is the same if it is computed with one bit more.
pub(crate) fn no_overflow(operator: &str, first: &str, second: &str) -> String {
    let wider = |word: &str| format!("((_ sign_extend 1) {word})");
    let same = wider(&format!("({operator} {first} {second})"));
    format!("(= {same} ({operator} {} {}))", wider(first), wider(second))
}

/// What an expression's fields and parameters refer to.
struct Scope<'a> {
    state: &'a str,
    call: &'a str,
    parameters: &'a [Parameter],
}

pub(crate) fn apply(function: &str, arguments: &[String]) -> String {
    if arguments.is_empty() { function.into() } else { format!("({function} {})", arguments.join(" ")) }
}

pub(crate) fn join(connective: &str, mut parts: Vec<String>) -> String {
    match parts.len() {
        0 => (connective == "and").to_string(),
        1 => parts.remove(0),
        _ => format!("({connective} {})", parts.join(" ")),
    }
}
