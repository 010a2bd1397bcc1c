//! `weft rdt`: replicated data types.

mod generate;

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, Subcommand};
use serde::{Serialize, Serializer};
use serde_json::json;
use weft_model::rdt::{Derived, Explained, Solver, derive_all, smt_text};
use weft_rdt::client::signatures;
use weft_rdt::{Definition, types, verdict};
use weft_results::table::{Column, Table, grouped, three_digits};
use weft_results::write_whole;

use crate::envelope::Basis;
use crate::failure::{Failure, Verdict};
use crate::output;
use crate::task::{Reported, Task};

/// Operation on a data type.
#[derive(Debug, Subcommand)]
pub(crate) enum Rdt {
    /// Derive which calls conflict, which depend on others and which can be merged into one, with an example for
    /// each
    Explain(Reported<ExplainArguments>),
    /// Write a data type as SystemVerilog: a module that holds an object and executes its calls
    Generate(Reported<generate::GenerateArguments>),
    /// List the data types with their methods and queries
    List,
}

impl Rdt {
    /// Runs the subcommand.
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        match self {
            Self::Explain(arguments) => arguments.run(),
            Self::Generate(arguments) => arguments.run(),
            Self::List => output::print(&list()).map(|()| Verdict::Good),
        }
    }
}

/// Lists all data types, with the arguments of their methods and queries.
fn list() -> String {
    let mut text = String::new();
    for definition in types::NAMES.iter().filter_map(|name| types::by_name(name)) {
        let calls: Vec<_> = signatures(&definition).collect();
        let Definition { name, about, .. } = &definition;
        writeln!(text, "{name}: {about}\n    {}", calls.join(", ")).expect("a string takes everything");
    }
    text
}

/// The types.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExplainArguments {
    /// Data type, as `weft rdt list` names it; some exist with the suffix -printed, too: with the relations that
    /// table B.1 of the SafarDB paper prints
    #[arg(value_name = "TYPE", value_parser = definition, required_unless_present = "all")]
    name: Option<String>,
    /// Explain all types
    #[arg(long, conflicts_with = "name")]
    all: bool,
    /// Write all proof obligations as SMT-LIB for any solver: a claim holds if the answer is unsat
    #[arg(long, value_name = "FILE")]
    smt: Option<PathBuf>,
}

fn by_name(name: &str) -> Option<Definition> {
    types::by_name(name).or_else(|| types::printed::by_name(name))
}

fn definition(name: &str) -> Result<String, String> {
    let known = || types::NAMES.iter().chain(&types::printed::NAMES).copied().collect::<Vec<_>>().join(", ");
    by_name(name).map(|_| name.to_owned()).ok_or_else(|| format!("the types are {}", known()))
}

/// Result of `weft rdt explain`.
pub(crate) struct Outcome {
    types: Vec<Explained>,
    /// The types whose derived verdict differs from the one in the repository.
    differing: Vec<&'static str>,
    seconds: f64,
}

impl Task for ExplainArguments {
    type Found = Outcome;

    const KIND: &'static str = "rdt explain";
    const IS_QUICK: bool = false;
    const BASIS: Basis = Basis::Counted;

    fn work(&self) -> Result<Outcome, Failure> {
        let names = self
            .name
            .as_ref()
            .map_or_else(|| types::NAMES.map(str::to_owned).to_vec(), |name| vec![name.clone()]);
        if let Some(path) = &self.smt {
            output::check_file(path)?;
            let definitions: Vec<_> = names.iter().filter_map(|name| by_name(name)).collect();
            write_whole(path, smt_text(&definitions).as_bytes())?;
        }
        Outcome::derive(&names)
    }

    fn to_text(&self, outcome: &Outcome) -> String {
        outcome.to_text()
    }

    fn holds(&self, outcome: &Outcome) -> bool {
        outcome.is_good()
    }
}

