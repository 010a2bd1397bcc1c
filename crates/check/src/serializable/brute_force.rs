//! Small random histories against a search through all serial orders.

use proptest::prelude::*;

use super::*;

/// What a transaction did, without an identity.
#[derive(Clone, Debug)]
struct Sketch {
    started: u64,
    ended: Option<u64>,
    reads: Vec<(u64, u64)>,
    writes: Vec<(u64, u64)>,
}

/// Whether the chosen transactions have a serial order in which each reads the latest version of each key, versions grow, and who
/// ended before another started comes first.
fn has_order(chosen: &[&Sketch], placed: &mut Vec<usize>, state: &mut [u64; KEYS]) -> bool {
    if placed.len() == chosen.len() {
        return true;
    }
    for index in 0..chosen.len() {
        let sketch = chosen[index];
        let may_be_next = !placed.contains(&index)
            && (0..chosen.len()).all(|other| {
                placed.contains(&other) || chosen[other].ended.is_none_or(|ended| ended >= sketch.started)
            })
            && sketch.reads.iter().all(|&(key, version)| state[key as usize] == version)
            && sketch.writes.iter().all(|&(key, version)| state[key as usize] < version);
        if may_be_next {
            let before = *state;
            sketch.writes.iter().for_each(|&(key, version)| state[key as usize] = version);
            placed.push(index);
            if has_order(chosen, placed, state) {
                return true;
            }
            placed.pop();
            *state = before;
        }
    }
    false
}

/// Whether those that ended, with some of the others, have a serial order.
fn explains(sketches: &[Sketch]) -> bool {
    (0..1u32 << sketches.len()).any(|set| {
        let in_set = |index: usize| set & 1 << index != 0;
        let all_ended = sketches.iter().enumerate().all(|(index, s)| s.ended.is_none() || in_set(index));
        let chosen: Vec<&Sketch> = (0..sketches.len()).filter(|&i| in_set(i)).map(|i| &sketches[i]).collect();
        all_ended && has_order(&chosen, &mut Vec::new(), &mut [0; KEYS])
    })
}

fn checked(sketches: &[Sketch]) -> Report {
    let mut history = History::default();
    for (sequence, sketch) in (0..).zip(sketches) {
        let accesses = |list: &[(u64, u64)]| -> Vec<Access> {
            list.iter().map(|&(key, version)| Access::present(key, version, &version.to_le_bytes())).collect()
        };
        history.record(&Transaction {
            id: TransactionId { coordinator: 0, epoch: 1, sequence },
            started_ps: sketch.started,
            fate: sketch.ended.map_or(Fate::Unknown, |ended_ps| Fate::Committed { ended_ps }),
            reads: &accesses(&sketch.reads),
            writes: &accesses(&sketch.writes),
        });
    }
    check(history, &Options::default())
}

const KEYS: usize = 3;

/// A transaction that executes at a moment, and what goes wrong with it: per key nothing, a read, a write or both; how far its reads
/// are too old; whether nobody learned its outcome.
type Draw = ([u8; KEYS], [u8; KEYS], u64, u64, bool);

fn draw() -> impl Strategy<Value = Draw> {
    let stale = prop_oneof![8 => Just(0u8), 1 => Just(1u8), 1 => Just(2u8)];
    (
        prop::array::uniform3(0u8..4),
        prop::array::uniform3(stale),
        0u64..40,
        0u64..40,
        prop::bool::weighted(0.2),
    )
}

/// Executes them one after another, with faults; moments are 10 apart.
fn sketches(draws: &[Draw]) -> Vec<Sketch> {
    let mut versions: Vec<Vec<u64>> = vec![vec![0]; KEYS];
    let mut counter = 0;
    let mut sketches = Vec::new();
    for (moment, (modes, stale, early, late, unknown)) in (10u64..).step_by(10).zip(draws) {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for key in 0..KEYS {
            if modes[key] & 1 != 0 {
                let old = versions[key].len().saturating_sub(1 + stale[key] as usize);
                reads.push((key as u64, versions[key][old]));
            }
            if modes[key] & 2 != 0 {
                counter += 1;
                writes.push((key as u64, counter));
            }
        }
        writes.iter().for_each(|&(key, version)| versions[key as usize].push(version));
        sketches.push(Sketch {
            started: moment.saturating_sub(*early),
            ended: (!unknown).then_some(moment + late),
            reads,
            writes,
        });
    }
    sketches
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn the_verdict_is_that_of_a_search_through_all_orders(draws in prop::collection::vec(draw(), 1..6)) {
        let sketches = sketches(&draws);
        let report = checked(&sketches);
        prop_assert_eq!(!report.is_violated(), explains(&sketches), "{:?}", report);
    }
}

/// The comparison is worth something only if both verdicts are common, also among histories with an unknown outcome.
#[test]
fn both_verdicts_are_common() {
    let mut random = 7u64;
    let mut next = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    let mut seen = [[0u32; 2]; 2];
    for _ in 0..2000 {
        let draws: Vec<Draw> = (0..5)
            .map(|_| {
                (
                    std::array::from_fn(|_| next(4) as u8),
                    std::array::from_fn(|_| (next(10) / 8) as u8),
                    next(40),
                    next(40),
                    next(5) == 0,
                )
            })
            .collect();
        let sketches = sketches(&draws);
        let report = checked(&sketches);
        let explained = explains(&sketches);
        assert_eq!(!report.is_violated(), explained, "{sketches:?}: {report:?}");
        seen[usize::from(explained)][usize::from(report.unknown_but_seen > 0)] += 1;
    }
    assert!(seen.iter().flatten().all(|&count| count > 100), "{seen:?}");
}
