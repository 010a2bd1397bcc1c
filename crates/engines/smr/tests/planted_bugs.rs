//! Each planted bug makes some run fail, which shows that the runs detect it.
#![cfg(feature = "planted-bugs")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::network::Faults;
use crate::network::cluster::{Cluster, Mischief, small};
use weft_smr::{Delivery, PlantedBug};
use weft_time::Duration;

/// The first violation that the runs of these seeds find.
fn violation(bug: Option<PlantedBug>, seeds: std::ops::Range<u64>) -> Option<(u64, String)> {
    seeds.into_iter().find_map(|seed| {
        let delivery = if seed.is_multiple_of(2) { Delivery::WriteThrough } else { Delivery::Polling };
        let mut parameters = small([3, 5][seed as usize / 2 % 2], delivery);
        parameters.group.planted_bug = bug;
        let run = catch_unwind(AssertUnwindSafe(|| {
            let mut cluster = Cluster::new(seed, parameters);
            cluster.network.faults = Faults { loss: 30, duplication: 50, late: 30 };
            let mischief = Mischief { crash: 60, cut: 80, stick: 60 };
            cluster.run_with(mischief, Duration::from_ms(6));
            cluster.heal();
        }));
        let text = run.err()?.downcast::<String>().map_or("a panic".into(), |text| *text);
        Some((seed, text))
    })
}

#[test]
fn every_planted_bug_is_caught() {
    std::panic::set_hook(Box::new(|_| {}));
    assert_eq!(violation(None, 0..16), None);
    for bug in PlantedBug::ALL {
        match violation(Some(bug), 0..600) {
            Some((seed, text)) => println!("{} is caught with seed {seed}: {text}", bug.name()),
            None => panic!("{} is not caught", bug.name()),
        }
    }
}
