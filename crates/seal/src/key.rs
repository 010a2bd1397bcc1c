//! The cluster key, and the keys that are derived from it.

use std::fmt;

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use weft_service::psp::Key;

/// Number of bytes of a cluster key.
pub const KEY_BYTES: usize = 32;

/// Number of random bytes that either side contributes to an association.
pub const NONCE_BYTES: usize = 16;

/// Random value of one side.
pub type Nonce = [u8; NONCE_BYTES];

/// Number of bytes of the tag of a handshake.
pub(crate) const TAG_BYTES: usize = 32;

/// What the line of a key file begins with. The number is the version of its format.
const PREFIX: &str = "weft-key-1:";

/// The secret that all nodes and clients of a cluster share.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterKey([u8; KEY_BYTES]);

/// Why a text is no cluster key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It does not begin as a key file does.
    #[error("it does not begin with `{PREFIX}`")]
    Prefix,
    /// What follows is not a key.
    #[error("`{PREFIX}` is not followed by 64 hexadecimal digits and the end of the line")]
    Digits,
}

impl ClusterKey {
    /// The key of these bytes, which must come from a source of randomness for cryptography.
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// The key in the text of a key file: one line, `weft-key-1:` and 64 hexadecimal digits.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let line = text.strip_suffix('\n').unwrap_or(text);
        let digits = line.strip_prefix(PREFIX).ok_or(KeyError::Prefix)?;
        if digits.len() != 2 * KEY_BYTES || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(KeyError::Digits);
        }
        let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("two digits");
        Ok(Self(std::array::from_fn(byte)))
    }

    /// The text of a key file.
    pub fn to_text(&self) -> String {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{PREFIX}{digits}\n")
    }
}

impl fmt::Debug for ClusterKey {
    /// Does not show the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey")
    }
}

/// The direction of frames: of two ends, the initiator has sent the `hello`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Frames of the initiator.
    FromInitiator,
    /// Frames of the responder.
    FromResponder,
}

/// Derives keys from a cluster key. Clusters with different names never have a derived key in common.
#[derive(Clone)]
pub struct KeySchedule {
    cluster_key: ClusterKey,
    cluster: String,
    handshake: Hmac<Sha256>,
}

impl fmt::Debug for KeySchedule {
    /// Does not show the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySchedule").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl KeySchedule {
    /// The keys of the cluster with this name.
    pub fn new(cluster_key: &ClusterKey, cluster: &str) -> Self {
        let key = derive(cluster_key, &[], cluster, "handshake");
        let handshake = Hmac::new_from_slice(&key).expect("HMAC takes keys of any length");
        Self { cluster_key: cluster_key.clone(), cluster: cluster.to_owned(), handshake }
    }

    /// The key of frames in one direction of the association that has these random values.
    pub fn association(&self, initiator: &Nonce, responder: &Nonce, direction: Direction) -> Key {
        let mut salt = [0; 2 * NONCE_BYTES];
        salt[..NONCE_BYTES].copy_from_slice(initiator);
        salt[NONCE_BYTES..].copy_from_slice(responder);
        let purpose = match direction {
            Direction::FromInitiator => "frames from the initiator",
            Direction::FromResponder => "frames from the responder",
        };
        Key::Aes256(derive(&self.cluster_key, &salt, &self.cluster, purpose))
    }

    /// The tag of a datagram of a handshake.
    pub(crate) fn tag(&self, bytes: &[u8]) -> [u8; TAG_BYTES] {
        self.handshake.clone().chain_update(bytes).finalize().into_bytes().into()
    }

    /// Whether the tag of a datagram of a handshake is right. Takes as long for any wrong one.
    pub(crate) fn verify(&self, bytes: &[u8], tag: &[u8]) -> bool {
        self.handshake.clone().chain_update(bytes).verify_slice(tag).is_ok()
    }
}

/// HKDF-SHA256 (RFC 5869). The length before the name keeps it apart from the purpose.
fn derive(key: &ClusterKey, salt: &[u8], cluster: &str, purpose: &str) -> [u8; 32] {
    let length = (cluster.len() as u64).to_be_bytes();
    let info: [&[u8]; 4] = [b"weft-seal 1", &length, cluster.as_bytes(), purpose.as_bytes()];
    let mut derived = [0; 32];
    Hkdf::<Sha256>::new(Some(salt), &key.0)
        .expand_multi_info(&info, &mut derived)
        .expect("HKDF-SHA256 gives up to 8,160 bytes");
    derived
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_key_is_read_as_it_was_written(bytes: [u8; KEY_BYTES]) {
            let key = ClusterKey::new(bytes);
            let text = key.to_text();
            prop_assert_eq!(text.lines().count(), 1);
            prop_assert_eq!(ClusterKey::parse(&text), Ok(key.clone()));
            prop_assert_eq!(ClusterKey::parse(&text.to_uppercase().replace("WEFT-KEY", "weft-key")), Ok(key));
        }

        #[test]
        fn other_texts_are_refused(text in ".{0,100}") {
            prop_assert!(ClusterKey::parse(&text).is_err());
        }
    }

    #[test]
    fn what_is_wrong_with_a_text_is_told() {
        let text = ClusterKey::new([7; KEY_BYTES]).to_text();
        assert_eq!(ClusterKey::parse(&text[1..]), Err(KeyError::Prefix));
        assert_eq!(ClusterKey::parse(&text.replace("key-1", "key-2")), Err(KeyError::Prefix));
        assert_eq!(ClusterKey::parse(""), Err(KeyError::Prefix));
        for text in [text.replace("07", "+7"), text[..30].to_owned(), format!("{text}\n"), format!(" {text}")]
        {
            assert!(ClusterKey::parse(&text).is_err(), "{text:?}");
        }
        assert_eq!(format!("{:?}", ClusterKey::new([7; KEY_BYTES])), "ClusterKey");
    }

    #[test]
    fn every_input_changes_the_derived_keys() {
        let of = |key: u8, cluster: &str, nonces: [u8; 2], direction| {
            let schedule = KeySchedule::new(&ClusterKey::new([key; KEY_BYTES]), cluster);
            schedule.association(&[nonces[0]; 16], &[nonces[1]; 16], direction)
        };
        let keys = [
            of(1, "a", [1, 2], Direction::FromInitiator),
            of(1, "a", [1, 2], Direction::FromResponder),
            of(1, "a", [2, 1], Direction::FromInitiator),
            of(1, "a", [1, 3], Direction::FromInitiator),
            of(1, "b", [1, 2], Direction::FromInitiator),
            of(2, "a", [1, 2], Direction::FromInitiator),
        ];
        for (at, key) in keys.iter().enumerate() {
            assert!(keys[..at].iter().all(|other| other != key), "key {at}");
        }
    }
}
