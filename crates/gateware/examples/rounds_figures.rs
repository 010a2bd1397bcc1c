//! Prints the duration of a round in gates: `cargo run --release -p weft-gateware --example rounds_figures
//! [nodes [value bytes [latency]]]`.

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().expect("a number"));
    let mut next = |default: usize| arguments.next().unwrap_or(default);
    let (nodes, value_bytes, latency) = (next(3), next(64), next(0));
    let figures = weft_gateware::rounds_switch::figures(nodes, value_bytes, latency as u64);
    println!("{figures:#?}");
    println!("decided values a second: {:.0}", figures.at_min_period.decided_values_per_s());
    println!("decided bits a second: {:.0}", figures.at_min_period.decided_bits_per_s());
}
