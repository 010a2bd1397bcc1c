//! Short texts in messages and registers: of fixed size, and always printable, even if the sender is hostile.

use std::fmt;

/// Up to [`Text::BYTES_MAX`] bytes of printable ASCII.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text {
    bytes: [u8; Self::BYTES_MAX],
    length: u8,
}

impl Text {
    /// Length of the longest text, in bytes.
    pub const BYTES_MAX: usize = 64;

    /// `text`, or `None` if it is too long or not printable on one line.
    pub fn new(text: &str) -> Option<Self> {
        Self::from_bytes(text.as_bytes())
    }

    /// As [`Text::new`], from bytes that an untrusted peer may have sent.
    pub fn from_bytes(text: &[u8]) -> Option<Self> {
        let is_printable = text.iter().all(|byte| matches!(byte, b' '..=b'~'));
        if text.len() > Self::BYTES_MAX || !is_printable {
            return None;
        }
        let mut bytes = [0; Self::BYTES_MAX];
        bytes[..text.len()].copy_from_slice(text);
        Some(Self { bytes, length: text.len() as u8 })
    }

    /// Text of `value`, truncated to [`Text::BYTES_MAX`].
    ///
    /// # Panics
    /// If the text has characters that are not printable ASCII.
    pub(crate) fn of(value: impl fmt::Display) -> Self {
        let text = value.to_string();
        let length = text.len().min(Self::BYTES_MAX);
        Self::from_bytes(&text.as_bytes()[..length]).expect("the caller shows printable ASCII")
    }

    /// The text without padding.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("ASCII is UTF-8")
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_printed_is_no_text() {
        assert_eq!(Text::new("node 1").unwrap().as_str(), "node 1");
        assert_eq!(Text::new(&"x".repeat(65)), None);
        assert_eq!(Text::from_bytes(b"two\nlines"), None);
        assert_eq!(Text::from_bytes(b"\x1b[2J"), None);
    }
}
