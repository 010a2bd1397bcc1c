//! CPU time of engines' computations.

use weft_nic::Meter;
use weft_time::Duration;
use weft_waist::Computation;

use crate::cost::{HOST_TRANSACTION, procedure_time};

/// Converts computations to time of a core of the reference host, by the constants of the cost table.
#[derive(Clone, Debug)]
pub struct HostMeter {
    /// Time of one run of each procedure, by its number.
    procedures: Vec<Duration>,
}

impl HostMeter {
    /// A meter for the procedures with these names, in the order of their numbers.
    ///
    /// # Panics
    /// If the cost table does not have a procedure.
    pub fn new<'a>(procedures: impl Iterator<Item = &'a str>) -> Self {
        let time = |name| match procedure_time(name) {
            Some(figure) => figure.duration(),
            None => panic!("the cost table has no time of the procedure {name}: add it to weft-sim"),
        };
        Self { procedures: procedures.map(time).collect() }
    }

    /// Time of one run of each procedure, by its number.
    pub fn procedures(&self) -> &[Duration] {
        &self.procedures
    }
}

impl Meter for HostMeter {
    fn cpu_time(&self, computations: &[Computation]) -> Duration {
        let time = |computation: &Computation| match *computation {
            Computation::Procedure(number) => self.procedures[usize::from(number)],
            Computation::Apply => HOST_TRANSACTION.apply.duration(),
            Computation::Compare(bytes) => Duration::from_ps(HOST_TRANSACTION.compare.value * bytes / 1_024),
        };
        computations.iter().map(time).fold(Duration::ZERO, |sum, time| sum + time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computations_of_an_event_follow_each_other() {
        let meter = HostMeter::new(["balance", "new-order"].into_iter());
        let all = [
            Computation::Procedure(1),
            Computation::Procedure(0),
            Computation::Apply,
            Computation::Apply,
            Computation::Compare(512),
        ];
        assert_eq!(meter.cpu_time(&all), Duration::from_ps(730_000 + 60_000 + 2 * 59_524 + 40_000));
        assert_eq!(meter.cpu_time(&[]), Duration::ZERO);
    }

    #[test]
    #[should_panic(expected = "no time of the procedure levitate")]
    fn a_procedure_of_unknown_cost_is_not_free() {
        HostMeter::new(["balance", "levitate"].into_iter());
    }
}
