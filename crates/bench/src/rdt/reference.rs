//! What the check of a run must know of a data type, from its definition.
//!
//! A step changes a few fields at a few elements, so its invariant is looked at there only: in each part of the invariant, the
//! variables at which it reads what the method writes are replaced by the method's own parameters. That leaves
//! a formula over the parameters, which is compiled with the type as one more query for each method. Where a part has another form
//! than "for every …" over reads at its variables, the whole part is kept.

use std::sync::Arc;

use weft_check::replicated::{Call, Contained, METHODS_MAX, Specification};
use weft_rdt::definition::{Definition, Method, ParameterKind, Query, Update};
use weft_rdt::expression::Expression;
use weft_rdt::{Bounds, Category, MethodSet, Object, Type, VerdictError, types, verdict};

/// States of at most so many words are compared whole at every step, larger ones where the step has touched them.
const COMPARED_WHOLE: usize = 64;

/// Fields, and the parameters that say at which elements.
type Places = Vec<(usize, Vec<usize>)>;

/// A type, and how its calls travel.
#[derive(Clone, Debug)]
pub struct Subject {
    kind: Arc<Type>,
    /// The first of the queries for the invariant; that of method *m* is *m* further.
    invariants: usize,
    /// Of each method: what it writes. None: anything.
    written: Vec<Option<Places>>,
    /// Methods whose calls travel as summaries.
    summaries: MethodSet,
    /// Nothing is ever sent twice.
    is_faultless: bool,
}

/// The stream of all calls that travel as summaries.
pub const SUMMARIES: u8 = METHODS_MAX as u8 - 2;

/// The stream of all other calls without a group.
pub const ENTRIES: u8 = METHODS_MAX as u8 - 1;

impl Subject {
    /// The shipped type of this name, with universes of these sizes. All methods that can be reduced are.
    ///
    /// # Errors
    /// There is no such type.
    pub fn shipped(name: &str, bounds: &Bounds) -> Result<Self, VerdictError> {
        let unknown = || VerdictError::NoType(name.into());
        let mut definition = types::by_name(name).ok_or_else(unknown)?;
        let verdicts = verdict::shipped()?;
        let verdict = verdicts.get(name).ok_or_else(unknown)?;
        let invariants = definition.queries.len();
        let touched: Vec<Query> =
            definition.methods.iter().map(|method| touched_invariant(&definition, method)).collect();
        definition.queries.extend(touched);
        let kind = Type::new(definition, verdict, bounds)?;
        let reducible = |method: &usize| kind.coordination(*method).category == Category::Reducible;
        let summaries = (0..kind.method_count()).filter(reducible).collect();
        let written = kind.definition().methods.iter().map(written).collect();
        Ok(Self { kind, invariants, written, summaries, is_faultless: true })
    }

    /// The same with only these methods' calls summarized, in a run in which something may be sent twice unless it is faultless.
    #[must_use]
    pub fn with_summaries(mut self, summaries: MethodSet, is_faultless: bool) -> Self {
        (self.summaries, self.is_faultless) = (summaries, is_faultless);
        self
    }

    /// The type, for engines too.
    pub const fn kind(&self) -> &Arc<Type> {
        &self.kind
    }

    /// How many queries the type has of its own.
    pub const fn queries(&self) -> usize {
        self.invariants
    }

    /// What a restored replica has, from the counts of its engine: summarized calls and others by origin, and calls of each group.
    pub fn contained(&self, summaries: &[u64], entries: &[u64], groups: &[u64]) -> Contained {
        let of = |stream, counts: &[u64]| -> Vec<(usize, u8, u64)> {
            let counts = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            counts.map(|(node, count)| (node, stream, *count)).collect()
        };
        let streams = [of(SUMMARIES, summaries), of(ENTRIES, entries)].concat();
        Contained { streams, groups: groups[..self.kind.group_count()].to_vec() }
    }
}

/// Where a method writes: fields, and the parameters at which.
fn written(method: &Method) -> Option<Places> {
    let parameter = |index: &Expression| match index {
        Expression::Parameter(parameter) => Some(*parameter),
        _ => None,
    };
    let place = |update: &Update| match update {
        Update::At { field, indices, .. } => {
            Some((*field, indices.iter().map(parameter).collect::<Option<Vec<_>>>()?))
        }
        Update::Union { .. } => None,
    };
    method.updates.iter().map(place).collect()
}

