//! XORs the payload with eight bytes, which repeat; equivalent to `rtl/services/xor_service.sv`. This is not
//! encryption.

use crate::shapes::Map;

/// The byte at offset *n* is XORed with byte *n* mod 8 of the value. Byte 0 is the lowest byte.
#[derive(Clone, Copy, Debug)]
pub struct Xor;

impl Map for Xor {
    fn map(&self, value: u64, offset: u64, bytes: &mut [u8]) {
        let key = value.to_le_bytes();
        for (at, byte) in (offset..).zip(bytes) {
            *byte ^= key[(at % 8) as usize];
        }
    }
}
