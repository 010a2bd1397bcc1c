//! The claims that must be proved about a definition, as questions to a solver, and the verdict that follows
//! from the answers.
//!
//! Every question is a claim about an arbitrary state *s* in which the invariant *I* holds, and about
//! arbitrary arguments. *P(a, s)* says that call *a* is permissible in *s*: its guards hold, and *I* holds
//! after it.
//!
//! | claim | meaning | consequence if it is not proved |
//! |---|---|---|
//! | [`Question::Initial`] | *I* holds initially | the definition is wrong |
//! | [`Question::Keeps`] | *I(s)* and the guards of *a* imply *I(a(s))* | the definition is wrong |
//! | [`Question::Once`] | after *a* with unique arguments, the same call is refused | the definition is wrong |
//! | [`Question::Commute`] | *P* of both in *s* and after each other: both orders give the same state | the methods conflict |
//! | [`Question::Stays`] | *P(a, s)* and *P(b, s)* imply *P(a, b(s))* | the methods conflict |
//! | [`Question::Free`] | *P(a, s)* and *P(b, a(s))* imply *P(b, s)* | *b* depends on *a* |
//! | [`Question::Summary`] | see [`Law`] | the method is not summarizable |
//!
//! The claims are those of Hamsaz (Houshmand and Lesani 2019), with *I(s)* as a premise of each, and with
//! guards as a part of permissibility. A claim is proved only if the solver answers "unsatisfiable" to its
//! negation. `docs/data-types.md` explains why these claims suffice.

use std::collections::BTreeMap;
use std::fmt;

use crate::definition::{BulkParameter, Definition, Fold, Method, Parameter, ParameterKind, Summary};
use crate::object::{Arguments, Bounds, Object, Type};
use crate::smt::{Script, Universe, apply, join, tuples};
use crate::verdict::{MethodVerdict, TypeVerdict, category};

/// The sizes of the universes in which a counterexample is searched, in this order.
pub const EXAMPLE_SIZES: [usize; 3] = [1, 2, 3];

/// A claim about a definition. Methods are numbered as in the definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The invariant holds in the initial state.
    Initial,
    /// The guards of a method suffice to preserve the invariant.
    Keeps(usize),
    /// A method with a unique element refuses the same call a second time. If the method also depends on
    /// nothing, no call makes it permissible again.
    Once(usize),
    /// Two calls of these methods commute.
    Commute(usize, usize),
    /// The first method's call stays permissible after one of the second's.
    Stays(usize, usize),
    /// If the first method's call is permissible after one of the second's, it was permissible before: it
    /// does not depend on it.
    Free(usize, usize),
    /// A law of the method's summary.
    Summary(usize, Law),
}

/// The laws that make a summary correct. *M* is the bulk method and *e(x)* the contribution of call *x*. ⊕
/// combines contributions, and ⊖ is the difference that [`Object::absorb`] applies. *A*, *B*, *C* are
/// contributions of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// *M(e(x))* has the effect of *x*, and *e(x)* is in range.
    Single,
    /// *M* of zero changes nothing.
    Zero,
    /// *M(A)* followed by *M(B)* has the effect of *M(A ⊕ B)*.
    Compose,
    /// ⊕ is associative.
    Associate,
    /// *M((A ⊕ B) ⊖ A)* is *M(B)*. For contributions that are only added.
    Exact,
    /// *M(A)* twice has the effect of *M(A)* once. This law and the next two replace [`Law::Exact`] for
    /// contributions that may be applied repeatedly.
    Repeat,
    /// If *M(A)* would change nothing, it would still change nothing after any permissible call of this method.
    Stable(usize),
    /// If *M(A)* would change nothing, *M((A ⊕ B) ⊖ A)* is *M(B)*.
    Resume,
}

/// The solver's answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The claim holds.
    Proved,
    /// The claim does not hold. A counterexample is given if a small one was found.
    Refuted(Option<Example>),
    /// The solver could not decide the claim.
    Unknown,
}

