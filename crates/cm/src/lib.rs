//! The connection manager (chapter 12 of the InfiniBand specification, volume 1), as programs of librdmacm use it over
//! IP addresses (annex A11).
//!
//! [`Manager`] exchanges management datagrams of 256 bytes with the managers of other ports: REQ, REP and RTU open a
//! connection, REJ refuses one, DREQ and DREP end it, SIDR_REQ and SIDR_REP ask for the queue pair of a datagram
//! service. It is pure: who owns it passes in datagrams and the time, and takes datagrams and events out.
//!
//! # Choices where the specification leaves one
//!
//! - What is not answered is sent again after [`RESEND`], [`ATTEMPTS`] times in all.
//! - A REP that comes again is answered by the RTU again, a DREQ of a connection that is gone by a DREP, so that a lost
//!   answer holds nobody up.
//! - MRA ("wait for me") postpones the next attempt; path migration (LAP) is not offered and not answered.
//! - A message with a broken layout, of another class or about an unknown connection is dropped and counted.

mod manager;
mod message;

pub use manager::{ATTEMPTS, ConnectionId, Event, Manager, Parameters, RESEND, Reply};
pub use message::{Message, Reject, Rep, Req, Service, private};

/// Bytes of a management datagram.
pub const MAD_BYTES: usize = 256;
