//! The packed structs and constants of the gateware's packages (`rtl/weft_pkg.sv` and others), generated from
//! those files when this crate is built.
//!
//! A field of one bit is a `bool`; other fields have the smallest unsigned integer type that is wide enough.
//! A field of more than 64 bits is an array of words, the lowest first. Packing drops the bits of a value
//! that exceed the field's width.

#![allow(
    clippy::useless_conversion,
    clippy::unnecessary_cast,
    reason = "what is written for fields of any width does nothing for some"
)]

include!(concat!(env!("OUT_DIR"), "/package.rs"));

/// Writes the low `bits` (1 to 64) of `value` at bit `at` of `words`, which must be zero there.
#[inline]
pub(crate) fn put(words: &mut [u32], at: u32, bits: u32, value: u64) {
    let value = u128::from(value & (u64::MAX >> (64 - bits))) << (at % 32);
    let first = (at / 32) as usize;
    for (word, part) in words[first..].iter_mut().zip([value, value >> 32, value >> 64]) {
        *word |= part as u32;
    }
}

/// Reads `bits` bits (1 to 64) at bit `at` of `words`.
#[inline]
pub(crate) fn take(words: &[u32], at: u32, bits: u32) -> u64 {
    let first = (at / 32) as usize;
    let mut value = 0_u128;
    for (index, word) in words[first..].iter().take(3).enumerate() {
        value |= u128::from(*word) << (32 * index);
    }
    (value >> (at % 32)) as u64 & (u64::MAX >> (64 - bits))
}

/// Writes the low `bits` of `values` at bit `at` of `words`, which must be zero there.
#[inline]
pub(crate) fn put_words(words: &mut [u32], at: u32, bits: u32, values: &[u32]) {
    for (index, &value) in (0..).zip(values) {
        let left = bits.saturating_sub(32 * index).min(32);
        if left > 0 {
            put(words, at + 32 * index, left, value.into());
        }
    }
}

/// Reads `bits` bits at bit `at` of `words`, as words.
#[inline]
pub(crate) fn take_words<const N: usize>(words: &[u32], at: u32, bits: u32) -> [u32; N] {
    let mut values = [0; N];
    for (index, value) in (0..).zip(&mut values) {
        let left = bits.saturating_sub(32 * index).min(32);
        if left > 0 {
            *value = take(words, at + 32 * index, left) as u32;
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_as_in_the_package() {
        // The first field is in the highest bits.
        let beat = Beat { last: true, empty: 0x2a, data: [0; 16] };
        assert_eq!(Beat::BITS, 519);
        assert_eq!(beat.pack()[16], 1 << 6 | 0x2a);
        let access = Access { local_write: true, remote_read: true, ..Access::default() };
        assert_eq!(access.to_bits(), 5);
        assert_eq!(RESPONDER_RESOURCES, 16);
        assert_eq!(SYNDROME_SEQUENCE_ERROR, 0x60);
        assert_eq!((CONTROL_RESET, CONTROL_ERROR), (0, 5));
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let request = WorkRequest {
            qp: 0x1ff,
            id: 0x0123_4567_89ab_cdef,
            operation: OPERATION_READ as u8,
            signaled: true,
            fence: false,
            solicited: true,
            has_immediate: true,
            immediate: 0xdead_beef,
            local_address: u64::MAX - 3,
            length: 1 << 31,
            lkey: 7,
            remote_address: 0x8000_0000_0000_0001,
            rkey: u32::MAX,
            swap_or_add: 0x5555_aaaa_5555_aaaa,
            compare: 1,
        };
        assert_eq!(WorkRequest::unpack(&request.pack()), request);
        let consequence = Consequence {
            qp: 3,
            complete: true,
            completion: Completion { id: 9, bytes: 10, vendor_error: 0x62, ..Completion::default() },
            marker: true,
            ..Consequence::default()
        };
        assert_eq!(Consequence::unpack(&consequence.pack()), consequence);
    }

    #[test]
    fn bits_beyond_a_field_do_not_reach_its_neighbour() {
        let wide = Transfer { address: 1 << 47, bytes: 0xffff };
        let narrow = Transfer::from_bits(wide.to_bits());
        assert_eq!(narrow, Transfer { address: 1 << 47, bytes: 0x1fff });
    }
}
