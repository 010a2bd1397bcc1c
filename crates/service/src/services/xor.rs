//! Adds eight bytes without carry, again and again; twin of `rtl/services/xor_service.sv`. It hides nothing from
//! anybody.

use crate::shapes::Map;

/// The byte at offset *n* is combined with byte *n* mod 8 of the value, the lowest of which is byte 0.
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
