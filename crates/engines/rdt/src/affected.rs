//! Determines which parts of the invariant must be checked after an effect, if the invariant held before.
//!
//! An invariant about all elements is a conjunction of instances. An effect can change an instance only if
//! the instance reads a value that the effect writes. If all reads of the formula are indexed by its own
//! variables, binding the variables to the indices of the update gives these instances. An invariant of
//! another form is checked as a whole.

use crate::definition::{Definition, Update};
use crate::expression::Expression;

/// Formulas over the parameters of an effect. If the invariant held before the effect, it holds afterwards
/// exactly if they all hold.
pub(crate) fn affected_conjuncts(definition: &Definition, updates: &[Update]) -> Vec<Expression> {
    let mut found = vec![];
    for part in &definition.invariant {
        let instances = instances(&part.formula, updates);
        // Two updates may give the same instance.
        for instance in instances.unwrap_or_else(|| vec![part.formula.clone()]) {
            if !found.contains(&instance) {
                found.push(instance);
            }
        }
    }
    found
}

/// The instances of a formula that updates can change; `None` if they cannot be determined.
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
                // The variable is bound to two indices. The binding would need a condition that both are
                // equal.
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

/// Collects the fields that a formula reads, with the variables that index them; `None` if an index is not a
/// variable, or if the formula has quantifiers.
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

/// The formula, which has no quantifiers, with its variables replaced by terms.
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
