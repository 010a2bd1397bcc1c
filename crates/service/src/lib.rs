//! Services on the data path of a card: what observes payloads, changes them or seals frames.
//!
//! A service has one of four shapes:
//!
//! | shape | sees | contract |
//! |---|---|---|
//! | [`Map`] | payload, by its offset in the message | keeps the length; pure, so what is sent again comes out alike |
//! | [`Tap`] | payload | observes; a verdict on each packet, which counts once the transport accepts the packet |
//! | [`Resize`] | the bytes of a flow, each once, in order | writes to a region and cursor of its own, within credits |
//! | [`Seal`] | frames at the MAC | fresh state for each frame that leaves, also for one that is sent again |
//!
//! [`Services`] holds maps and taps as a card has them, in a table by queue pair and direction. Its twin in gates is
//! `rtl/services/services.sv`. Whatever implements [`Path`], soft or gates, goes through [`suite`].
//!
//! # Offsets
//!
//! An offset is that of the message. For the response of a READ it is that of the region, because a READ that is
//! asked again starts midway. A packet lies on the path as in memory: the byte at offset *n* is in lane *n* mod 64.
//!
//! # Example
//!
//! ```
//! use weft_service::{Direction, Flow, MapKind, Services, Setting, TapKind};
//!
//! let flow = Flow { queue_pair: 7, direction: Direction::Receive };
//! let mut services = Services::new();
//! services.configure(flow, Setting { map: MapKind::Xor, tap: TapKind::Count, value: 0x20 });
//!
//! let mut payload = *b"Weft";
//! let verdict = services.pass(flow, 0, &mut payload);
//! assert_eq!(&payload, b"weft");
//! services.accept(flow, verdict);
//! assert_eq!(services.reading(flow), 4);
//! ```

mod path;
pub mod preprocess;
pub mod psp;
mod services;
mod shapes;
pub mod suite;

pub use path::{Outcome, Pace, Packet, Path};
pub use services::{Count, MapKind, Services, Setting, TapKind, Xor};
pub use shapes::{Direction, Flow, Map, QUEUE_PAIRS, Resize, Seal, Tap};
