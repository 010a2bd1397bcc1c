//! Services on the data path of a card: they observe payloads, change payloads, or encrypt frames.
//!
//! A service is of one of four kinds, the shapes:
//!
//! | shape | operates on | contract |
//! |---|---|---|
//! | [`Map`] | payload, with its offset in the message | keeps the length; pure, so a retransmitted packet gives the same result |
//! | [`Tap`] | payload | only observes; returns a verdict on each packet, which counts only if the transport accepts the packet |
//! | [`Resize`] | the bytes of a flow, each once and in order | writes to a region with a cursor of its own, limited by credits |
//! | [`Seal`] | frames at the MAC | uses new state for each frame that is sent, even if the frame is a retransmission |
//!
//! [`Services`] contains the maps and taps of a card, in a table by queue pair and direction. The equivalent
//! gateware is `rtl/services/services.sv`. Every implementation of [`Path`], in software or in gateware, is
//! tested with [`suite`].
//!
//! # Offsets
//!
//! An offset is an offset in the message. For the response of a READ, it is the offset in the region, because
//! a READ that is repeated starts in the middle. On the path, bytes have the same alignment as in memory: the
//! byte at offset *n* is in lane *n* mod 64.
//!
//! # Example
//!
//! ```
//! use weft_service::{Action, Direction, Flow, MapKind, Services, Setting, TapKind};
//!
//! let flow = Flow { queue_pair: 7, direction: Direction::Receive };
//! let mut services = Services::new();
//! services.configure(flow, Setting {
//!     map: MapKind::Xor,
//!     tap: TapKind::Count,
//!     value: 0x20,
//!     action: Action::Mark { threshold: 4 },
//! });
//!
//! let mut payload = *b"Weft";
//! let verdict = services.pass(flow, 0, &mut payload);
//! assert_eq!(&payload, b"weft");
//! services.accept(flow, verdict);
//! assert_eq!(services.reading(flow), 4);
//! ```

pub mod inspect;
mod path;
pub mod preprocess;
pub mod psp;
mod services;
mod shapes;
pub mod suite;

pub use path::{Outcome, Pace, Packet, Path};
pub use services::{Action, Count, MapKind, Services, Setting, TapKind, Xor};
pub use shapes::{Direction, Flow, Map, QUEUE_PAIRS, Resize, Seal, Tap};
