//! `weft check rounds`: checks the consensus in rounds, exhaustively for small clusters and with random
//! schedules for larger ones.

use clap::Args;
use weft_harness::progress::Progress;
use weft_model::suite::{EXHAUSTIVE_MAX, EXHAUSTIVE_MIN, Outcome, Suite};
use weft_results::table::{Column, Table, grouped, three_digits};

use crate::envelope::Basis;
use crate::failure::Failure;
use crate::replay::CommandLine;
use crate::task::{IS_GIVEN, QUICK, Task};

/// Extent of the check.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub(crate) struct RoundsCheck {
    /// Cluster sizes to check exhaustively, separated by commas: 3, 4, 5
    #[arg(long, value_name = "LIST", default_value = "3,4,5", default_value_if(QUICK, IS_GIVEN, "3"), value_delimiter = ',', value_parser = exhaustive)]
    nodes: Vec<usize>,
    /// Number of random schedules in clusters of 6 and of 7 nodes, for each way to lose messages (column `losses`);
    /// 0 for none
    #[arg(long, value_name = "N", default_value_t = 1_000_000, default_value_if(QUICK, IS_GIVEN, "1000"))]
    random: u64,
    /// Seed of the random schedules
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

/// Parses the number of nodes of an exhaustive check.
fn exhaustive(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(nodes) if (EXHAUSTIVE_MIN..=EXHAUSTIVE_MAX).contains(&nodes) => Ok(nodes),
        _ => Err(format!(
            "clusters of {EXHAUSTIVE_MIN} to {EXHAUSTIVE_MAX} nodes are checked exhaustively; larger ones by --random"
        )),
    }
}

impl Task for RoundsCheck {
    type Found = Outcome;

    const KIND: &'static str = "check rounds";
    const BASIS: Basis = Basis::Counted;

    fn work(&self) -> Result<Outcome, Failure> {
        let mut nodes = self.nodes.clone();
        nodes.sort_unstable();
        nodes.dedup();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let suite = Suite { nodes, random: self.random, seed: self.seed, threads };
        let mut shown: Option<(String, Progress)> = None;
        Ok(suite.run(|what, done, total| match &mut shown {
            Some((label, progress)) if label == what => progress.set(done),
            _ => shown = Some((what.to_owned(), Progress::new(what, total))),
        }))
    }

    fn to_text(&self, outcome: &Outcome) -> String {
        let mut table = Table::new([
            Column::words("protocol"),
            Column::words("method"),
            Column::numbers("nodes", ""),
            Column::numbers("t", ""),
            Column::words("losses"),
            Column::words("rows"),
            Column::numbers("instances", ""),
            Column::numbers("rounds", ""),
            Column::numbers("states", ""),
            Column::numbers("steps", ""),
            Column::numbers("schedules", ""),
            Column::words("verdict"),
            Column::numbers("time", "s"),
        ]);
        let dash = || "–".to_owned();
        for check in &outcome.checks {
            let broken: Vec<_> = check
                .violations
                .iter()
                .map(|violation| match violation.schedules {
                    Some(schedules) => format!("{} broken by {}", violation.property, grouped(schedules)),
                    None => format!("{} broken", violation.property),
                })
                .collect();
            table.row([
                check.protocol.to_owned(),
                check.method.to_owned(),
                check.nodes.to_string(),
                check.t.to_string(),
                check.losses.clone(),
                check.rows.map_or_else(dash, str::to_owned),
                check.instances.to_string(),
                check.rounds.to_string(),
                check.states.map_or_else(dash, grouped),
                grouped(check.transitions),
                check.schedules.map_or_else(dash, grouped),
                if check.holds { format!("holds ({})", check.properties.len()) } else { broken.join(", ") },
                three_digits(check.seconds),
            ]);
        }
        let stands = if outcome.shipped_stands { "stands" } else { "FALLS" };
        let printed = match outcome.printed_falls {
            Some(true) => "breaks uniform agreement, as it must",
            Some(false) => "was NOT seen to break uniform agreement; give a larger --random",
            None => "not searched where it breaks; give --random",
        };
        let mut text = format!("{table}\n  shipped     {stands}\n  printed     {printed}\n");
        text += &format!("  explored    {} states, ", grouped(outcome.states_explored));
        text += &format!("{} random schedules of seed {}\n", grouped(outcome.schedules), outcome.seed);
        text += &format!("  repeat      {}\n", self.command());
        for check in &outcome.checks {
            for violation in &check.violations {
                let of = violation.schedule.map_or(String::new(), |number| format!(" (schedule {number})"));
                text += &format!("\n{}: {}{of}, made smaller\n", check.protocol, violation.property);
                for line in violation.trace.lines() {
                    text += &format!("  {line}\n");
                }
            }
        }
        text
    }

    fn holds(&self, outcome: &Outcome) -> bool {
        outcome.is_good()
    }
}

impl RoundsCheck {
    /// The command that repeats the checks.
    fn command(&self) -> CommandLine {
        let nodes: Vec<_> = self.nodes.iter().map(usize::to_string).collect();
        CommandLine::new("weft check rounds")
            .option("--nodes", nodes.join(","))
            .option("--random", self.random)
            .option("--seed", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_three_to_five_nodes() {
        assert_eq!(exhaustive("3"), Ok(3));
        assert_eq!(exhaustive(" 5"), Ok(5));
        for wrong in ["2", "6", "", "three"] {
            assert!(exhaustive(wrong).unwrap_err().contains("3 to 5"), "{wrong}");
        }
    }

    #[test]
    fn a_small_check_says_what_it_found() {
        let options = RoundsCheck { nodes: vec![], random: 50_000, seed: 1 };
        let outcome = options.work().unwrap();
        assert!(outcome.is_good(), "{outcome:?}");
        let text = options.to_text(&outcome);
        assert!(text.contains("shipped     stands") && text.contains("DECIDES"), "{text}");
        assert!(text.contains("--random 50000 --seed 1"), "{text}");
        assert!(weft_results::to_json(&outcome).contains("\"printed_falls\": true"));
    }
}
