//! What a module can be asked to do.

use super::{Gates, expressions_of, names};
use crate::definition::{Definition, Fold, Method, Parameter, ParameterKind, Query, Summary, Update};
use crate::expression::Expression;

/// One operation on one method or query.
#[derive(Debug)]
pub(super) struct Action<'a> {
    pub(super) kind: Kind<'a>,
    /// Number of the method or query.
    pub(super) selector: usize,
    pub(super) name: &'static str,
    /// For each field in memory, the rows that it needs, in the order of the memory's ports.
    pub(super) places: Vec<Vec<Row>>,
}

/// The kinds of actions, with what they evaluate.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind<'a> {
    /// Checks a call and applies it, or only applies it.
    Update(&'a Method),
    /// Applies a summary.
    Absorb(&'a Summary),
    /// Adds a call to a summary.
    Fold(&'a Method, &'a Summary),
    /// Answers a query.
    Query(&'a Query),
}

/// A row of a memory, which an argument of the call selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The argument.
    pub(super) argument: usize,
    /// Whether the argument is an element of a set, whose rows have 64 elements each.
    pub(super) is_member: bool,
}

/// All actions of a type.
pub(super) fn all(gates: &Gates) -> Vec<Action<'_>> {
    let definition = &gates.definition;
    let mut actions = vec![];
    for (selector, method) in definition.methods.iter().enumerate() {
        let mut add = |kind| actions.push(Action::new(gates, kind, selector, method.name));
        add(Kind::Update(method));
        if let Some(summary) = &method.summary {
            add(Kind::Absorb(summary));
            add(Kind::Fold(method, summary));
        }
    }
    for (selector, query) in definition.queries.iter().enumerate() {
        actions.push(Action::new(gates, Kind::Query(query), selector, query.name));
    }
    actions
}

impl<'a> Action<'a> {
    fn new(gates: &Gates, kind: Kind<'a>, selector: usize, name: &'static str) -> Self {
        let mut action = Self { kind, selector, name, places: vec![vec![]; gates.definition.fields.len()] };
        let mut rows = vec![];
        for expression in action.expressions() {
            collect(&gates.definition, expression, &mut rows);
        }
        rows.extend(action.updates().iter().filter_map(|update| row_of_update(&gates.definition, update)));
        for (field, row) in rows {
            let in_memory = gates.fields.get(field).is_some_and(|plan| plan.in_memory);
            if in_memory && !action.places[field].contains(&row) {
                action.places[field].push(row);
            }
        }
        action
    }

    /// Whether it is the update by this method.
    pub(super) fn is_update_of(&self, method: usize) -> bool {
        matches!(self.kind, Kind::Update(_)) && self.selector == method
    }

    /// The operations and the name of the selector, as labels of a case.
    pub(super) fn label(&self) -> String {
        let selector = self.constant();
        let labels = match self.kind {
            Kind::Update(_) => vec!["RdtUpdate", "RdtApply"],
            Kind::Absorb(_) => vec!["RdtAbsorb"],
            Kind::Fold(..) => vec!["RdtFold"],
            Kind::Query(_) => vec!["RdtQuery"],
        };
        labels.iter().map(|label| format!("{{{label}, {selector}}}")).collect::<Vec<_>>().join(", ")
    }

    /// Name of the selector.
    pub(super) fn constant(&self) -> String {
        let kind = if matches!(self.kind, Kind::Query(_)) { "Query" } else { "Method" };
        format!("{kind}{}", names::camel(self.name))
    }

    /// Name of the block.
    pub(super) fn block(&self) -> String {
        let verb = match self.kind {
            Kind::Update(_) => "update",
            Kind::Absorb(_) => "absorb",
            Kind::Fold(..) => "fold",
            Kind::Query(_) => "query",
        };
        format!("{verb}_{}", names::snake(self.name))
    }

    /// The parameters that its expressions name.
    pub(super) fn parameters(&self) -> Vec<&'a Parameter> {
        match self.kind {
            Kind::Update(method) | Kind::Fold(method, _) => method.parameters.iter().collect(),
            Kind::Absorb(summary) => summary.parameters.iter().map(|bulk| &bulk.parameter).collect(),
            Kind::Query(query) => query.parameters.iter().collect(),
        }
    }

    /// Position in the call of the parameter that its expressions give this number. Before the words of a
    /// summary comes the number of the slot.
    pub(super) fn position(&self, parameter: usize) -> usize {
        match self.kind {
            Kind::Absorb(summary) => parameter + usize::from(!has_key(summary)),
            _ => parameter,
        }
    }

    pub(super) fn updates(&self) -> &'a [Update] {
        match self.kind {
            Kind::Update(method) => &method.updates,
            Kind::Absorb(summary) => &summary.updates,
            _ => &[],
        }
    }

    /// The ports of a memory whose rows it writes.
    pub(super) fn written_places(&self, definition: &Definition, field: usize) -> Vec<usize> {
        let rows: Vec<_> =
            self.updates().iter().filter_map(|update| row_of_update(definition, update)).collect();
        let ports = self.places[field].iter().enumerate();
        ports.filter(|(_, row)| rows.contains(&(field, **row))).map(|(port, _)| port).collect()
    }

    /// All expressions that it evaluates.
    pub(super) fn expressions(&self) -> Vec<&'a Expression> {
        let mut expressions = vec![];
        match self.kind {
            Kind::Update(method) => {
                expressions.extend(method.parameters.iter().filter_map(|parameter| match &parameter.kind {
                    ParameterKind::Stamp(clock) => Some(clock),
                    ParameterKind::Observed(value) => Some(value),
                    _ => None,
                }));
                expressions.extend(method.guards.iter().map(|guard| &guard.formula));
            }
            Kind::Fold(_, summary) => expressions.extend(summary.parameters.iter().map(|bulk| &bulk.single)),
            Kind::Query(query) => expressions.push(&query.answer),
            Kind::Absorb(_) => {}
        }
        expressions.extend(expressions_of(self.updates()));
        expressions
    }
}

/// Whether each element has a summary of its own.
pub(super) fn has_key(summary: &Summary) -> bool {
    summary.parameters.iter().any(|bulk| bulk.fold == Fold::Key)
}

/// Collects the rows that an expression reads.
fn collect(definition: &Definition, expression: &Expression, rows: &mut Vec<(usize, Row)>) {
    if let Expression::Read { field, indices } = expression
        && let Some(Expression::Parameter(argument)) = indices.first()
    {
        let is_member = is_set(definition, *field);
        rows.push((*field, Row { argument: *argument, is_member }));
    }
    expression.parts().into_iter().for_each(|part| collect(definition, part, rows));
}

/// The row that an update writes; none if it writes a scalar.
pub(super) fn row_of_update(definition: &Definition, update: &Update) -> Option<(usize, Row)> {
    match update {
        Update::At { field, indices, .. } => match indices.first() {
            Some(Expression::Parameter(argument)) => {
                Some((*field, Row { argument: *argument, is_member: is_set(definition, *field) }))
            }
            _ => None,
        },
        // A union's first argument is the number of the slot, which is that of the row.
        Update::Union { field, .. } => Some((*field, Row { argument: 0, is_member: false })),
    }
}

/// Whether the field is a set: an index and a truth value.
pub(super) fn is_set(definition: &Definition, field: usize) -> bool {
    let field = &definition.fields[field];
    !field.numeric && field.indices.len() == 1
}
