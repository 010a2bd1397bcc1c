//! Prints the findings of campaigns.

use std::collections::BTreeMap;

use weft_harness::{Findings, LiveWithin, Sealed, Violation};
use weft_results::table::{grouped, time_with_unit};

use crate::replay::CommandLine;

/// Non-zero counts, by name.
pub(super) fn list(counts: &BTreeMap<impl AsRef<str> + Ord, u64>) -> String {
    let counts: Vec<_> = counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(kind, count)| format!("{} {}", kind.as_ref(), grouped(*count)))
        .collect();
    if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
}

/// Time until all nodes were live again in the slowest run, and the bound for it.
pub(super) fn live_within(live: Option<LiveWithin>) -> String {
    let LiveWithin { bound_ns, slowest_ns } = live.unwrap_or_default();
    let bound = time_with_unit(bound_ns);
    match slowest_ns {
        u64::MAX => format!("NOT within {bound} of the last fault"),
        ns => format!("within {} of the last fault (bound {bound})", time_with_unit(ns)),
    }
}

/// How many frames were sealed (encrypted by PSP), if any.
pub(super) fn sealed(sealed: Option<&Sealed>) -> String {
    sealed.map_or_else(String::new, |Sealed { frames, keys, counters }| {
        format!(
            "  sealed      {} frames with {} keys, each opened by an observer\n  cards       {}\n",
            grouped(*frames),
            grouped(*keys),
            list(counters)
        )
    })
}

/// The commands that repeat the campaign and each run with a violation. `about` describes such a run.
pub(super) fn to_text<About>(
    findings: &Findings<About>,
    command: &CommandLine,
    about: impl Fn(&About) -> String,
) -> String {
    let mut text = format!("  log hash    {}\n  repeat      {command}\n", findings.log_hash);
    for violation in &findings.violations {
        let Violation { seed, about: run, what, replay, .. } = violation;
        text += &format!("\nseed {seed}{}: {what}\n  repeat  {replay}\n", about(run));
    }
    text
}
