//! Replicated data types whose calls are coordinated only if necessary.
//!
//! A type is defined once ([`definition`], in the typed terms of [`expression`]): state, methods with guards
//! and effects, an invariant, and optionally how calls combine. The definition is compiled and run ([`Type`],
//! [`Object`]). It is also turned into questions to a solver. Its proofs decide which calls conflict, which
//! depend on others, and which combine ([`verdict`]). `weft-model` runs the solver. The verdicts are checked
//! in beside this crate, and a test derives them again.
//!
//! The verdicts guarantee the following. Suppose that all replicas apply the conflicting calls of a
//! synchronization group in one order. Suppose also that they apply each call only after the calls that it
//! depends on and that its checking replica had applied. Then every call is permissible wherever it is
//! applied, the invariant holds at every step of every replica, and replicas that have applied the same calls
//! are in the same state. `docs/data-types.md` has the proof.

mod affected;
pub mod client;
pub mod definition;
pub mod derive;
pub mod expression;
pub mod gates;
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
