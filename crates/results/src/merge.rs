//! Merges the results of the slices of one campaign into one result.

use serde_json::{Map, Value};
use thiserror::Error;

/// Maximum number of violations that the result of a campaign describes. All are counted.
pub const DESCRIBED_MAX: usize = 20;
/// Keys, besides those with texts, whose values must be equal in all slices.
const ALIKE: [&str; 6] = ["machine", "nodes", "tolerated", "window", "replication", "live_within_bound_ns"];
/// Keys whose merged value is the maximum of all slices.
const GREATEST: [&str; 1] = ["live_within_ns"];
/// Verdicts of campaigns, the worst first. Any other verdict means that no violation was found.
const VERDICTS: [&str; 2] = ["violation", "undecided"];

/// Reason why results are not slices of one campaign.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MergeError {
    /// A result is not that of a campaign.
    #[error("result {0} is no result of `weft sim`: it lacks `{1}`")]
    NoCampaign(usize, &'static str),
    /// The results are of different campaigns.
    #[error("the results are of different campaigns: `{key}` is {one} in one and {other} in another")]
    Different {
        /// The key that differs.
        key: String,
        /// Value of the key in the slice with the lowest seeds.
        one: String,
        /// Value of the key in another slice.
        other: String,
    },
    /// A slice is missing or was given twice.
    #[error("the results do not join: one ends with seed {last}, and the next begins with seed {next}")]
    Gap {
        /// The last seed of a slice.
        last: u64,
        /// The first seed of the next slice.
        next: u64,
    },
    /// There is no result.
    #[error("there is no result to merge")]
    Nothing,
}

/// The log hash of several runs, whose own log hashes are joined in `log_hashes`.
pub fn hash_of(log_hashes: &str) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(log_hashes.as_bytes()))
}

/// One slice, as read from its result file.
struct Slice {
    first: u64,
    seeds: u64,
    fields: Map<String, Value>,
}

impl Slice {
    fn new(number: usize, result: Value) -> Result<Self, MergeError> {
        let Value::Object(mut fields) = result else { return Err(MergeError::NoCampaign(number, "seed")) };
        // These keys describe the slice and not the campaign.
        fields.remove("replay");
        fields.remove("violated");
        let field = |name: &'static str| {
            fields.get(name).and_then(Value::as_u64).ok_or(MergeError::NoCampaign(number, name))
        };
        let (first, seeds) = (field("seed")?, field("seeds_run")?);
        for name in ["violations", "violations_found", "log_hash", "checked"] {
            if !fields.contains_key(name) {
                return Err(MergeError::NoCampaign(number, name));
            }
        }
        Ok(Self { first, seeds, fields })
    }
}

/// Merges the results of a campaign's slices, which may be in any order. Counts are added. The merged log hash is a
/// hash over the slices' log hashes, in the order of their seeds.
///
/// # Errors
/// The results are not all slices of one campaign.
pub fn merge(results: Vec<Value>) -> Result<Value, MergeError> {
    let slices: Result<Vec<_>, _> =
        (1..).zip(results).map(|(number, result)| Slice::new(number, result)).collect();
    let mut slices = slices?;
    slices.sort_by_key(|slice| slice.first);
    for pair in slices.windows(2) {
        let (end, next) = (pair[0].first + pair[0].seeds, pair[1].first);
        if end != next {
            return Err(MergeError::Gap { last: end.saturating_sub(1), next });
        }
    }
    let hashes: Vec<&str> = slices.iter().filter_map(|slice| slice.fields["log_hash"].as_str()).collect();
    let log_hash = if hashes.len() == 1 { hashes[0].to_owned() } else { hash_of(&hashes.concat()) };
    let mut all: Option<Map<String, Value>> = None;
    for slice in slices {
        match &mut all {
            None => all = Some(slice.fields),
            Some(all) => add(all, slice.fields)?,
        }
    }
    let mut all = all.ok_or(MergeError::Nothing)?;
    all.insert("log_hash".to_owned(), log_hash.into());
    Ok(Value::Object(all))
}