impl Answer {
    /// Whether the claim holds.
    pub const fn is_proved(&self) -> bool {
        matches!(self, Self::Proved)
    }
}

/// All questions about a definition, in the order in which they are reported.
pub fn questions(definition: &Definition) -> Vec<Question> {
    let methods = 0..definition.methods.len();
    let mut questions = vec![Question::Initial];
    questions.extend(methods.clone().map(Question::Keeps));
    for a in methods.clone() {
        questions.extend((a..methods.end).map(|b| Question::Commute(a, b)));
        questions.extend(methods.clone().map(|b| Question::Stays(a, b)));
        questions.extend(methods.clone().map(|b| Question::Free(a, b)));
    }
    for (number, method) in definition.methods.iter().enumerate() {
        if is_fresh(method) {
            questions.push(Question::Once(number));
        }
        if let Some(summary) = &method.summary {
            let adds = |parameter: &BulkParameter| matches!(parameter.fold, Fold::Key | Fold::Sum);
            let mut laws = vec![Law::Single, Law::Zero, Law::Compose, Law::Associate];
            if summary.parameters.iter().all(adds) {
                laws.push(Law::Exact);
            } else {
                laws.push(Law::Repeat);
                laws.extend(methods.clone().map(Law::Stable));
                laws.push(Law::Resume);
            }
            questions.extend(laws.into_iter().map(|law| Question::Summary(number, law)));
        }
    }
    questions
}

fn is_fresh(method: &Method) -> bool {
    let kind = method.unique.last().map(|&last| &method.parameters[last].kind);
    matches!(kind, Some(ParameterKind::Element(_)))
}

/// The verdict that follows from the answers to all [`questions`]. Unproved claims count as refuted.
pub fn verdict(definition: &Definition, answers: &[(Question, Answer)]) -> TypeVerdict {
    let name = |method: usize| definition.methods[method].name.to_owned();
    let mut verdicts: Vec<_> = definition
        .methods
        .iter()
        .map(|method| MethodVerdict {
            category: category(false, false, false),
            conflicts: BTreeMap::new(),
            depends: vec![],
            summarizable: method.summary.is_some(),
            unknown: vec![],
        })
        .collect();
    let conflict = |verdicts: &mut [MethodVerdict], a: usize, b: usize, reason: &str| {
        for (one, other) in [(a, b), (b, a)] {
            let reasons = verdicts[one].conflicts.entry(name(other)).or_default();
            if !reasons.iter().any(|known| known == reason) {
                reasons.push(reason.into());
            }
        }
    };
    for (question, answer) in answers.iter().filter(|(_, answer)| !answer.is_proved()) {
        let about = match *question {
            Question::Initial | Question::Keeps(_) | Question::Once(_) => continue,
            Question::Commute(a, b) => {
                conflict(&mut verdicts, a, b, "the states differ");
                a
            }
            Question::Stays(a, b) => {
                conflict(&mut verdicts, a, b, &format!("{} may no longer be permissible", name(a)));
                a
            }
            Question::Free(b, a) => {
                verdicts[b].depends.push(name(a));
                b
            }
            Question::Summary(method, _) => {
                verdicts[method].summarizable = false;
                method
            }
        };
        if *answer == Answer::Unknown {
            verdicts[about].unknown.push(question.describe(definition));
        }
    }
    for verdict in &mut verdicts {
        verdict.category =
            category(!verdict.conflicts.is_empty(), !verdict.depends.is_empty(), verdict.summarizable);
    }
    definition.methods.iter().map(|method| method.name.to_owned()).zip(verdicts).collect()
}

