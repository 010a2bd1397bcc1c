//! CPU time of the procedures of transactional workloads.

use super::Figure;

/// The constants are the medians of the means of five runs of the example, rounded up to 10 ns.
const MEASURED: &str =
    "cargo run --release -p weft-applications --example procedures, on a virtual machine with an AMD EPYC";

/// Time of one run of each procedure on a core of the host. It does not include finding keys, locking them and moving
/// values.
pub(super) const PROCEDURES: [(&[&str], Figure); 9] = [
    (
        &["amalgamate", "balance", "deposit-checking", "send-payment", "transact-savings", "write-check"],
        Figure::time("procedure of Smallbank, each", 60_000, MEASURED),
    ),
    (
        &["add-user", "follow", "post-tweet", "timeline"],
        Figure::time("procedure of Retwis, each", 60_000, MEASURED),
    ),
    // With ten stocks and ten lines, which is the average.
    (&["new-order"], Figure::time("TPC-C new-order", 730_000, MEASURED)),
    (&["payment"], Figure::time("TPC-C payment, each of its one or two runs", 110_000, MEASURED)),
    (
        &["order-status"],
        Figure::time("TPC-C order-status, each of its three or four runs", 180_000, MEASURED),
    ),
    (
        &["delivery"],
        Figure::time("TPC-C delivery of one district's order, each of its three runs", 120_000, MEASURED),
    ),
    (
        &["stock-level-next-order"],
        Figure::time("TPC-C stock-level, the number of the next order", 50_000, MEASURED),
    ),
    (
        &["stock-level-recent-items"],
        Figure::time("TPC-C stock-level, three orders, each of its two runs", 610_000, MEASURED),
    ),
    (&["stock-level-low-stock"], Figure::time("TPC-C stock-level, sixty stocks", 180_000, MEASURED)),
];

/// Time of one run of the procedure with this name; `None` if it is unknown.
pub fn procedure_time(name: &str) -> Option<Figure> {
    PROCEDURES.into_iter().find(|(names, _)| names.contains(&name)).map(|(_, figure)| figure)
}
