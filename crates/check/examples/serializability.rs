//! Measures the time that the check of transactions takes for a synthetic history: `cargo run --release -p
//! weft-check --example serializability [transactions]`.

use std::time::Instant;

use weft_check::serializable::{Options, check};

#[path = "../tests/synthetic_transactions/mod.rs"]
mod synthetic_transactions;

fn main() {
    let transactions = match std::env::args().nth(1).map(|text| text.parse::<u64>()) {
        None => 1_000_000,
        Some(Ok(transactions)) => transactions,
        Some(Err(error)) => {
            eprintln!("the number of transactions is not a number: {error}");
            std::process::exit(2);
        }
    };
    let shape = synthetic_transactions::Synthetic {
        transactions,
        keys: 1_000_000,
        accesses: 10,
        overlap: 1000,
        stale: None,
    };
    let history = shape.generate(7);
    let began = Instant::now();
    let report = check(history, &Options::default());
    let seconds = began.elapsed().as_secs_f64();
    println!("transactions      {:>12}", report.transactions);
    println!("reads             {:>12}", report.reads);
    println!("writes            {:>12}", report.writes);
    println!("dependencies      {:>12}", report.dependencies);
    println!("checked           {:>12}", report.checked());
    println!("seconds           {seconds:>12.3}");
    println!("transactions/s    {:>12.0}", report.transactions as f64 / seconds);
}