/// The invariant where a call of the method has touched it.
fn touched_invariant(definition: &Definition, method: &Method) -> Query {
    let mut parts = Vec::new();
    for named in &definition.invariant {
        let mut variables = Vec::new();
        let mut body = &named.formula;
        while let Expression::Every { variable, body: inner, sort } = body {
            variables.push((*variable, *sort));
            body = inner;
        }
        match written(method).and_then(|places| instances(&variables, body, &places)) {
            Some(instances) => parts.extend(instances),
            None => parts.push(named.formula.clone()),
        }
    }
    Query {
        name: method.name,
        parameters: method.parameters.clone(),
        answer: Expression::All(parts),
        numeric: false,
    }
}

/// The instances of "for every `variables`: `body`" that writing these places may make false; none if that cannot be told.
fn instances(
    variables: &[(&'static str, &'static str)],
    body: &Expression,
    places: &[(usize, Vec<usize>)],
) -> Option<Vec<Expression>> {
    let mut reads = Vec::new();
    collect_reads(body, &mut reads)?;
    let mut instances = Vec::new();
    for (field, parameters) in places {
        for (_, indices) in reads.iter().filter(|(read, _)| read == field) {
            let mut instance = body.clone();
            for (variable, parameter) in indices.iter().zip(parameters) {
                replace(&mut instance, variable, *parameter);
            }
            for (variable, sort) in variables.iter().rev().filter(|(variable, _)| !indices.contains(variable))
            {
                instance = Expression::Every { variable, sort, body: Box::new(instance) };
            }
            if !instances.contains(&instance) {
                instances.push(instance);
            }
        }
    }
    Some(instances)
}

