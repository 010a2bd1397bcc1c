//! Checks the generated page of documentation that describes every key, and the configurations in `examples`.

use std::path::{Path, PathBuf};

use weft_cluster::{ClusterConfig, Host, configuration_reference};

const INTRODUCTION: &str = "# The configuration of a cluster

One file, `weft.toml`, describes a cluster and is the same on every node. `weft init` writes one with comments;
`examples/` has two. `weft start --config weft.toml --node 1` is node 1, `weft membership --config weft.toml` the
membership service where no node runs it, and client commands such as `weft kv` and `weft txn` find the nodes in the
same file. How to run a cluster: [operate.md](operate.md).

The file is checked as a whole. An unknown table or key is refused, with its line and what to do. Relative file names
start at the folder of the file. Each engine has a slot number, which its datagrams carry. Slots are numbered without
gaps in the order `[kv]`, `[transactions]`, each `[[object]]`, each `[[log]]`, `[rounds]`, `[lock]`, wherever these
tables stand in the file.

How many nodes may fail without loss of data: every node holds all keys of `[kv]` and all locks, and `replicas`
neighbouring nodes hold each shard of `[transactions]`. So with `[transactions]` at most `replicas` − 1 nodes may fail
at a time, and the membership service never leaves a shard without a holder in its view. Without `[transactions]` all
nodes but one may fail. Objects, logs and rounds need a majority of all nodes, whatever the view.

";

fn at_root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// `UPDATE=1 cargo test -p weft-cluster --test configuration` writes the file.
#[test]
fn the_page_of_the_configuration_is_fresh() {
    let path = at_root("docs/configuration.md");
    let expected = format!("{INTRODUCTION}{}", configuration_reference());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap();
    assert!(found == expected, "docs/configuration.md is stale; write it anew with UPDATE=1");
}

#[test]
fn the_examples_are_configurations() {
    let files = at_root("examples").read_dir().unwrap().map(|file| file.unwrap().path());
    let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    assert!(!files.is_empty());
    for path in files {
        let config = ClusterConfig::load(&path).unwrap_or_else(|error| panic!("{error}"));
        assert!(
            config
                .peers
                .iter()
                .all(|(_, peer)| matches!(peer.address, Host::Address(address) if address.is_loopback()))
        );
    }
}
