//! The PSP header.

/// The port of PSP over UDP.
pub const UDP_PORT: u16 = 1000;

/// The content of the header. Fields that always have the same value here are left out: next header UDP, one
/// unit of extension, no virtualization cookie, everything encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PspHeader {
    /// 0: AES-128-GCM, 1: AES-256-GCM.
    pub version: u8,
    /// The security parameters index, by which a receiver finds the key and the peer.
    pub spi: u32,
    /// The initialization vector, which is a counter here.
    pub counter: u64,
}

impl PspHeader {
    /// Number of bytes of the header.
    pub const BYTES: usize = 16;

    const NEXT_HEADER_UDP: u8 = 17;
    /// Length of the header in units of 8 bytes, without the first unit.
    const EXTENSION: u8 = 1;
    /// The bit in the fourth byte that is always one.
    const ONE: u8 = 1;

    /// Encodes the header.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = Self::NEXT_HEADER_UDP;
        bytes[1] = Self::EXTENSION;
        bytes[3] = self.version << 2 | Self::ONE;
        bytes[4..8].copy_from_slice(&self.spi.to_be_bytes());
        bytes[8..].copy_from_slice(&self.counter.to_be_bytes());
        bytes
    }

    /// Decodes a header. Returns `None` if it uses an unsupported option.
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let [spi, high, low] =
            [4, 8, 12].map(|at| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
        let header =
            Self { version: bytes[3] >> 2 & 0xf, spi, counter: u64::from(high) << 32 | u64::from(low) };
        (header.version <= 1 && header.to_bytes() == *bytes).then_some(header)
    }

    /// The nonce for AES-GCM.
    pub fn nonce(self) -> [u8; 12] {
        let bytes = self.to_bytes();
        std::array::from_fn(|at| bytes[4 + at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_other_kinds_are_refused() {
        let header = PspHeader { version: 1, spi: 0x8000_0001, counter: 0x0102_0304_0506_0708 };
        let bytes = header.to_bytes();
        assert_eq!(PspHeader::parse(&bytes), Some(header));
        assert_eq!(header.nonce(), [0x80, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8]);
        for bit in 0..32 {
            let mut other = bytes;
            other[bit / 8] ^= 1 << (bit % 8);
            let expected = (bit == 3 * 8 + 2).then_some(PspHeader { version: 0, ..header });
            assert_eq!(PspHeader::parse(&other), expected, "bit {bit}");
        }
    }
}
