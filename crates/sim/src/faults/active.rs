//! Active faults, and their effect on each link and each pair of machines.

use weft_time::Duration;

use super::{Fault, LinkDirection};
use crate::MachineId;
use crate::link::LinkFaults;
use crate::random::Probability;

/// The lasting faults of the plan that are active.
#[derive(Debug, Default)]
pub(crate) struct ActiveFaults {
    /// For each fault of the plan, whether it is active.
    active: Vec<bool>,
}

impl ActiveFaults {
    pub(crate) fn new(faults: usize) -> Self {
        Self { active: vec![false; faults] }
    }

    pub(crate) fn set(&mut self, fault: usize, active: bool) {
        self.active[fault] = active;
    }

    fn iter<'a>(&'a self, plan: &'a [Fault<MachineId>]) -> impl Iterator<Item = &'a Fault<MachineId>> {
        plan.iter().zip(&self.active).filter_map(|(fault, &active)| active.then_some(fault))
    }

    /// The active faults on the link of `machine` in one direction.
    pub(crate) fn on_link(
        &self,
        plan: &[Fault<MachineId>],
        machine: MachineId,
        direction: LinkDirection,
    ) -> LinkFaults {
        let strikes = |whose: &Option<MachineId>, which: LinkDirection| {
            whose.is_none_or(|whose| whose == machine) && (which == LinkDirection::Both || which == direction)
        };
        let probability = |value: f64| Probability::new(value).expect("plans are checked");
        let mut faults = LinkFaults::NONE;
        for fault in self.iter(plan) {
            match fault {
                Fault::Loss { probability: value, machine, direction, .. }
                    if strikes(machine, *direction) =>
                {
                    faults.loss = faults.loss.max(probability(*value));
                }
                Fault::Duplication { probability: value, delay_us, machine, direction, .. }
                    if strikes(machine, *direction) =>
                {
                    faults.duplication = faults.duplication.max(probability(*value));
                    faults.duplicate_delay = faults.duplicate_delay.max(Duration::from_us(*delay_us));
                }
                Fault::Reordering { probability: value, delay_us, machine, direction, .. }
                    if strikes(machine, *direction) =>
                {
                    faults.reordering = faults.reordering.max(probability(*value));
                    faults.reorder_delay = faults.reorder_delay.max(Duration::from_us(*delay_us));
                }
                Fault::Corruption { probability: value, caught_by_fcs, machine, direction, .. }
                    if strikes(machine, *direction) && probability(*value) > faults.corruption =>
                {
                    faults.corruption = probability(*value);
                    faults.caught_by_fcs = probability(*caught_by_fcs);
                }
                Fault::SlowLink { rate_percent, machine, direction, .. } if strikes(machine, *direction) => {
                    faults.rate_percent = faults.rate_percent.min(*rate_percent);
                }
                _ => {}
            }
        }
        faults
    }

    /// Whether a fault cuts `from` off from `to`.
    pub(crate) fn cuts(&self, plan: &[Fault<MachineId>], from: MachineId, to: MachineId) -> bool {
        self.iter(plan).any(|fault| match fault {
            Fault::Partition { groups, .. } => {
                let group = |machine| groups.iter().position(|group| group.contains(&machine));
                group(from).zip(group(to)).is_some_and(|(from, to)| from != to)
            }
            Fault::OneWayCut { from: sender, to: receiver, .. } => (*sender, *receiver) == (from, to),
            Fault::PartialPartition { from: senders, to: receivers, one_way, .. } => {
                senders.contains(&from) && receivers.contains(&to)
                    || !one_way && senders.contains(&to) && receivers.contains(&from)
            }
            _ => false,
        })
    }
}
