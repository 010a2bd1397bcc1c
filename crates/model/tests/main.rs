//! The tests of this crate's public interface, in one binary: each binary costs seconds to build.

mod own_type;
mod rdt_gates;
mod rdt_verdicts;
mod rdt_wrong;
#[path = "../../net/examples/own_type/stock.rs"]
#[expect(dead_code, reason = "the example does more with it")]
mod stock;
