//! Models of the memories, the bus and the link around the gateware in simulated machines, with the figures of
//! [`CostProfile::GATEWARE`].

use std::net::Ipv4Addr;

use weft_gateware::{Latency, RtlNicConfig};
use weft_sim::{CostProfile, Execution, Figure, LinkConfig};
use weft_wire::ethernet::MacAddress;

/// The configuration of a card without memory for regions and without an engine. Callers may add them.
pub fn card(hardware: MacAddress, address: Ipv4Addr) -> RtlNicConfig {
    RtlNicConfig {
        hardware,
        address,
        transport: weft_rdma::Config::default(),
        region_bytes: 0,
        bits_per_s: LinkConfig::default().bits_per_s,
        hbm: hbm(),
        host: latency(|_, host| host),
        pressure: None,
        power_on_seed: 0,
        psp: None,
        services: false,
        engine: None,
    }
}

/// Latency of the card's high-bandwidth memory for accesses to regions.
pub fn hbm() -> Latency {
    latency(|hbm, _| hbm)
}

/// A latency in clock cycles. `choose` selects between the figures of the card's memory and of the host's
/// memory.
fn latency(choose: impl Fn([Figure; 2], [Figure; 2]) -> [Figure; 2]) -> Latency {
    let CostProfile { execution: Execution::Clocked { cycle, host_read, host_write }, memory, .. } =
        CostProfile::GATEWARE
    else {
        unreachable!("the gateware is clocked")
    };
    let [read, write] = choose([memory.read, memory.write], [host_read, host_write])
        .map(|figure| figure.value.div_ceil(cycle.value));
    Latency { read_cycles: read, write_cycles: write }
}
