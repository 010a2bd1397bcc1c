//! Counts the payload bytes of a flow; equivalent to `rtl/services/count_service.sv`.

use crate::shapes::Tap;

/// The state of a flow is the number of its payload bytes, modulo 2^64.
#[derive(Clone, Copy, Debug)]
pub struct Count;

impl Tap for Count {
    fn verdict(&self, _value: u64, _offset: u64, bytes: &[u8]) -> u32 {
        bytes.len() as u32
    }

    fn accept(&self, state: u64, verdict: u32) -> u64 {
        state.wrapping_add(verdict.into())
    }
}
