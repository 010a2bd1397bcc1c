//! Upper limits of the benchmarks' parameters.

/// The largest number of queue pairs: the number that the transport promises to serve fairly.
pub const QUEUE_PAIRS_MAX: u32 = 500;

/// The largest number of machines of a ring.
pub const RING_MAX: u32 = 16;

/// The largest number of clients of one server.
pub const INCAST_MAX: u32 = 32;
