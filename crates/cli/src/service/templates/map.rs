//! Adds the lowest byte of the value to each byte of the payload; equivalent to `rtl/services/@name@_service.sv`.

use crate::shapes::Map;

/// The result of each byte may depend on its offset and on the bytes of the same aligned word of 64.
#[derive(Clone, Copy, Debug)]
pub(super) struct @Name@;

impl Map for @Name@ {
    fn map(&self, value: u64, _offset: u64, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = byte.wrapping_add(value as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_wrap_around() {
        let mut bytes = [0, 7, 255];
        @Name@.map(0x102, 0, &mut bytes);
        assert_eq!(bytes, [2, 9, 1]);
    }
}
