//! Security associations: how they encrypt, decrypt and check frames.

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

/// Number of associations of each direction for which the gateware has room. The low bits of an SPI are its
/// index.
pub const ASSOCIATIONS: usize = 32;

/// After this many frames, a sender stops until it gets another key.
pub const FRAMES_PER_KEY: u64 = 1 << 32;

const IP_AT: usize = Ethernet::BYTES;
const UDP_AT: usize = IP_AT + Ipv4::BYTES;
const PSP_AT: usize = UDP_AT + Udp::BYTES;
const SEALED_AT: usize = PSP_AT + PspHeader::BYTES;

/// Reason for which a frame is not sent or is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no association with the peer, and no such frame may be sent in plaintext.
    #[error("there is no association with the peer")]
    NoAssociation,
    /// The sender has sent as many frames as a key allows.
    #[error("the key has been used for as many frames as it may")]
    KeyUsedUp,
    /// A frame of a transport has arrived in plaintext.
    #[error("a frame that must be sealed has come in plaintext")]
    Plaintext,
    /// A PSP packet that is truncated or uses an unsupported option.
    #[error("the PSP packet is malformed")]
    Malformed,
    /// There is no association with this SPI.
    #[error("no association has this SPI")]
    UnknownSpi,
    /// The association belongs to another address than the sender's.
    #[error("the association belongs to another peer")]
    WrongPeer,
    /// The version in the header is not the version of the key.
    #[error("the version is not that of the key")]
    WrongVersion,
    /// The frame was not encrypted with the key, or was changed.
    #[error("the tag is wrong")]
    BadTag,
    /// The frame has arrived before, or is older than the replay window.
    #[error("the frame has come before, or is too old to tell")]
    Replayed,
}

/// Reason for which an association cannot be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallError {
    /// An association with another SPI has the same index.
    #[error("another SPI with the same low bits is installed")]
    PlaceTaken,
    /// The key is already used, so nonces would be used again.
    #[error("the key is in use already")]
    KeyInUse,
    /// The table of peers is full.
    #[error("there is no room for another peer")]
    Full,
}

/// Configuration of PSP on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PspConfig {
    /// The UDP port of PSP.
    pub port: u16,
    /// After this many frames, a sender stops until it gets another key.
    pub frames_per_key: u64,
    /// Number of associations of each direction, a power of two. The low bits of an SPI are its index.
    pub associations: usize,
}

impl Default for PspConfig {
    fn default() -> Self {
        Self { port: UDP_PORT, frames_per_key: FRAMES_PER_KEY, associations: ASSOCIATIONS }
    }
}

/// A change of a card's associations, requested by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Frames from `peer` with `spi` are accepted with this key, in addition to those accepted already.
    InstallReceiver {
        /// The sending peer.
        peer: Ipv4Addr,
        /// The SPI, which the receiver chooses to identify the association.
        spi: u32,
        /// The key.
        key: Key,
    },
    /// Frames to `peer` are encrypted with this key from now on.
    InstallSender {
        /// The receiving peer.
        peer: Ipv4Addr,
        /// The SPI, which the receiver has chosen to identify the association.
        spi: u32,
        /// The key.
        key: Key,
    },
    /// Frames with this SPI are no longer accepted. Used for the previous key after a key change.
    RemoveReceiver {
        /// The SPI of the association.
        spi: u32,
    },
    /// Frames are no longer sent to or accepted from this peer. Used for a node that was removed.
    RemovePeer {
        /// The node's address.
        peer: Ipv4Addr,
    },
}