/// Defects of a definition: unproved claims that must hold for every definition before it may run.
pub fn defects(definition: &Definition, answers: &[(Question, Answer)]) -> Vec<String> {
    let is_defect = |question: &Question| match *question {
        Question::Initial | Question::Keeps(_) | Question::Once(_) => true,
        // A call with a unique element must not be permissible twice: it refuses itself afterwards (`Once`),
        // and no other call may make it permissible again (`Free`).
        Question::Free(method, _) => is_fresh(&definition.methods[method]),
        _ => false,
    };
    let failed = answers.iter().filter(|(question, answer)| !answer.is_proved() && is_defect(question));
    failed.map(|(question, _)| question.describe(definition)).collect()
}

impl Question {
    /// The claim in words.
    pub fn describe(&self, definition: &Definition) -> String {
        let name = |method: usize| definition.methods[method].name;
        match *self {
            Self::Initial => "the invariant holds in the initial state".into(),
            Self::Keeps(method) => format!("the guards of {} keep the invariant", name(method)),
            Self::Once(method) => format!("{} is refused when it is repeated", name(method)),
            Self::Commute(a, b) => format!("{} and {} commute", name(a), name(b)),
            Self::Stays(a, b) => format!("{} stays permissible after {}", name(a), name(b)),
            Self::Free(b, a) => format!("{} does not depend on {}", name(b), name(a)),
            Self::Summary(method, law) => {
                let law = match law {
                    Law::Single => "a summary of one call is that call".into(),
                    Law::Zero => "an empty summary changes nothing".into(),
                    Law::Compose => "two summaries are the summary of both".into(),
                    Law::Associate => "summaries combine in any grouping".into(),
                    Law::Exact => "the difference of summaries is what is new".into(),
                    Law::Repeat => "a summary may be taken in again".into(),
                    Law::Stable(other) => format!("a summary stays taken in after {}", name(other)),
                    Law::Resume => "a longer summary brings what is new".into(),
                };
                format!("{}: {law}", name(method))
            }
        }
    }

    /// The SMT-LIB script that proves the claim: the solver answers `unsat` if the claim holds in universes
    /// of every size.
    pub fn proof(&self, definition: &Definition) -> String {
        self.script(definition, Universe::Any)
    }

    /// The SMT-LIB script that searches a counterexample in universes of `size` elements. If the solver
    /// answers `sat`, the values that [`Example::read`] reads follow.
    pub fn example(&self, definition: &Definition, size: usize) -> String {
        self.script(definition, Universe::Of(size))
    }

    fn script(&self, definition: &Definition, universe: Universe) -> String {
        let mut script = Script::new(definition, universe);
        let method = |number: usize| &definition.methods[number];
        let claim = |script: &mut Script<'_>, a: usize, b: usize, kind: Self| {
            let (a, b) = (method(a), method(b));
            script.call("a", &a.parameters);
            script.call("b", &b.parameters);
            if std::ptr::eq(a, b) {
                script.differ("a", "b", a);
            }
            let invariant = script.invariant("s");
            script.assert(&invariant);
            let a_first = script.permissible("s", "a", a);
            let b_first = script.permissible("s", "b", b);
            let a_second = script.permissible("s+b", "a", a);
            let b_second = script.permissible("s+a", "b", b);
            match kind {
                Self::Commute(..) => {
                    [a_first, b_first, a_second, b_second].iter().for_each(|formula| script.assert(formula));
                    script.equal("s+a+b", "s+b+a")
                }
                Self::Stays(..) => {
                    [a_first, b_first].iter().for_each(|formula| script.assert(formula));
                    a_second
                }
                _ => {
                    // The claim is that `a` does not depend on `b`.
                    [b_first, a_second].iter().for_each(|formula| script.assert(formula));
                    a_first
                }
            }
        };
        let formula = match *self {
            Self::Initial => {
                for field in &definition.fields {
                    let zero = if field.numeric { "0" } else { "false" };
                    let is_zero = script.for_all(&field.indices, |indices| {
                        format!("(= {} {zero})", apply(&format!("s/{}", field.name), indices))
                    });
                    script.assert(&is_zero);
                }
                script.invariant("s")
            }
            Self::Keeps(number) => {
                let method = method(number);
                script.call("a", &method.parameters);
                let premises = [script.invariant("s"), script.guards("s", "a", method)];
                premises.iter().for_each(|premise| script.assert(premise));
                let next = script.after("s", "a", &method.parameters, &method.updates);
                script.invariant(&next)
            }
            Self::Once(number) => {
                let method = method(number);
                script.call("a", &method.parameters);
                let premises = [script.invariant("s"), script.permissible("s", "a", method)];
                premises.iter().for_each(|premise| script.assert(premise));
                format!("(not {})", script.permissible("s+a", "a", method))
            }
            Self::Commute(a, b) | Self::Stays(a, b) | Self::Free(a, b) => claim(&mut script, a, b, *self),
            Self::Summary(number, law) => {
                let method = method(number);
                let summary = method.summary.as_ref().expect("asked of summaries only");
                law.claim(&mut script, definition, method, summary)
            }
        };
        script.claim(&formula)
    }

    /// The methods of the calls in an example of this question, in order.
    fn calls(&self) -> Vec<usize> {
        match *self {
            Self::Initial | Self::Summary(..) => vec![],
            Self::Keeps(a) | Self::Once(a) => vec![a],
            Self::Commute(a, b) | Self::Stays(a, b) | Self::Free(a, b) => vec![a, b],
        }
    }
}

