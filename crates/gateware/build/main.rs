//! Generates the crate's knowledge of the gateware from its sources, so that the two cannot diverge:
//! `package.rs` and `engine_package.rs` with the packed structs of the packages, and `register_map.rs` with
//! the registers of the C header. With the feature `models` it also builds the models.

#[cfg(feature = "models")]
mod models;
#[cfg(feature = "models")]
mod modules;
mod package;
#[cfg(feature = "models")]
mod ports;
mod register_map;
mod sources;
#[cfg(feature = "models")]
mod verilator;

use std::path::{Path, PathBuf};
use std::{env, fs};

use package::Package;

fn main() {
    if let Err(error) = build() {
        // Cargo shows a build script's standard error if the script fails.
        eprintln!("\nthe gateware cannot be built: {error}\n");
        std::process::exit(1);
    }
}

fn build() -> Result<(), String> {
    let manifest = PathBuf::from(environment("CARGO_MANIFEST_DIR")?);
    let root = manifest.ancestors().nth(2).ok_or("the crate lies outside its workspace")?;
    let out = PathBuf::from(environment("OUT_DIR")?);

    rerun_if_changed(&manifest.join("build"));
    let sources = sources::list(&root.join("rtl/weft.f"))?;

    let header = root.join("rtl/include/weft_registers.h");
    rerun_if_changed(&header);
    write(&out.join("register_map.rs"), &register_map::rust(&read(&header)?)?)?;

    #[cfg(feature = "models")]
    let sources = models::build(&manifest, root, sources, &out)?;
    write_packages(&sources, &out)
}

/// Writes the structs of the packages. Those of engines go to a module of their own, because some of their
/// names are also used in the shared packages with another meaning.
fn write_packages(sources: &[PathBuf], out: &Path) -> Result<(), String> {
    let (mut shared, mut engines) = (String::new(), String::new());
    for path in sources.iter().filter(|path| path.to_string_lossy().ends_with("_pkg.sv")) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // The struct of all events contains those of engines, so its package counts as one of an engine.
        let is_engines = ["kv_", "rdt_", "rounds_"].iter().any(|engine| name.starts_with(engine))
            || name == "engines_pkg.sv"
            || name == "events_pkg.sv";
        let text = if is_engines { &mut engines } else { &mut shared };
        text.push_str(&read(path)?);
        text.push('\n');
    }
    let package = Package::parse(&shared, &engines)?;
    write(&out.join("package.rs"), &package.rust())?;
    write(&out.join("engine_package.rs"), &package.rust_of_engines())
}

fn rerun_if_changed(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}

fn environment(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
