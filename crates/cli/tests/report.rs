//! One result of each kind that a command writes, and the page that draws them all.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Every kind that needs neither gateware, nor a running cluster, nor a solver, at the size that `--quick` makes, or
/// with a file of another one.
const COMMANDS: [&str; 27] = [
    "bench compare --quick --engines kv,smr",
    "bench kv --quick",
    "bench lock --quick",
    "bench rdma --quick",
    "bench rdma --quick --incast 2",
    "bench rdt --quick --type account",
    "bench rdt --quick --type account --nodes 3..4",
    "bench rdt-crash --quick --type account --crash leader --system weft",
    "bench rdt-hybrid --quick",
    "bench rounds --quick",
    "bench smr --quick",
    "bench store --quick",
    "bench txn --quick --workload smallbank",
    "bench txn-steps --quick",
    "bench txn-threads --quick",
    "bench txn-net --quick",
    "sim kv --quick --nodes 3",
    "check history one.history",
    "sim lock --quick",
    "sim rdt --quick",
    "sim rounds --quick",
    "sim smr --quick",
    "sim txn --quick",
    "sim clients --quick --engine smr",
    SHORT_CHECK,
    "sim merge 19.json",
    "bench kv --quick --profile cores",
];

/// Random schedules do not find the published algorithm's bug that soon, and that is said: a result with a violation.
const SHORT_CHECK: &str = "check rounds --quick";

/// Commands that write the other files, too.
const WITH_HGRM: [&str; 6] = [
    "bench kv --quick",
    "bench lock --quick",
    "bench rdma --quick",
    "bench rdt --quick --type account",
    "bench rounds --quick",
    "bench smr --quick",
];
const WITH_PERFETTO: [&str; 7] = [
    "bench kv --quick",
    "bench lock --quick",
    "bench rdma --quick",
    "bench rdt --quick --type account",
    "bench rounds --quick",
    "bench smr --quick",
    "bench txn --quick --workload smallbank",
];

const WITH_HISTORY: [&str; 2] = ["bench kv --quick", "sim kv --quick --nodes 3"];

fn weft(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weft")).args(words).current_dir(folder).output().expect("weft starts")
}

fn good(folder: &Path, words: &[&str]) {
    let output = weft(folder, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_kind_of_result_has_an_envelope_and_is_drawn() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let mut files = Vec::new();
    for (at, command) in COMMANDS.iter().enumerate() {
        let file = format!("{at}.json");
        let mut words: Vec<_> = command.split(' ').chain(["--json", &file, "--csv", "table.csv"]).collect();
        let (has_hgrm, has_perfetto) = (WITH_HGRM.contains(command), WITH_PERFETTO.contains(command));
        words.extend(has_hgrm.then_some(["--hgrm", "one.hgrm"]).into_iter().flatten());
        let has_history = WITH_HISTORY.contains(command);
        words.extend(has_history.then_some(["--history", "one.history"]).into_iter().flatten());
        words.extend(has_perfetto.then_some(["--perfetto", "one.trace"]).into_iter().flatten());
        let output = weft(folder, &words);
        let code = i32::from(*command == SHORT_CHECK);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{command}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let result: Value =
            serde_json::from_str(&std::fs::read_to_string(folder.join(&file)).unwrap()).unwrap();
        for key in ["format", "kind", "replay", "checked"] {
            assert!(result[key].as_str().is_some_and(|text| !text.is_empty()), "{command}: {key}");
        }
        assert!(result["replay"].as_str().unwrap().starts_with("weft "), "{command}: {}", result["replay"]);
        let machine = &result["machine"];
        assert!(machine.is_string() || machine["kind"].is_string(), "{command}: {machine}");
        assert_eq!(result["violated"], code == 1, "{command}");
        if !command.starts_with("sim merge") {
            let kind: Vec<_> = command.split(' ').take(2).collect();
            assert_eq!(result["kind"], kind.join(" "));
        }
        let table = std::fs::read_to_string(folder.join("table.csv")).unwrap();
        let (head, rows) = table.split_once('\n').expect("a table has a head");
        assert!(
            head.contains("kind") && head.contains("checked") && rows.contains(','),
            "{command}: {table}"
        );
        if has_hgrm {
            let hgrm = std::fs::read_to_string(folder.join("one.hgrm")).unwrap();
            assert!(hgrm.contains("Total count"), "{command}: {hgrm}");
        }
        if has_perfetto {
            assert!(std::fs::metadata(folder.join("one.trace")).unwrap().len() > 100, "{command}");
        }
        // Alone first: a page of its own, which names the kind or its subject.
        good(folder, &["report", &file, "--out", "one.html"]);
        let page = std::fs::read_to_string(folder.join("one.html")).unwrap();
        assert!(
            ["<table>", "<dl class=\"facts\">", "<figure>"].iter().any(|shown| page.contains(shown)),
            "{command} has no figures"
        );
        assert!(!page.contains("Nothing to show"), "{command}");
        files.push(file);
    }
    let words = ["report", "--out", "all.html", "--svg", "figures"];
    good(folder, &words.into_iter().chain(files.iter().map(String::as_str)).collect::<Vec<_>>());
    let page = std::fs::read_to_string(folder.join("all.html")).unwrap();
    assert!(page.contains("different bases"), "runs on other profiles say so");
    let drawings: Vec<_> = std::fs::read_dir(folder.join("figures")).unwrap().map(Result::unwrap).collect();
    assert_eq!(drawings.len(), page.matches("<figure>").count());
    for drawing in drawings {
        let svg = std::fs::read_to_string(drawing.path()).unwrap();
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{:?}", drawing.path());
    }
}
