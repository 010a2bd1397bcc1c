//! How long one run of a procedure takes on a host core.
//!
//! Measured: `cargo run --release -p weft-applications --example procedures` prints the times of all runs of each on
//! the machine at hand. What stands here is the median of the means of five such measurements on a virtual machine
//! with an AMD EPYC, rounded up to 10 ns. What it takes to find keys, to lock them and to move values is not in it. A
//! card's cores are slower by the factor of the cost table.

use weft_time::Duration;

/// Smallbank, any of the six.
pub(super) const SMALLBANK: Duration = Duration::from_ns(60);
/// Retwis, any of the four.
pub(super) const RETWIS: Duration = Duration::from_ns(60);
/// TPC-C new-order: ten stocks and as many lines on average.
pub(super) const NEW_ORDER: Duration = Duration::from_ns(730);
/// TPC-C payment, each of its one or two runs.
pub(super) const PAYMENT: Duration = Duration::from_ns(110);
/// TPC-C order-status, each of its three or four runs.
pub(super) const ORDER_STATUS: Duration = Duration::from_ns(180);
/// TPC-C delivery of one district's order, each of its three runs.
pub(super) const DELIVERY: Duration = Duration::from_ns(120);
/// TPC-C stock-level, its first piece.
pub(super) const NEXT_ORDER: Duration = Duration::from_ns(50);
/// TPC-C stock-level, each of the two runs of a piece of three orders.
pub(super) const RECENT_ITEMS: Duration = Duration::from_ns(610);
/// TPC-C stock-level, a piece of sixty stocks.
pub(super) const LOW_STOCK: Duration = Duration::from_ns(180);
