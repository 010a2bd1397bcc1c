//! Numbers by which nodes tell clients apart.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A number that no other client has, not 0, and higher than those of earlier clients: the wall clock's nanoseconds,
/// which go on counting in a process that opens several clients in one; and two bits of the process's number, for two
/// processes that begin in the same one.
pub(crate) fn new_identity() -> u64 {
    static LATEST: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanoseconds = since.as_nanos() as u64 & (u64::MAX >> 2);
    let before = LATEST.fetch_max(nanoseconds, Ordering::Relaxed);
    let own = if before < nanoseconds { nanoseconds } else { LATEST.fetch_add(1, Ordering::Relaxed) + 1 };
    own << 2 | u64::from(std::process::id() & 3)
}
