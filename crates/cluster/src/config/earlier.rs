//! Files of earlier versions, which had one file per process: advice on where their keys are in today's one file.

use toml::de::{DeTable, DeValue};

use super::line::line_of;

/// If the file is one of an earlier version, returns an error that says how to convert it.
pub(super) fn refuse<'i>(text: &str, root: &DeTable<'i>) -> Result<(), String> {
    let is = |name: &str, what: fn(&DeValue<'i>) -> bool| {
        let found = root.get(name);
        found.filter(|found| what(found.as_ref())).map(|found| line_of(text, found))
    };
    let of_node = is("node", DeValue::is_integer).or_else(|| is("peers", DeValue::is_array));
    if let Some(line) = of_node {
        return Err(format!(
            "line {line}: this is the file of one node, and there is one weft.toml for all nodes now: each [[peers]] \
             becomes [[node]] in the order of their numbers, without `node`; `cluster` becomes name in [cluster], \
             and mtu_bytes goes there; `serve = true` becomes node = its number in [membership]; core goes into \
             [[node]]; which node to be says `weft start --node`"
        ));
    }
    let of_service = is("nodes", DeValue::is_integer).or_else(|| is("address", DeValue::is_str));
    if let Some(line) = of_service {
        return Err(format!(
            "line {line}: this is the file of a membership service alone, and there is one weft.toml for all now: \
             address, lease_ms and state_file go into its [membership], without `node`; nodes and replicas follow \
             from its [[node]] and [transactions]"
        ));
    }
    match is("cluster", DeValue::is_str).or_else(|| is("mtu_bytes", DeValue::is_integer)) {
        Some(line) => Err(format!("line {line}: write [cluster], and below it name = \"...\" and mtu_bytes")),
        None => Ok(()),
    }
}

/// Advice for a key that earlier versions had in the table, or that users often look for in it.
pub(super) fn advice(table: &str, key: &str) -> Option<&'static str> {
    Some(match (table, key) {
        ("membership", "serve") => {
            "give node = the number of the node that runs the service, or leave both out"
        }
        ("membership", "replicas") => "it follows from [transactions]; remove the line",
        ("node", "node" | "number") => "nodes are numbered in the order of the file, from 0; remove the line",
        ("cores", "core") => "it belongs to one node: put it into its [[node]]",
        ("cluster", "lease_ms") => "it belongs into [membership]",
        _ => return None,
    })
}
