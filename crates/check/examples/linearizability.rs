//! Measures the checker's time for a synthetic linearizable history: `cargo run --release -p weft-check --example
//! linearizability [operations]`.

use std::time::Instant;

use weft_check::{History, Options, check};

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

fn main() {
    let operations = match std::env::args().nth(1).map(|text| text.parse::<usize>()) {
        None => 1_000_000,
        Some(Ok(operations)) => operations,
        Some(Err(error)) => {
            eprintln!("the number of operations is not a number: {error}");
            std::process::exit(2);
        }
    };
    let mut history = History::with_capacity(operations);
    for operation in synthetic::Synthetic::ycsb_a(operations).generate(7) {
        history.record(operation).expect("a valid operation");
    }
    let began = Instant::now();
    let report = check(&history, &Options::default());
    let seconds = began.elapsed().as_secs_f64();
    println!("operations        {:>12}", report.operations);
    println!("keys              {:>12}", report.keys);
    println!("checked           {:>12}", report.checked());
    println!("seconds           {seconds:>12.3}");
    println!("operations/s      {:>12.0}", report.operations as f64 / seconds);
}