impl Law {
    fn claim(
        self,
        script: &mut Script<'_>,
        definition: &Definition,
        method: &Method,
        summary: &Summary,
    ) -> String {
        let bulk: Vec<Parameter> =
            summary.parameters.iter().map(|parameter| parameter.parameter.clone()).collect();
        // All contributions are for the key of A.
        let key = summary.parameters.iter().find(|parameter| parameter.fold == Fold::Key);
        let free: Vec<Parameter> = summary
            .parameters
            .iter()
            .filter(|parameter| parameter.fold != Fold::Key)
            .map(|parameter| parameter.parameter.clone())
            .collect();
        let contribution = |script: &mut Script<'_>, name: &str| {
            script.call(name, &free);
            if let Some(key) = key {
                define_key(script, key, name, &format!("A.{}", key.parameter.name));
            }
        };
        let after = |script: &mut Script<'_>, state: &str, call: &str| {
            script.after(state, call, &bulk, &summary.updates)
        };
        if self != Self::Single {
            script.call("A", &bulk);
        }
        match self {
            Self::Single => {
                script.call("a", &method.parameters);
                let mut in_range = vec![];
                for parameter in &summary.parameters {
                    let single = script.over_call(&parameter.single, "a", &method.parameters);
                    let name = format!("E.{}", parameter.parameter.name);
                    match &parameter.parameter.kind {
                        ParameterKind::Elements(sort) => {
                            script.define(&name, &format!("(i {sort})"), "Bool", &format!("(= i {single})"));
                        }
                        ParameterKind::Element(sort) => script.define(&name, "", sort, &single),
                        _ => {
                            script.define(&name, "", "Int", &single);
                            match parameter.fold {
                                Fold::Sum => in_range.push(format!("(<= 0 {name})")),
                                // A latest value of zero means that there is no call.
                                Fold::Latest => in_range.push(format!("(< 0 {name})")),
                                _ => {}
                            }
                        }
                    }
                }
                let summarized = after(script, "s", "E");
                let called = script.after("s", "a", &method.parameters, &method.updates);
                in_range.push(script.equal(&summarized, &called));
                join("and", in_range)
            }
            Self::Zero => {
                let invariant = script.invariant("s");
                script.assert(&invariant);
                for parameter in &summary.parameters {
                    let name = format!("A.{}", parameter.parameter.name);
                    match &parameter.parameter.kind {
                        ParameterKind::Element(_) => {}
                        ParameterKind::Elements(sort) => {
                            let empty =
                                script.for_all(&[sort], |indices| format!("(not {})", apply(&name, indices)));
                            script.assert(&empty);
                        }
                        _ => script.assert(&format!("(= {name} 0)")),
                    }
                }
                let next = after(script, "s", "A");
                script.equal("s", &next)
            }
            Self::Compose => {
                contribution(script, "B");
                combine(script, summary, "A", "B", "C");
                let first = after(script, "s", "A");
                let both = after(script, &first, "B");
                let combined = after(script, "s", "C");
                script.equal(&both, &combined)
            }
            Self::Associate => {
                contribution(script, "B");
                contribution(script, "C");
                combine(script, summary, "A", "B", "AB");
                combine(script, summary, "AB", "C", "ABc");
                combine(script, summary, "B", "C", "BC");
                combine(script, summary, "A", "BC", "aBC");
                let equal = summary.parameters.iter().map(|parameter| {
                    let name = parameter.parameter.name;
                    match parameter.parameter.kind {
                        ParameterKind::Elements(sort) => script.for_all(&[sort], |indices| {
                            let one = apply(&format!("ABc.{name}"), indices);
                            let other = apply(&format!("aBC.{name}"), indices);
                            format!("(= {one} {other})")
                        }),
                        _ => format!("(= ABc.{name} aBC.{name})"),
                    }
                });
                join("and", equal.collect())
            }
            Self::Exact => {
                contribution(script, "B");
                combine(script, summary, "A", "B", "C");
                difference(script, summary, "C", "A", "D");
                let new = after(script, "s", "D");
                let rest = after(script, "s", "B");
                script.equal(&new, &rest)
            }
            Self::Repeat => {
                let once = after(script, "s", "A");
                let twice = after(script, &once, "A");
                script.equal(&once, &twice)
            }
            Self::Stable(other) => {
                let other = &definition.methods[other];
                script.call("b", &other.parameters);
                let taken = after(script, "s", "A");
                let premises =
                    [script.invariant("s"), script.permissible("s", "b", other), script.equal("s", &taken)];
                premises.iter().for_each(|premise| script.assert(premise));
                let again = after(script, "s+b", "A");
                script.equal("s+b", &again)
            }
            Self::Resume => {
                contribution(script, "B");
                combine(script, summary, "A", "B", "C");
                difference(script, summary, "C", "A", "D");
                let taken = after(script, "s", "A");
                let premise = script.equal("s", &taken);
                script.assert(&premise);
                let new = after(script, "s", "D");
                let rest = after(script, "s", "B");
                script.equal(&new, &rest)
            }
        }
    }
}

