//! The most of each that is measured.

/// The most queue pairs: what the transport promises to serve fairly.
pub const QUEUE_PAIRS_MAX: u32 = 500;

/// The most machines of a ring.
pub const RING_MAX: u32 = 16;

/// The most clients of one server.
pub const INCAST_MAX: u32 = 32;
