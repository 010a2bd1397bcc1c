//! Numbers by which nodes identify clients.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A number that no other client has, not 0, and higher than those of earlier clients. It is made of the
/// nanoseconds of the wall clock, increased if this process has opened a client in the same nanosecond, and of two
/// bits of the process's number, in case two processes start in the same nanosecond.
pub(crate) fn new_identity() -> u64 {
    static LATEST: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanoseconds = since.as_nanos() as u64 & (u64::MAX >> 2);
    let before = LATEST.fetch_max(nanoseconds, Ordering::Relaxed);
    let own = if before < nanoseconds { nanoseconds } else { LATEST.fetch_add(1, Ordering::Relaxed) + 1 };
    own << 2 | u64::from(std::process::id() & 3)
}