fn define_key(script: &mut Script<'_>, key: &BulkParameter, call: &str, term: &str) {
    let ParameterKind::Element(sort) = key.parameter.kind else { unreachable!("a key is an element") };
    script.define(&format!("{call}.{}", key.parameter.name), "", sort, term);
}

/// Defines `to` as `one` ⊕ `other`, as [`Type::merge`] computes it.
fn combine(script: &mut Script<'_>, summary: &Summary, one: &str, other: &str, to: &str) {
    let latest = summary.parameters.iter().find(|parameter| parameter.fold == Fold::Latest);
    let replace = latest.map(|latest| {
        let name = latest.parameter.name;
        format!("(< {one}.{name} {other}.{name})")
    });
    let choose = |name: &str| {
        let replace = replace.as_ref().expect("what is carried has a latest");
        format!("(ite {replace} {other}.{name} {one}.{name})")
    };
    for parameter in &summary.parameters {
        let name = parameter.parameter.name;
        let target = format!("{to}.{name}");
        match (parameter.fold, &parameter.parameter.kind) {
            (Fold::Key, _) => define_key(script, parameter, to, &format!("{one}.{name}")),
            (Fold::Union, ParameterKind::Elements(sort)) => {
                let both = format!("(or ({one}.{name} i) ({other}.{name} i))");
                script.define(&target, &format!("(i {sort})"), "Bool", &both);
            }
            (Fold::Sum, _) => {
                script.define(&target, "", "Int", &format!("(+ {one}.{name} {other}.{name})"));
            }
            _ => script.define(&target, "", "Int", &choose(name)),
        }
    }
}

