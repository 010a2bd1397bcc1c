//! Identity of the cluster to which a message belongs.

use std::fmt;

use crate::text::Text;

/// The name of a cluster. It distinguishes the cluster's messages from those of other clusters on the same
/// network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterName(Text);

/// A number derived from a cluster's name, which every message carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClusterId(pub u64);

impl ClusterName {
    /// Length of the longest name, in bytes.
    pub const BYTES_MAX: usize = 32;
    /// Name of a cluster whose configuration has none.
    pub const DEFAULT: &str = "weft";

    /// A name of 1 to 32 letters, digits, dots, hyphens and underscores; `None` for any other.
    pub fn new(name: &str) -> Option<Self> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_name = (1..=Self::BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed);
        Text::new(name).filter(|_| is_name).map(Self)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The number that messages carry.
    pub fn id(&self) -> ClusterId {
        ClusterId::of(self.as_str())
    }
}

impl Default for ClusterName {
    fn default() -> Self {
        Self::new(Self::DEFAULT).expect("the default name is one")
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl ClusterId {
    /// The 64-bit FNV-1a hash of the name (draft-eastlake-fnv, section 2). It tells apart clusters whose messages
    /// meet by mistake; it is not a secret.
    fn of(name: &str) -> Self {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        Self(name.bytes().fold(0xcbf2_9ce4_8422_2325, step))
    }
}

impl Default for ClusterId {
    fn default() -> Self {
        ClusterName::default().id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_plain() {
        for name in ["weft", "ledger-2", "a", "x.y_z"] {
            assert_eq!(ClusterName::new(name).unwrap().as_str(), name);
        }
        for name in ["", "two words", "tab\t", "naïve", &"x".repeat(33)] {
            assert_eq!(ClusterName::new(name), None, "{name}");
        }
    }

    #[test]
    fn the_number_is_the_published_hash() {
        // Test vectors of the draft, appendix C.
        assert_eq!(ClusterId::of("a"), ClusterId(0xaf63_dc4c_8601_ec8c));
        assert_eq!(ClusterId::of("foobar"), ClusterId(0x8594_4171_f739_67e8));
        assert_ne!(ClusterName::new("ledger").unwrap().id(), ClusterId::default());
    }
}
