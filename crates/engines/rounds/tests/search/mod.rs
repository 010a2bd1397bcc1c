//! A search for schedules that break one instance: random members omit to send and to receive, on random links in
//! random rounds. It is much faster than whole networks, so it also meets schedules that these would reach
//! extremely rarely.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_rounds::{Instance, Members, PlantedBug, Quorums, Receipt};

/// The first of the `seeds` whose schedule violates a property, and which property.
pub fn violation(bug: Option<PlantedBug>, seeds: std::ops::Range<u64>) -> Option<(u64, String)> {
    seeds.into_iter().find_map(|seed| Some((seed, schedule(bug, seed).err()?)))
}

/// Runs one schedule with 3 to 8 members, of which as many omit messages as are tolerated.
fn schedule(bug: Option<PlantedBug>, seed: u64) -> Result<(), String> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut random = |below: usize| (rng.next_u64() % below as u64) as usize;
    let count = 3 + random(6);
    let (members, quorums) = (Members::first(count), Quorums::of(count));
    let tolerated = Quorums::tolerated(count);
    let mut faulty = Members::EMPTY;
    while faulty.len() < tolerated {
        faulty = faulty.with(random(count));
    }
    let (often, per_hundred) = (random(2) == 0, [10, 25, 50][random(3)]);
    let mut lost = |from, to| {
        let touched = faulty.contains(from) || faulty.contains(to);
        touched && random(100) < if often { per_hundred } else { 5 }
    };
    let mut group: Vec<Instance> = (0..count)
        .map(|to| {
            let row = (0..count).filter(|&from| from == to || !lost(from, to)).collect();
            let instance = Instance::open(to, members, quorums, row);
            #[cfg(feature = "planted-bugs")]
            let instance = instance.with_planted(bug);
            #[cfg(not(feature = "planted-bugs"))]
            assert_eq!(bug, None, "bugs are planted with the feature only");
            instance
        })
        .collect();
    let held: Vec<Members> = group.iter().map(|instance| instance.rows()[instance.node()]).collect();
    for round in 0..=tolerated + 2 {
        let records: Vec<_> = group.iter().map(Instance::record).collect();
        for (to, instance) in group.iter_mut().enumerate() {
            for (from, record) in records.iter().enumerate().filter(|(from, _)| *from != to) {
                if !lost(from, to) && instance.receive(from, record) == Receipt::Contradiction {
                    return Err(format!("round {round}: {to} cannot believe what {from} says"));
                }
            }
        }
        for instance in &mut group {
            let before = instance.decision();
            let decided = instance.end_round();
            if before.is_some() && (decided.is_some() || instance.decision() != before) {
                return Err(format!("round {round}: {} decides twice", instance.node()));
            }
        }
        // Rounds 0 to f + 1 are f + 2 rounds.
        for correct in members.difference(faulty).iter().filter(|_| round == tolerated + 1) {
            if group[correct].decision().is_none() {
                return Err(format!("{correct} is correct and undecided after {} rounds", round + 1));
            }
        }
    }
    let decisions: Vec<_> = group.iter().filter_map(Instance::decision).collect();
    for decision in &decisions {
        if decision != &decisions[0] {
            return Err(format!("disagreement: {decisions:?}"));
        }
        if !decision.includes(members.difference(faulty)) {
            return Err(format!("{decision:?} lacks the value of a correct member"));
        }
        for value in decision.iter() {
            let holders = held.iter().filter(|row| row.contains(value)).count();
            if holders <= tolerated {
                return Err(format!("only {holders} hold the value of {value}"));
            }
        }
    }
    Ok(())
}
