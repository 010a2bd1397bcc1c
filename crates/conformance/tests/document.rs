//! The tables in `docs/conformance.md` are up to date, and the suite has all scenarios that they name.

use std::collections::BTreeSet;
use std::path::Path;

use weft_conformance::malformed::CASES;
use weft_conformance::rules::{COVERAGE, MALFORMED_EXCEPTIONS, RULES, SCRIPT_EXCEPTIONS, document};
use weft_conformance::script;
use weft_conformance::twin::{Kind, Options};

/// `UPDATE=1 cargo test -p weft-conformance document::` rewrites the file.
#[test]
fn the_table_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
    let expected = document();
    let found = std::fs::read_to_string(&path).unwrap();
    let start = COVERAGE.split_inclusive("reaches").next().unwrap();
    let (found, coverage) = found.split_at(found.find(start).unwrap_or(found.len()));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, expected + coverage).unwrap();
        return;
    }
    assert!(found == expected, "docs/conformance.md is stale; write it anew with UPDATE=1");
}

#[test]
fn every_scenario_has_a_rule_and_every_rule_has_scenarios() {
    let scripts: BTreeSet<String> = script::all().into_keys().collect();
    let named: BTreeSet<String> =
        RULES.iter().flat_map(|rule| rule.scripts).map(ToString::to_string).collect();
    assert_eq!(scripts, named);
    for case in CASES {
        assert!(RULES.iter().any(|rule| rule.holds(case.name)), "{} belongs to no rule", case.name);
    }
    for rule in RULES {
        assert!(rule.scripts.len() + rule.malformed.len() + rule.tests.len() > 0, "{}", rule.rule);
        for start in rule.malformed {
            assert!(CASES.iter().any(|case| case.name.starts_with(start)), "nothing is called `{start}`");
        }
        for test in rule.tests {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(test).with_extension("rs");
            assert!(path.is_file(), "{test}");
        }
    }
}

#[test]
fn exceptions_are_the_ones_that_are_listed() {
    for exception in MALFORMED_EXCEPTIONS {
        assert!(CASES.iter().any(|case| case.name == exception.case), "{}", exception.case);
    }
    for (name, path) in script::all() {
        let text = std::fs::read_to_string(path).unwrap();
        let left_out = script::replay(&text, [Kind::Soft; 2], Options::default()).left_out;
        let listed = SCRIPT_EXCEPTIONS.iter().find(|exception| exception.script == name);
        assert_eq!(left_out, listed.map_or(0, |exception| exception.left_out), "{name}");
    }
}
