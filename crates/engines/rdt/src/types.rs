//! The types that Weft ships: the six conflict-free and the five well-coordinated types of SafarDB's tables
//! A.1 and B.1, with guards that preserve their invariants, and two keyed types for YCSB and SmallBank.

mod auction;
mod bank;
mod counters;
mod foreign_keys;
mod movie;
pub mod printed;
mod registers;
mod sets;

use crate::definition::Definition;

/// The names of all types, in the order of tables in reports.
pub const NAMES: [&str; 13] = [
    "g-counter",
    "pn-counter",
    "lww-register",
    "g-set",
    "pn-set",
    "2p-set",
    "account",
    "courseware",
    "project",
    "movie",
    "auction",
    "ycsb",
    "smallbank",
];

/// The definition of the type with this name.
pub fn by_name(name: &str) -> Option<Definition> {
    Some(match name {
        "g-counter" => counters::g_counter(),
        "pn-counter" => counters::pn_counter(),
        "lww-register" => registers::register(),
        "g-set" => sets::g_set(),
        "pn-set" => sets::pn_set(),
        "2p-set" => sets::two_phase_set(),
        "account" => bank::account(),
        "courseware" => foreign_keys::courseware(),
        "project" => foreign_keys::project(),
        "movie" => movie::movie(),
        "auction" => auction::auction(),
        "ycsb" => registers::ycsb(),
        "smallbank" => bank::smallbank(),
        _ => return None,
    })
}

macro_rules! sorts {
    ($($name:ident),*) => {$(
        struct $name;
        impl crate::expression::Sort for $name {
            const NAME: &'static str = stringify!($name);
        }
    )*};
}
use sorts;
