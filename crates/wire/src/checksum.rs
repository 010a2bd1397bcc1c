//! The Internet checksum (RFC 1071): the ones' complement of the ones' complement sum of 16-bit words.

/// A partial sum. Bytes may be added in several slices; all slices but the last must have an even length.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum(u64);

impl Sum {
    /// Adds bytes. If their number is odd, a zero byte is appended.
    ///
    /// Four bytes are added at a time: a sum of 32-bit words folds to the same 16 bits, and a sum over 65,535
    /// bytes cannot overflow 64 bits.
    pub(crate) fn add(self, bytes: &[u8]) -> Sum {
        let (words, rest) = bytes.as_chunks::<4>();
        let sum: u64 = words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum();
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        Sum(self.0 + sum + u64::from(u32::from_be_bytes(last)))
    }

    /// The checksum; zero if the bytes already contain their correct checksum.
    pub(crate) fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

/// The checksum of one slice.
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    Sum::default().add(bytes).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example of RFC 1071, section 3.
    #[test]
    fn sums_as_the_rfc_does() {
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    #[test]
    fn odd_lengths_count_as_padded_with_zero() {
        let bytes: Vec<u8> = (1..=9).collect();
        for length in 0..=bytes.len() {
            let mut padded = bytes[..length].to_vec();
            padded.resize(12, 0);
            assert_eq!(checksum(&bytes[..length]), checksum(&padded), "{length} bytes");
        }
    }
}
