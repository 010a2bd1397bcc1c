//! The command as a user has it: what it prints, what it writes, and that what it says can be repeated.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn weft(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weft")).args(words).current_dir(folder).output().expect("weft starts")
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {text}", output.status.code());
    serde_json::from_slice(&output.stdout).expect("standard output is one JSON object")
}

/// Runs a command that a result names, in a shell as a user would, and returns its JSON.
fn repeat(folder: &Path, result: &Value) -> Value {
    let replay = result["replay"].as_str().expect("a result says how to repeat it");
    let arguments = replay.strip_prefix("weft ").expect("it is a weft command");
    let line = format!("'{}' {arguments} --json -", env!("CARGO_BIN_EXE_weft"));
    json(&Command::new("sh").args(["-c", &line]).current_dir(folder).output().expect("sh starts"))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const PLAN: &str = "[[fault]]\nkind = \"loss\"\nfrom_us = 6000\nuntil_us = 9000\nprobability = 0.02\n";

#[test]
fn a_simulated_bench_has_all_keys_and_can_be_repeated() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("a plan.toml"), PLAN).unwrap();
    let words = "bench kv --nodes 4 --workload mixed --seconds 0.004 --seed 11 --clients 9 --value-bytes 77 --records 50 \
                 --distribution latest --reads leader --profile cores --warm-up-us 50 --faults";
    let words: Vec<&str> = words.split_whitespace().chain(["a plan.toml", "--json", "-"]).collect();
    let result = json(&weft(folder.path(), &words));
    for key in ["throughput_ops_per_s", "p50_ns", "p99_ns", "p999_ns"] {
        assert!(result[key].as_f64().unwrap() > 0.0, "{key}");
    }
    assert_eq!(result["checked"], "linearizable");
    assert_eq!(result["lost_acknowledged_writes"], 0);
    assert!(result["faults"]["loss"].as_u64().unwrap() > 0, "the plan strikes: {}", result["faults"]);
    for (key, value) in [("seed", 11), ("nodes", 4)] {
        assert_eq!(result[key], value);
    }
    for (key, value) in [("nic", "soft"), ("world", "sim"), ("workload", "mixed")] {
        assert_eq!(result[key], value);
    }
    assert_eq!(result["log_hash"].as_str().unwrap().len(), 16);
    let repeated = repeat(folder.path(), &result);
    assert_eq!(repeated, result, "everything is the same, to the bit");
}

#[test]
fn an_open_loop_is_repeated_too() {
    let folder = TempDir::new().unwrap();
    let words = ["bench", "kv", "--ops", "3000", "--open-loop", "400000.5", "--seed", "3", "--json", "-"];
    let result = json(&weft(folder.path(), &words));
    assert_eq!(repeat(folder.path(), &result)["log_hash"], result["log_hash"]);
}

#[test]
fn a_bench_writes_its_files_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    let words = "bench kv --ops 300 --value-bytes 64 --records 20 --json r.json --perfetto r.trace --hgrm r.hgrm --pcap pcap";
    let words: Vec<&str> = words.split(' ').collect();
    for _ in 0..2 {
        let output = weft(folder.path(), &words);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("linearizable") && text.contains("weft bench kv --world sim"), "{text}");
        assert_eq!(names(folder.path()), ["pcap", "r.hgrm", "r.json", "r.trace"]);
    }
    let captures = names(&folder.path().join("pcap"));
    assert_eq!(captures.len(), 3 + 1 + 4, "nodes, membership, clients: {captures:?}");
    let section = std::fs::read(folder.path().join("pcap/node0-port0.pcapng")).unwrap();
    assert_eq!(section[..4], [0x0a, 0x0d, 0x0d, 0x0a], "a pcapng begins with a section header block");
    assert!(std::fs::read_to_string(folder.path().join("r.hgrm")).unwrap().contains("TotalCount"));
    let trace = std::fs::read(folder.path().join("r.trace")).unwrap();
    for name in ["cluster", "node2", "serving", "partitions led", "throughput"] {
        assert!(trace.windows(name.len()).any(|window| window == name.as_bytes()), "{name}");
    }

    let output = weft(folder.path(), &["report", "r.json", "--out", "page.html"]);
    assert!(output.status.success(), "{output:?}");
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("<!doctype html>") && page.contains("linearizable"));
}

#[test]
fn a_campaign_has_all_keys_and_names_the_command_that_repeats_it() {
    let folder = TempDir::new().unwrap();
    let words = ["sim", "kv", "--nodes", "3", "--seeds", "5..6", "--faults", "loss,crash"];
    let with_json: Vec<&str> = words.iter().copied().chain(["--json", "-"]).collect();
    let output = weft(folder.path(), &with_json);
    let result = json(&output);
    assert_eq!(result["seeds_run"], 2);
    assert!(result["operations"].as_u64().unwrap() > 1_000);
    let faults = result["faults"].as_object().unwrap();
    for kind in ["loss", "crash", "restart"] {
        assert!(faults[kind].as_u64().unwrap() > 0, "{kind}: {faults:?}");
    }
    assert_eq!(faults["partition"], 0, "it was not asked for");
    assert_eq!(result["violations"], Value::Array(Vec::new()));
    assert_eq!(result["checked"], "linearizable");
    assert_eq!(json(&weft(folder.path(), &with_json)), result);
    let human = String::from_utf8(weft(folder.path(), &words).stdout).unwrap();
    assert!(human.contains("weft sim kv --nodes 3 --seeds 5..6 --faults loss,crash"), "{human}");
}

