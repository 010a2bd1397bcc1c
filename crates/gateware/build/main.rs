//! Builds the gateware: Verilator turns `rtl/weft.f` into C++, the C++ compiler into a library that links with this crate.
//!
//! Three Rust files are written beside it, so that none of them can drift from the hardware: `package.rs` with the packed
//! structs of its packages, `ports.rs` with the ports of the top level as Verilator has declared them, and
//! `register_map.rs` with the registers as their C header has them.

mod package;
mod ports;
mod register_map;
mod verilator;

use std::path::{Path, PathBuf};
use std::{env, fs};

use package::Package;
use ports::Ports;
use verilator::Verilator;

/// The module that is built.
const TOP: &str = "weft_nic";

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

    // Another list, for example of a netlist in place of the sources.
    println!("cargo::rerun-if-env-changed=WEFT_RTL_FILES");
    let list = env::var_os("WEFT_RTL_FILES").map_or_else(|| root.join("rtl/weft.f"), PathBuf::from);
    let sources = file_list(&list)?;
    let tool = Verilator::find(root)?;
    for path in ["build", "cpp"] {
        rerun_if_changed(&manifest.join(path));
    }

    let packages = sources.iter().filter(|path| path.to_string_lossy().ends_with("_pkg.sv"));
    let packages: Vec<String> = packages.map(|path| read(path)).collect::<Result<_, _>>()?;
    let package = Package::parse(&packages.join("\n"))?;
    write(&out.join("package.rs"), &package.rust())?;

    let header = root.join("rtl/include/weft_registers.h");
    rerun_if_changed(&header);
    write(&out.join("register_map.rs"), &register_map::rust(&read(&header)?)?)?;

    // The model takes minutes to compile and does not depend on Cargo's profile, so all profiles share one, by what it is made
    // of. It is built beside its place and moved there when it is whole.
    let shim = manifest.join("cpp/model.cpp");
    let mut parts = vec![shim.clone(), list];
    parts.extend(sources.iter().cloned());
    parts.extend(["main.rs", "ports.rs", "verilator.rs"].map(|name| manifest.join("build").join(name)));
    let kept = root.join("target/verilated").join(format!("{:016x}", digest(&parts)?));
    if !kept.exists() {
        let work = out.join("verilated");
        remove(&work)?;
        fs::create_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
        let model = tool.verilate(TOP, &sources, &work.join("cpp"))?;
        let ports = Ports::parse(&read(&model.header())?)?;
        write(&work.join("ports.rs"), &ports.rust())?;
        let memories = Ports::cpp_memories(&read(&model.root_header())?);
        write(&work.join("ports.inc"), &(ports.cpp() + &memories))?;
        model.compile(&shim, &work)?;
        remove(&work.join("cpp"))?;
        fs::create_dir_all(kept.parent().expect("it lies in a folder"))
            .map_err(|error| format!("{}: {error}", kept.display()))?;
        // Another build may have been faster: then its model stays.
        if fs::rename(&work, &kept).is_err() && !kept.exists() {
            return Err(format!("the model cannot be moved to {}", kept.display()));
        }
    }
    write(&out.join("ports.rs"), &read(&kept.join("ports.rs"))?)?;
    // A kept model that somebody removes is built again.
    rerun_if_changed(&kept);
    verilator::link(&kept);
    Ok(())
}

/// What the files hold and what is asked of the tools, in one number (FNV-1a).
fn digest(files: &[PathBuf]) -> Result<u64, String> {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    };
    for file in files {
        add(read(file)?.as_bytes());
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

/// The files of a list, one a line, each relative to the list. `+incdir+` and comments are for other tools.
fn file_list(list: &Path) -> Result<Vec<PathBuf>, String> {
    rerun_if_changed(list);
    let folder = list.parent().unwrap_or(Path::new("."));
    let text = read(list)?;
    let names = text.lines().map(str::trim);
    let files =
        names.filter(|line| !line.is_empty() && !line.starts_with(['#', '+']) && !line.starts_with("//"));
    files
        .map(|name| {
            let path = folder.join(name);
            rerun_if_changed(&path);
            if path.is_file() {
                Ok(path)
            } else {
                Err(format!("{} lists {name}, which is not there", list.display()))
            }
        })
        .collect()
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
