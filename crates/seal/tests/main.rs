//! Endpoints in a small network of their own.

mod attacks;
mod network;
#[cfg(feature = "planted-bugs")]
mod planted_bugs;
mod restarts;
mod room;
