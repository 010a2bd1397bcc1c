//! Random fault plans, for campaigns.

use super::{Fault, FaultKind, FaultKinds, FaultPlan, LinkDirection};
use crate::random::Stream;

/// Limits of a random plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanShape {
    /// Names of all machines that may be partitioned or paused, and whose links may fail.
    pub machines: Vec<String>,
    /// Names of the machines that do not fail, and that always reach each other; none is in `machines`. Faults of
    /// links affect them only in their exchange with the machines that may fail.
    pub steady: Vec<String>,
    /// Names of the machines that may crash and lose their memory.
    pub crashable: Vec<String>,
    /// Names of the machines that may crash and restart with the data that they have stored; none is in
    /// `crashable`.
    pub durable: Vec<String>,
    /// Names of the machines that have disks; all of them are in `crashable`.
    pub disks: Vec<String>,
    /// Faults start after this time, when the run has reached its steady state.
    pub from_us: u64,
    /// At this time all faults have ended, and all machines run.
    pub until_us: u64,
    /// Kinds of faults.
    pub kinds: FaultKinds,
}

impl FaultPlan {
    /// The plan that `seed` determines. It has one to three faults of each kind, anywhere in the shape's
    /// period, each for at most a quarter of it. The probability of loss and duplication is at most 5 %, of
    /// corruption 1 %; the frame check sequence detects half of the latter. Every crash is followed by a
    /// restart. A partial partition lasts up to two fifths of the period, so that it has an effect. A power
    /// failure affects all or some of the machines with disks and of those that store data; they need not
    /// restart at the same time. If the shape is too short for any fault, the plan is empty.
    pub fn random(seed: u64, shape: &PlanShape) -> Self {
        let mut faults = Vec::new();
        for kind in shape.kinds.iter() {
            // Each kind has its own random stream, so that omitting one kind does not change the others.
            let mut stream = Stream::new(seed, "fault plan", kind as u64);
            for _ in 0..stream.between(1, 3) {
                shape.add(kind, &mut stream, &mut faults);
            }
        }
        Self { faults }
    }
}

