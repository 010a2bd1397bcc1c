//! The checked-in ports, which builds without models use, are equal to those of the models.

use std::path::Path;
use std::{env, fs};

#[test]
fn the_generated_ports_are_those_of_the_models() {
    let generated = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated");
    let modules = [
        "weft_nic",
        "kv",
        "rounds",
        "rounds_all_reduce",
        "rdt_types",
        "services",
        "service_port",
        "psp_port",
    ];
    for module in modules {
        let name = format!("{module}_ports.rs");
        let built = fs::read_to_string(Path::new(env!("OUT_DIR")).join(&name)).unwrap();
        if env::var_os("UPDATE").is_some() {
            fs::create_dir_all(&generated).unwrap();
            fs::write(generated.join(&name), &built).unwrap();
        }
        let kept = fs::read_to_string(generated.join(&name)).unwrap_or_default();
        assert!(
            kept == built,
            "src/generated/{name} is out of date; write it again with UPDATE=1 cargo test -p weft-gateware --features models ports::"
        );
    }
}
