//! Security associations, and what they do to frames.

use std::net::Ipv4Addr;

use weft_wire::ethernet::{ETHER_TYPE_IPV4, Ethernet, FRAME_BYTES_MIN};
use weft_wire::ipv4::{self, Ipv4, PROTOCOL_UDP};
use weft_wire::udp::Udp;
use weft_wire::{datagram, roce};

use super::cipher::{Cipher, Key, TAG_BYTES};
use super::header::{PspHeader, UDP_PORT};
use super::replay::ReplayWindow;
use super::{OVERHEAD_BYTES, header};
use crate::shapes::Seal;

/// Associations of each direction that a card has room for, as the gateware; the low bits of a SPI are its place.
pub const ASSOCIATIONS: usize = 32;

/// After so many frames a sender wants another key: it stops.
pub const FRAMES_PER_KEY: u64 = 1 << 32;

const IP_AT: usize = Ethernet::BYTES;
const UDP_AT: usize = IP_AT + Ipv4::BYTES;
const PSP_AT: usize = UDP_AT + Udp::BYTES;
const SEALED_AT: usize = PSP_AT + PspHeader::BYTES;

/// Why a frame does not leave, or is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no association with the peer: nothing may leave in plaintext.
    #[error("there is no association with the peer")]
    NoAssociation,
    /// The association's frames are used up.
    #[error("the key has been used for as many frames as it may")]
    KeyUsedUp,
    /// A transport's frame has come in plaintext.
    #[error("a frame that must be sealed has come in plaintext")]
    Plaintext,
    /// A PSP packet that is cut short or asks for what is not there.
    #[error("the PSP packet is malformed")]
    Malformed,
    /// No association has this SPI.
    #[error("no association has this SPI")]
    UnknownSpi,
    /// The association belongs to another address.
    #[error("the association belongs to another peer")]
    WrongPeer,
    /// The header's version is not that of the key.
    #[error("the version is not that of the key")]
    WrongVersion,
    /// The frame was not sealed with the key, or was changed.
    #[error("the tag is wrong")]
    BadTag,
    /// The frame has come before, or is older than the window.
    #[error("the frame has come before, or is too old to tell")]
    Replayed,
}

/// Why an association cannot be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// Another SPI has the place.
    #[error("another SPI with the same low bits is installed")]
    PlaceTaken,
    /// The key is in use already, so nonces would be used again.
    #[error("the key is in use already")]
    KeyInUse,
    /// All places are taken.
    #[error("there is no room for another peer")]
    Full,
}

/// What was sealed, opened and refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames sealed.
    pub sealed: u64,
    /// Frames opened.
    pub opened: u64,
    /// Frames that did not leave.
    pub refused: u64,
    /// Frames that were dropped.
    pub dropped: u64,
}

#[derive(Debug)]
struct Sender {
    peer: Ipv4Addr,
    spi: u32,
    key: Key,
    cipher: Cipher,
    counter: u64,
}

#[derive(Debug)]
struct Receiver {
    peer: Ipv4Addr,
    spi: u32,
    cipher: Cipher,
    window: ReplayWindow,
}

/// All associations of a card. RoCE packets and Weft's datagrams are sealed, and refused in plaintext; other frames
/// pass.
#[derive(Debug)]
pub struct Psp {
    port: u16,
    frames_per_key: u64,
    senders: Vec<Sender>,
    receivers: [Option<Receiver>; ASSOCIATIONS],
    counters: Counters,
}

/// What a frame is to PSP.
enum Kind {
    Protected { destination: Ipv4Addr, end: usize },
    Sealed { source: Ipv4Addr, end: usize },
    Other,
}

impl Default for Psp {
    fn default() -> Self {
        Self::new(UDP_PORT, FRAMES_PER_KEY)
    }
}

impl Psp {
    /// No association yet: nothing that must be sealed leaves or enters. `port` is that of PSP over UDP.
    pub fn new(port: u16, frames_per_key: u64) -> Self {
        let receivers = [const { None }; ASSOCIATIONS];
        let senders = Vec::with_capacity(ASSOCIATIONS);
        Self { port, frames_per_key, senders, receivers, counters: Counters::default() }
    }

