//! Calls of clients over a network that loses, repeats and reorders datagrams, each begun at most once.
//!
//! - [`Window`] remembers what became of the latest [`WINDOW`] numbered requests of one client.
//! - [`Sessions`] is the node's half: it stands between the datagrams of clients and an engine, and hands each call
//!   to the engine at most once, however often it arrives.
//! - [`Client`] is the client's half: it numbers calls and repeats them until they are answered or given up.
//!
//! What a call and its answer say is the engine's business. Both halves are pure: they are told the time and the
//! messages, and say what to send to whom.
//!
//! **The protocol.** A client greets a node, which tells it the *life* that it is in. A call names that life and has
//! the next sequence number of this client at this node. The node begins it if it is in that life and the number is
//! new; if it is not, it repeats the answer, or says nothing while there is none. A node that was restarted has
//! forgotten its sessions and is in another life: a call that names the former one is answered as *unknown*, because
//! the former life may have begun it. A node that takes no part in the cluster answers *not begun*, and sticks to
//! that. So:
//!
//! | a call ends as | it was begun |
//! |---|---|
//! | answered | once, by the node that answers |
//! | not begun | never, and never will be |
//! | unknown | at most once, perhaps still to come |
//!
//! A session of which nothing was received for [`IDLE`] may be forgotten when there is no room for another one. That
//! is longer than a client repeats a call and a datagram lives.

mod client;
mod message;
mod sessions;
mod window;

pub use client::{CallId, Client, ClientParameters, Completion, Ended, Verdict};
pub use message::{Body, Kind, Malformed, Message, Status};
pub use sessions::{Begin, Sessions, TOKENS};
pub use window::{Seen, WINDOW, Window};

use weft_time::Duration;

/// Shortest time for which a node keeps a session without messages.
pub const IDLE: Duration = Duration::from_secs(60);

/// Longest time after which a client gives up a call, so that no node has forgotten its session by then.
pub const GIVE_UP_MAX: Duration = Duration::from_secs(20);