weft_counters::counters! {
    /// Counters of frames that were sealed, opened and refused, by cause.
    pub struct Counters {
        /// Frames sealed.
        psp_sealed,
        /// Frames opened.
        psp_opened,
        /// Frames that were not sent because there is no association with their peer.
        psp_without_association,
        /// Frames that were not sent because their key has sealed as many frames as it may.
        psp_key_used_up,
        /// Frames dropped because they arrived in plaintext and must be sealed.
        psp_plaintext,
        /// Frames dropped as malformed PSP packets.
        psp_malformed,
        /// Frames dropped because no association has their SPI.
        psp_unknown_spi,
        /// Frames dropped because the association belongs to another peer.
        psp_wrong_peer,
        /// Frames dropped because their version is not that of the key.
        psp_wrong_version,
        /// Frames dropped because their tag is wrong.
        psp_bad_tag,
        /// Frames dropped because they had arrived before, or are older than the replay window.
        psp_replayed,
        /// Changes of associations that were refused.
        psp_changes_refused,
    }
}

impl Counters {
    const fn count(&mut self, refusal: Refusal) {
        let counter = match refusal {
            Refusal::NoAssociation => &mut self.psp_without_association,
            Refusal::KeyUsedUp => &mut self.psp_key_used_up,
            Refusal::Plaintext => &mut self.psp_plaintext,
            Refusal::Malformed => &mut self.psp_malformed,
            Refusal::UnknownSpi => &mut self.psp_unknown_spi,
            Refusal::WrongPeer => &mut self.psp_wrong_peer,
            Refusal::WrongVersion => &mut self.psp_wrong_version,
            Refusal::BadTag => &mut self.psp_bad_tag,
            Refusal::Replayed => &mut self.psp_replayed,
        };
        *counter += 1;
    }

    /// Number of frames that were dropped, for any reason.
    pub const fn dropped(&self) -> u64 {
        self.psp_plaintext
            + self.psp_malformed
            + self.psp_unknown_spi
            + self.psp_wrong_peer
            + self.psp_wrong_version
            + self.psp_bad_tag
            + self.psp_replayed
    }
}

/// A known bug, planted to test that the checks find it.
#[cfg(feature = "planted-bugs")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// The replay window is updated before the tag is verified, so a forged frame makes the receiver drop
    /// later valid frames.
    WindowBeforeTag,
    /// Frames in plaintext are accepted.
    PlaintextAccepted,
    /// Repeated frames are not detected.
    WindowIgnored,
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

/// All associations of a card. RoCE packets and Weft's datagrams are sent only encrypted and are not accepted
/// in plaintext. Other frames are sent and accepted unchanged.
#[derive(Debug)]
pub struct Psp {
    config: PspConfig,
    senders: Vec<Sender>,
    receivers: Box<[Option<Receiver>]>,
    counters: Counters,
    #[cfg(feature = "planted-bugs")]
    planted: Option<PlantedBug>,
}

/// Kind of a frame for PSP. `end` is the end of the frame according to its headers; the frame may be shorter.
enum Kind {
    Protected { destination: Ipv4Addr, end: usize },
    Sealed { source: Ipv4Addr, end: usize },
    Other,
}

impl Default for Psp {
    fn default() -> Self {
        Self::new(PspConfig::default())
    }
}

impl Psp {
    /// There are no associations yet, so frames that must be encrypted are neither sent nor accepted.
    ///
    /// # Panics
    /// If the number of associations is not a power of two.
    pub fn new(config: PspConfig) -> Self {
        assert!(config.associations.is_power_of_two(), "the low bits of a SPI are its place");
        Self {
            senders: Vec::with_capacity(config.associations),
            receivers: std::iter::repeat_with(|| None).take(config.associations).collect(),
            counters: Counters::default(),
            #[cfg(feature = "planted-bugs")]
            planted: None,
            config,
        }
    }

