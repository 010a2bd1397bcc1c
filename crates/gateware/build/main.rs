//! Builds the gateware: Verilator turns the sources that `rtl/weft.f` lists into C++, the C++ compiler into a library that
//! links with this crate, once for each of the tops.
//!
//! Rust files are written beside it, so that none of them can drift from the hardware: `package.rs` and `engine_package.rs`
//! with the packed structs of its packages, for each top its ports as Verilator has declared them, and `register_map.rs`
//! with the registers as their C header has them.

mod package;
mod ports;
mod register_map;
mod sources;
mod verilator;

use std::path::{Path, PathBuf};
use std::{env, fs};

use package::Package;
use ports::Ports;
use verilator::{Top, Verilator};

/// The NIC, and the engines without one.
const TOPS: [Top; 4] = [
    // The engine's planted bugs are chosen while it runs; none is the default.
    Top { module: "weft_nic", parameters: &["PlantedBugs=1"] },
    Top { module: "kv", parameters: &["PlantedBugs=1"] },
    Top { module: "rounds", parameters: &[] },
    Top { module: "rounds_all_reduce", parameters: &[] },
];

fn main() {
    if let Err(error) = build() {
        // Cargo shows what a build script prints on standard error when it fails.
        eprintln!("\nthe gateware cannot be built: {error}\n");
        std::process::exit(1);
    }
}

fn build() -> Result<(), String> {
    let manifest = PathBuf::from(environment("CARGO_MANIFEST_DIR")?);
    let root = manifest.ancestors().nth(2).ok_or("the crate lies outside its workspace")?;
    let out = PathBuf::from(environment("OUT_DIR")?);

    let tool = Verilator::find(root)?;
    for path in ["build", "cpp"] {
        rerun_if_changed(&manifest.join(path));
    }
    let all = sources::list(&root.join("rtl/weft.f"))?;

    let header = root.join("rtl/include/weft_registers.h");
    rerun_if_changed(&header);
    write(&out.join("register_map.rs"), &register_map::rust(&read(&header)?)?)?;

    let mut packages = all.clone();
    for top in TOPS {
        // Another list, for example of a netlist in place of the sources.
        let variable = format!("WEFT_RTL_FILES_{}", top.module.to_uppercase());
        println!("cargo::rerun-if-env-changed={variable}");
        let sources = match env::var_os(variable) {
            Some(list) => {
                let files = sources::list(Path::new(&list))?;
                let is_one = sources::has_module(top.module, &files);
                if is_one { sources::of_module(top.module, &files)? } else { files }
            }
            None => sources::of_module(top.module, &all)?,
        };
        let is_known = |source: &&PathBuf| all.iter().any(|known| known.file_name() == source.file_name());
        packages.extend(sources.iter().filter(|source| !is_known(source)).cloned());
        build_top(top, &tool, &sources, &manifest, &root.join("target/verilated"), &out)?;
    }
    write_packages(&packages, &out)?;
    verilator::link_runtime();
    Ok(())
}

/// Writes the structs of the packages: those of engines apart, because the same names mean something else there.
fn write_packages(sources: &[PathBuf], out: &Path) -> Result<(), String> {
    let (mut shared, mut engines) = (String::new(), String::new());
    for path in sources.iter().filter(|path| path.to_string_lossy().ends_with("_pkg.sv")) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // The list of all events has those of engines in it.
        let is_engines = ["kv_", "rounds_"].iter().any(|engine| name.starts_with(engine))
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

/// Builds the model of a top and links it. It takes minutes to compile and does not depend on Cargo's profile, so all
/// profiles share one, by what it is made of. It is built beside its place and moved there when it is whole.
fn build_top(
    top: Top,
    tool: &Verilator,
    sources: &[PathBuf],
    manifest: &Path,
    models: &Path,
    out: &Path,
) -> Result<(), String> {
    let cpp = ["model.cpp", "runtime.cpp"].map(|name| manifest.join("cpp").join(name));
    let build = ["ports.rs", "verilator.rs"].map(|name| manifest.join("build").join(name));
    let parts = [&cpp, &build, sources].concat();
    let kept = models.join(format!("{}-{:016x}", top.module, digest(top, &parts)?));
    if !kept.exists() {
        let work = out.join("verilated");
        remove(&work)?;
        fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
        let model = tool.verilate(top, sources, &work.join("cpp"))?;
        let ports = Ports::parse(&read(&model.header())?)?;
        write(&work.join("ports.rs"), &ports.rust(top.module))?;
        let memories = Ports::cpp_memories(&read(&model.root_header())?);
        write(&work.join("ports.inc"), &(ports.cpp() + &memories))?;
        model.compile(&cpp[0], &cpp[1], &work)?;
        remove(&work.join("cpp"))?;
        fs::create_dir_all(models).map_err(|error| format!("{}: {error}", models.display()))?;
        // Another build may have been faster: then its model stays.
        if fs::rename(&work, &kept).is_err() && !kept.exists() {
            return Err(format!("the model cannot be moved to {}", kept.display()));
        }
    }
    write(&out.join(format!("{}_ports.rs", top.module)), &read(&kept.join("ports.rs"))?)?;
    // A kept model that somebody removes is built again.
    rerun_if_changed(&kept);
    verilator::link(top, &kept);
    Ok(())
}

/// What the files hold and what is asked of the tools, in one number (FNV-1a).
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
