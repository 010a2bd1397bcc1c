//! Proves that the gates of a data type do what its definition says: yosys translates the SystemVerilog, the
//! solver refutes every difference ([`weft_rdt::gates::proof`]).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, io};

use weft_rdt::gates::proof::claims;
use weft_rdt::gates::{Gates, SUPPORT};

use super::solver::tool;
use super::{Solver, SolverError};

/// A claim about gates, and whether it was proved.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The claim in words.
    pub claim: String,
    /// Whether the solver found no case against it.
    pub is_proved: bool,
}

/// Why a proof could not be attempted.
#[derive(Debug, thiserror::Error)]
pub enum GatesProofError {
    /// Yosys was not found.
    #[error("yosys was not found in .venv/bin or on the path; run tools/setup.sh")]
    NoYosys,
    /// A file could not be written or read.
    #[error("{path}: {error}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// Yosys refused the module.
    #[error("yosys refuses the module: {0}")]
    Refused(String),
    /// The solver did not answer.
    #[error(transparent)]
    Solver(#[from] SolverError),
}

/// The files of a module, with those that it needs, by name.
pub fn files_of(gates: &Gates) -> Vec<(String, String)> {
    let support = SUPPORT.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let module = (format!("{}.sv", gates.module_name()), gates.module());
    support.into_iter().chain([module]).collect()
}

/// Judges all claims about `gates` for the module in `files`, which are those of [`files_of`] unless an error is
/// planted.
///
/// # Errors
/// If a tool is missing or fails.
pub fn prove_gates(
    solver: &Solver,
    gates: &Gates,
    files: &[(String, String)],
) -> Result<Vec<Judged>, GatesProofError> {
    let module = translate(gates, files)?;
    let claims = claims(gates);
    let scripts: Vec<_> =
        claims.iter().map(|claim| format!("(set-logic QF_UFBV)\n{module}{}", claim.script)).collect();
    let mut judged = vec![];
    for (claim, script) in claims.into_iter().zip(&scripts) {
        // Alone, each has the solver's whole time.
        let replies = solver.ask(std::slice::from_ref(script))?;
        judged.push(Judged { claim: claim.about, is_proved: replies[0].verdict == "unsat" });
    }
    Ok(judged)
}

/// The module in SMT-LIB.
fn translate(gates: &Gates, files: &[(String, String)]) -> Result<String, GatesProofError> {
    static FOLDERS: AtomicUsize = AtomicUsize::new(0);
    let yosys = tool("yosys").ok_or(GatesProofError::NoYosys)?;
    let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("weft-gates-{}-{number}", std::process::id()));
    let text = run(&yosys, gates, files, &folder);
    // What is left in the system's temporary folder does no harm.
    let _ = fs::remove_dir_all(&folder);
    text
}

fn run(
    yosys: &Path,
    gates: &Gates,
    files: &[(String, String)],
    folder: &Path,
) -> Result<String, GatesProofError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| GatesProofError::File { path, error }
    };
    fs::create_dir_all(folder).map_err(at(folder))?;
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).map_err(at(&path))?;
    }
    let names: Vec<_> = files.iter().map(|(name, _)| &**name).collect();
    let module = gates.module_name();
    // Registers are kept, even those that only an invariant reads.
    let script = format!(
        "read_slang --threads 1 --top {module} {}; hierarchy -check -top {module}; setattr -set keep 1 w:*_q; proc; \
         flatten; memory; opt_expr; write_smt2 -wires module.smt2",
        names.join(" ")
    );
    let output =
        Command::new(yosys).args(["-q", "-p", &script]).current_dir(folder).output().map_err(at(yosys))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        let error = said.lines().find(|line| line.contains("ERROR")).unwrap_or("no reason is given");
        return Err(GatesProofError::Refused(error.to_owned()));
    }
    let path = folder.join("module.smt2");
    fs::read_to_string(&path).map_err(at(&path))
}