/// Threads and machines can share a campaign: what they find together is what one finds alone.
#[test]
fn threads_and_slices_of_a_campaign_are_joined() {
    let folder = TempDir::new().unwrap();
    let campaign = ["sim", "smr", "--nodes", "3", "--seeds", "4..6"];
    let run = |more: &[&str]| weft(folder.path(), &[&campaign[..], more].concat());
    let whole = json(&run(&["--jobs", "1", "--json", "-"]));
    assert_eq!(json(&run(&["--jobs=3", "--json", "-"])), whole);
    for (slice, file) in [("1/2", "one.json"), ("2/2", "two.json")] {
        assert!(run(&["--slice", slice, "--json", file]).status.success());
    }
    let merged = json(&weft(folder.path(), &["sim", "merge", "two.json", "one.json", "--json", "-"]));
    for key in ["seed", "seeds_run", "appends", "views", "faults", "live_within_ns", "checked", "violations"]
    {
        assert_eq!(merged[key], whole[key], "{key}");
    }
    let half = weft(folder.path(), &["sim", "merge", "two.json", "two.json"]);
    assert_eq!(half.status.code(), Some(2), "one slice is missing");
}

/// Also where runs count their own seeds from it on.
#[test]
fn the_last_seed_is_a_seed_like_any_other() {
    let folder = TempDir::new().unwrap();
    for line in [
        "sim txn --seeds 18446744073709551614..18446744073709551615",
        "bench smr --crashes 2 --seed 18446744073709551615",
        "bench rdt-crash --crash leader --systems weft --updates 20 --ops 1000 --fail-overs 2 --seed 18446744073709551615",
    ] {
        let words: Vec<&str> = line.split(' ').chain(["--json", "-"]).collect();
        assert!(json(&weft(folder.path(), &words)).is_object(), "{line}");
    }
}

