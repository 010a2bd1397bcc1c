//! Tests of the content of result files, and of files that must be rejected.

use std::path::Path;

use super::*;
use crate::file::write_whole;

#[test]
fn what_is_no_file_is_written_to_and_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read(pipe).unwrap()
    });
    write_whole(&pipe, b"{}").unwrap();
    assert_eq!(reader.join().unwrap(), b"{}");
    assert!(!std::fs::metadata(&pipe).unwrap().is_file());
}

#[test]
fn the_promised_keys_are_there() {
    for world in [World::Sim, World::Net] {
        let json: serde_json::Value = serde_json::from_str(&to_json(&example(world))).unwrap();
        for key in [
            "throughput_ops_per_s",
            "p50_ns",
            "p99_ns",
            "p999_ns",
            "checked",
            "log_hash",
            "seed",
            "nic",
            "world",
            "nodes",
            "workload",
            "operations",
            "lost_acknowledged_writes",
            "replay",
        ] {
            assert!(json.get(key).is_some(), "{key} is missing");
        }
        assert_eq!(json["checked"], "linearizable");
        assert_eq!(json["log_hash"].is_null(), world == World::Net);
        assert_eq!(json["world"], world.to_string());
        assert!(json["by_operation"]["put"]["p99_ns"].as_u64().unwrap() > 0);
    }
}

#[test]
fn figures_agree_with_each_other() {
    let result = example(World::Sim);
    let by_operation: u64 = result.by_operation.values().map(|o| o.latency.summary.operations).sum();
    assert_eq!(result.operations, by_operation);
    assert_eq!(result.operations, result.latency.distribution.last().unwrap().operations);
    assert_eq!(result.latency.summary.p99_ns, result.p99_ns);
    assert!(result.length_ns() >= 100_000_000);
    let rate = result.operations as f64 / (result.measured_ns as f64 / 1e9);
    assert!((rate / result.throughput_ops_per_s - 1.0).abs() < 1e-6);
}

#[test]
fn a_result_is_read_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    let result = example(World::Sim);
    result.write(&path).unwrap();
    assert_eq!(RunResult::read(&path).unwrap(), result);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
}

/// A file that was cut off anywhere is rejected, with one line that names the file.
#[test]
fn a_truncated_file_is_refused() {
    let json = to_json(&example(World::Sim));
    let path = Path::new("out/result.json");
    for length in (0..json.trim_end().len()).step_by(97) {
        let error = RunResult::from_json(&json[..length], path).unwrap_err();
        assert_eq!(error, ResultError::Truncated { path: path.into() }, "cut at {length}");
        let line = error.to_string();
        assert!(
            line.starts_with("out/result.json: ") && line.contains("run it again") && !line.contains('\n')
        );
    }
}

#[test]
fn foreign_and_damaged_files_are_refused() {
    let path = Path::new("x.json");
    for text in ["hello", "[1, 2]", "{}", "{\"format\": 3}", "\"weft-result-1\""] {
        let error = RunResult::from_json(text, path).unwrap_err();
        assert_eq!(error, ResultError::Foreign { path: path.into() }, "{text}");
    }
    let error = RunResult::from_json("{\"format\": \"weft-result-9\"}", path).unwrap_err();
    assert!(error.to_string().contains("another version of weft (weft-result-9"), "{error}");
    let damaged = to_json(&example(World::Net)).replace("\"seed\": 7", "\"seed\": \"seven\"");
    let error = RunResult::from_json(&damaged, path).unwrap_err().to_string();
    assert!(error.contains("damaged") && error.contains("seven") && !error.contains('\n'), "{error}");
    let missing = RunResult::read(Path::new("/nowhere/x.json")).unwrap_err().to_string();
    assert!(missing.starts_with("/nowhere/x.json: cannot be read"), "{missing}");
}

#[test]
fn nothing_half_written_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    std::fs::write(taken.join("file"), "x").unwrap();
    assert!(example(World::Net).write(&taken).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
