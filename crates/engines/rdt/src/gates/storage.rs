//! Where the fields of a type are: in registers, or in RAM.

use super::action::is_set;
use super::{Gates, GatesError, WHOLE_MAX, index_bits, names};
use crate::expression::Expression;

/// Elements of a set in one row of RAM.
pub(super) const MEMBERS: usize = 64;

/// Bits of a number.
pub(super) const NUMBER: usize = 64;

/// The storage of a field.
#[derive(Clone, Debug)]
pub(super) struct FieldPlan {
    /// Stem of its signals.
    pub(super) name: String,
    pub(super) in_memory: bool,
    /// Number of rows.
    pub(super) rows: usize,
    /// Whether an index selects a row. In registers, a scalar or a set is one row.
    pub(super) has_rows: bool,
    /// Bits of a row.
    pub(super) width: usize,
    /// Ports of the memory: the most rows that a call needs.
    pub(super) ports: usize,
}

impl FieldPlan {
    /// Bits of a row's address.
    pub(super) fn address_bits(&self) -> usize {
        index_bits(self.rows)
    }
}

/// Plans the storage of all fields.
pub(super) fn plan(gates: &Gates, registers_max: usize) -> Result<Vec<FieldPlan>, GatesError> {
    let actions = gates.actions();
    let expressions: Vec<_> = actions.iter().flat_map(|action| action.expressions()).collect();
    let mut plans = vec![];
    for (number, field) in gates.definition.fields.iter().enumerate() {
        let sizes: Vec<_> = field.indices.iter().map(|sort| gates.elements(sort)).collect();
        let (rows, width) = match (field.numeric, sizes.as_slice()) {
            (true, sizes) => (sizes.iter().product(), NUMBER),
            (false, &[size]) => (1, size),
            (false, sizes) => (sizes[0], sizes[1]),
        };
        let is_whole = expressions.iter().any(|expression| reads_all(expression, number));
        let bits = rows * width;
        if is_whole && bits > WHOLE_MAX {
            return Err(GatesError::TooLarge { field: field.name, bits });
        }
        let in_memory = bits > registers_max && !is_whole && !sizes.is_empty();
        let is_set = is_set(&gates.definition, number);
        let (rows, width) =
            if in_memory && is_set { (width.div_ceil(MEMBERS), width.min(MEMBERS)) } else { (rows, width) };
        let has_rows = !sizes.is_empty() && (in_memory || !is_set);
        plans.push(FieldPlan { name: names::field(field.name), in_memory, rows, has_rows, width, ports: 0 });
    }
    let planned = Gates { fields: plans.clone(), ..gates.unplanned() };
    for action in planned.actions() {
        for (plan, places) in plans.iter_mut().zip(&action.places) {
            plan.ports = plan.ports.max(places.len());
        }
    }
    Ok(plans)
}

/// Whether an expression reads a field at a first index that a quantifier binds.
fn reads_all(expression: &Expression, field: usize) -> bool {
    if let Expression::Read { field: read, indices } = expression
        && *read == field
        && matches!(indices.first(), Some(Expression::Variable(_)))
    {
        return true;
    }
    expression.parts().into_iter().any(|part| reads_all(part, field))
}
