//! One result of each kind that a command writes, and the page that draws them all.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Every kind that needs neither gateware, nor a running cluster, nor a solver, with options that make it short.
const COMMANDS: [&str; 24] = [
    "bench kv --ops 500",
    "bench lock --seconds 0.001",
    "bench rdma --iterations 20",
    "bench rdma --incast 2 --duration-ms 1",
    "bench rdt --type account --ops 500",
    "bench rdt --type account --nodes 3..4 --ops 500",
    "bench rdt-crash --type account --crash leader --updates 20 --system weft --ops 500 --fail-overs 1",
    "bench rdt-hybrid --type ycsb --on-card 0,40 --updates 5 --skew 0 --ops 500",
    "bench rounds --rounds 500 --period-ns 2000",
    "bench smr --crashes 2",
    "bench store --keys 1000 --lookups 1000",
    "bench txn --workload smallbank --size 2000 --ops 200 --outstanding 1,4",
    "bench txn-steps --size 2000 --ops 100 --outstanding 1,4",
    "bench txn-threads --workload smallbank --size 2000 --ops 100 --outstanding 1,4",
    "bench txn-net --size 1000 --clients 2 --seconds 1",
    "sim kv --nodes 3 --seeds 1..1",
    "sim lock --seeds 1..1",
    "sim rdt --seeds 1..1",
    "sim rounds --seeds 1..1",
    "sim smr --seeds 1..1",
    "sim txn --seeds 1..1",
    SHORT_CHECK,
    "sim merge 18.json",
    "bench kv --ops 500 --profile cores",
];

/// So few random schedules do not find the published algorithm's bug, and that is said: a result with a violation.
const SHORT_CHECK: &str = "check rounds --nodes 3 --random 100";

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
        let output = weft(folder, &command.split(' ').chain(["--json", &file]).collect::<Vec<_>>());
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
