//! Derives what the methods of replicated data types need, with the solver Z3.
//!
//! [`weft_rdt::derive`] has the questions and what follows from answers; here they are asked. Each question is asked
//! on its own, of universes of any size. What is not proved is asked again of universes of one, two and three
//! elements, to have an example to show; the evaluator that runs must agree that the example is one, or the
//! derivation fails.

mod explain;
mod solver;

use std::time::Instant;

use weft_rdt::Definition;
use weft_rdt::derive::{Answer, EXAMPLE_SIZES, Example, Question, Unreadable, defects, questions, verdict};
use weft_rdt::verdict::{TypeVerdict, print};

pub use explain::{Explained, ExplainedAnswer, ExplainedDependence, ExplainedMethod, ExplainedPair};
pub use solver::{Solver, SolverError};

/// What was derived about one type.
#[derive(Clone, Debug)]
pub struct Derived {
    /// The type.
    pub definition: Definition,
    /// All questions with their answers.
    pub answers: Vec<(Question, Answer)>,
    /// What follows.
    pub verdict: TypeVerdict,
    /// What is wrong with the definition: claims that it must fulfil before it may run.
    pub defects: Vec<String>,
    /// How many questions the solver was asked, those for examples included.
    pub asked: usize,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// Why nothing was derived.
#[derive(Debug, thiserror::Error)]
pub enum DeriveError {
    /// The solver failed.
    #[error(transparent)]
    Solver(#[from] SolverError),
    /// The solver printed something strange.
    #[error("{question}: {error}")]
    Unreadable {
        /// What was asked.
        question: String,
        /// What is strange.
        error: Unreadable,
    },
    /// The solver says that a case refutes a claim, and the evaluator does not agree: one of them, or the
    /// translation, is wrong.
    #[error("{definition}: the solver's example does not refute that {question}")]
    Disagreement {
        /// The type.
        definition: &'static str,
        /// What was asked.
        question: String,
    },
}

/// Derives everything about a type.
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

/// Derives everything about several types, on `threads` threads.
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
                // The last types are the largest; they go first.
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

/// All questions about these types as one SMT-LIB text, for any solver: each holds if its answer is `unsat`.
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
         # Write them anew with: WEFT_UPDATE_VERDICTS=1 cargo test -p weft-model --test rdt_verdicts\n{}",
        print(&verdicts)
    )
}