/// All fields that an expression reads, each at variables; none if it reads elsewhere, or quantifies.
fn collect_reads(expression: &Expression, reads: &mut Vec<(usize, Vec<&'static str>)>) -> Option<()> {
    match expression {
        Expression::Read { field, indices } => {
            let variable = |index: &Expression| match index {
                Expression::Variable(name) => Some(*name),
                _ => None,
            };
            reads.push((*field, indices.iter().map(variable).collect::<Option<Vec<_>>>()?));
            Some(())
        }
        Expression::Every { .. } | Expression::Some { .. } => None,
        other => parts(other).into_iter().try_for_each(|part| collect_reads(part, reads)),
    }
}

fn parts(expression: &Expression) -> Vec<&Expression> {
    match expression {
        Expression::Not(one) => vec![one],
        Expression::All(all) | Expression::Any(all) => all.iter().collect(),
        Expression::Same(first, second)
        | Expression::Less(first, second)
        | Expression::AtMost(first, second)
        | Expression::Add(first, second)
        | Expression::Subtract(first, second) => vec![first, second],
        Expression::If(condition, then, otherwise) => vec![condition, then, otherwise],
        Expression::Every { body, .. } | Expression::Some { body, .. } => vec![body],
        Expression::Read { indices, .. } => indices.iter().collect(),
        Expression::Boolean(_)
        | Expression::Number(_)
        | Expression::Parameter(_)
        | Expression::Variable(_) => Vec::new(),
    }
}

/// Puts a parameter in the place of a variable.
fn replace(expression: &mut Expression, name: &str, parameter: usize) {
    let both = |first: &mut Expression, second: &mut Expression| {
        replace(first, name, parameter);
        replace(second, name, parameter);
    };
    match expression {
        Expression::Variable(variable) if *variable == name => *expression = Expression::Parameter(parameter),
        Expression::Not(one) => replace(one, name, parameter),
        Expression::All(all) | Expression::Any(all) => {
            all.iter_mut().for_each(|part| replace(part, name, parameter));
        }
        Expression::Same(first, second)
        | Expression::Less(first, second)
        | Expression::AtMost(first, second)
        | Expression::Add(first, second)
        | Expression::Subtract(first, second) => both(first, second),
        Expression::If(condition, then, otherwise) => {
            both(condition, then);
            replace(otherwise, name, parameter);
        }
        Expression::Every { body, .. } | Expression::Some { body, .. } => replace(body, name, parameter),
        Expression::Read { indices, .. } => {
            indices.iter_mut().for_each(|index| replace(index, name, parameter));
        }
        Expression::Boolean(_)
        | Expression::Number(_)
        | Expression::Parameter(_)
        | Expression::Variable(_) => {}
    }
}

impl Specification for Subject {
    type State = Object;

    fn initial(&self) -> Object {
        Object::new(&self.kind)
    }

    fn group(&self, method: u8) -> Option<usize> {
        self.kind.coordination(method as usize).group
    }

    fn stream(&self, method: u8) -> u8 {
        if self.summaries.contains(method as usize) { SUMMARIES } else { ENTRIES }
    }

    fn is_exact(&self) -> bool {
        self.is_faultless || self.summaries.is_empty()
    }

    fn depends(&self, method: u8, on: u8) -> bool {
        let on = on as usize;
        on < self.kind.method_count()
            && self.kind.coordination(on).group.is_none()
            && self.kind.coordination(method as usize).dependencies.contains(on)
    }

    fn filled_in(&self, method: u8) -> u8 {
        let parameters = self.kind.definition().methods[method as usize].parameters.iter().enumerate();
        let filled = parameters.filter(|(_, parameter)| {
            matches!(parameter.kind, ParameterKind::Stamp(_) | ParameterKind::Observed(_))
        });
        filled.fold(0, |set, (index, _)| set | 1 << index)
    }

    fn permissible(&self, state: &Object, call: &Call) -> bool {
        state.permissible(call.method as usize, &call.arguments)
    }

    fn apply(&self, state: &mut Object, call: &Call) {
        state.apply(call.method as usize, &call.arguments);
    }

    fn query(&self, state: &Object, query: &Call) -> i64 {
        state.query(query.method as usize, &query.arguments)
    }

    fn broken(&self, state: &Object, touched: Option<&Call>) -> Option<String> {
        let holds = match touched {
            Some(call) => state.query(self.invariants + call.method as usize, &call.arguments) != 0,
            None => state.invariant(),
        };
        (!holds).then(|| state.broken().collect::<Vec<_>>().join(", and that "))
    }

    fn same(&self, state: &Object, reference: &Object, touched: Option<&Call>) -> bool {
        let touched = touched.filter(|_| self.kind.words() > COMPARED_WHOLE);
        let places = touched.and_then(|call| Some((call, self.written[call.method as usize].as_ref()?)));
        let Some((call, places)) = places else { return state == reference };
        places.iter().all(|(field, parameters)| {
            let mut at = [0; 4];
            for (index, parameter) in at.iter_mut().zip(parameters) {
                *index = call.arguments[*parameter] as usize;
            }
            let at = &at[..parameters.len()];
            state.field(*field, at) == reference.field(*field, at)
        })
    }

    fn describe(&self, call: &Call) -> String {
        let method = &self.kind.definition().methods[call.method as usize];
        let arguments = method.parameters.iter().zip(call.arguments);
        let arguments: Vec<String> =
            arguments.map(|(parameter, value)| format!("{} {value}", parameter.name)).collect();
        format!("{}({})", method.name, arguments.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Random;

    /// What touches nothing else says the same as the whole invariant, if that held before.
    #[test]
    fn the_invariant_at_what_was_touched_is_the_invariant() {
        for name in types::NAMES {
            let subject = Subject::shipped(name, &Bounds::uniform(5)).unwrap();
            let mut random = Random::new(3, 0);
            let (mut broke, mut held) = (0, 0);
            let mut state = subject.initial();
            for _ in 0..20_000 {
                let method = random.below(subject.kind.method_count() as u64) as usize;
                let mut call = Call { method: method as u8, arguments: [0; 4] };
                for argument in &mut call.arguments {
                    *argument = random.below(5) as i64 - i64::from(random.below(8) == 0);
                }
                let parameters = subject.kind.definition().methods[method].parameters.len();
                call.arguments[parameters..].fill(0);
                if !subject.kind.admits(method, &call.arguments) {
                    continue;
                }
                // Whether it is permissible or not: the invariant shall break.
                let mut next = state.clone();
                next.apply(method, &call.arguments);
                let whole = subject.broken(&next, None);
                assert_eq!(subject.broken(&next, Some(&call)), whole, "{name}: {}", subject.describe(&call));
                if whole.is_none() {
                    (state, held) = (next, held + 1);
                } else {
                    broke += 1;
                }
            }
            let has_invariant = !subject.kind.definition().invariant.is_empty();
            let never_breaks = ["lww-register", "ycsb"].contains(&name);
            assert!(held > 100 && (broke > 0) == (has_invariant && !never_breaks), "{name}: {held} {broke}");
        }
    }

    #[test]
    fn large_states_are_compared_where_they_were_touched() {
        for name in types::NAMES {
            let subject = Subject::shipped(name, &Bounds::uniform(200)).unwrap();
            let [mut first, mut second] = [subject.initial(), subject.initial()];
            let mut call = Call { method: 0, arguments: [7, 3, 0, 0] };
            call.arguments[subject.kind.definition().methods[0].parameters.len()..].fill(0);
            second.prepare(1, 0, &mut call.arguments);
            second.apply(0, &call.arguments);
            assert!(!subject.same(&first, &second, Some(&call)), "{name}");
            first.apply(0, &call.arguments);
            assert!(subject.same(&first, &second, Some(&call)), "{name}");
        }
    }
}
