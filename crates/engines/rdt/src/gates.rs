//! Data types as SystemVerilog.
//!
//! [`Gates`] turns a definition, for universes of fixed sizes, into a module that does what [`crate::Object`]
//! does: it holds the state, and executes calls, summaries and queries (`rtl/engines/rdt/rdt_pkg.sv` lists the
//! operations). The module is written from the same definition that runs in Rust and that the solver judges.
//! [`proof`] states that the module is right, for a solver.
//!
//! A call takes two stages. The first accepts it and reads the rows of memories that it needs; the second
//! evaluates it and changes the state, so calls are atomic. A field is in registers if it is small, or if a
//! formula reads all of it at once (a quantifier over a first index). Otherwise it is in RAM: a row is a number
//! of an array, 64 elements of a set, or all second elements of a relation for one first element. A quantifier
//! over the second element therefore is evaluated in one cycle, too.
//!
//! Numbers are computed exactly. A result that does not fit its word of 64 bits is an overflow: the call
//! changes nothing, and the replica must stop.

mod action;
mod module;
mod names;
pub mod proof;
mod storage;
mod text;
mod types;

use crate::definition::{Definition, Update};
use crate::expression::Expression;
use crate::object::Bounds;

pub use types::{SHIPPED, WINDOW, shipped, shipped_bounds, types_module};

use action::Action;
use storage::FieldPlan;

/// The files that every generated module needs: the package of calls and answers, and the memory of a field.
pub const SUPPORT: [(&str, &str); 2] = [
    ("rdt_pkg.sv", include_str!("../../../../rtl/engines/rdt/rdt_pkg.sv")),
    ("rdt_memory.sv", include_str!("../../../../rtl/engines/rdt/rdt_memory.sv")),
];

/// The largest field that is kept in registers if nothing else is asked for, in bits.
pub const REGISTERS_MAX: usize = 1024;

/// The largest field that may be kept in registers because a formula reads all of it, in bits.
const WHOLE_MAX: usize = 16_384;

/// The most elements of a sort.
const ELEMENTS_MAX: usize = 1 << 20;

/// Cycles from the one in which a call is accepted to the one in which its answer is offered.
pub const LATENCY: usize = 2;

/// Why a type cannot be generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatesError {
    /// A universe is empty or too large.
    #[error("{sort} has {elements} elements; choose 1 to {ELEMENTS_MAX}")]
    Elements {
        /// Name of the sort.
        sort: &'static str,
        /// Its number of elements.
        elements: usize,
    },
    /// A formula reads all of a field that is too large for that.
    #[error(
        "a quantifier reads all of `{field}` at once, which is {bits} bits; at most {WHOLE_MAX} are possible: \
         choose fewer elements"
    )]
    TooLarge {
        /// Name of the field.
        field: &'static str,
        /// Its size.
        bits: usize,
    },
    /// Two names become one name in SystemVerilog.
    #[error("`{first}` and `{second}` get the same name in SystemVerilog; rename one of them")]
    SameName {
        /// One name.
        first: String,
        /// The other name.
        second: String,
    },
}

/// A type to be written as SystemVerilog.
#[derive(Debug)]
pub struct Gates {
    definition: Definition,
    bounds: Bounds,
    fields: Vec<FieldPlan>,
    number_bits: usize,
}

impl Gates {
    /// Plans the gates of a type for universes of these sizes. Fields of up to `registers_max` bits are kept in
    /// registers.
    ///
    /// # Errors
    /// If the sizes are impossible, or names clash.
    pub fn new(definition: &Definition, bounds: &Bounds, registers_max: usize) -> Result<Self, GatesError> {
        for &sort in &definition.sorts {
            let elements = bounds.of(sort);
            if elements == 0 || elements > ELEMENTS_MAX {
                return Err(GatesError::Elements { sort, elements });
            }
        }
        names::check(definition)?;
        let mut gates =
            Self { definition: definition.clone(), bounds: bounds.clone(), fields: vec![], number_bits: 0 };
        gates.number_bits = gates.widest().max(66);
        gates.fields = storage::plan(&gates, registers_max)?;
        Ok(gates)
    }

    /// Name of the module; its file has the same name.
    pub fn module_name(&self) -> String {
        names::module(self.definition.name)
    }

    /// The module as text.
    pub fn module(&self) -> String {
        module::write(self)
    }

    /// Bits of state in registers and in RAM.
    pub fn state_bits(&self) -> (usize, usize) {
        let sum = |memory: bool| {
            let fields = self.fields.iter().filter(|field| field.in_memory == memory);
            fields.map(|field| field.rows * field.width).sum()
        };
        (sum(false), sum(true))
    }

    /// The most rows of one memory that a call of this method writes: such a call holds up the next one by one
    /// cycle less.
    pub fn rows_written(&self, method: usize) -> usize {
        let action = self.actions().into_iter().find(|action| action.is_update_of(method));
        let written = action.map_or(0, |action| {
            let rows = |field: usize| action.written_places(&self.definition, field).len();
            (0..self.fields.len()).map(rows).max().unwrap_or(0)
        });
        written.max(1)
    }

    /// The same type without a plan of its fields.
    fn unplanned(&self) -> Self {
        Self {
            definition: self.definition.clone(),
            bounds: self.bounds.clone(),
            fields: vec![],
            number_bits: self.number_bits,
        }
    }

    fn elements(&self, sort: &str) -> usize {
        self.bounds.of(sort)
    }

    /// What a module can be asked to do, each with what it needs.
    fn actions(&self) -> Vec<Action<'_>> {
        action::all(self)
    }

    /// Bits of the widest number that is computed. A fold adds a word to what a call contributes.
    fn widest(&self) -> usize {
        let widest = |action: &Action<'_>| {
            let bits = action.expressions().into_iter().map(bits).max().unwrap_or(0);
            bits + usize::from(matches!(action.kind, action::Kind::Fold(..)))
        };
        self.actions().iter().map(widest).max().unwrap_or(0)
    }
}

/// Bits of the value of a number, and of all numbers in it.
fn bits(expression: &Expression) -> usize {
    let parts = expression.parts().into_iter().map(bits).max().unwrap_or(0);
    match expression {
        Expression::Add(..) | Expression::Subtract(..) => parts + 1,
        // A difference of two words is computed before it is checked.
        Expression::Parameter(_) => 65,
        Expression::Number(_) | Expression::Read { .. } => parts.max(64),
        _ => parts,
    }
}

/// The expressions of updates.
fn expressions_of(updates: &[Update]) -> impl Iterator<Item = &Expression> {
    updates.iter().flat_map(|update| match update {
        Update::At { indices, value, .. } => indices.iter().chain([value]).collect::<Vec<_>>(),
        Update::Union { .. } => vec![],
    })
}

/// Bits of a number below `count`; at least one.
fn index_bits(count: usize) -> usize {
    (count.max(2) - 1).ilog2() as usize + 1
}
