//! Services on the path of the Verilated card, in virtual time.

use weft_gateware::{OnPath, latency};
use weft_harness::gateware::hbm;
use weft_harness::progress::Progress;

use super::result::{Measured, Run};
use super::{ServiceBench, ServiceName};
use crate::load::Load;
use crate::{Limit, RdmaBench, RdmaError, limit};

/// Number of single messages whose latency is measured: each takes a thousand cycles, and without faults they hardly
/// differ.
const LATENCY_MESSAGES: u64 = 20;

/// Measures each size with the service and without it.
pub(super) fn measure(bench: &ServiceBench) -> Result<Vec<Measured>, RdmaError> {
    let on_path = bench.request().service()?.map_or(OnPath::Psp, OnPath::Services);
    let cycles = |on_path| latency::measure_on_path(hbm(), on_path).post_to_visible;
    let added_latency_cycles = cycles(&on_path) - cycles(&OnPath::Nothing);
    let mut measured = Vec::new();
    for &size_bytes in &bench.sizes_bytes {
        let one = bench.run_of(size_bytes);
        let load = Load { latency_messages: LATENCY_MESSAGES, ..one.load() };
        let (without, with) = (run(&one, &load, &OnPath::Nothing)?, run(&one, &load, &on_path)?);
        let wire = wire(&load, bench.service);
        let fraction_of_wire = with.goodput_bits_per_s / wire.goodput_bits_per_s;
        let limit = match bench.service {
            ServiceName::Psp => wire,
            _ => without.as_limit("the same WRITEs to the same card without the service"),
        };
        measured.push(Measured {
            size_bytes,
            fraction_of_limit: with.goodput_bits_per_s / limit.goodput_bits_per_s,
            fraction_of_wire: Some(fraction_of_wire),
            added_latency_cycles: Some(added_latency_cycles),
            limit,
            with,
            without,
            runs: 1,
            alone: None,
        });
    }
    Ok(measured)
}

/// One run, with the receiver's memory and taps compared.
fn run(bench: &RdmaBench, load: &Load, on_path: &OnPath) -> Result<Run, RdmaError> {
    let mut progress = Progress::new(&format!("service, {} bytes", bench.size_bytes), bench.total(load));
    let outcome = bench.outcome(load, &bench.cost_profile()?, on_path, &mut progress)?;
    let flowed = outcome.directions.into_iter().next().expect("there is a direction");
    Ok(Run::new(&flowed.measurement, &outcome.verification))
}

/// The limit of the wire: with PSP, for frames that are longer.
fn wire(load: &Load, service: ServiceName) -> Limit {
    match service {
        ServiceName::Psp => limit::sealed(load),
        _ => limit::limit(load, 0.0),
    }
}
