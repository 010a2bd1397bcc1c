//! How much time one run of a procedure takes on a host core.
//!
//! `cargo run --release -p weft-applications --example procedures` measures these times on the machine where it runs.
//! The constants here are, for each procedure, the median of the means of five such measurements on a virtual machine
//! with an AMD EPYC, rounded up to 10 ns. They do not include finding keys, locking them and moving values. A card's
//! cores are slower by the factor of the cost table.

use weft_time::Duration;

/// Each of Smallbank's six procedures.
pub(super) const SMALLBANK: Duration = Duration::from_ns(60);
/// Each of Retwis's four procedures.
pub(super) const RETWIS: Duration = Duration::from_ns(60);
/// TPC-C new-order, with ten stocks and ten lines, which is the average.
pub(super) const NEW_ORDER: Duration = Duration::from_ns(730);
/// TPC-C payment: each of its one or two runs.
pub(super) const PAYMENT: Duration = Duration::from_ns(110);
/// TPC-C order-status: each of its three or four runs.
pub(super) const ORDER_STATUS: Duration = Duration::from_ns(180);
/// TPC-C delivery of one district's order: each of its three runs.
pub(super) const DELIVERY: Duration = Duration::from_ns(120);
/// TPC-C stock-level: its first piece, which reads the number of the next order.
pub(super) const NEXT_ORDER: Duration = Duration::from_ns(50);
/// TPC-C stock-level: each of the two runs of a piece that reads three orders.
pub(super) const RECENT_ITEMS: Duration = Duration::from_ns(610);
/// TPC-C stock-level: a piece that reads sixty stocks.
pub(super) const LOW_STOCK: Duration = Duration::from_ns(180);
