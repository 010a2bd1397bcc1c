//! Replicated data types that coordinate only when they must.
//!
//! A type is defined once ([`definition`], in the typed terms of [`expression`]): state, methods with guards and
//! effects, an invariant, optionally how calls combine. The definition runs ([`Type`], [`Object`]); and it is turned
//! into questions to a solver, whose proofs decide which calls conflict, what depends on what, and which combine
//! ([`verdict`]). The solver is run by `weft-model`; what it proved is checked in beside this crate and derived again
//! by a test.
//!
//! What the verdicts promise: if conflicting calls of a synchronization group are applied in one order everywhere,
//! and every call only after the calls that it depends on and that its checking replica had applied, then every call
//! is permissible wherever it is applied, the invariant holds at every step of every replica, and replicas that have
//! applied the same calls are in the same state. `docs/data-types.md` has the argument.

pub mod client;
pub mod definition;
pub mod derive;
pub mod expression;
mod near;
mod object;
mod program;
pub mod replica;
mod smt;
pub mod types;
pub mod verdict;

pub use definition::{Definition, METHODS_MAX, PARAMETERS_MAX};
pub use object::{
    Arguments, Bounds, NUMBER_MAX, Object, SUMMARY_WORDS_MAX, Stamp, SummaryShape, SummaryWords, Type,
};
pub use verdict::{Category, Coordination, MethodSet, VerdictError};
