//! Files that a user provides: a valid file is written back, and must read the same.

use weft_check::{History, lines};
use weft_cluster::{ClusterConfig, Durable};
use weft_sim::FaultPlan;

/// A history unchanged, and with a valid checksum.
pub fn history(data: &[u8]) {
    check_history(data);
    if let Some((covered, _)) = data.split_last_chunk::<4>() {
        let checksum = crc32fast::hash(covered).to_le_bytes();
        check_history(&[covered, &checksum].concat());
    }
}

/// Histories as lines of JSON.
pub fn history_lines(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(runs) = lines::read_runs(text) else { return };
    assert_eq!(lines::read_runs(&lines::write_runs(&runs)).as_ref(), Ok(&runs));
}

fn check_history(bytes: &[u8]) {
    let Ok(history) = History::decode(bytes) else { return };
    let again = History::decode(&history.encode()).expect("an encoded history is one");
    assert!(history.operations().eq(again.operations()));
    assert_eq!(history.encode(), again.encode());
}

/// A fault plan.
pub fn fault_plan(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(plan) = FaultPlan::parse(text) else { return };
    assert_eq!(FaultPlan::parse(&plan.to_toml()).as_ref(), Ok(&plan));
    // The code that executes a plan calls this as well.
    plan.ends_at();
}

/// The configuration of a cluster, and the view that each of its nodes derives from it.
pub fn configuration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let config = match ClusterConfig::parse(text) {
        Ok(config) => config,
        Err(reason) => {
            assert!(!reason.is_empty() && !reason.contains('\n'), "{reason:?}");
            return;
        }
    };
    assert_eq!(ClusterConfig::parse(&config.to_toml()).as_ref(), Ok(&config));
    assert_eq!(ClusterConfig::parse(&config.to_commented_toml()).as_ref(), Ok(&config));
    let service = config.service();
    for (node, _) in config.peers.iter() {
        let seen = config.node(node).expect("it is one of the peers");
        assert_eq!(seen.profile().nodes(), service.peers.len());
        assert_eq!(seen.profile().replicas(), service.replicas);
        assert!(seen.service().is_none_or(|embedded| embedded == service));
    }
}

/// The membership service's stored state.
pub fn durable(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(state) = Durable::from_toml(text) else { return };
    assert_eq!(Durable::from_toml(&state.to_toml()).ok(), Some(state));
}
