//! The modules in `rtl/engines/rdt/generated` are those that the generator writes.

use std::fs;
use std::path::Path;

use weft_rdt::gates::{shipped, types_module};

#[test]
fn the_generated_modules_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../rtl/engines/rdt/generated");
    let mut files: Vec<_> =
        shipped().iter().map(|gates| (format!("{}.sv", gates.module_name()), gates.module())).collect();
    files.push(("rdt_types.sv".into(), types_module()));
    for (name, text) in files {
        let path = folder.join(&name);
        if std::env::var_os("UPDATE").is_some() {
            fs::create_dir_all(&folder).expect("the folder can be made");
            fs::write(&path, &text).expect("the file can be written");
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == text, "{name} is out of date; write it with UPDATE=1 cargo test -p weft-rdt gates::");
    }
}
