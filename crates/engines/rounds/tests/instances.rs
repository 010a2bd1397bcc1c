//! One instance of the consensus under random omissions. For few members the model checker proves it exhaustively.

use crate::search;

#[test]
fn no_schedule_breaks_an_instance() {
    assert_eq!(search::violation(None, 0..300_000), None);
}

/// A long campaign: `cargo test --release -p weft-rounds instances -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn a_long_campaign() {
    assert_eq!(search::violation(None, 1_000_000..31_000_000), None);
}
