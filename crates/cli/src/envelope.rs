//! The keys with which every JSON result describes itself, whatever its kind: `format`, `kind`, `machine`, `replay`,
//! `checked`, `violated`.
//!
//! These keys are at the top level, beside those of the result. If the result has one of them already, its
//! value stays.

use serde::Serialize;
use serde_json::{Map, Value};
use weft_results::to_json;

use crate::replay::CommandLine;

/// The origin of the times in a result, unless the result names it itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// Virtual time, from cost models.
    Simulated,
    /// A clock of this machine.
    Real,
    /// Nothing was timed: states or bytes were counted.
    Counted,
}

/// A result together with the keys that all results have.
#[derive(Serialize)]
struct Envelope<'a, T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checked: Option<&'static str>,
    /// Whether a check failed. `checked` says the same in words that depend on the kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    violated: Option<bool>,
    #[serde(flatten)]
    found: Found<'a, T>,
}

/// The keys of the result itself. A result that is a list goes below a key of its own.
#[derive(Serialize)]
#[serde(untagged)]
enum Found<'a, T> {
    Keys(&'a T),
    List { result: &'a T },
}

/// The result of the command `weft KIND` as JSON. `holds` is the verdict, if the result does not contain its own.
pub(crate) fn enclose<T: Serialize>(kind: &str, basis: Basis, holds: bool, found: &T) -> String {
    let value = serde_json::to_value(found).expect("a result has only text keys");
    let own = value.as_object();
    let lacks = |key: &str| own.is_none_or(|own| !own.contains_key(key));
    let envelope = Envelope {
        format: lacks("format").then(|| format!("weft-{}-1", kind.replace(' ', "-"))),
        kind: lacks("kind").then_some(kind),
        machine: lacks("machine").then(|| machine(basis, own)),
        replay: lacks("replay").then(as_given),
        checked: lacks("checked").then_some(if holds { "holds" } else { "violation" }),
        violated: lacks("violated").then_some(!holds),
        found: if own.is_some() { Found::Keys(found) } else { Found::List { result: found } },
    };
    to_json(&envelope)
}

/// Describes the origin of the times, with the names of the models that the result gives.
fn machine(basis: Basis, own: Option<&Map<String, Value>>) -> Value {
    let text = |key: &str| own.and_then(|own| own.get(key)).and_then(Value::as_str);
    let (kind, clock) = match (basis, text("world"), text("nic")) {
        (Basis::Counted, ..) => ("counted", "none"),
        (Basis::Real, ..) | (_, Some("net"), _) => ("real", "monotonic"),
        (.., Some("rtl")) => ("verilated", "virtual"),
        _ => ("simulated", "virtual"),
    };
    let mut machine = Map::new();
    machine.insert("kind".to_owned(), kind.into());
    machine.insert("clock".to_owned(), clock.into());
    for key in ["network", "profile"] {
        if let Some(name) = text(key) {
            machine.insert(key.to_owned(), name.into());
        }
    }
    Value::Object(machine)
}

/// Options on which the result does not depend: files to write, and the number of threads.
const OMITTED: [&str; 6] = ["--json", "--csv", "--hgrm", "--perfetto", "--history", "--jobs"];

/// The command line of this process, without the options on which the result does not depend.
fn as_given() -> String {
    let mut line = CommandLine::new("weft");
    let mut words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or_default();
        if !OMITTED.contains(&name) {
            line = line.word(&word);
        } else if name == word {
            words.next();
        }
    }
    line.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn enclosed(found: &Value, holds: bool) -> Value {
        serde_json::from_str(&enclose("bench toy", Basis::Simulated, holds, found)).unwrap()
    }

    #[test]
    fn a_result_keeps_its_own_keys_and_gains_the_others() {
        let found = enclosed(&json!({"network": "detpu", "checked": "linearizable", "p50_ns": 3}), false);
        assert_eq!((&found["kind"], &found["format"]), (&json!("bench toy"), &json!("weft-bench-toy-1")));
        assert_eq!(found["machine"], json!({"kind": "simulated", "clock": "virtual", "network": "detpu"}));
        assert_eq!((&found["checked"], &found["p50_ns"]), (&json!("linearizable"), &json!(3)));
        assert!(found["replay"].as_str().unwrap().starts_with("weft"));
        let whole = json!({"format": "weft-result-1", "kind": "bench kv", "machine": {"kind": "real"},
            "replay": "weft bench kv", "checked": "linearizable", "violated": false});
        assert_eq!(enclosed(&whole, true), whole);
    }

    #[test]
    fn real_time_gates_and_verdicts_are_said() {
        assert_eq!(enclosed(&json!({"world": "net"}), true)["machine"]["kind"], "real");
        assert_eq!(enclosed(&json!({"nic": "rtl"}), true)["machine"]["kind"], "verilated");
        assert_eq!(enclosed(&json!({}), true)["checked"], "holds");
        let wrong = enclosed(&json!({}), false);
        assert_eq!((&wrong["checked"], &wrong["violated"]), (&json!("violation"), &json!(true)));
    }

    #[test]
    fn a_list_stands_below_a_key() {
        let found = enclosed(&json!([1, 2]), true);
        assert_eq!((&found["result"], &found["kind"]), (&json!([1, 2]), &json!("bench toy")));
    }
}
