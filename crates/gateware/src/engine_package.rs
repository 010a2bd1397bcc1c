//! The packed structs and constants of the packages of engines, `rtl/engines/engines_pkg.sv` and `rtl/engines/kv`; as
//! [`crate::package`].

#![allow(
    clippy::useless_conversion,
    clippy::unnecessary_cast,
    reason = "what is written for fields of any width does nothing for some"
)]

use crate::package::{put, put_words, take, take_words};

include!(concat!(env!("OUT_DIR"), "/engine_package.rs"));
