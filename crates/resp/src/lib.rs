//! The server for clients of Redis ("Redis door"): they can use a Weft cluster.
//!
//! [`Parser`] finds requests in bytes, and [`Reply`] encodes answers, both for versions 2 and 3 of the protocol.
//! [`RespServer`] is the server between them and the key-value store: its caller passes in the bytes that connections
//! receive and the messages of nodes, and sends what it returns. It has no socket, clock or thread.
//! `docs/redis.md` lists the differences from Redis.

mod action;
mod command;
mod expiries;
mod glob;
mod parse;
mod record;
mod reply;
mod rounds;
mod scripts;
mod server;
mod slab;
mod slots;
mod store;

pub use parse::{ARGUMENTS_MAX, Parser, ProtocolError, REQUEST_BYTES_MAX};
pub use record::{HEADER_BYTES_MAX, Record};
pub use reply::{Protocol, Reply};
pub use server::{ConnectionId, Now, RespServer, RespServerParameters};