    /// The same with a planted bug.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub fn with_planted_bug(self, bug: PlantedBug) -> Self {
        Self { planted: Some(bug), ..self }
    }

    /// Makes a change that the host requests. If it is refused, the refusal is also counted.
    ///
    /// # Errors
    /// As [`Psp::install_receiver`] and [`Psp::install_sender`].
    pub fn change(&mut self, change: &Change) -> Result<(), InstallError> {
        let changed = match *change {
            Change::InstallReceiver { peer, spi, ref key } => self.install_receiver(peer, spi, key),
            Change::InstallSender { peer, spi, ref key } => self.install_sender(peer, spi, key),
            Change::RemoveReceiver { spi } => {
                self.remove_receiver(spi);
                Ok(())
            }
            Change::RemovePeer { peer } => {
                self.remove_peer(peer);
                Ok(())
            }
        };
        self.counters.psp_changes_refused += u64::from(changed.is_err());
        changed
    }

    /// Counters since the start.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Accepts frames from `peer` with `spi` and this key, in addition to those accepted already.
    ///
    /// # Errors
    /// [`InstallError::PlaceTaken`] if an SPI with the same low bits is installed.
    pub fn install_receiver(&mut self, peer: Ipv4Addr, spi: u32, key: &Key) -> Result<(), InstallError> {
        let place = self.place_mut(spi);
        if place.is_some() {
            return Err(InstallError::PlaceTaken);
        }
        *place = Some(Receiver { peer, spi, cipher: Cipher::new(key), window: ReplayWindow::default() });
        Ok(())
    }

    /// Encrypts frames to `peer` with this key from now on.
    ///
    /// # Errors
    /// [`InstallError::KeyInUse`] if a sender already uses the key. Keys must never be assigned twice.
    pub fn install_sender(&mut self, peer: Ipv4Addr, spi: u32, key: &Key) -> Result<(), InstallError> {
        if self.senders.iter().any(|sender| sender.key == *key) {
            return Err(InstallError::KeyInUse);
        }
        let sender = Sender { peer, spi, key: *key, cipher: Cipher::new(key), counter: 0 };
        if let Some(former) = self.senders.iter_mut().find(|sender| sender.peer == peer) {
            *former = sender;
        } else if self.senders.len() < self.config.associations {
            self.senders.push(sender);
        } else {
            return Err(InstallError::Full);
        }
        Ok(())
    }

    /// Stops accepting frames with `spi`, which belongs to the previous key after a key change.
    pub fn remove_receiver(&mut self, spi: u32) {
        let place = self.place_mut(spi);
        if place.as_ref().is_some_and(|receiver| receiver.spi == spi) {
            *place = None;
        }
    }

    /// Ends all associations with a node that is no longer a member. None of its frames is accepted from now
    /// on.
    pub fn remove_peer(&mut self, peer: Ipv4Addr) {
        self.senders.retain(|sender| sender.peer != peer);
        for place in &mut self.receivers {
            if place.as_ref().is_some_and(|receiver| receiver.peer == peer) {
                *place = None;
            }
        }
    }

    /// The table entry of the association with this SPI, even if it is empty.
    fn place_mut(&mut self, spi: u32) -> &mut Option<Receiver> {
        &mut self.receivers[spi as usize & (self.config.associations - 1)]
    }

    fn classify(&self, frame: &[u8]) -> Kind {
        // Any other frame does not belong to the card, and goes to the host.
        let is_udp = frame.len() >= PSP_AT
            && frame[12..14] == ETHER_TYPE_IPV4.to_be_bytes()
            && frame[IP_AT] == 0x45
            && frame[IP_AT + 9] == PROTOCOL_UDP
            && be16(frame, IP_AT + 6) & 0x3fff == 0;
        if !is_udp {
            return Kind::Other;
        }
        let address = |at: usize| Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3]);
        let (source, destination) = (address(IP_AT + 12), address(IP_AT + 16));
        let end = IP_AT + usize::from(be16(frame, IP_AT + 2));
        let (from, port) = (be16(frame, UDP_AT), be16(frame, UDP_AT + 2));
        // Clients that engines answer have ports of their own.
        let is_datagram = [from, port].contains(&datagram::UDP_PORT);
        if port == self.config.port {
            Kind::Sealed { source, end }
        } else if port == roce::UDP_PORT || is_datagram {
            Kind::Protected { destination, end }
        } else {
            Kind::Other
        }
    }

    fn seal_frame(&mut self, frame: &mut Vec<u8>) -> Result<(), Refusal> {
        let Kind::Protected { destination, end } = self.classify(frame) else { return Ok(()) };
        if end > frame.len() || end < PSP_AT {
            return Err(Refusal::Malformed);
        }
        let sender = self
            .senders
            .iter_mut()
            .find(|sender| sender.peer == destination)
            .ok_or(Refusal::NoAssociation)?;
        if sender.counter >= self.config.frames_per_key {
            return Err(Refusal::KeyUsedUp);
        }
        let header = PspHeader { version: sender.cipher.version(), spi: sender.spi, counter: sender.counter };
        sender.counter += 1;

        // Removes Ethernet's padding, and makes room for the headers in front.
        frame.resize(end + OVERHEAD_BYTES, 0);
        frame.copy_within(UDP_AT..end, SEALED_AT);
        // The network selects paths by ports, so the outer source port is that of the inner packet.
        let source_port = be16(frame, SEALED_AT);
        let udp = Udp { source_port, destination_port: self.config.port };
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
        let (source, end) = match self.classify(frame) {
            Kind::Other => return Ok(false),
            #[cfg(feature = "planted-bugs")]
            Kind::Protected { .. } if self.planted == Some(PlantedBug::PlaintextAccepted) => {
                return Ok(false);
            }
            Kind::Protected { .. } => return Err(Refusal::Plaintext),
            Kind::Sealed { source, end } => (source, end),
        };
        // The encrypted part contains at least a UDP header.
        let text_end = end.checked_sub(TAG_BYTES).filter(|text_end| *text_end >= SEALED_AT + Udp::BYTES);
        let text_end = text_end.filter(|_| frame.len() >= SEALED_AT).ok_or(Refusal::Malformed)?;
        let header = frame[PSP_AT..SEALED_AT].try_into().expect("16 bytes");
        let header = header::PspHeader::parse(header).ok_or(Refusal::Malformed)?;
        #[cfg(feature = "planted-bugs")]
        let planted = self.planted;
        let receiver = self.place_mut(header.spi).as_mut().filter(|found| found.spi == header.spi);
        let receiver = receiver.ok_or(Refusal::UnknownSpi)?;
        if receiver.peer != source {
            return Err(Refusal::WrongPeer);
        }
        if receiver.cipher.version() != header.version {
            return Err(Refusal::WrongVersion);
        }
        if end > frame.len() {
            return Err(Refusal::Malformed);
        }
        #[cfg(feature = "planted-bugs")]
        if planted == Some(PlantedBug::WindowBeforeTag) {
            if !receiver.window.allows(header.counter) {
                return Err(Refusal::Replayed);
            }
            receiver.window.accept(header.counter);
        }
        let (front, sealed) = frame.split_at_mut(SEALED_AT);
        let (text, rest) = sealed.split_at_mut(text_end - SEALED_AT);
        let tag = rest[..TAG_BYTES].try_into().expect("a tag");
        if !receiver.cipher.open(&header.nonce(), &front[PSP_AT..], text, tag) {
            return Err(Refusal::BadTag);
        }
        #[cfg(feature = "planted-bugs")]
        let window_counts = !matches!(planted, Some(PlantedBug::WindowBeforeTag | PlantedBug::WindowIgnored));
        #[cfg(not(feature = "planted-bugs"))]
        let window_counts = true;
        if window_counts {
            if !receiver.window.allows(header.counter) {
                return Err(Refusal::Replayed);
            }
            receiver.window.accept(header.counter);
        }
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
        match sealed {
            Ok(()) => self.counters.psp_sealed += u64::from(frame.len() != before),
            Err(refusal) => self.counters.count(refusal),
        }
        sealed
    }

    fn open(&mut self, frame: &mut Vec<u8>) -> Result<(), Refusal> {
        let opened = self.open_frame(frame);
        match opened {
            Ok(opened) => self.counters.psp_opened += u64::from(opened),
            Err(refusal) => self.counters.count(refusal),
        }
        opened.map(|_| ())
    }
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}
