//! The value of the register.

use crate::ballot::ProposerId;

/// The most bytes of a value. A message with a value fits into one packet of an Ethernet.
pub const VALUE_BYTES_MAX: usize = 1_280;

/// A value of the register.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value {
    /// Number of values that have been set, this one included; 0 before the first.
    pub version: u64,
    /// The proposer that has set the value.
    pub writer: ProposerId,
    /// The content, at most [`VALUE_BYTES_MAX`].
    pub bytes: Vec<u8>,
}

impl Value {
    /// The value before any has been set: version 0, without content.
    pub const NONE: Self =
        Self { version: 0, writer: ProposerId { number: 0, incarnation: 0 }, bytes: Vec::new() };
    /// The last version.
    pub const VERSION_MAX: u64 = 1 << 62;
}
