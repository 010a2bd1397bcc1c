//! Z3 as a child process.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The most work for one question, in Z3's own deterministic unit; some seconds. Beyond that the answer is
/// unknown.
const RESOURCE_LIMIT: u64 = 40_000_000;

/// Time-out for a whole batch, in seconds: a guard against a solver that hangs. It never decides a verdict.
const TIME_LIMIT_S: u32 = 300;

/// Printed between the replies.
const SEPARATOR: &str = "----";

/// The SMT solver z3, run as a child process.
#[derive(Clone, Debug)]
pub struct Solver {
    program: PathBuf,
}

/// Why the solver gave no answers.
#[derive(Debug, thiserror::Error)]
pub enum SolverError {
    /// No solver was found.
    #[error("the solver z3 was not found in .venv/bin or on the path; run tools/setup.sh")]
    Missing,
    /// The solver could not be run.
    #[error("{program}: {error}")]
    Run {
        /// Path of the solver's executable.
        program: PathBuf,
        /// Error of the system.
        error: std::io::Error,
    },
    /// The solver did not answer all questions.
    #[error("the solver answered {answered} of {asked} questions: {said}")]
    Silent {
        /// Number of questions in the script.
        asked: usize,
        /// Number of questions that the solver answered.
        answered: usize,
        /// The last line of its output.
        said: String,
    },
    /// The solver refused a script, which must be wrong then.
    #[error("the solver refused a script: {0}")]
    Refused(String),
}

/// The solver's reply to one script.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// `sat`, `unsat` or `unknown`.
    pub(crate) verdict: String,
    /// The values that follow the verdict.
    pub(crate) values: String,
}

impl Solver {
    /// Finds the solver: the one in this project's environment, searched from the current folder and from the
    /// running program upwards, or the one on the path.
    ///
    /// # Errors
    /// If there is no solver.
    pub fn find() -> Result<Self, SolverError> {
        tool("z3").map(|program| Self { program }).ok_or(SolverError::Missing)
    }

    /// Path of the solver's executable.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Asks each script separately: the solver reuses nothing from earlier scripts, so the order does not matter.
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
        // Questions are written while answers are read, because both pipes have small buffers.
        let output = std::thread::scope(|scope| {
            scope.spawn(move || {
                // If the solver has ended, the missing answers show it.
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

/// Finds a program of this name: in this project's environment, searched from the current folder and from the
/// running program upwards, or on the path.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let folders = [std::env::current_dir(), std::env::current_exe()];
    let ancestors = folders.iter().flatten().flat_map(|folder| folder.ancestors());
    let local = ancestors.map(|folder| folder.join(".venv/bin").join(name));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let global = std::env::split_paths(&path).map(|folder| folder.join(name));
    local.chain(global).find(|program| program.is_file())
}

impl Reply {
    fn read(text: &str) -> Result<Self, SolverError> {
        let (verdict, values) = text.split_once('\n').unwrap_or((text, ""));
        match verdict {
            // After these verdicts no example's values are available, which the solver reports as an error.
            "unsat" | "unknown" => Ok(Self { verdict: verdict.into(), values: String::new() }),
            "sat" if !values.contains("(error") => {
                Ok(Self { verdict: verdict.into(), values: values.into() })
            }
            _ => Err(SolverError::Refused(text.lines().next().unwrap_or_default().into())),
        }
    }
}
