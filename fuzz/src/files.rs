//! Files that a user provides: a valid file is written back, and must read the same.

use weft_backup::{BackupError, Reader, Writer};
use weft_check::{History, lines};
use weft_cluster::{ClusterConfig, Durable};
use weft_sim::FaultPlan;
use xxhash_rust::xxh3::Xxh3;

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

/// A backup unchanged, and with valid checksums.
pub fn backup(data: &[u8]) {
    check_backup(data);
    let mut sealed = data.to_vec();
    let (mut at, mut parent) = (8, [0; 16]);
    while let Some(length) = sealed.get(at + 4..at + 8) {
        let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
        let Some(content) = sealed.get(at + 24..).and_then(|content| content.get(..length)) else { break };
        let mut hasher = Xxh3::new();
        hasher.update(&parent);
        hasher.update(&sealed[at..at + 8]);
        hasher.update(content);
        parent = hasher.digest128().to_le_bytes();
        sealed[at + 8..at + 24].copy_from_slice(&parent);
        at += 24 + length;
    }
    check_backup(&sealed);
}

fn check_backup(bytes: &[u8]) {
    let read = |bytes: &[u8]| -> Result<_, BackupError> {
        let reader = Reader::open(bytes)?;
        let (head, mut records) = (reader.head().clone(), Vec::new());
        let totals = reader.for_each(|key, value| {
            records.push((key.to_vec(), value.to_vec()));
            Ok::<_, BackupError>(())
        })?;
        Ok((head, records, totals))
    };
    let found = match read(bytes) {
        Ok(found) => found,
        Err(error) => {
            let reason = error.to_string();
            assert!(!reason.is_empty() && !reason.contains('\n'), "{reason:?}");
            return;
        }
    };
    let mut writer = Writer::new(Vec::new(), &found.0).expect("memory takes all");
    found.1.iter().for_each(|(key, value)| writer.put(key, value).expect("memory takes all"));
    let (again, _) = writer.finish().expect("memory takes all");
    assert_eq!(read(&again).expect("a written backup is one"), found);
}
