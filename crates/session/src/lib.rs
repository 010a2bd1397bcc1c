//! Calls of clients over a network that loses, duplicates and reorders datagrams; each call is executed at most
//! once.
//!
//! - [`Window`] keeps the outcomes of the latest [`WINDOW`] numbered requests of one client.
//! - [`Sessions`] is the node's half: it receives the clients' datagrams and passes each call to the engine at
//!   most once, however often it arrives.
//! - [`Client`] is the client's half: it numbers calls and repeats them until they are answered or reach their
//!   time-out.
//! - [`ClientHalf`] is how the clients of all engines are driven, and [`SessionClient`] is one for an engine that
//!   says what its [`Calls`] are.
//!
//! The content of calls and answers is up to the engine. Both halves are pure: the caller passes in the time and
//! the messages, and they return the messages to send.
//!
//! **The protocol.** A client sends Hello to a node, and the node's Welcome has the number of the session: no other
//! session of the node, before or after a restart, has the same. A call contains that number and the next sequence
//! number of this client at this node. If the session is the current one and the sequence number is new, the node
//! begins the call. If the sequence number is not new, the node repeats the answer, or sends nothing while there is
//! none. A node that was restarted has lost its sessions. It answers a call with a former session's number as
//! *unknown*, because the call may have begun in that session. A node that does not take part in the cluster answers
//! *not begun*, and never begins that call later. So:
//!
//! | outcome of a call | executions |
//! |---|---|
//! | answered | one, by the node that answers |
//! | not begun | none, and none will follow |
//! | unknown | at most one, which may still follow |
//!
//! A session in which nothing was received for [`IDLE`] may be dropped to make room for another one. [`IDLE`] is
//! longer than the time in which a client repeats a call and a datagram is in flight.

mod client;
mod half;
mod message;
mod sessions;
mod window;

pub use client::{CallId, Client, ClientParameters, Completion, Ended, Verdict};
pub use half::{Calls, ClientHalf, NewCall, OutcomeOf, SessionClient, TaskOf};
pub use message::{Body, Kind, Malformed, Message, Status};
pub use sessions::{Begin, Sessions, TOKENS};
pub use window::{Seen, WINDOW, Window};

use weft_time::Duration;

/// The shortest time for which a node keeps a session without messages.
pub const IDLE: Duration = Duration::from_secs(60);

/// The longest time-out of a call. Until then, no node has dropped its session.
pub const GIVE_UP_MAX: Duration = Duration::from_secs(20);
