//! Findings of campaigns: the runs with a violation, each with the command that repeats it.

use std::any::Any;

use serde::Serialize;
use weft_results::merge::{DESCRIBED_MAX, hash_of};
use weft_sim::{Machine, World};

/// Violations of a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Findings<About = ()> {
    /// Number of runs with a violation.
    pub violations_found: u64,
    /// Violations, at most the first 20.
    pub violations: Vec<Violation<About>>,
    /// A hash over the log hashes of all runs, in order.
    pub log_hash: String,
    /// Log hashes of the runs.
    #[serde(skip)]
    log_hashes: String,
}

/// A run with a violation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation<About = ()> {
    /// Seed of the run.
    pub seed: u64,
    /// Further attributes of the run.
    #[serde(flatten)]
    pub about: About,
    /// Description of the violation.
    pub what: String,
    /// The command that repeats the run.
    pub replay: String,
}

/// Violations of one run, with its attributes.
#[derive(Clone, Debug)]
pub(crate) struct Judgement {
    /// Descriptions of the violations.
    pub wrong: Vec<String>,
    log_hash: String,
}

impl Judgement {
    /// The judgement of a run that has ended in this world with these violations.
    pub fn of<M: Machine>(world: &World<M>, mut wrong: Vec<String>) -> Self {
        if !world.traffic().is_conserved() {
            wrong.push("the simulator lost count of frames".to_owned());
        }
        Self { wrong, log_hash: world.log_hash().to_string() }
    }

    /// The judgement of a run that has ended with this panic, such as a failed assertion of an engine.
    pub fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let wrong = format!("an assertion failed: {}", text.unwrap_or("no message"));
        Self { wrong: vec![wrong], log_hash: String::new() }
    }
}

impl<About> Default for Findings<About> {
    fn default() -> Self {
        Self { violations_found: 0, violations: Vec::new(), log_hash: hash_of(""), log_hashes: String::new() }
    }
}

impl<About> Findings<About> {
    /// Adds the judgement of the run of `seed`. `replay` returns the command that repeats the run of a seed.
    pub(crate) fn add(
        &mut self,
        seed: u64,
        about: About,
        Judgement { wrong, log_hash }: Judgement,
        replay: impl Fn(u64) -> String,
    ) {
        if !wrong.is_empty() {
            self.violations_found += 1;
            if self.violations.len() < DESCRIBED_MAX {
                let (what, replay) = (wrong.join("\n"), replay(seed));
                self.violations.push(Violation { seed, about, what, replay });
            }
        }
        self.log_hashes += &log_hash;
        self.log_hash = hash_of(&self.log_hashes);
    }

    /// `held` if there is no violation, `violation` otherwise.
    pub const fn checked(&self, held: &'static str) -> &'static str {
        if self.violations_found == 0 { held } else { "violation" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judgement(wrong: &[&str], log_hash: &str) -> Judgement {
        Judgement { wrong: wrong.iter().map(|&what| what.to_owned()).collect(), log_hash: log_hash.into() }
    }

    #[test]
    fn all_violations_are_counted_and_the_first_described() {
        let mut findings = Findings::default();
        for seed in 0..50 {
            let judgement = judgement(&["a"; 2][..seed as usize % 3], "0");
            findings.add(seed, (), judgement, |seed| format!("again {seed}"));
        }
        assert_eq!((findings.violations_found, findings.violations.len()), (33, DESCRIBED_MAX));
        let Violation { seed, what, replay, .. } = &findings.violations[1];
        assert_eq!((*seed, what.as_str(), replay.as_str()), (2, "a\na", "again 2"));
        assert_eq!(findings.checked("holds"), "violation");
        assert_eq!(Findings::<()>::default().checked("holds"), "holds");
    }

    #[test]
    fn every_run_and_their_order_count_in_the_hash() {
        let hash = |hashes: &[&str]| {
            let mut findings = Findings::default();
            hashes.iter().for_each(|hash| findings.add(0, (), judgement(&[], hash), |_| String::new()));
            findings.log_hash
        };
        assert_eq!(hash(&["1", "2"]), hash(&["1", "2"]));
        assert_ne!(hash(&["1", "2"]), hash(&["2", "1"]));
        assert_ne!(hash(&["1", "2"]), hash(&["1"]));
    }

    #[test]
    fn an_assertion_that_fails_is_what_is_wrong() {
        let judged = |panic: Box<dyn Any + Send>| Judgement::of_panic(&*panic).wrong;
        assert_eq!(judged(Box::new("3 of them".to_owned())), ["an assertion failed: 3 of them"]);
        assert_eq!(judged(Box::new("none")), ["an assertion failed: none"]);
        assert_eq!(judged(Box::new(3)), ["an assertion failed: no message"]);
    }

    #[test]
    fn what_else_there_is_to_know_stands_beside_the_seed() {
        #[derive(Serialize)]
        struct About {
            faulty: Vec<usize>,
        }
        let mut findings = Findings::default();
        findings.add(3, About { faulty: vec![1] }, judgement(&["x"], "0"), |_| "again".to_owned());
        let json = serde_json::to_string(&findings.violations).unwrap();
        assert_eq!(json, r#"[{"seed":3,"faulty":[1],"what":"x","replay":"again"}]"#);
    }
}