/// Defines `to` as `longer` ⊖ `shorter`, as [`Object::absorb`] computes it.
fn difference(script: &mut Script<'_>, summary: &Summary, longer: &str, shorter: &str, to: &str) {
    for parameter in &summary.parameters {
        let name = parameter.parameter.name;
        let target = format!("{to}.{name}");
        match (parameter.fold, &parameter.parameter.kind) {
            (Fold::Key, _) => define_key(script, parameter, to, &format!("{longer}.{name}")),
            (Fold::Union, ParameterKind::Elements(sort)) => {
                script.define(&target, &format!("(i {sort})"), "Bool", &format!("({longer}.{name} i)"));
            }
            (Fold::Sum, _) => {
                script.define(&target, "", "Int", &format!("(- {longer}.{name} {shorter}.{name})"));
            }
            _ => script.define(&target, "", "Int", &format!("{longer}.{name}")),
        }
    }
}

/// A counterexample to a claim about calls: a state, and the arguments of one or two calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// Number of elements of each sort.
    pub size: usize,
    /// The values of each field in lexicographic order of the indices. Each is a number, or 0 or 1.
    pub fields: Vec<Vec<i64>>,
    /// The calls: the number of the method, and the arguments.
    pub calls: Vec<(usize, Arguments)>,
}

/// The solver's output is not a list of the requested values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the solver's values cannot be read at {0:?}")]
pub struct Unreadable(String);

impl Example {
    /// Parses the values that the solver prints after `sat` for [`Question::example`]. `None` if the question
    /// is about summaries, for which no example is shown.
    ///
    /// # Errors
    /// If the text is not a list of the requested values.
    pub fn read(
        question: &Question,
        definition: &Definition,
        size: usize,
        text: &str,
    ) -> Result<Option<Self>, Unreadable> {
        if matches!(question, Question::Summary(..)) {
            return Ok(None);
        }
        let mut values = values(text)?.into_iter();
        let mut next = || values.next().ok_or_else(|| Unreadable("the end".into()));
        let mut example = Self { size, fields: vec![], calls: vec![] };
        for field in &definition.fields {
            let count = size.pow(field.indices.len() as u32);
            example.fields.push((0..count).map(|_| next()).collect::<Result<_, _>>()?);
        }
        for method in question.calls() {
            let mut arguments = Arguments::default();
            for argument in &mut arguments[..definition.methods[method].parameters.len()] {
                *argument = next()?;
            }
            example.calls.push((method, arguments));
        }
        Ok(Some(example))
    }

    /// The example's state, as an object of a type that is good for evaluation only.
    pub fn object(&self, definition: &Definition) -> Object {
        let kind = Type::underived(definition.clone(), &Bounds::uniform(self.size));
        let mut object = Object::new(&kind);
        for (number, field) in definition.fields.iter().enumerate() {
            for (indices, value) in tuples(field.indices.len(), self.size).iter().zip(&self.fields[number]) {
                object.set_field(number, indices, *value);
            }
        }
        object
    }