    /// What has happened so far.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Frames for `spi` with this key are accepted from `peer`, beside what is accepted already.
    ///
    /// # Errors
    /// [`InstallError::PlaceTaken`] if a SPI with the same low bits is installed.
    pub fn install_receiver(&mut self, peer: Ipv4Addr, spi: u32, key: &Key) -> Result<(), InstallError> {
        let place = &mut self.receivers[place_of(spi)];
        if place.is_some() {
            return Err(InstallError::PlaceTaken);
        }
        *place = Some(Receiver { peer, spi, cipher: Cipher::new(key), window: ReplayWindow::default() });
        Ok(())
    }

    /// Frames to `peer` are sealed with this key from now on.
    ///
    /// # Errors
    /// [`InstallError::KeyInUse`] if a sender has the key; whoever hands out keys never hands one out twice.
    pub fn install_sender(&mut self, peer: Ipv4Addr, spi: u32, key: &Key) -> Result<(), InstallError> {
        if self.senders.iter().any(|sender| sender.key == *key) {
            return Err(InstallError::KeyInUse);
        }
        let sender = Sender { peer, spi, key: *key, cipher: Cipher::new(key), counter: 0 };
        if let Some(former) = self.senders.iter_mut().find(|sender| sender.peer == peer) {
            *former = sender;
        } else if self.senders.len() < ASSOCIATIONS {
            self.senders.push(sender);
        } else {
            return Err(InstallError::Full);
        }
        Ok(())
    }

    /// Ends what is accepted for `spi`: the former key of a rotation.
    pub fn remove_receiver(&mut self, spi: u32) {
        let place = &mut self.receivers[place_of(spi)];
        if place.as_ref().is_some_and(|receiver| receiver.spi == spi) {
            *place = None;
        }
    }

    /// Ends all associations with a node that is no longer a member: none of its frames is accepted from now on.
    pub fn remove_peer(&mut self, peer: Ipv4Addr) {
        self.senders.retain(|sender| sender.peer != peer);
        for place in &mut self.receivers {
            if place.as_ref().is_some_and(|receiver| receiver.peer == peer) {
                *place = None;
            }
        }
    }

