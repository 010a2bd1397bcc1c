//! Every data type in gates does what the evaluator does.

use weft_conformance::rdt::run;
use weft_gateware::Pressure;
use weft_rdt::types;

fn run_all(calls: u64) {
    for (seed, name) in (1..).zip(types::NAMES) {
        for pressure in [None, Some(Pressure { seed, stalls_of_256: 100 })] {
            let covered =
                run(name, calls, seed, pressure).unwrap_or_else(|difference| panic!("{difference}"));
            println!("{name}: {covered:?}");
            let [done, out_of_range, ..] = covered.outcomes;
            assert!(done > covered.calls / 2 && out_of_range > 0, "{name}: {covered:?}");
        }
    }
}

#[test]
fn types_in_gates_do_what_the_evaluator_does() {
    run_all(4_000);
}

#[test]
#[ignore = "ten million calls of each type; `make nightly` makes them"]
fn types_in_gates_do_what_the_evaluator_does_at_length() {
    run_all(5_000_000);
}
