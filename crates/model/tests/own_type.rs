//! The verdict in the example of a program's own data type equals the one that the solver derives. A program's
//! author derives a verdict in the same way.

use std::fs;
use std::path::Path;

use crate::stock;
use weft_model::rdt::{Solver, derive};
use weft_rdt::verdict;

#[test]
fn the_verdict_of_an_own_type_is_derived() {
    let solver = Solver::find().expect("tools/setup.sh installs the solver");
    let derived = derive(&solver, stock::definition()).expect("the solver answers");
    assert_eq!(derived.defects, [""; 0], "the invariant and the guards do not fit");
    let text = verdict::print(&[(&derived.definition, &derived.verdict)]);
    if std::env::var_os("WEFT_UPDATE_VERDICTS").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../net/examples/own_type/stock.toml");
        fs::write(path, text).expect("the file can be written");
        return;
    }
    assert_eq!(stock::VERDICTS, text, "review the difference, and write it with WEFT_UPDATE_VERDICTS=1");
}
