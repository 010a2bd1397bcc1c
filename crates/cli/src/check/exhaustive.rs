//! What the exhaustive checks of small clusters have in common.

use weft_harness::progress::Progress;
use weft_model::exhaustive::Explored;
use weft_results::table::{TableOf, grouped, three_digits};

/// Runs the checks of a suite, each with all cores.
pub(super) fn explore<Exploration, Budgets>(
    suite: Vec<Exploration>,
    run: impl Fn(Exploration, usize, &mut dyn FnMut(u64)) -> Explored<Budgets>,
) -> Vec<Explored<Budgets>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let explored = suite.into_iter().map(|exploration| {
        let mut progress = Progress::new("states", 0);
        run(exploration, threads, &mut |states| progress.set(states))
    });
    explored.collect()
}

/// The results as text: the table, which has the columns of the limits already, and the violations.
pub(super) fn to_text<Budgets>(
    command: &str,
    limits: TableOf<&Explored<Budgets>>,
    explored: &[Explored<Budgets>],
) -> String {
    let table = limits
        .numbers("states", "", |check| grouped(check.states))
        .numbers("steps", "", |check| grouped(check.transitions))
        .words("verdict", |check| verdict(check))
        .numbers("time", "s", |check| three_digits(check.seconds));
    let rivals = if both_succeed(explored) {
        "both succeed in some run"
    } else {
        "NEVER both succeed: limits too strict"
    };
    let mut text = format!("{table}\n  rivals      {rivals}\n  repeat      {command}\n");
    for (property, trace) in explored.iter().flat_map(|check| &check.violations) {
        text += &format!("\n{property}\n");
        for line in trace.lines() {
            text += &format!("  {line}\n");
        }
    }
    text
}

fn verdict<Budgets>(check: &Explored<Budgets>) -> String {
    if check.violations.is_empty() {
        return format!("holds ({})", check.properties.len());
    }
    let broken = check.violations.iter().map(|(property, _)| format!("\"{property}\" broken"));
    broken.collect::<Vec<_>>().join(", ")
}

/// Whether every property holds, and the checks could have shown that one does not: in one of them, both rivals
/// succeed in some run.
pub(super) fn holds<Budgets>(explored: &[Explored<Budgets>]) -> bool {
    explored.iter().all(|check| check.violations.is_empty()) && both_succeed(explored)
}

fn both_succeed<Budgets>(explored: &[Explored<Budgets>]) -> bool {
    explored.iter().any(|check| check.both_succeed)
}