impl PlanShape {
    /// Adds one fault of `kind`, if the shape allows any.
    fn add(&self, kind: FaultKind, stream: &mut Stream, faults: &mut Vec<Fault>) {
        let total = self.until_us.saturating_sub(self.from_us);
        if total < 4 || self.machines.is_empty() {
            return;
        }
        let length = match kind {
            FaultKind::PartialPartition => stream.between((total / 5).max(1), (total * 2 / 5).max(1)),
            _ => stream.between((total / 50).max(1), total / 4),
        };
        let from_us = self.from_us + stream.between(0, total - length);
        let until_us = from_us + length;
        // Half of the link faults affect only one link, in one direction or both; with steady machines all of them.
        let is_of_one = stream.below(2) == 0 || !self.steady.is_empty();
        let machine = is_of_one.then(|| pick(&self.machines, stream).clone());
        let direction = [LinkDirection::Both, LinkDirection::FromMachine, LinkDirection::ToMachine]
            [stream.below(3) as usize];
        let mut per_mille = |most| stream.between(1, most) as f64 / 1_000.0;
        let fault = match kind {
            FaultKind::Loss => {
                Fault::Loss { from_us, until_us, probability: per_mille(50), machine, direction }
            }
            FaultKind::Duplication => {
                let probability = per_mille(50);
                let delay_us = stream.between(1, 50);
                Fault::Duplication { from_us, until_us, probability, delay_us, machine, direction }
            }
            FaultKind::Reordering => {
                let probability = per_mille(100);
                let delay_us = stream.between(1, 50);
                Fault::Reordering { from_us, until_us, probability, delay_us, machine, direction }
            }
            FaultKind::Corruption => {
                let probability = per_mille(10);
                Fault::Corruption { from_us, until_us, probability, caught_by_fcs: 0.5, machine, direction }
            }
            FaultKind::SlowLink => {
                let rate_percent = stream.between(1, 50) as u8;
                Fault::SlowLink { from_us, until_us, rate_percent, machine, direction }
            }
            FaultKind::Pause => {
                Fault::Pause { from_us, until_us, machine: pick(&self.machines, stream).clone() }
            }
            FaultKind::Partition => match self.part(stream) {
                Some(groups) => Fault::Partition { from_us, until_us, groups },
                None => return,
            },
            FaultKind::OneWayCut => match self.pair(stream) {
                Some((from, to)) => Fault::OneWayCut { from_us, until_us, from, to },
                None => return,
            },
            FaultKind::PartialPartition => match self.part_partially(stream) {
                Some((from, to, one_way)) => Fault::PartialPartition { from_us, until_us, from, to, one_way },
                None => return,
            },
            FaultKind::Crash => {
                if self.crashable.is_empty() {
                    return;
                }
                let machine = pick(&self.crashable, stream);
                if is_down(faults, machine, from_us, until_us) {
                    return;
                }
                faults.push(Fault::Crash { at_us: from_us, machine: machine.clone() });
                Fault::Restart { at_us: until_us, machine: machine.clone() }
            }
            FaultKind::Outage => {
                if self.durable.is_empty() {
                    return;
                }
                let machine = pick(&self.durable, stream);
                if is_out(faults, machine, from_us, until_us) {
                    return;
                }
                Fault::Outage { from_us, until_us, machine: machine.clone() }
            }
            FaultKind::Power => {
                if !self.disks.is_empty() {
                    self.cut_power(from_us, until_us, stream, faults);
                }
                return;
            }
            _ if self.disks.is_empty() => return,
            FaultKind::Torn => Fault::Torn { at_us: from_us, machine: pick(&self.disks, stream).clone() },
            FaultKind::Lost => Fault::Lost { at_us: from_us, machine: pick(&self.disks, stream).clone() },
            FaultKind::Misdirect => {
                Fault::Misdirect { at_us: from_us, machine: pick(&self.disks, stream).clone() }
            }
            FaultKind::Rot => Fault::Rot { at_us: from_us, machine: pick(&self.disks, stream).clone() },
            FaultKind::IoError => {
                Fault::IoError { from_us, until_us, machine: pick(&self.disks, stream).clone() }
            }
            FaultKind::Full => Fault::Full { from_us, until_us, machine: pick(&self.disks, stream).clone() },
            FaultKind::SlowDisk => {
                let stores: Vec<_> = self.disks.iter().chain(&self.durable).cloned().collect();
                let machine = pick(&stores, stream).clone();
                Fault::SlowDisk { from_us, until_us, machine, times: stream.between(2, 50) as u32 }
            }
        };
        faults.push(fault);
    }

    /// The power fails for all affected machines at one moment, and returns at one of two moments.
    fn cut_power(&self, from_us: u64, until_us: u64, stream: &mut Stream, faults: &mut Vec<Fault>) {
        let is_whole = stream.below(3) > 0;
        let later_us = from_us + stream.between(1, until_us - from_us);
        let mut first = Vec::new();
        let mut later = Vec::new();
        for machine in self.disks.iter().chain(&self.durable) {
            if is_whole || stream.below(2) == 0 {
                if stream.below(3) > 0 { &mut first } else { &mut later }.push(machine.clone());
            }
        }
        for (until_us, machines) in [(until_us, first), (later_us, later)] {
            if !machines.is_empty() {
                faults.push(Fault::Power { from_us, until_us, machines });
            }
        }
    }

    /// Divides all machines into two groups, neither of them empty. The steady machines are in the first.
    fn part(&self, stream: &mut Stream) -> Option<Vec<Vec<String>>> {
        if self.machines.len() < 2 {
            return None;
        }
        let mut sides = vec![Vec::new(), Vec::new()];
        for machine in &self.machines {
            sides[stream.below(2) as usize].push(machine.clone());
        }
        if let Some(empty) = sides.iter().position(Vec::is_empty) {
            let at = stream.below(self.machines.len() as u64) as usize;
            let moved = sides[1 - empty].remove(at);
            sides[empty].push(moved);
        }
        sides[0].extend_from_slice(&self.steady);
        Some(sides)
    }

