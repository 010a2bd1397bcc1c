//! What is left of the invariant to be checked after an effect, if it held before.
//!
//! An invariant that says something of all elements is a conjunction of instances. An instance changes only if it
//! reads a place that the effect wrote. If the reads of an instance are all indexed by its own variables, those
//! instances are found by binding the variables to the indices of the update. An invariant of another form is looked
//! at as a whole.

use crate::definition::{Definition, Update};
use crate::expression::Expression;

/// Formulas over the parameters of an effect that together say whether the invariant holds after it, if it did before.
pub(crate) fn near(definition: &Definition, updates: &[Update]) -> Vec<Expression> {
    let mut found = vec![];
    for part in &definition.invariant {
        let instances = instances(&part.formula, updates);
        // Two updates may lead to the same instance.
        for instance in instances.unwrap_or_else(|| vec![part.formula.clone()]) {
            if !found.contains(&instance) {
                found.push(instance);
            }
        }
    }
    found
}

/// The instances of a formula that updates can change; `None` if they cannot be told apart.
fn instances(formula: &Expression, updates: &[Update]) -> Option<Vec<Expression>> {
    let mut variables = vec![];
    let mut body = formula;
    while let Expression::Every { variable, sort, body: inner } = body {
        variables.push((*variable, *sort));
        body = inner;
    }
    let mut reads = vec![];
    collect(body, &mut reads)?;
    let mut instances = vec![];
    for update in updates {
        let (written, places) = match update {
            Update::At { field, indices, .. } => (*field, Some(indices)),
            Update::Union { field, .. } => (*field, None),
        };
        for (field, read_at) in &reads {
            if *field != written {
                continue;
            }
            let mut bound = vec![];
            for (variable, place) in read_at.iter().zip(places?) {
                // One variable at two indices: the binding would have to say that both are equal.
                if bound.iter().any(|(name, _)| name == variable) {
                    return None;
                }
                bound.push((*variable, place));
            }
            let mut instance = substitute(body, &bound);
            for (variable, sort) in variables.iter().rev() {
                if !bound.iter().any(|(name, _)| name == variable) {
                    instance = Expression::Every { variable, sort, body: Box::new(instance) };
                }
            }
            instances.push(instance);
        }
    }
    Some(instances)
}

/// The fields that a formula reads and the variables that they are indexed by; `None` if an index is anything else,
/// or if the formula has quantifiers.
fn collect(expression: &Expression, reads: &mut Vec<(usize, Vec<&'static str>)>) -> Option<()> {
    if let Expression::Read { field, indices } = expression {
        let variable = |index: &Expression| match index {
            Expression::Variable(name) => Some(*name),
            _ => None,
        };
        reads.push((*field, indices.iter().map(variable).collect::<Option<_>>()?));
        return Some(());
    }
    if matches!(expression, Expression::Every { .. } | Expression::Some { .. }) {
        return None;
    }
    expression.parts().into_iter().try_for_each(|part| collect(part, reads))
}

/// The formula, which has no quantifiers, with terms in place of variables.
fn substitute(expression: &Expression, bound: &[(&'static str, &Expression)]) -> Expression {
    if let Expression::Variable(name) = expression {
        let term = bound.iter().find(|(variable, _)| variable == name);
        return term.map_or_else(|| expression.clone(), |(_, term)| (*term).clone());
    }
    let mut changed = expression.clone();
    for part in changed.parts_mut() {
        *part = substitute(part, bound);
    }
    changed
}
