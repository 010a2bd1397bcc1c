//! The connection manager of chapter 12 of the InfiniBand specification, volume 1, as programs use it through
//! librdmacm over IP addresses (annex A11).
//!
//! [`Manager`] exchanges management datagrams of 256 bytes with the managers of other ports: REQ, REP and RTU
//! open a connection, REJ refuses one, DREQ and DREP end it, SIDR_REQ and SIDR_REP ask for the queue pair of
//! a datagram service. It does no input or output of its own: its owner passes in datagrams and the time, and
//! takes datagrams and events out.
//!
//! # Choices where the specification allows several
//!
//! - A message that is not answered is sent again after [`RESEND`], [`ATTEMPTS`] times in total.
//! - If a REP arrives again, the RTU is sent again. A DREQ for a connection that no longer exists is answered
//!   with a DREP. So neither side waits forever after a lost answer.
//! - A side that gives up an attempt sends a REJ, once more for each message about the attempt that arrives later.
//!   So the peer does not keep a connection that this side does not have.
//! - A message that arrives again while the program has not answered it is answered with an MRA ("wait for me"),
//!   which postpones the peer's next attempt. Path migration (LAP) is not supported, and LAP messages are not
//!   answered.
//! - A message that is malformed, of another class, or about an unknown connection is dropped and counted.

mod manager;
mod message;

pub use manager::{ATTEMPTS, ConnectionId, Event, Manager, Parameters, RESEND, Reply};
pub use message::{Message, Reject, Rep, Req, Service, private};

/// Number of bytes of a management datagram.
pub const MAD_BYTES: usize = 256;
