//! The verdicts in the repository are those that the solver derives from the definitions.

use std::fs;
use std::path::Path;

use weft_model::rdt::{Derived, Solver, derive_all, verdicts_text};
use weft_rdt::derive::Answer;
use weft_rdt::types;

fn derived(names: &[&str], by_name: fn(&str) -> Option<weft_rdt::Definition>) -> Vec<Derived> {
    let solver = Solver::find().expect("tools/setup.sh installs the solver");
    let definitions = names.iter().map(|name| by_name(name).expect("a listed type")).collect();
    derive_all(&solver, definitions, 2).expect("the solver answers")
}

#[test]
fn verdicts_are_derived_again() {
    let derived = derived(&types::NAMES, types::by_name);
    for derived in &derived {
        let name = derived.definition.name;
        assert_eq!(derived.defects, [""; 0], "{name} is wrong");
        for (question, answer) in &derived.answers {
            let claim = question.describe(&derived.definition);
            assert!(
                !matches!(answer, Answer::Refuted(None)),
                "{name}: no case shows that it fails that {claim}"
            );
        }
    }
    let text = verdicts_text(&derived);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engines/rdt/verdicts.toml");
    if std::env::var_os("WEFT_UPDATE_VERDICTS").is_some() {
        fs::write(path, text).expect("the file can be written");
        return;
    }
    let checked_in = fs::read_to_string(path).expect("the verdicts are checked in");
    assert_eq!(checked_in, text, "review the difference, and write it with WEFT_UPDATE_VERDICTS=1");
}