    /// Chooses a machine that may crash, and one or more others; it cannot reach them, or they cannot reach
    /// it, or both. In one of four cases no machine can reach it, so that it can only send.
    fn part_partially(&self, stream: &mut Stream) -> Option<(Vec<String>, Vec<String>, bool)> {
        if self.crashable.is_empty() || self.crashable.len() + self.steady.len() < 2 {
            return None;
        }
        let one = pick(&self.crashable, stream);
        let others = |names: &[String]| {
            names.iter().chain(&self.steady).filter(|name| *name != one).cloned().collect::<Vec<_>>()
        };
        let form = stream.below(4);
        if form == 0 {
            return Some((others(&self.machines), vec![one.clone()], true));
        }
        let mut some = others(&self.crashable);
        while some.len() > 1 && stream.below(2) == 0 {
            some.remove(stream.below(some.len() as u64) as usize);
        }
        // Form 1: the others cannot reach the one. Form 2: it cannot reach them. Form 3: neither.
        Some(if form == 1 { (some, vec![one.clone()], true) } else { (vec![one.clone()], some, form == 2) })
    }

    /// Two different machines, at least one of which may fail.
    fn pair(&self, stream: &mut Stream) -> Option<(String, String)> {
        let all: Vec<_> = self.machines.iter().chain(&self.steady).collect();
        if all.len() < 2 {
            return None;
        }
        let one = stream.below(self.machines.len() as u64) as usize;
        let other = (one + stream.between(1, all.len() as u64 - 1) as usize) % all.len();
        let is_turned = !self.steady.is_empty() && stream.below(2) == 0;
        let (from, to) = if is_turned { (other, one) } else { (one, other) };
        Some((all[from].clone(), all[to].clone()))
    }
}

fn pick<'a>(names: &'a [String], stream: &mut Stream) -> &'a String {
    &names[stream.below(names.len() as u64) as usize]
}

/// Whether the plan already has `machine` down at some time in the period. Crashes and restarts are added in
/// pairs.
fn is_down(faults: &[Fault], machine: &str, from_us: u64, until_us: u64) -> bool {
    faults.windows(2).any(|pair| match pair {
        [Fault::Crash { at_us: down, machine: whose }, Fault::Restart { at_us: up, .. }] => {
            whose == machine && *down <= until_us && from_us <= *up
        }
        _ => false,
    })
}