impl Outcome {
    fn derive(names: &[String]) -> Result<Self, Failure> {
        let start = Instant::now();
        let solver = Solver::find()?;
        let definitions = names.iter().filter_map(|name| by_name(name)).collect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let derived = derive_all(&solver, definitions, threads)?;
        let shipped = verdict::shipped()?;
        let differs = |derived: &&Derived| {
            let checked_in = shipped.get(derived.definition.name);
            types::by_name(derived.definition.name).is_some() && checked_in != Some(&derived.verdict)
        };
        Ok(Self {
            differing: derived.iter().filter(differs).map(|derived| derived.definition.name).collect(),
            types: derived.iter().map(Derived::explain).collect(),
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    /// A type in the form that a paper printed may have defects; they are shown. A type that ships must have none.
    fn is_good(&self) -> bool {
        let is_sound =
            |explained: &Explained| explained.defects.is_empty() || types::by_name(explained.name).is_none();
        self.differing.is_empty() && self.types.iter().all(is_sound)
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        for explained in &self.types {
            text += &explain(explained);
            text.push('\n');
        }
        let sum =
            |count: fn(&Explained) -> usize| grouped(self.types.iter().map(count).sum::<usize>() as u64);
        let lines = [
            ("proved", format!("{} of {} claims", sum(|x| x.proved), sum(|x| x.answers.len()))),
            ("refuted", format!("{}, with a case that the evaluator confirms", sum(|x| x.refuted))),
            ("unknown", format!("{}, which count as refuted", sum(|x| x.unknown))),
            ("asked", format!("{} questions in {} s", sum(|x| x.asked), three_digits(self.seconds))),
            (
                "checked in",
                match self.differing.as_slice() {
                    [] => "the same verdicts".to_owned(),
                    differing => format!("OTHER verdicts: {}", differing.join(", ")),
                },
            ),
        ];
        for (label, line) in lines {
            writeln!(text, "  {label:11} {line}").expect("a string takes everything");
        }
        text
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let unknown: usize = self.types.iter().map(|explained| explained.unknown).sum();
        let object = json!({
            "types": self.types,
            "every_verdict_proved": unknown == 0,
            "unknown": unknown,
            "differs_from_checked_in": self.differing,
            "seconds": self.seconds,
        });
        object.serialize(serializer)
    }
}

fn explain(explained: &Explained) -> String {
    let mut lines = vec![format!("{}: {}", explained.name, explained.about)];
    lines.extend(explained.invariant.iter().map(|part| format!("  invariant   {part}")));
    lines.extend(
        explained.defects.iter().map(|defect| format!("  DEFECT      it does not hold that {defect}")),
    );
    let mut table = Table::new([
        Column::words("method"),
        Column::words("category"),
        Column::words("group"),
        Column::words("conflicts with"),
        Column::words("depends on"),
        Column::words("summary"),
    ]);
    let or_dash = |text: String| if text.is_empty() { "–".to_owned() } else { text };
    for method in &explained.methods {
        table.row([
            method.signature.clone(),
            method.category.name().to_owned(),
            or_dash(method.group.map_or(String::new(), |group| group.to_string())),
            or_dash(method.conflicts.join(", ")),
            or_dash(method.depends.join(", ")),
            or_dash(if method.summarizable { "proved".into() } else { String::new() }),
        ]);
    }
    lines.extend(["".to_owned(), table.to_string().trim_end().to_owned(), "".to_owned()]);
    let width = |pairs: &mut dyn Iterator<Item = String>| pairs.map(|pair| pair.chars().count()).max();
    let name = |first: &str, second: &str| format!("{first} × {second}");
    let pairs = || explained.pairs.iter().map(|pair| name(pair.first, pair.second));
    let width = width(&mut pairs()).unwrap_or(0);
    for pair in &explained.pairs {
        lines.push(format!("  {:width$}  {}", name(pair.first, pair.second), pair.verdict));
        for claim in &pair.because {
            lines.push(format!("      {}: {}", claim.answer, claim.claim));
            lines.extend(claim.example.iter().map(|line| format!("        {line}")));
        }
    }
    for dependence in &explained.dependences {
        lines.push(format!("  {} depends on {}", dependence.method, dependence.on));
        lines.extend(dependence.because.example.iter().map(|line| format!("        {line}")));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_one_that_exists() {
        assert_eq!(definition("2p-set"), Ok("2p-set".into()));
        assert_eq!(definition("movie-printed"), Ok("movie-printed".into()));
        assert!(definition("Movie").unwrap_err().contains("courseware, project, movie"));
    }

    #[test]
    fn the_list_has_all_types_with_their_calls() {
        let text = list();
        assert!(types::NAMES.iter().all(|name| text.contains(&format!("{name}: "))), "{text}");
        assert!(text.contains("withdraw(amount), balance()"), "{text}");
    }

    #[test]
    fn an_account_is_explained_in_its_own_words() {
        let outcome = Outcome::derive(&["account".into()]).expect("the solver answers");
        assert!(outcome.is_good());
        let text = outcome.to_text();
        for words in [
            "withdraw × withdraw  conflict",
            "deposit × withdraw   free",
            "withdraw stays permissible after withdraw",
            "not \"the balance covers the amount\"",
            "withdraw depends on deposit",
            "the same verdicts",
        ] {
            assert!(text.contains(words), "{words} is not in {text}");
        }
        assert!(weft_results::to_json(&outcome).contains("\"every_verdict_proved\": true"));
    }

    #[test]
    fn what_the_table_prints_is_not_sound() {
        let outcome = Outcome::derive(&["courseware-printed".into()]).expect("the solver answers");
        let text = outcome.to_text();
        assert!(text.contains("DEFECT      it does not hold that the guards of deleteCourse keep"), "{text}");
        assert!(text.contains("addStudent × addStudent      conflict"), "{text}");
    }
}
