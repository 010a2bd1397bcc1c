//! The types that Weft ships, one file each.

mod account;
mod courseware;
mod pn_counter;

use crate::definition::Definition;

/// The names of all types, in the order in which tables show them.
pub const NAMES: [&str; 3] = ["pn-counter", "account", "courseware"];

/// The definition of the type of this name.
pub fn by_name(name: &str) -> Option<Definition> {
    Some(match name {
        "pn-counter" => pn_counter::define(),
        "account" => account::define(),
        "courseware" => courseware::define(),
        _ => return None,
    })
}
