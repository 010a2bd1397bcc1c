//! The table of results that all benchmarks print.

use weft_results::table::{Column, Table, faults_line, grouped, microseconds, three_digits};
use weft_results::{Checked, RunResult, World};

use crate::failure::Verdict;

/// A table with a line for each run.
pub(crate) fn runs<'a>(runs: impl IntoIterator<Item = (&'a str, &'a RunResult)>) -> Table {
    let mut table = Table::new([
        Column::words("run"),
        Column::words("world"),
        Column::numbers("throughput", "ops/s"),
        Column::numbers("p50", "µs"),
        Column::numbers("p99", "µs"),
        Column::numbers("p99.9", "µs"),
        Column::numbers("lost writes", ""),
        Column::words("checked"),
    ]);
    for (name, result) in runs {
        table.row([
            name.to_owned(),
            format!("{} ({})", result.world, result.machine.kind),
            three_digits(result.throughput_ops_per_s),
            microseconds(result.p50_ns),
            microseconds(result.p99_ns),
            microseconds(result.p999_ns),
            result.lost_acknowledged_writes.map_or_else(|| "not checked".to_owned(), grouped),
            result.checked.to_string(),
        ]);
    }
    table
}

/// The text of one run for people, including its table.
pub(crate) fn one_run(result: &RunResult) -> String {
    let mut text = runs([(result.workload.as_str(), result)]).to_string();
    let parameters = ["clients", "records", "value_bytes", "reads"];
    let chosen = parameters.iter().filter_map(|name| {
        let value = result.parameters.get(*name)?;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(format!("{} {value}", name.replace('_', " ")))
    });
    let chosen = chosen.collect::<Vec<_>>().join(", ");
    let operations = match result.operations {
        0 => "none measured, all began in the warm-up (give more, or a shorter --warm-up-us),".to_owned(),
        operations => grouped(operations),
    };
    text += &format!("\n  operations  {operations} on {} nodes; {chosen}\n", result.nodes);
    if let Some(place) = result.parameters.get("engine_on").and_then(serde_json::Value::as_str) {
        text += &format!("  nic         {}, engines on the {place}\n", result.nic);
    }
    text += &faults_line(&result.faults, "");
    text += &format!("  times       {}: {}\n", result.machine.kind, result.machine.description);
    if let (World::Sim, Some(hash)) = (result.world, &result.log_hash) {
        text += &format!("  log hash    {hash}\n");
    }
    text += &format!("  repeat      {}\n", result.replay);
    if !result.check_report.is_empty() {
        text += &format!("\n{}\n", result.check_report);
    }
    text
}

/// The verdict on a run: whether it kept the protocol's guarantees.
pub(crate) fn verdict(result: &RunResult) -> Verdict {
    let lost = result.lost_acknowledged_writes.is_some_and(|lost| lost > 0);
    if lost || matches!(result.checked, Checked::NotLinearizable | Checked::NotExclusive) {
        Verdict::Violated
    } else {
        Verdict::Good
    }
}
