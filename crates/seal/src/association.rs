//! One association: a key for each direction, a counter and a replay window.

use weft_service::psp::{Cipher, PspHeader, ReplayWindow, TAG_BYTES};
use weft_time::Instant;
use weft_wire::udp::Udp;

use crate::counters::Refusal;
use crate::key::{Direction, KeySchedule, Nonce};
use crate::{AFTER_BYTES, BEFORE_BYTES, SEAL_BYTES};

/// The window of 2,048 counters spans 32 trains of datagrams that the kernel sends and receives as one.
type Window = ReplayWindow<32>;

/// The version of PSP with AES-256.
const VERSION: u8 = 1;

#[derive(Debug)]
pub(crate) struct Association {
    /// The SPI of frames that arrive.
    pub own_spi: u32,
    /// The SPI of frames that leave.
    peer_spi: u32,
    pub initiator: Nonce,
    pub responder: Nonce,
    /// Whether this side has sent the hello.
    pub initiated: bool,
    pub born: Instant,
    /// Whether the peer is known to have the association too.
    pub confirmed: bool,
    sealing: Cipher,
    opening: Cipher,
    window: Window,
    counter: u64,
}

impl Association {
    pub fn new(
        keys: &KeySchedule,
        (initiator, responder): (Nonce, Nonce),
        initiated: bool,
        (own_spi, peer_spi): (u32, u32),
        born: Instant,
    ) -> Self {
        let cipher = |direction| Cipher::new(&keys.association(&initiator, &responder, direction));
        let (mut sealing, mut opening) = (cipher(Direction::FromInitiator), cipher(Direction::FromResponder));
        if !initiated {
            std::mem::swap(&mut sealing, &mut opening);
        }
        let (window, confirmed) = (Window::default(), false);
        Self {
            own_spi,
            peer_spi,
            initiator,
            responder,
            initiated,
            born,
            confirmed,
            sealing,
            opening,
            window,
            counter: 0,
        }
    }

    /// Number of frames that were sealed.
    pub fn frames(&self) -> u64 {
        self.counter
    }

    /// Seals the payload that lies in `frame` behind [`BEFORE_BYTES`] bytes and before [`AFTER_BYTES`] bytes.
    pub fn seal(&mut self, ports: Udp, frame: &mut [u8]) {
        let payload_bytes = frame.len() - SEAL_BYTES;
        let header = PspHeader { version: VERSION, spi: self.peer_spi, counter: self.counter };
        self.counter += 1;
        frame[..PspHeader::BYTES].copy_from_slice(&header.to_bytes());
        frame[PspHeader::BYTES..BEFORE_BYTES].copy_from_slice(&ports.to_bytes(payload_bytes));
        let (front, rest) = frame.split_at_mut(PspHeader::BYTES);
        let (text, tag) = rest.split_at_mut(Udp::BYTES + payload_bytes);
        tag.copy_from_slice(&self.sealing.seal(&header.nonce(), front, text));
    }

    /// Opens a frame in place, whose payload then lies where [`Association::seal`] found it.
    pub fn open(&mut self, header: PspHeader, frame: &mut [u8], window_first: bool) -> Result<(), Refusal> {
        // A replayed frame costs no decryption.
        if !self.window.allows(header.counter) {
            return Err(Refusal::Replayed);
        }
        if window_first {
            self.window.accept(header.counter);
        }
        let (front, rest) = frame.split_at_mut(PspHeader::BYTES);
        let (text, tag) = rest.split_at_mut(rest.len() - AFTER_BYTES);
        let tag: &[u8; TAG_BYTES] = (&*tag).try_into().expect("the length of a tag");
        if !self.opening.open(&header.nonce(), front, text, tag) {
            return Err(Refusal::BadTag);
        }
        if !window_first {
            self.window.accept(header.counter);
        }
        let length = usize::from(u16::from_be_bytes([text[4], text[5]]));
        if length == text.len() { Ok(()) } else { Err(Refusal::Malformed) }
    }
}

/// The header of a frame, if its bytes can be one.
pub(crate) fn header(frame: &[u8]) -> Option<PspHeader> {
    let header = PspHeader::parse(frame.get(..PspHeader::BYTES)?.try_into().ok()?)?;
    (frame.len() >= SEAL_BYTES && header.version == VERSION).then_some(header)
}

/// Whether a datagram says that it is a frame: the first byte is the number of UDP.
pub(crate) fn is_frame(bytes: &[u8]) -> bool {
    bytes.first() == Some(&17)
}