    /// Evaluates the example, and returns whether the claim fails in it. This uses the evaluator of the
    /// replicas, not the solver.
    pub fn violates(&self, question: &Question, definition: &Definition) -> bool {
        let before = self.object(definition);
        let permissible = |object: &Object, call: &(usize, Arguments)| {
            object.permissible(call.0, &call.1) && after(object, call).invariant()
        };
        let unique = |a: &(usize, Arguments), b: &(usize, Arguments)| {
            let unique = &definition.methods[a.0].unique;
            a.0 != b.0 || unique.is_empty() || unique.iter().any(|&index| a.1[index] != b.1[index])
        };
        match (question, self.calls.as_slice()) {
            (Question::Initial, []) => before.words().iter().all(|&word| word == 0) && !before.invariant(),
            (Question::Keeps(_), [a]) => {
                before.invariant() && before.permissible(a.0, &a.1) && !after(&before, a).invariant()
            }
            (Question::Once(_), [a]) => {
                before.invariant() && permissible(&before, a) && permissible(&after(&before, a), a)
            }
            (question, [a, b]) if before.invariant() && unique(a, b) => {
                let (after_a, after_b) = (after(&before, a), after(&before, b));
                let (a_first, b_first) = (permissible(&before, a), permissible(&before, b));
                let (a_second, b_second) = (permissible(&after_b, a), permissible(&after_a, b));
                match question {
                    Question::Commute(..) => {
                        let premises = a_first && b_first && a_second && b_second;
                        premises && after(&after_a, b) != after(&after_b, a)
                    }
                    Question::Stays(..) => a_first && b_first && !a_second,
                    Question::Free(..) => b_first && a_second && !a_first,
                    _ => false,
                }
            }
            _ => false,
        }
    }

    /// The example in the type's own terms, one line each for the state, the calls and the violation.
    pub fn tell(&self, question: &Question, definition: &Definition) -> Vec<String> {
        let before = self.object(definition);
        let mut lines = vec![format!("in      {}", state(&before))];
        let call = |call: &(usize, Arguments)| show_call(definition, call);
        let outcome = |object: &Object, made: &(usize, Arguments)| {
            let refusing: Vec<_> = object.refusing(made.0, &made.1).collect();
            let next = after(object, made);
            let broken: Vec<_> = next.broken().collect();
            match (refusing.is_empty(), broken.is_empty()) {
                (false, _) => format!("{} is refused: not \"{}\"", call(made), refusing.join("\", \"")),
                (_, false) => format!("{} breaks \"{}\"", call(made), broken.join("\", \"")),
                _ => format!("{} gives {}", call(made), state(&next)),
            }
        };
        match (question, self.calls.as_slice()) {
            (Question::Commute(..), [a, b]) => {
                for (first, second) in [(a, b), (b, a)] {
                    let end = after(&after(&before, first), second);
                    lines.push(format!("{}, then {}: {}", call(first), call(second), state(&end)));
                }
            }
            (Question::Stays(..), [a, b]) => {
                lines.push(format!(
                    "both are permissible; after {}, {}",
                    call(b),
                    outcome(&after(&before, b), a)
                ));
            }
            (Question::Free(..), [b, a]) => {
                lines.push(format!("after {} it is permissible; without, {}", call(a), outcome(&before, b)));
            }
            (Question::Once(..), [a]) => lines.push(format!("{} is permissible twice", call(a))),
            (_, [a]) => lines.push(outcome(&before, a)),
            _ => {}
        }
        lines
    }
}

fn after(object: &Object, (method, arguments): &(usize, Arguments)) -> Object {
    let mut object = object.clone();
    object.apply(*method, arguments);
    object
}

/// The name of an element: the sort's name in lower case, and a number.
fn element(sort: &str, number: i64) -> String {
    format!("{}{number}", sort.to_lowercase())
}

fn show_call(definition: &Definition, (method, arguments): &(usize, Arguments)) -> String {
    let method = &definition.methods[*method];
    let arguments = method.parameters.iter().zip(arguments).map(|(parameter, &value)| match parameter.kind {
        ParameterKind::Element(sort) => element(sort, value),
        _ => value.to_string(),
    });
    format!("{}({})", method.name, arguments.collect::<Vec<_>>().join(", "))
}

