//! `weft rdt generate`: a data type as SystemVerilog.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use weft_rdt::gates::{Gates, LATENCY, REGISTERS_MAX, SUPPORT};
use weft_rdt::{Bounds, Definition, types};
use weft_results::table::grouped;
use weft_results::write_whole;

use crate::envelope::Basis;
use crate::failure::Failure;
use crate::output::Staging;
use crate::task::Task;

/// The type, its sizes, and where the files go.
#[derive(Clone, Debug, Args)]
pub(crate) struct GenerateArguments {
    /// Data type, as `weft rdt list` names it
    #[arg(value_name = "TYPE", value_parser = name)]
    name: String,
    /// Folder for the module and the two files that it needs, rdt_pkg.sv and rdt_memory.sv
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Elements of each sort
    #[arg(long, value_name = "N", default_value_t = 64)]
    elements: usize,
    /// Elements of one sort, as in Student=1000; may be repeated
    #[arg(long, value_name = "SORT=N", value_parser = size)]
    size: Vec<(String, usize)>,
    /// Largest field that is kept in registers, in bits; larger fields are in RAM, unless a call reads all of them
    #[arg(long, value_name = "BITS", default_value_t = REGISTERS_MAX)]
    registers: usize,
}

fn name(name: &str) -> Result<String, String> {
    let known = || types::NAMES.join(", ");
    types::by_name(name).map(|_| name.to_owned()).ok_or_else(|| format!("the types are {}", known()))
}

fn size(text: &str) -> Result<(String, usize), String> {
    let unreadable = || "give a sort and a number, as in Student=1000".to_owned();
    let (sort, elements) = text.split_once('=').ok_or_else(unreadable)?;
    Ok((sort.to_owned(), elements.parse().map_err(|_| unreadable())?))
}

/// What was generated.
#[derive(Debug, Serialize)]
pub(crate) struct Generated {
    /// Name of the type.
    name: &'static str,
    /// Name of the module.
    module: String,
    /// Paths of the files, in the order in which tools must read them.
    files: Vec<PathBuf>,
    /// Bits of state in registers.
    register_bits: usize,
    /// Bits of state in RAM.
    ram_bits: usize,
    /// Cycles from a call to its answer.
    latency_cycles: usize,
    /// For each method, cycles from a call to the next.
    methods: Vec<GeneratedMethod>,
}

#[derive(Debug, Serialize)]
struct GeneratedMethod {
    name: &'static str,
    cycles: usize,
}

impl GenerateArguments {
    fn bounds(&self, definition: &Definition) -> Result<Bounds, Failure> {
        let mut bounds = Bounds::uniform(self.elements);
        for (name, elements) in &self.size {
            let Some(sort) = definition.sorts.iter().find(|sort| *sort == name) else {
                let sorts = definition.sorts.join(", ");
                let known =
                    if sorts.is_empty() { "it has none".to_owned() } else { format!("it has {sorts}") };
                return Err(Failure::new(format!("{} has no sort {name}; {known}", definition.name)));
            };
            bounds = bounds.with(sort, *elements);
        }
        Ok(bounds)
    }
}

impl Task for GenerateArguments {
    type Found = Generated;

    const KIND: &'static str = "rdt generate";
    const IS_QUICK: bool = false;
    const BASIS: Basis = Basis::Counted;

    fn work(&self) -> Result<Generated, Failure> {
        let definition = types::by_name(&self.name).expect("the option is checked");
        let gates = Gates::new(&definition, &self.bounds(&definition)?, self.registers)?;
        let module = (format!("{}.sv", gates.module_name()), gates.module());
        let staging = Staging::new(&self.out)?;
        let mut files = vec![];
        for (file, text) in SUPPORT.into_iter().chain([(&*module.0, &*module.1)]) {
            write_whole(&staging.path().join(file), text.as_bytes())?;
            files.push(self.out.join(file));
        }
        staging.publish()?;
        let (register_bits, ram_bits) = gates.state_bits();
        let methods = definition.methods.iter().enumerate().map(|(number, method)| GeneratedMethod {
            name: method.name,
            cycles: gates.rows_written(number),
        });
        Ok(Generated {
            name: definition.name,
            module: gates.module_name(),
            files,
            register_bits,
            ram_bits,
            latency_cycles: LATENCY,
            methods: methods.collect(),
        })
    }

    fn to_text(&self, generated: &Generated) -> String {
        let mut text = format!(
            "{}: {} bits in registers, {} in RAM; a call is answered after {} cycles\n",
            generated.module,
            grouped(generated.register_bits as u64),
            grouped(generated.ram_bits as u64),
            generated.latency_cycles
        );
        for method in generated.methods.iter().filter(|method| method.cycles > 1) {
            let _ = writeln!(text, "  {} takes {} cycles; the others take one", method.name, method.cycles);
        }
        for file in &generated.files {
            let _ = writeln!(text, "  {}", file.display());
        }
        text
    }

    fn holds(&self, _: &Generated) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(name: &str, size: &[(&str, usize)]) -> GenerateArguments {
        let size = size.iter().map(|&(sort, elements)| (sort.to_owned(), elements)).collect();
        let out = PathBuf::from("unused");
        GenerateArguments { name: name.into(), out, elements: 8, size, registers: REGISTERS_MAX }
    }

    #[test]
    fn files_lie_in_the_folder_and_say_what_they_cost() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let out = folder.path().join("gates");
        let arguments = GenerateArguments { out: out.clone(), registers: 0, ..arguments("smallbank", &[]) };
        let generated = arguments.work().expect("it can be generated");
        assert_eq!((generated.register_bits, generated.ram_bits), (0, 2 * 8 * 64));
        assert!(generated.files.iter().all(|file| file.is_file()), "{generated:?}");
        assert!(arguments.to_text(&generated).contains("sendPayment takes 2 cycles"));
    }

    #[test]
    fn sizes_are_of_sorts_that_exist() {
        let definition = types::by_name("account").expect("a listed type");
        let error = arguments("account", &[("Student", 3)]).bounds(&definition).unwrap_err();
        assert_eq!(error.to_string(), "account has no sort Student; it has none");
        assert!(size("Student").is_err() && size("Student=x").is_err());
        assert_eq!(size("Student=3"), Ok(("Student".into(), 3)));
        assert!(name("bank").unwrap_err().starts_with("the types are g-counter"));
    }
}
