//! The two datagrams of a handshake.
//!
//! ```text
//! 0    "Ws", version, kind: 1 hello, 2 welcome, 3 stranger
//! 4    SPI that the sender has chosen for the frames that it will receive
//! 8    random value of the initiator
//! 24   random value of the responder; zero but in a welcome
//! 40   address of the receiver, as the sender knows it: 16 bytes, IPv4 mapped to IPv6, and the port
//! 58   address of the sender; unspecified if it is bound to all
//! 76   random value of the sender's process
//! 84   HMAC-SHA256 of all before, under a key derived from the cluster key
//! ```

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::key::{KeySchedule, NONCE_BYTES, Nonce, TAG_BYTES};

/// Number of bytes of a datagram of a handshake. A hello is as long as the welcome, so nothing is amplified.
pub const HANDSHAKE_BYTES: usize = TAG_AT + TAG_BYTES;

const TAG_AT: usize = 84;
/// The first byte differs from PSP's, which is the number of UDP.
const BEGIN: [u8; 3] = [b'W', b's', 1];
const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const STRANGER: u8 = 3;

/// The kind of a datagram of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Asks for an association.
    Hello,
    /// Answers a hello.
    Welcome {
        /// Random value of the responder.
        responder: Nonce,
    },
    /// Tells the sender of plaintext, or of a hello under another key, that it is a stranger here. It changes nothing;
    /// who cannot verify it knows why nobody answers.
    Stranger,
}

/// A datagram of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Its kind.
    pub kind: Kind,
    /// The SPI of frames to the sender.
    pub spi: u32,
    /// Random value of the initiator, who sends the hello.
    pub initiator: Nonce,
    /// The address of the receiver, as the sender knows it.
    pub to: SocketAddr,
    /// The address to which the sender is bound.
    pub from: SocketAddr,
    /// Random value of the sender's process, by which it knows its own datagrams if they come back.
    pub process: [u8; 8],
}

/// Why a datagram is none of a handshake of this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// Its length, version, kind or a field is wrong.
    Malformed,
    /// Its tag is wrong.
    BadTag,
}

/// Whether a datagram says that it belongs to a handshake, of any version.
pub fn is_handshake(bytes: &[u8]) -> bool {
    bytes.starts_with(&BEGIN[..2])
}

/// Whether a datagram of a handshake says that it is a hello.
pub(crate) fn is_hello(bytes: &[u8]) -> bool {
    bytes.get(3) == Some(&HELLO)
}

impl Handshake {
    /// Encodes the datagram with its tag.
    pub fn encode(&self, keys: &KeySchedule) -> [u8; HANDSHAKE_BYTES] {
        let mut bytes = [0; HANDSHAKE_BYTES];
        bytes[..3].copy_from_slice(&BEGIN);
        match self.kind {
            Kind::Hello => bytes[3] = HELLO,
            Kind::Stranger => bytes[3] = STRANGER,
            Kind::Welcome { responder } => {
                bytes[3] = WELCOME;
                bytes[24..40].copy_from_slice(&responder);
            }
        }
        bytes[4..8].copy_from_slice(&self.spi.to_be_bytes());
        bytes[8..24].copy_from_slice(&self.initiator);
        for (at, address) in [(40, self.to), (58, self.from)] {
            bytes[at..at + 16].copy_from_slice(&mapped(address.ip()).octets());
            bytes[at + 16..at + 18].copy_from_slice(&address.port().to_be_bytes());
        }
        bytes[76..TAG_AT].copy_from_slice(&self.process);
        let tag = keys.tag(&bytes[..TAG_AT]);
        bytes[TAG_AT..].copy_from_slice(&tag);
        bytes
    }

