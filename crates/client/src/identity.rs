//! Numbers by which nodes tell clients apart.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A number that no other client has, and not 0: the wall clock's nanoseconds tell apart processes, their numbers
/// those of one moment, and a counter those of one process.
pub(crate) fn new_identity() -> u64 {
    static CLIENTS: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let count = CLIENTS.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((since.as_nanos() as u64) ^ u64::from(std::process::id()) << 40).wrapping_add(count).max(1)
}