fn state(object: &Object) -> String {
    let definition = object.kind().definition();
    let mut parts = vec![];
    for (number, field) in definition.fields.iter().enumerate() {
        let size = field.indices.first().map_or(1, |sort| object.kind().elements(sort));
        let mut entries = vec![];
        for indices in tuples(field.indices.len(), size) {
            let value = object.field(number, &indices);
            let names: Vec<_> = field
                .indices
                .iter()
                .zip(&indices)
                .map(|(sort, &index)| element(sort, index as i64))
                .collect();
            match (field.numeric, names.as_slice()) {
                (true, []) => entries.push(value.to_string()),
                (true, [name]) => entries.push(format!("{name}: {value}")),
                (_, names) if value == 1 => entries.push(names.join("-")),
                _ => {}
            }
        }
        let entries = entries.join(", ");
        parts.push(if field.indices.is_empty() {
            format!("{} {entries}", field.name)
        } else {
            format!("{} {{{entries}}}", field.name)
        });
    }
    parts.join(", ")
}

impl fmt::Display for Example {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a case with {} elements of each sort", self.size)
    }
}

/// Parses the values of `((term value) ...)`: numbers, truth values as 0 and 1, elements by number.
fn values(text: &str) -> Result<Vec<i64>, Unreadable> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    let mut tokens = spaced.split_whitespace().peekable();
    let unreadable = |token: Option<&str>| Unreadable(token.unwrap_or("the end").into());
    let mut values = vec![];
    let expect =
        |tokens: &mut std::iter::Peekable<std::str::SplitWhitespace<'_>>, wanted: &str| match tokens.next() {
            Some(token) if token == wanted => Ok(()),
            other => Err(unreadable(other)),
        };
    expect(&mut tokens, "(")?;
    while tokens.peek() == Some(&"(") {
        expect(&mut tokens, "(")?;
        // The term is a symbol, or an application without nesting.
        if tokens.next() == Some("(") {
            while tokens.next().ok_or_else(|| unreadable(None))? != ")" {}
        }
        let token = tokens.next().ok_or_else(|| unreadable(None))?;
        let number = |token: &str| token.parse::<i64>().map_err(|_| unreadable(Some(token)));
        values.push(match token {
            "true" => 1,
            "false" => 0,
            "(" => {
                expect(&mut tokens, "-")?;
                let magnitude = number(tokens.next().unwrap_or_default())?;
                expect(&mut tokens, ")")?;
                -magnitude
            }
            token => number(token.trim_start_matches(|c: char| c.is_ascii_alphabetic()))?,
        });
        expect(&mut tokens, ")")?;
    }
    expect(&mut tokens, ")")?;
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_case_that_refutes_the_claim_is_an_example() {
        let account = crate::types::by_name("account").expect("a listed type");
        let withdraw = account.method("withdraw").expect("its method");
        let twice = |balance, amount| Example {
            size: 1,
            fields: vec![vec![balance]],
            calls: vec![(withdraw, [amount, 0, 0, 0]); 2],
        };
        let stays = Question::Stays(withdraw, withdraw);
        assert!(twice(3, 2).violates(&stays, &account));
        assert!(!twice(4, 2).violates(&stays, &account), "both are covered");
        assert!(!twice(3, 4).violates(&stays, &account), "neither is permissible at first");
        assert!(!twice(-3, 0).violates(&stays, &account), "the invariant does not hold at first");
        assert!(!twice(3, 2).violates(&Question::Commute(withdraw, withdraw), &account));
        let told = twice(3, 2).tell(&stays, &account).join("\n");
        assert!(told.contains("withdraw(2) is refused: not \"the balance covers the amount\""), "{told}");
    }

    #[test]
    fn values_are_read_as_solvers_print_them() {
        let text = "((s/balance 3)\n (a.amount (- 12)) ((s/students Student0) false)\n ((s/e Course1 Student0) true)\n (a.student Student2))\n";
        assert_eq!(values(text), Ok(vec![3, -12, 0, 1, 2]));
        for wrong in ["", "(", "((a 1)", "((a x))", "(error \"line 3\")", "((a (+ 1)))"] {
            assert!(values(wrong).is_err(), "{wrong}");
        }
    }
}
