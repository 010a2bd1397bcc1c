//! Limits of the length of a lease.

use weft_time::Duration;

/// The shortest lease. Below it, heartbeats would crowd out the traffic that the lease protects.
pub const LEASE_MIN: Duration = Duration::from_us(100);
/// The longest lease. A crash stops the cluster's writes for about the length of a lease.
pub const LEASE_MAX: Duration = Duration::from_secs(3_600);