    /// Decodes a datagram and checks its tag.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn decode(bytes: &[u8], keys: &KeySchedule) -> Result<Self, HandshakeError> {
        let bytes: &[u8; HANDSHAKE_BYTES] = bytes.try_into().map_err(|_| HandshakeError::Malformed)?;
        if bytes[..3] != BEGIN {
            return Err(HandshakeError::Malformed);
        }
        if !keys.verify(&bytes[..TAG_AT], &bytes[TAG_AT..]) {
            return Err(HandshakeError::BadTag);
        }
        let responder = nonce(bytes, 24);
        let kind = match bytes[3] {
            HELLO if responder == [0; NONCE_BYTES] => Kind::Hello,
            WELCOME => Kind::Welcome { responder },
            STRANGER if responder == [0; NONCE_BYTES] => Kind::Stranger,
            _ => return Err(HandshakeError::Malformed),
        };
        let address = |at: usize| {
            let ip: [u8; 16] = bytes[at..at + 16].try_into().expect("16 bytes");
            let port = u16::from_be_bytes([bytes[at + 16], bytes[at + 17]]);
            SocketAddr::new(Ipv6Addr::from(ip).to_canonical(), port)
        };
        Ok(Self {
            kind,
            spi: u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            initiator: nonce(bytes, 8),
            to: address(40),
            from: address(58),
            process: bytes[76..TAG_AT].try_into().expect("8 bytes"),
        })
    }

    /// Whether the datagram has gone the way that its sender meant: to `own` address, and from `source`. An address
    /// that is bound to all is not known to its owner, and fits any.
    pub fn went_from_to(&self, source: SocketAddr, own: SocketAddr) -> bool {
        let fits = |bound: SocketAddr, seen: SocketAddr| {
            let (bound_ip, seen_ip) = (bound.ip().to_canonical(), seen.ip().to_canonical());
            bound_ip.is_unspecified() || (bound_ip, bound.port()) == (seen_ip, seen.port())
        };
        fits(own, self.to) && fits(self.from, source)
    }
}

fn nonce(bytes: &[u8; HANDSHAKE_BYTES], at: usize) -> Nonce {
    bytes[at..at + NONCE_BYTES].try_into().expect("16 bytes")
}

fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ClusterKey;

    fn keys(of: u8) -> KeySchedule {
        KeySchedule::new(&ClusterKey::new([of; 32]), "test")
    }

    fn address() -> impl Strategy<Value = SocketAddr> {
        let ip =
            prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u8; 16]>().prop_map(IpAddr::from)];
        (ip, any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip.to_canonical(), port))
    }

    fn handshake() -> impl Strategy<Value = Handshake> {
        let kind = prop_oneof![
            Just(Kind::Hello),
            Just(Kind::Stranger),
            any::<Nonce>().prop_map(|responder| Kind::Welcome { responder })
        ];
        (kind, any::<u32>(), any::<Nonce>(), address(), address(), any::<[u8; 8]>()).prop_map(
            |(kind, spi, initiator, to, from, process)| Handshake { kind, spi, initiator, to, from, process },
        )
    }

    proptest! {
        #[test]
        fn what_is_decoded_was_encoded(handshake in handshake(), at in 0..HANDSHAKE_BYTES, bit in 0..8) {
            let bytes = handshake.encode(&keys(1));
            prop_assert_eq!(Handshake::decode(&bytes, &keys(1)), Ok(handshake));
            prop_assert_eq!(Handshake::decode(&bytes, &keys(2)), Err(HandshakeError::BadTag));
            let mut flipped = bytes;
            flipped[at] ^= 1_u8 << bit;
            prop_assert!(Handshake::decode(&flipped, &keys(1)).is_err());
            prop_assert_eq!(Handshake::decode(&bytes[..at], &keys(1)), Err(HandshakeError::Malformed));
        }
    }

    #[test]
    fn only_the_way_that_was_meant_is_accepted() {
        let [node, other]: [SocketAddr; 2] = ["10.0.0.1:4793", "10.0.0.2:4793"].map(|it| it.parse().unwrap());
        let everywhere: SocketAddr = "0.0.0.0:50000".parse().unwrap();
        let [client, mapped]: [SocketAddr; 2] =
            ["10.0.0.9:50000", "[::ffff:10.0.0.1]:4793"].map(|it| it.parse().unwrap());
        let handshake = |to, from| {
            let kind = Kind::Hello;
            Handshake { kind, spi: 1, initiator: [1; 16], to, from, process: [0; 8] }
        };
        assert!(handshake(node, other).went_from_to(other, node));
        assert!(handshake(node, other).went_from_to(other, mapped));
        assert!(!handshake(node, other).went_from_to(client, node), "with another source");
        assert!(!handshake(node, other).went_from_to(other, other), "to another destination");
        assert!(handshake(node, everywhere).went_from_to(client, node));
        assert!(handshake(client, node).went_from_to(node, everywhere));
    }
}
