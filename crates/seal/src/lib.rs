//! Sealed sockets: every datagram between two sockets of a cluster is encrypted and authenticated with keys that both
//! derive from the cluster's key and from random values of their own.
//!
//! [`Endpoint`] is the state of one socket. It does no input or output, and time and random bytes are arguments: its
//! owner gives it what the socket receives, and sends what [`Endpoint::poll_transmit`] returns.
//!
//! ```text
//! frame      PSP header 16 | [ UDP header 8 | payload ] | ICV 16        the brackets are encrypted
//! handshake  "Ws" … HMAC, 116 bytes: hello and welcome                  see the module `handshake`
//! ```
//!
//! Frames are PSP's in transport mode ([`weft_service::psp`]), version 1, which is AES-256-GCM. The ports of the inner
//! header are those of the sockets; only its length is checked.
//!
//! - **Associations.** The initiator sends a `hello` with a random value, the responder answers with a `welcome` that
//!   adds its own. Each direction has a key: HKDF-SHA256 of the cluster's key, with both random values as salt. The
//!   initiator uses the association once it has a welcome with its random value, the responder once a frame has opened
//!   under it: whoever replays a hello cannot make one. Earlier associations remain valid for receiving.
//! - **Addresses.** Both datagrams name the addresses between which they are meant to go, so a handshake cannot be
//!   redirected to another node. A socket that is bound to all addresses, as a client's is, does not know its own, and
//!   is not bound to it.
//! - **Restarts.** Keys and counters are never stored. Who receives a frame that it cannot open answers, rarely: with a
//!   hello, or, if it has an association, with an empty frame, which means: send to me under this one. So a restart of
//!   either side heals within a round trip.
//! - **Room.** Peers, associations, datagrams that wait for a handshake, and answers are bounded. What comes without a
//!   right tag never displaces a confirmed association.
//!
//! Whoever has the cluster's key is trusted, also to be any node. Later knowledge of the key opens recorded frames.

mod association;
mod counters;
mod endpoint;
mod handshake;
mod key;
mod peers;

pub use counters::Counters;
#[cfg(feature = "planted-bugs")]
pub use endpoint::PlantedBug;
pub use endpoint::{Endpoint, Opened, Parameters, Random};
pub use handshake::{HANDSHAKE_BYTES, Handshake, HandshakeError, Kind, is_handshake};
pub use key::{ClusterKey, Direction, KEY_BYTES, KeyError, KeySchedule, NONCE_BYTES, Nonce};

use weft_service::psp::{OVERHEAD_BYTES, PspHeader};
use weft_wire::udp::Udp;

/// Number of bytes of a frame before its payload.
pub const BEFORE_BYTES: usize = PspHeader::BYTES + Udp::BYTES;

/// Number of bytes of a frame after its payload.
pub const AFTER_BYTES: usize = weft_service::psp::TAG_BYTES;

/// Number of bytes by which a sealed datagram is longer.
pub const SEAL_BYTES: usize = BEFORE_BYTES + AFTER_BYTES;

const _: () = assert!(SEAL_BYTES == OVERHEAD_BYTES, "a socket's frame is PSP's without the outer headers");