fn add(all: &mut Map<String, Value>, slice: Map<String, Value>) -> Result<(), MergeError> {
    for (key, value) in slice {
        let Some(known) = all.get_mut(&key) else {
            all.insert(key, value);
            continue;
        };
        if key == "checked" {
            let rank = |verdict: &Value| {
                VERDICTS.iter().position(|worse| verdict == worse).unwrap_or(VERDICTS.len())
            };
            if rank(&value) < rank(known) {
                *known = value;
            }
        } else if key == "seed" || key == "log_hash" {
            // The slices are in order, so the first slice has the first seed. The log hash was computed
            // above.
        } else if ALIKE.contains(&key.as_str()) || known.is_string() {
            if *known != value {
                return Err(MergeError::Different { key, one: known.to_string(), other: value.to_string() });
            }
        } else if GREATEST.contains(&key.as_str()) {
            let greater = known.as_u64().max(value.as_u64());
            *known = greater.into();
        } else {
            sum(known, value);
        }
    }
    Ok(())
}

/// Adds a value to the known one: numbers are added, objects key by key, and lists are concatenated.
fn sum(known: &mut Value, value: Value) {
    match (known, value) {
        (Value::Object(known), Value::Object(value)) => {
            for (name, count) in value {
                match known.get_mut(&name) {
                    Some(known) => sum(known, count),
                    None => {
                        known.insert(name, count);
                    }
                }
            }
        }
        (Value::Array(known), Value::Array(value)) => {
            known.extend(value);
            known.truncate(DESCRIBED_MAX);
        }
        (known, value) => {
            if let (Some(one), Some(other)) = (known.as_u64(), value.as_u64()) {
                *known = one.saturating_add(other).into();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice(seed: u64, seeds_run: u64, wrong: &[u64]) -> Value {
        let violations: Vec<Value> = wrong.iter().map(|seed| json!({ "seed": seed, "what": "x" })).collect();
        json!({
            "world": "sim", "nodes": 3, "seed": seed, "seeds_run": seeds_run, "views": 2 * seeds_run,
            "faults": { "crash": seeds_run, "loss": 1 }, "live_within_ns": 100 * seed,
            "checked": if wrong.is_empty() { "linearizable" } else { "violation" },
            "violations_found": wrong.len(), "violations": violations, "log_hash": format!("{seed:016x}"),
        })
    }

    #[test]
    fn counts_are_added_and_the_worst_counts() {
        let merged = merge(vec![slice(11, 5, &[12]), slice(1, 10, &[])]).unwrap();
        assert_eq!(
            (&merged["seed"], &merged["seeds_run"], &merged["views"]),
            (&json!(1), &json!(15), &json!(30))
        );
        assert_eq!(merged["faults"], json!({ "crash": 15, "loss": 2 }));
        assert_eq!((&merged["live_within_ns"], &merged["checked"]), (&json!(1_100), &json!("violation")));
        assert_eq!((&merged["violations_found"], &merged["violations"][0]["seed"]), (&json!(1), &json!(12)));
        let other_order = merge(vec![slice(1, 10, &[]), slice(11, 5, &[12])]).unwrap();
        assert_eq!(merged, other_order);
        let alone = slice(1, 10, &[]);
        assert_eq!(merge(vec![alone.clone()]), Ok(alone));
        // The basis is the same for all slices, so it stays. The command and `violated` are of one slice only and are
        // left out.
        let enclosed = |mut slice: Value| {
            slice["machine"] = json!({ "kind": "simulated" });
            slice["replay"] = json!(format!("weft sim x --seed {}", slice["seed"]));
            slice["violated"] = json!(false);
            slice
        };
        let merged = merge(vec![enclosed(slice(1, 10, &[])), enclosed(slice(11, 5, &[]))]).unwrap();
        assert_eq!(merged["machine"], json!({ "kind": "simulated" }));
        assert!(merged.get("replay").is_none() && merged.get("violated").is_none());
    }

    #[test]
    fn what_is_no_whole_campaign_is_refused() {
        assert_eq!(merge(Vec::new()), Err(MergeError::Nothing));
        assert_eq!(merge(vec![json!({ "seed": 1 })]), Err(MergeError::NoCampaign(1, "seeds_run")));
        let gap = merge(vec![slice(1, 10, &[]), slice(12, 5, &[])]);
        assert_eq!(gap, Err(MergeError::Gap { last: 10, next: 12 }));
        let twice = merge(vec![slice(1, 10, &[]), slice(1, 10, &[])]);
        assert_eq!(twice, Err(MergeError::Gap { last: 10, next: 1 }));
        let mut other = slice(11, 5, &[]);
        other["nodes"] = json!(5);
        let (key, one, other_nodes) = ("nodes".to_owned(), "3".to_owned(), "5".to_owned());
        let different = MergeError::Different { key, one, other: other_nodes };
        assert_eq!(merge(vec![slice(1, 10, &[]), other]), Err(different));
    }
}
