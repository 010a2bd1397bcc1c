//! PSP, Google's security protocol: AES-GCM over UDP in transport mode, for the frames of the card.
//!
//! ```text
//! Ethernet | IPv4 | UDP, to port 1000 | PSP 16 | [ UDP, to port 4791 | BTH … payload | ICRC ] | ICV 16
//! ```
//!
//! The part in brackets is encrypted. It and the PSP header are authenticated; Ethernet and IPv4 headers are
//! not. Therefore an association is bound to its peer's address, and frames from other addresses are dropped.
//! The ICRC stays in the encrypted part and also detects errors of the cipher. A frame becomes 40 bytes
//! longer.
//!
//! - **Nonces.** The nonce of a frame consists of the SPI and a 64-bit counter, which increases with each
//!   frame that is sent, even if the frame is a retransmission: a duplicate READ may be answered with
//!   different bytes. A sender stops after [`FRAMES_PER_KEY`] frames. Counters are never stored; after a
//!   restart, new keys are used.
//! - **Replay.** A receiver has a window of [`ReplayWindow::FRAMES`] counters for each association. Only
//!   frames with a correct tag change it.
//! - **Keys.** The receiver allocates the SPI and the key and sends them to its peer. It may have the next
//!   key in addition to the previous one, so keys can change without losing frames.
//!
//! Source: *PSP Architecture Specification*, Google, version 1.0. Not implemented: virtualization cookies,
//! tunnel mode, keys derived from a master key, and encryption that begins after the first bytes. The cipher
//! is implemented by RustCrypto.

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

/// Number of bytes that a frame becomes longer: UDP header, PSP header and tag.
pub const OVERHEAD_BYTES: usize = weft_wire::udp::Udp::BYTES + PspHeader::BYTES + TAG_BYTES;
