//! Measures one RDMA verb, in virtual time or between two processes, and compares it with the limit.
//!
//!     cargo run --release -p weft-perftest --example rdma -- sim|net OPERATION SIZE [MILLISECONDS [QUEUE_PAIRS [DEPTH]]]

use weft_perftest::{Amount, RdmaBench, SERVER_COMMAND, child_main};
use weft_results::{World, to_json};
use weft_time::Duration;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|command| command == SERVER_COMMAND) {
        return Ok(child_main(&arguments[1..])?);
    }
    let [world, operation, size, rest @ ..] = arguments.as_slice() else {
        return Err("give a world, an operation and a size".into());
    };
    let number = |place: usize| rest.get(place).map(|text| text.parse::<u32>()).transpose();
    let bench = RdmaBench {
        world: if world == "net" { World::Net } else { World::Sim },
        operation: operation.parse()?,
        size_bytes: size.parse()?,
        amount: Amount::Time(Duration::from_ms(number(0)?.unwrap_or(500).into())),
        queue_pairs: number(1)?.unwrap_or(1),
        tx_depth: number(2)?,
        ..RdmaBench::default()
    };
    let result = bench.run()?;
    print!("{}{}", result.to_text(), to_json(&result));
    Ok(())
}
