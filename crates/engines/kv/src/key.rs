//! Keys of varying length in keys of fixed length.
//!
//! All keys of an engine have `key_bytes` bytes. A shorter key, possibly empty, is stored as its own bytes, a byte
//! `0x80`, and zeros to the end: the padding of ISO/IEC 7816-4. Different keys have different padded forms, and
//! none is a prefix of another.

const END: u8 = 0x80;

/// The longest key of varying length that keys of `key_bytes` bytes can hold.
pub const fn longest(key_bytes: usize) -> usize {
    key_bytes - 1
}

/// Appends the padded form of `key`, `key_bytes` bytes long, to `out`. If `key` is too long, it returns `false`
/// and appends nothing.
pub fn write(key: &[u8], key_bytes: usize, out: &mut Vec<u8>) -> bool {
    if key.len() > longest(key_bytes) {
        return false;
    }
    let end = out.len() + key_bytes;
    out.extend_from_slice(key);
    out.push(END);
    out.resize(end, 0);
    true
}

/// Removes the padding from a key; further zeros may follow it. `None` if the bytes are no padded key.
pub fn read(field: &[u8]) -> Option<&[u8]> {
    let end = field.iter().rposition(|&byte| byte != 0)?;
    (field[end] == END).then_some(&field[..end])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_too_long_is_refused() {
        let mut out = vec![1];
        assert!(write(b"seven b", 8, &mut out) && out == *b"\x01seven b\x80");
        assert!(!write(b"eight by", 8, &mut out) && out.len() == 9);
        assert_eq!(read(&[0; 8]), None);
        assert_eq!(read(b"greeting"), None, "a key that fills the field");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(key in prop::collection::vec(any::<u8>(), 0..64), padding in 0usize..8) {
            let mut field = Vec::new();
            prop_assert!(write(&key, 65, &mut field));
            field.resize(65 + padding, 0);
            prop_assert_eq!(read(&field), Some(&key[..]));
        }

        #[test]
        fn whatever_is_read_is_written_the_same(field in prop::collection::vec(any::<u8>(), 9)) {
            if let Some(key) = read(&field) {
                let mut out = Vec::new();
                prop_assert!(write(key, 9, &mut out));
                prop_assert_eq!(out, field);
            }
        }
    }
}
