//! Files that a user hands over: what is read is written back and reads the same.

use weft_check::History;
use weft_cluster::{Durable, NodeConfig, ServiceConfig};
use weft_sim::FaultPlan;

/// A history as it is, and with its checksum set right.
pub fn history(data: &[u8]) {
    check_history(data);
    if let Some((covered, _)) = data.split_last_chunk::<4>() {
        let checksum = crc32fast::hash(covered).to_le_bytes();
        check_history(&[covered, &checksum].concat());
    }
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
    // Whoever carries the plan out asks both.
    plan.ends_at();
}

/// The configuration of a node, or of a membership service of its own.
pub fn configuration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(config) = NodeConfig::parse(text) {
        assert_eq!(NodeConfig::parse(&config.to_toml()), Ok(config));
    }
    if let Ok(config) = ServiceConfig::parse(text) {
        assert_eq!(ServiceConfig::parse(&config.to_toml()), Ok(config));
    }
}

/// The membership service's stored state.
pub fn durable(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(state) = Durable::from_toml(text) else { return };
    assert_eq!(Durable::from_toml(&state.to_toml()).ok(), Some(state));
}
