//! The content of a key, as it is stored.
//!
//! The store's values have at least one byte and no time to live, so the server puts a header with both in front
//! of the value:
//!
//! ```text
//! 0 value                 no expiry
//! 1 expires(8) value      expires at this time, in milliseconds since 1970, big-endian
//! ```

/// The longest header, in bytes.
pub const HEADER_BYTES_MAX: usize = 9;

const STAYS: u8 = 0;
const EXPIRES: u8 = 1;

/// The content of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The value, any bytes.
    pub value: Vec<u8>,
    /// When the key expires, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
}

impl Record {
    /// Encodes the record as a value of the store.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES_MAX + self.value.len());
        write(&self.value, self.expires_ms, &mut bytes);
        bytes
    }

    /// Decodes a value of the store; `None` if it was not written through a Redis server.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (value, expires_ms) = read(bytes)?;
        Some(Self { value: value.to_vec(), expires_ms })
    }
}

/// Appends the encoded record.
pub fn write(value: &[u8], expires_ms: Option<u64>, out: &mut Vec<u8>) {
    match expires_ms {
        None => out.push(STAYS),
        Some(at) => {
            out.push(EXPIRES);
            out.extend_from_slice(&at.to_be_bytes());
        }
    }
    out.extend_from_slice(value);
}

/// The value and its expiry, as in [`Record::decode`].
pub fn read(bytes: &[u8]) -> Option<(&[u8], Option<u64>)> {
    match bytes {
        [STAYS, value @ ..] => Some((value, None)),
        [EXPIRES, rest @ ..] => {
            let (at, value) = rest.split_first_chunk()?;
            Some((value, Some(u64::from_be_bytes(*at))))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(value: Vec<u8>, expires_ms: Option<u64>) {
            let record = Record { value, expires_ms };
            prop_assert_eq!(Record::decode(&record.encode()), Some(record));
        }

        #[test]
        fn what_is_read_is_written_the_same(bytes: Vec<u8>) {
            if let Some(record) = Record::decode(&bytes) {
                prop_assert_eq!(record.encode(), bytes);
            }
        }
    }
}
