//! Tests of the key-value engine in gateware on idle cards. Its cycle counts do not depend on the machine.

use serde_json::Value;
use weft_nic_kv::{NicKvBench, Part, page};
use weft_results::to_json;

fn result(parts: &[Part]) -> (Value, String) {
    let bench = NicKvBench {
        value_bytes: 1_024,
        quick: true,
        seed: 7,
        parts: parts.to_vec(),
        replay: "a test".into(),
    };
    let result = bench.run().unwrap();
    assert!(page(&result).contains("</html>"));
    (serde_json::from_str(&to_json(&result)).unwrap(), result.to_text())
}

#[test]
#[cfg_attr(not(feature = "gateware"), ignore = "this build has no gateware")]
fn replication_takes_no_more_cycles_than_it_may() {
    let (json, text) = result(&[Part::Passages, Part::Hbm]);
    let at_most = |pointer: &str, most: u64| {
        let ns = json.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}"));
        assert!(ns > 0 && ns <= most, "{pointer}: {ns} ns\n{text}");
        ns
    };
    for path in ["read", "write", "write_after_memory"] {
        at_most(&format!("/replication_path_ns/{path}"), 100);
    }
    at_most("/leader_write_without_network_ns/total", 900);
    at_most("/leader_write_without_network_ns/after_memory/total", 1_250);
    let write = &json["leader_write_without_network_ns"];
    let parts = ["leader", "replica", "acknowledge"].map(|part| write[part].as_u64().unwrap());
    assert_eq!(parts.iter().sum::<u64>(), write["total"].as_u64().unwrap());
    // The memory model has the latency of the paper's memory.
    assert_eq!(
        (&json["read_ns"]["memory"], &json["write_ns"]["after_memory"]["memory"]),
        (&376.into(), &384.into())
    );
    assert_eq!(json["checked"], "not_checked");
    for table in ["5.3", "5.4", "5.7", "5.8", "5.9", "5.11"] {
        let rows = json["tables"][table]["rows"].as_array().unwrap();
        let both = rows.iter().filter(|row| row["ours"].is_number() && row["paper"].is_number());
        assert!(both.count() >= 5, "{table}: {rows:?}");
    }
    // The receive cycles are the same for all sizes, because the beats of a value count for the MAC and the
    // memory.
    let sizes = json["sizes"].as_array().unwrap();
    assert_eq!(sizes.len(), 4);
    assert!(sizes.windows(2).all(|two| two[0]["read"]["receive_cycles"] == two[1]["read"]["receive_cycles"]));
}
