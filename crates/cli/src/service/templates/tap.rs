//! Counts the bytes of a flow that equal the lowest byte of the value; equivalent to
//! `rtl/services/@name@_service.sv`.

use crate::shapes::Tap;

/// The verdict on a packet is their number in it. The state of a flow is their number in accepted packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct @Name@;

impl Tap for @Name@ {
    fn verdict(&self, value: u64, _offset: u64, bytes: &[u8]) -> u32 {
        bytes.iter().filter(|byte| **byte == value as u8).count() as u32
    }

    fn accept(&self, state: u64, verdict: u32) -> u64 {
        state.wrapping_add(verdict.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_are_counted() {
        let verdict = @Name@.verdict(0x107, 0, &[7, 1, 7, 8]);
        assert_eq!((verdict, @Name@.accept(3, verdict)), (2, 5));
    }
}
