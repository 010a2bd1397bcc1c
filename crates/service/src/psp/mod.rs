//! PSP, Google's security protocol: AES-GCM over UDP in transport mode, for the frames of the card.
//!
//! ```text
//! Ethernet | IPv4 | UDP, to port 1000 | PSP 16 | [ UDP, to port 4791 | BTH … payload | ICRC ] | ICV 16
//! ```
//!
//! What stands in brackets is encrypted; it and the PSP header are authenticated, Ethernet and IPv4 are not. So an
//! association is bound to its peer's address, and what comes from another one is dropped. The ICRC stays inside and
//! checks the way through the cipher, too. A frame has 40 bytes more.
//!
//! - **Nonces.** The nonce of a frame is the SPI and a counter of 64 bits, one step for each frame that leaves, also
//!   for one that the transport sends again: a duplicate READ may be answered with other bytes. A sender stops at
//!   [`FRAMES_PER_KEY`] frames. No counter is ever stored: a restart means new keys.
//! - **Replay.** A receiver has a window of [`ReplayWindow::FRAMES`] counters for each association, changed only by
//!   frames whose tag is right.
//! - **Keys.** The receiver allocates SPI and key and tells its peer. It may hold the next key beside the former one,
//!   so that keys change without a loss.
//!
//! Source: *PSP Architecture Specification*, Google, version 1.0. What is left out: virtualization cookies, tunnel
//! mode, deriving keys from a master key, and encryption that begins behind the first bytes. The cipher is
//! RustCrypto's.

mod association;
mod cipher;
mod expanded;
mod header;
mod nonces;
mod replay;

#[cfg(feature = "planted-bugs")]
pub use association::PlantedBug;
pub use association::{
    ASSOCIATIONS, Change, Counters, FRAMES_PER_KEY, InstallError, Psp, PspConfig, Refusal,
};
pub use cipher::{Cipher, Key, TAG_BYTES};
pub use expanded::{Block, Expanded};
pub use header::{PspHeader, UDP_PORT};
pub use nonces::{Nonces, Repeated};
pub use replay::ReplayWindow;

/// By how much a frame grows: UDP, PSP header and tag.
pub const OVERHEAD_BYTES: usize = weft_wire::udp::Udp::BYTES + PspHeader::BYTES + TAG_BYTES;
