//! The models: for each top, Verilator translates the sources in `rtl/weft.f` into C++, and the C++ compiler
//! builds a library that is linked with this crate. The ports of each top are written as Rust structs, from
//! Verilator's declarations.

use std::path::{Path, PathBuf};
use std::{env, fs, thread};

use crate::ports::Ports;
use crate::verilator::{self, Top, Verilator};
use crate::{modules, read, rerun_if_changed, sources, write};

/// The NIC; and the engines, data types and services alone.
const TOPS: [Top; 8] = [
    // Planted bugs are selected at run time; by default none is active. Services cost no cycle while no queue pair has
    // one.
    Top { module: "weft_nic", parameters: &["PlantedBugs=1", "Services=1"] },
    Top { module: "kv", parameters: &["PlantedBugs=1"] },
    Top { module: "rounds", parameters: &[] },
    Top { module: "rounds_all_reduce", parameters: &[] },
    Top { module: "rdt_types", parameters: &[] },
    Top { module: "services", parameters: &[] },
    Top { module: "service_port", parameters: &[] },
    // A multiplier in one piece simulates fastest.
    Top { module: "psp_port", parameters: &["Leaf=128"] },
];

/// Builds all models and links them. Returns `all` sources, and those that only an environment variable
/// lists.
pub(crate) fn build(
    manifest: &Path,
    root: &Path,
    all: Vec<PathBuf>,
    out: &Path,
) -> Result<Vec<PathBuf>, String> {
    let tool = Verilator::find(root)?;
    rerun_if_changed(&manifest.join("cpp"));
    let mut packages = all.clone();
    let mut tops = Vec::new();
    for top in TOPS {
        // The variable names another list of sources, for example a netlist.
        let variable = format!("WEFT_RTL_FILES_{}", top.module.to_uppercase());
        println!("cargo::rerun-if-env-changed={variable}");
        let sources = match env::var_os(variable) {
            Some(list) => {
                let files = sources::list(Path::new(&list))?;
                let is_one = modules::has_module(top.module, &files);
                if is_one { modules::of_module(top.module, &files)? } else { files }
            }
            None => modules::of_module(top.module, &all)?,
        };
        let is_known = |source: &&PathBuf| all.iter().any(|known| known.file_name() == source.file_name());
        packages.extend(sources.iter().filter(|source| !is_known(source)).cloned());
        tops.push((top, sources));
    }
    let kept = root.join("target/verilated");
    // Verilator runs on one core, and so does the compiler for a model in one file: the models are built side by side.
    let models = thread::scope(|scope| {
        let build = |(top, sources)| build_top(top, &tool, sources, manifest, &kept, out);
        let builds: Vec<_> =
            tops.iter().map(|(top, sources)| scope.spawn(move || build((*top, sources)))).collect();
        builds.into_iter().map(|build| build.join().expect("no build panics")).collect::<Vec<_>>()
    });
    for ((top, _), model) in tops.iter().zip(models) {
        let model = model?;
        write(&out.join(format!("{}_ports.rs", top.module)), &read(&model.join("ports.rs"))?)?;
        write(&out.join(format!("{}_functions.rs", top.module)), &Ports::functions(top.module))?;
        // If the kept model is deleted, it is built again.
        rerun_if_changed(&model);
        verilator::link(*top, &model);
    }
    verilator::link_runtime();
    Ok(packages)
}

/// Builds the model of a top. A model takes minutes to compile and does not depend on Cargo's profile. So all
/// profiles share it, in a directory of `models` whose name contains the digest of its inputs; the result is that
/// directory. The model is built in a temporary directory and moved there when it is complete.
fn build_top(
    top: Top,
    tool: &Verilator,
    sources: &[PathBuf],
    manifest: &Path,
    models: &Path,
    out: &Path,
) -> Result<PathBuf, String> {
    let cpp = ["model.cpp", "runtime.cpp"].map(|name| manifest.join("cpp").join(name));
    let build = ["ports.rs", "verilator.rs"].map(|name| manifest.join("build").join(name));
    let parts = [&cpp, &build, sources].concat();
    let kept = models.join(format!("{}-{:016x}", top.module, digest(top, &parts)?));
    if !kept.exists() {
        let work = out.join("verilated").join(top.module);
        remove(&work)?;
        fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
        let model = tool.verilate(top, sources, &work.join("cpp"))?;
        let ports = Ports::parse(&read(&model.header())?)?;
        write(&work.join("ports.rs"), &ports.rust())?;
        let memories = Ports::cpp_memories(&read(&model.root_header())?);
        write(&work.join("ports.inc"), &(ports.cpp() + &memories))?;
        model.compile(&cpp[0], &cpp[1], &work)?;
        remove(&work.join("cpp"))?;
        fs::create_dir_all(models).map_err(|error| format!("{}: {error}", models.display()))?;
        // If a concurrent build was faster, its model is kept.
        if fs::rename(&work, &kept).is_err() && !kept.exists() {
            return Err(format!("the model cannot be moved to {}", kept.display()));
        }
    }
    Ok(kept)
}

/// Digest of the contents of the files and of the options for the tools (FNV-1a).
fn digest(top: Top, files: &[PathBuf]) -> Result<u64, String> {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    };
    for file in files {
        add(read(file)?.as_bytes());
    }
    for parameter in top.parameters {
        add(parameter.as_bytes());
    }
    for variable in ["CARGO_FEATURE_FST", "TARGET", "CXX", "CXXFLAGS"] {
        add(env::var(variable).unwrap_or_default().as_bytes());
        add(b"|");
    }
    Ok(digest)
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}
