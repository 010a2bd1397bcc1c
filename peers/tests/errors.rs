//! Bad input gets one clear line and exit code 2; the servers never outlive the run.

use std::process::{Command, Output};

fn weft_peers(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft-peers"));
    command.args(arguments);
    command
}

fn assert_one_line(output: &Output, expected: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains(expected), "{errors}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_missing_server_is_named_with_its_package() {
    for (peer, program) in [("redis", "redis-server"), ("etcd", "etcd")] {
        let output = weft_peers(&[peer]).env("PATH", "/nonexistent").output().expect("it runs");
        let expected = format!("{program} is not installed: apt-get install redis-server etcd-server");
        assert_one_line(&output, &expected);
    }
}

#[test]
fn a_wrong_flag_is_named() {
    let output = weft_peers(&["redis", "--clients", "many"]).output().expect("it runs");
    assert_one_line(&output, "invalid value 'many' for '--clients <CLIENTS>'");
    let output = weft_peers(&["redis", "--clients", "0"]).output().expect("it runs");
    assert_one_line(&output, "0 is not in 1..=10000");
    let output = weft_peers(&["etcd", "--colour"]).output().expect("it runs");
    assert_one_line(&output, "--colour");
}