#[test]
fn a_run_that_ends_in_its_warm_up_says_so() {
    let folder = TempDir::new().unwrap();
    let output = weft(folder.path(), &["bench", "kv", "--ops", "100"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("none measured"), "{text}");
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_violation_ends_with_exit_code_1_and_can_be_repeated() {
    let folder = TempDir::new().unwrap();
    let words = "sim kv --nodes 3 --seeds 5..8 --planted-bug stale-read-at-follower --json -";
    let output = weft(folder.path(), &words.split(' ').collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let violation = &result["violations"][0];
    let (seed, replay) = (&violation["seed"], violation["replay"].as_str().unwrap());
    assert!(replay.contains(&format!("--seeds {seed}..{seed} --faults all")), "{replay}");
    let words: Vec<&str> = replay.split(' ').skip(1).chain(["--json", "-"]).collect();
    let output = weft(folder.path(), &words);
    assert_eq!(output.status.code(), Some(1));
    let repeated: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(repeated["violations"][0], *violation);
}

#[test]
fn rdma_has_all_keys_and_can_be_repeated() {
    let folder = TempDir::new().unwrap();
    let words = "bench rdma --op send --size 4096 --qps 3 --mtu 1024 --iterations 90 --seed 5 --json -";
    let result = json(&weft(folder.path(), &words.split(' ').collect::<Vec<_>>()));
    for key in
        ["throughput_ops_per_s", "p50_ns", "p99_ns", "p999_ns", "goodput_bits_per_s", "fraction_of_limit"]
    {
        assert!(result[key].as_f64().unwrap() > 0.0, "{key}");
    }
    assert_eq!(result["checked"], "data verified");
    assert_eq!(repeat(folder.path(), &result), result);
}

/// Three node processes, a membership service and clients of their own, over loopback.
#[test]
fn real_processes_serve_a_checked_bench() {
    let folder = TempDir::new().unwrap();
    let words = "bench kv --world net --ops 4000 --clients 8 --processes 2 --value-bytes 64 --warm-up-us 1000 --json -";
    let result = json(&weft(folder.path(), &words.split(' ').collect::<Vec<_>>()));
    assert_eq!(result["checked"], "linearizable");
    assert_eq!(result["lost_acknowledged_writes"], 0);
    assert_eq!((&result["world"], &result["log_hash"]), (&Value::from("net"), &Value::Null));
    assert_eq!(result["machine"]["kind"], "real");
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_real_node_is_killed_and_comes_back() {
    let folder = TempDir::new().unwrap();
    let plan = "[[fault]]\nkind = \"crash\"\nat_us = 300000\nmachine = \"node1\"\n\
                [[fault]]\nkind = \"restart\"\nat_us = 700000\nmachine = \"node1\"\n";
    std::fs::write(folder.path().join("kill.toml"), plan).unwrap();
    let words = "bench kv --world net --seconds 2 --clients 4 --value-bytes 64 --faults kill.toml --json -";
    let result = json(&weft(folder.path(), &words.split(' ').collect::<Vec<_>>()));
    assert_eq!(result["faults"]["crash"], 1);
    assert_eq!(result["checked"], "linearizable");
    assert_eq!(result["lost_acknowledged_writes"], 0);
    assert!(result["replay"].as_str().unwrap().contains("--faults kill.toml"));
}

#[test]
fn the_tour_leaves_everything_that_it_names() {
    let folder = TempDir::new().unwrap();
    let output = weft(folder.path(), &["demo", "--quick", "--seed", "5", "--out", "out"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(names(folder.path()), ["out"]);
    let out = folder.path().join("out");
    let files = names(&out);
    let named =
        text.lines().find_map(|line| line.trim().strip_prefix("files")).expect("files are listed").trim();
    assert_eq!(named.split(' ').collect::<Vec<_>>(), files);

    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let simulated: Value = serde_json::from_str(&read("sim.json")).unwrap();
    assert_eq!(simulated["seed"], 5);
    assert_eq!(simulated["faults"]["crash"], 1);
    assert_eq!(simulated["faults"]["restart"], 1);
    let labels: Vec<_> =
        simulated["marks"].as_array().unwrap().iter().map(|mark| mark["label"].as_str()).collect();
    assert!(
        labels.contains(&Some("node1 crashes")) && labels.contains(&Some("node1 restarts")),
        "{labels:?}"
    );
    for result in [&simulated, &serde_json::from_str(&read("net.json")).unwrap()] {
        assert_eq!(result["checked"], "linearizable");
        assert_eq!(result["lost_acknowledged_writes"], 0);
        for file in result["files"].as_array().unwrap() {
            assert!(out.join(file["path"].as_str().unwrap()).is_file(), "{file}");
        }
    }
    assert_eq!(repeat(folder.path(), &simulated)["log_hash"], simulated["log_hash"]);
    assert!(read("replay.sh").contains(simulated["replay"].as_str().unwrap()));
    assert!(read("report.html").contains("node1 crashes"));
}

#[test]
fn the_version_and_help_are_no_errors() {
    let folder = TempDir::new().unwrap();
    let version = weft(folder.path(), &["--version"]);
    assert_eq!(String::from_utf8_lossy(&version.stdout), format!("weft {}\n", env!("CARGO_PKG_VERSION")));
    for words in [vec!["--help"], vec!["bench", "kv", "--help"], vec!["demo", "--help"]] {
        let help = weft(folder.path(), &words);
        assert!(help.status.success() && help.stderr.is_empty());
        assert!(!String::from_utf8_lossy(&help.stdout).contains("bench-client"), "hidden");
    }
}

/// A reader that has seen enough, as `weft … | head` has, is no failure.
#[test]
fn a_closed_standard_output_is_no_failure() {
    use std::process::Stdio;
    let mut child = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(["bench", "kv", "--ops", "500", "--json", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

/// A new cluster of one node, from its configuration to an answer.
#[test]
fn a_configuration_is_written_once_and_describes_a_cluster_that_starts() {
    let folder = TempDir::new().unwrap();
    let words = ["init", "--nodes", "1", "--name", "orders", "--dir", "new"];
    let output = weft(folder.path(), &words);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("weft start --config new/weft.toml --node 0"), "{text}");
    assert_eq!(names(&folder.path().join("new")), ["weft.toml"]);
    let path = folder.path().join("new/weft.toml");
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(written.contains("name = \"orders\"") && written.contains("# [rounds]"), "{written}");
    let again = weft(folder.path(), &words);
    assert_eq!(again.status.code(), Some(2), "{again:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), written);
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let folder = TempDir::new().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let output = weft(folder.path(), &["completions", shell]);
        assert!(output.status.success());
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("bench") && script.contains("value-bytes"), "{shell}");
    }
    assert!(weft(folder.path(), &["man", "--out", "."]).status.success());
    let pages = names(folder.path());
    for page in ["weft.1", "weft-start.1", "weft-kv.1", "weft-kv-put.1", "weft-sim-kv.1"] {
        assert!(pages.iter().any(|name| name == page), "{page} is missing from {pages:?}");
    }
    assert!(
        !pages.iter().any(|name| name.contains("bench-client")),
        "hidden commands have no page: {pages:?}"
    );
}

#[test]
fn a_bare_command_prints_its_help() {
    for words in [&[][..], &["bench"], &["kv"]] {
        let output = weft(Path::new("."), words);
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("Usage: weft"), "{words:?}");
    }
}
