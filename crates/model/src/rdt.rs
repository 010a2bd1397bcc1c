//! Derives the coordination that the methods of replicated data types need, with the solver Z3.
//!
//! [`weft_rdt::derive`] defines the questions and the conclusions from their answers; this module asks the solver.
//! Each question is asked separately, for universes of any size. A claim that is not proved is asked again for
//! universes of one, two and three elements, in order to get an example. The evaluator that ships must agree that
//! the example refutes the claim; otherwise the derivation fails.

mod explain;
mod gates;
mod solver;

use std::time::Instant;

use weft_rdt::Definition;
use weft_rdt::derive::{Answer, EXAMPLE_SIZES, Example, Question, Unreadable, defects, questions, verdict};
use weft_rdt::verdict::{TypeVerdict, print};

pub use explain::{Explained, ExplainedAnswer, ExplainedDependence, ExplainedMethod, ExplainedPair};
pub use gates::{GatesProofError, Judged, files_of, prove_gates};
pub use solver::{Solver, SolverError};

/// The derivation for one type.
#[derive(Clone, Debug)]
pub struct Derived {
    /// The data type.
    pub definition: Definition,
    /// All questions with their answers.
    pub answers: Vec<(Question, Answer)>,
    /// The verdict that follows from the answers.
    pub verdict: TypeVerdict,
    /// Defects of the definition: claims that must hold before the type may run.
    pub defects: Vec<String>,
    /// Number of questions that the solver was asked, including those for examples.
    pub asked: usize,
    /// Duration of the derivation in seconds.
    pub seconds: f64,
}

/// Why the derivation failed.
#[derive(Debug, thiserror::Error)]
pub enum DeriveError {
    /// The solver could not be run, or gave no answers.
    #[error(transparent)]
    Solver(#[from] SolverError),
    /// The solver's output could not be parsed.
    #[error("{question}: {error}")]
    Unreadable {
        /// The question that was asked, as text.
        question: String,
        /// What is wrong with the output.
        error: Unreadable,
    },
    /// The solver claims that a case refutes a claim, and the evaluator disagrees: one of them, or the
    /// translation, is wrong.
    #[error("{definition}: the solver's example does not refute that {question}")]
    Disagreement {
        /// Name of the data type.
        definition: &'static str,
        /// The question that was asked, as text.
        question: String,
    },
}

/// Runs the derivation for a type.
///
/// # Errors
/// If the solver cannot be run, or contradicts the evaluator.
pub fn derive(solver: &Solver, definition: Definition) -> Result<Derived, DeriveError> {
    let start = Instant::now();
    let questions = questions(&definition);
    let scripts: Vec<_> = questions.iter().map(|question| question.proof(&definition)).collect();
    let mut asked = scripts.len();
    let mut answers = vec![];
    for (question, reply) in questions.into_iter().zip(solver.ask(&scripts)?) {
        let answer = match reply.verdict.as_str() {
            "unsat" => Answer::Proved,
            "sat" => Answer::Refuted(None),
            _ => Answer::Unknown,
        };
        answers.push((question, answer));
    }
    for size in EXAMPLE_SIZES {
        let mut open: Vec<_> = answers.iter_mut().filter(|(_, answer)| wants_example(answer)).collect();
        let scripts: Vec<_> = open.iter().map(|(question, _)| question.example(&definition, size)).collect();
        asked += scripts.len();
        for (entry, reply) in open.iter_mut().zip(solver.ask(&scripts)?) {
            if reply.verdict != "sat" {
                continue;
            }
            let question = entry.0;
            let described = || question.describe(&definition);
            let example = Example::read(&question, &definition, size, &reply.values)
                .map_err(|error| DeriveError::Unreadable { question: described(), error })?;
            if example.as_ref().is_some_and(|example| !example.violates(&question, &definition)) {
                let question = described();
                return Err(DeriveError::Disagreement { definition: definition.name, question });
            }
            entry.1 = Answer::Refuted(example);
        }
    }
    let verdict = verdict(&definition, &answers);
    let defects = defects(&definition, &answers);
    Ok(Derived { definition, answers, verdict, defects, asked, seconds: start.elapsed().as_secs_f64() })
}

const fn wants_example(answer: &Answer) -> bool {
    matches!(answer, Answer::Refuted(None) | Answer::Unknown)
}

/// Runs the derivation for several types, on `threads` threads.
///
/// # Errors
/// As [`derive()`].
pub fn derive_all(
    solver: &Solver,
    definitions: Vec<Definition>,
    threads: usize,
) -> Result<Vec<Derived>, DeriveError> {
    let queue = std::sync::Mutex::new(definitions.into_iter().enumerate().collect::<Vec<_>>());
    let mut derived = std::thread::scope(|scope| {
        let worker = || {
            let mut done = vec![];
            loop {
                // The last types take longest, so they are started first.
                let next = queue.lock().expect("no worker panics").pop();
                let Some((index, definition)) = next else { return Ok(done) };
                done.push((index, derive(solver, definition)?));
            }
        };
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(worker)).collect();
        let results = workers.into_iter().map(|worker| worker.join().expect("no worker panics"));
        results.collect::<Result<Vec<_>, DeriveError>>()
    })?
    .concat();
    derived.sort_by_key(|(index, _)| *index);
    Ok(derived.into_iter().map(|(_, derived)| derived).collect())
}

/// All questions about these types as one SMT-LIB text, for any solver. A claim holds if the answer to its
/// question is `unsat`.
pub fn smt_text(definitions: &[Definition]) -> String {
    let mut text = String::new();
    for definition in definitions {
        for question in questions(definition) {
            let claim = format!("{}: {}", definition.name, question.describe(definition));
            let proof = question.proof(definition);
            text += &format!("(reset)\n(set-logic ALL)\n(echo \"{claim}\")\n{proof}\n");
        }
    }
    text
}

/// The text of `verdicts.toml`.
pub fn verdicts_text(derived: &[Derived]) -> String {
    let verdicts: Vec<_> = derived.iter().map(|derived| (&derived.definition, &derived.verdict)).collect();
    format!(
        "# Derived by the solver from the definitions in src/types; reviewed by people. `make test` derives them again.\n\
         # Write them anew with: WEFT_UPDATE_VERDICTS=1 cargo test -p weft-model rdt_verdicts::\n{}",
        print(&verdicts)
    )
}
