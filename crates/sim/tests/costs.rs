//! The table of costs in the documentation is the one that the simulator uses.

use std::path::Path;

use weft_sim::cost_table_markdown;

const INTRODUCTION: &str = "# What simulated work costs

The simulator charges a NIC for its work by a cost profile. The gateware is computed cycle by cycle and takes its own
time; only what lies around it has constants. Every constant and where it comes from:

";

/// `UPDATE=1 cargo test -p weft-sim costs::` writes the file.
#[test]
fn the_documented_table_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/costs.md");
    let expected = format!("{INTRODUCTION}{}", cost_table_markdown());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap();
    assert!(found == expected, "docs/costs.md is stale; write it anew with UPDATE=1");
}