    fn classify(&self, frame: &[u8]) -> Result<Kind, Refusal> {
        // What is no such packet is not the card's either, and goes to the host.
        let is_udp = frame.len() >= PSP_AT
            && frame[12..14] == ETHER_TYPE_IPV4.to_be_bytes()
            && frame[IP_AT] == 0x45
            && frame[IP_AT + 9] == PROTOCOL_UDP
            && be16(frame, IP_AT + 6) & 0x3fff == 0;
        if !is_udp {
            return Ok(Kind::Other);
        }
        let address = |at: usize| Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3]);
        let (source, destination) = (address(IP_AT + 12), address(IP_AT + 16));
        let end = IP_AT + usize::from(be16(frame, IP_AT + 2));
        let port = be16(frame, UDP_AT + 2);
        if port != self.port && port != roce::UDP_PORT && port != datagram::UDP_PORT {
            Ok(Kind::Other)
        } else if end > frame.len() || end < PSP_AT {
            Err(Refusal::Malformed)
        } else if port == self.port {
            Ok(Kind::Sealed { source, end })
        } else {
            Ok(Kind::Protected { destination, end })
        }
    }

    fn seal_frame(&mut self, frame: &mut Vec<u8>) -> Result<(), Refusal> {
        let Kind::Protected { destination, end } = self.classify(frame)? else { return Ok(()) };
        let sender = self
            .senders
            .iter_mut()
            .find(|sender| sender.peer == destination)
            .ok_or(Refusal::NoAssociation)?;
        if sender.counter >= self.frames_per_key {
            return Err(Refusal::KeyUsedUp);
        }
        let header = PspHeader { version: sender.cipher.version(), spi: sender.spi, counter: sender.counter };
        sender.counter += 1;

        // Without Ethernet's padding, and with room for what comes in front.
        frame.resize(end + OVERHEAD_BYTES, 0);
        frame.copy_within(UDP_AT..end, SEALED_AT);
        // Paths are chosen by ports: the source port is that of the packet inside.
        let source_port = be16(frame, SEALED_AT);
        let udp = Udp { source_port, destination_port: self.port };
        let udp_bytes = end - UDP_AT + OVERHEAD_BYTES - Udp::BYTES;
        frame[UDP_AT..PSP_AT].copy_from_slice(&udp.to_bytes(udp_bytes));
        frame[PSP_AT..SEALED_AT].copy_from_slice(&header.to_bytes());
        let (front, sealed) = frame.split_at_mut(SEALED_AT);
        let (text, tag) = sealed.split_at_mut(end - UDP_AT);
        tag.copy_from_slice(&sender.cipher.seal(&header.nonce(), &front[PSP_AT..], text));
        let length = (end + OVERHEAD_BYTES - IP_AT) as u16;
        ipv4::set_total_length(&mut frame[IP_AT..], length);
        Ok(())
    }

    fn open_frame(&mut self, frame: &mut Vec<u8>) -> Result<bool, Refusal> {
        let (source, end) = match self.classify(frame)? {
            Kind::Other => return Ok(false),
            Kind::Protected { .. } => return Err(Refusal::Plaintext),
            Kind::Sealed { source, end } => (source, end),
        };
        // A UDP header is inside.
        let text_end = end.checked_sub(TAG_BYTES).filter(|text_end| *text_end >= SEALED_AT + Udp::BYTES);
        let text_end = text_end.ok_or(Refusal::Malformed)?;
        let header = frame[PSP_AT..SEALED_AT].try_into().expect("16 bytes");
        let header = header::PspHeader::parse(header).ok_or(Refusal::Malformed)?;
        let receiver = self.receivers[place_of(header.spi)].as_mut();
        let receiver = receiver.filter(|found| found.spi == header.spi).ok_or(Refusal::UnknownSpi)?;
        if receiver.peer != source {
            return Err(Refusal::WrongPeer);
        }
        if receiver.cipher.version() != header.version {
            return Err(Refusal::WrongVersion);
        }
        let (front, sealed) = frame.split_at_mut(SEALED_AT);
        let (text, rest) = sealed.split_at_mut(text_end - SEALED_AT);
        let tag = rest[..TAG_BYTES].try_into().expect("a tag");
        if !receiver.cipher.open(&header.nonce(), &front[PSP_AT..], text, tag) {
            return Err(Refusal::BadTag);
        }
        if !receiver.window.allows(header.counter) {
            return Err(Refusal::Replayed);
        }
        receiver.window.accept(header.counter);
        frame.copy_within(SEALED_AT..text_end, UDP_AT);
        let length = end - OVERHEAD_BYTES;
        frame.truncate(length);
        ipv4::set_total_length(&mut frame[IP_AT..], (length - IP_AT) as u16);
        frame.resize(length.max(FRAME_BYTES_MIN), 0);
        Ok(true)
    }
}

impl Seal for Psp {
    type Refusal = Refusal;

    fn seal(&mut self, frame: &mut Vec<u8>) -> Result<(), Refusal> {
        let before = frame.len();
        let sealed = self.seal_frame(frame);
        self.counters.sealed += u64::from(sealed.is_ok() && frame.len() != before);
        self.counters.refused += u64::from(sealed.is_err());
        sealed
    }

    fn open(&mut self, frame: &mut Vec<u8>) -> Result<(), Refusal> {
        let opened = self.open_frame(frame);
        self.counters.opened += u64::from(opened == Ok(true));
        self.counters.dropped += u64::from(opened.is_err());
        opened.map(|_| ())
    }
}

fn place_of(spi: u32) -> usize {
    spi as usize % ASSOCIATIONS
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}
