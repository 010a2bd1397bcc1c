//! The Redis door: clients of Redis are clients of a Weft cluster.
//!
//! [`Parser`] finds requests in bytes, [`Reply`] writes answers, both in the versions 2 and 3 of the protocol. [`Door`]
//! is what lies between them and the key-value store: it is told what connections receive and what nodes answer, and
//! says what to write where. It has no socket, clock or thread. What it does differently from Redis stands in
//! `docs/redis.md`.

mod action;
mod command;
mod door;
mod expiries;
mod glob;
mod parse;
mod record;
mod reply;
mod rounds;
mod scripts;
mod slab;
mod slots;
mod store;

pub use door::{ConnectionId, Door, DoorParameters, Now};
pub use parse::{ARGUMENTS_MAX, Parser, ProtocolError, REQUEST_BYTES_MAX};
pub use record::{HEADER_BYTES_MAX, Record};
pub use reply::{Protocol, Reply};
