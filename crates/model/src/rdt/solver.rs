//! Z3 as a child process.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How much work one question may cost, in Z3's own deterministic unit; some seconds. What takes more is unknown.
const RESOURCE_LIMIT: u64 = 40_000_000;

/// When a whole batch is given up, in seconds: a guard against a solver that hangs, never a verdict.
const TIME_LIMIT_S: u32 = 300;

/// What is printed between the replies.
const SEPARATOR: &str = "----";

/// The solver.
#[derive(Clone, Debug)]
pub struct Solver {
    program: PathBuf,
}

/// Why the solver could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum SolverError {
    /// There is no solver.
    #[error("the solver z3 was not found in .venv/bin or on the path; run tools/setup.sh")]
    Missing,
    /// It could not be run.
    #[error("{program}: {error}")]
    Run {
        /// Which program.
        program: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It did not answer all questions.
    #[error("the solver answered {answered} of {asked} questions: {said}")]
    Silent {
        /// How many it was asked.
        asked: usize,
        /// How many it answered.
        answered: usize,
        /// The last that it said.
        said: String,
    },
    /// It refused a script, which is wrong then.
    #[error("the solver refused a script: {0}")]
    Refused(String),
}

/// What the solver says to one script.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// `sat`, `unsat` or `unknown`.
    pub(crate) verdict: String,
    /// What follows that.
    pub(crate) values: String,
}

impl Solver {
    /// The solver of this project's environment, looked for upwards from the current folder and from the running
    /// program, or the one on the path.
    ///
    /// # Errors
    /// If there is none.
    pub fn find() -> Result<Self, SolverError> {
        let folders = [std::env::current_dir(), std::env::current_exe()];
        let ancestors = folders.iter().flatten().flat_map(|folder| folder.ancestors());
        let local = ancestors.map(|folder| folder.join(".venv/bin/z3"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let global = std::env::split_paths(&path).map(|folder| folder.join("z3"));
        let program = local.chain(global).find(|program| program.is_file());
        program.map(|program| Self { program }).ok_or(SolverError::Missing)
    }

    /// Which program it is.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Asks each script on its own: nothing that is learnt from one helps another, so that the order does not matter.
    pub(crate) fn ask(&self, scripts: &[String]) -> Result<Vec<Reply>, SolverError> {
        if scripts.is_empty() {
            return Ok(vec![]);
        }
        let mut text = String::new();
        for script in scripts {
            text +=
                &format!("(reset)\n(set-option :rlimit {RESOURCE_LIMIT})\n{script}(echo \"{SEPARATOR}\")\n");
        }
        let failed = |error| SolverError::Run { program: self.program.clone(), error };
        let mut child = Command::new(&self.program)
            .args(["-smt2", "-in", &format!("-T:{TIME_LIMIT_S}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let mut stdin = child.stdin.take().expect("it is piped");
        // Questions are written while answers are read: both pipes are small.
        let output = std::thread::scope(|scope| {
            scope.spawn(move || {
                // A solver that has gone shows in what it did not answer.
                let _ = stdin.write_all(text.as_bytes());
            });
            child.wait_with_output()
        });
        let output = String::from_utf8_lossy(&output.map_err(failed)?.stdout).into_owned();
        let mut replies: Vec<_> = output.split(&format!("{SEPARATOR}\n")).collect();
        let rest = replies.pop().unwrap_or_default();
        if replies.len() != scripts.len() {
            let said = rest.lines().next().unwrap_or("nothing").to_owned();
            return Err(SolverError::Silent { asked: scripts.len(), answered: replies.len(), said });
        }
        replies.into_iter().map(Reply::read).collect()
    }
}

impl Reply {
    fn read(text: &str) -> Result<Self, SolverError> {
        let (verdict, values) = text.split_once('\n').unwrap_or((text, ""));
        match verdict {
            // After these, an example's values are not available, which the solver calls an error.
            "unsat" | "unknown" => Ok(Self { verdict: verdict.into(), values: String::new() }),
            "sat" if !values.contains("(error") => {
                Ok(Self { verdict: verdict.into(), values: values.into() })
            }
            _ => Err(SolverError::Refused(text.lines().next().unwrap_or_default().into())),
        }
    }
}