/// Whether the plan already has an outage of `machine` at some time in the period.
fn is_out(faults: &[Fault], machine: &str, from_us: u64, until_us: u64) -> bool {
    faults.iter().any(|fault| match fault {
        Fault::Outage { from_us: down, until_us: up, machine: whose } => {
            whose == machine && *down <= until_us && from_us <= *up
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_time::{Duration, Instant};

    use super::*;

    fn shape(machines: usize) -> PlanShape {
        let machines: Vec<String> = (0..machines).map(|index| format!("node{index}")).collect();
        PlanShape {
            crashable: machines.clone(),
            durable: vec!["service".to_owned()],
            disks: machines.clone(),
            machines,
            steady: Vec::new(),
            from_us: 1_000,
            until_us: 9_000,
            kinds: FaultKinds::ALL.and(FaultKinds::DISK),
        }
    }

    proptest! {
        #[test]
        fn random_plans_are_valid_and_end_in_time(seed: u64, machines in 0usize..7) {
            let shape = shape(machines);
            let plan = FaultPlan::random(seed, &shape);
            prop_assert_eq!(plan.check(), Ok(()));
            prop_assert_eq!(FaultPlan::parse(&plan.to_toml()), Ok(plan.clone()));
            prop_assert_eq!(&plan, &FaultPlan::random(seed, &shape));
            prop_assert!(plan.ends_at() <= Instant::ZERO + Duration::from_us(9_000));
            prop_assert!(plan.faults.iter().all(|fault| fault.begin() >= Instant::ZERO + Duration::from_us(1_000)));
            for machine in &shape.machines {
                let mut turns: Vec<(u64, bool)> = plan.faults.iter().filter_map(|fault| match fault {
                    Fault::Crash { at_us, machine: whose } if whose == machine => Some((*at_us, false)),
                    Fault::Restart { at_us, machine: whose } if whose == machine => Some((*at_us, true)),
                    _ => None,
                }).collect();
                turns.sort_unstable();
                prop_assert!(turns.iter().enumerate().all(|(turn, (_, up))| *up == (turn % 2 == 1)), "{:?}", turns);
                prop_assert!(turns.len().is_multiple_of(2));
            }
            let mut outages: Vec<(u64, u64)> = plan.faults.iter().filter_map(|fault| match fault {
                Fault::Outage { from_us, until_us, .. } => Some((*from_us, *until_us)),
                _ => None,
            }).collect();
            outages.sort_unstable();
            prop_assert!(outages.windows(2).all(|pair| pair[0].1 < pair[1].0), "{:?}", outages);
        }

        #[test]
        fn leaving_a_kind_out_leaves_the_others_alone(seed: u64) {
            let all = FaultPlan::random(seed, &shape(5));
            let loss = FaultPlan::random(seed, &PlanShape { kinds: FaultKinds::NONE.with(FaultKind::Loss), ..shape(5) });
            let kept: Vec<Fault> = all.faults.into_iter().filter(|fault| fault.kind() == FaultKind::Loss).collect();
            prop_assert_eq!(kept, loss.faults);
        }
    }

    #[test]
    fn steady_machines_reach_each_other_and_meet_every_kind() {
        let steady: Vec<String> = ["node7", "node8", "node9"].map(str::to_owned).to_vec();
        let shape = PlanShape { disks: Vec::new(), steady: steady.clone(), ..shape(1) };
        let shape = PlanShape { machines: vec!["node0".to_owned(), "clients0".to_owned()], ..shape };
        let are_steady = |names: &[String]| names.iter().any(|name| steady.contains(name));
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..50 {
            for fault in FaultPlan::random(seed, &shape).faults {
                kinds.insert(fault.kind());
                let is_spared = match &fault {
                    Fault::Loss { machine, .. }
                    | Fault::Duplication { machine, .. }
                    | Fault::Reordering { machine, .. }
                    | Fault::Corruption { machine, .. }
                    | Fault::SlowLink { machine, .. } => {
                        machine.as_ref().is_some_and(|name| !steady.contains(name))
                    }
                    Fault::Partition { groups, .. } => groups.iter().filter(|it| are_steady(it)).count() == 1,
                    Fault::OneWayCut { from, to, .. } => !(steady.contains(from) && steady.contains(to)),
                    Fault::PartialPartition { from, to, .. } => !(are_steady(from) && are_steady(to)),
                    Fault::Crash { machine, .. }
                    | Fault::Restart { machine, .. }
                    | Fault::Pause { machine, .. }
                    | Fault::Outage { machine, .. } => !steady.contains(machine),
                    fault => unreachable!("no machine has a disk: {fault:?}"),
                };
                assert!(is_spared, "seed {seed}: {fault:?}");
            }
        }
        assert!(FaultKinds::ALL.iter().all(|kind| kinds.contains(&kind)), "{kinds:?}");
    }

    #[test]
    fn five_machines_meet_every_kind() {
        for seed in 0..50 {
            let plan = FaultPlan::random(seed, &shape(5));
            for kind in FaultKind::ALL {
                assert!(plan.faults.iter().any(|fault| fault.kind() == kind), "seed {seed} has no {kind}");
            }
        }
    }
}
