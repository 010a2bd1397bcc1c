//! Seeded random schedules of larger clusters.
//!
//! The seed and the schedule's number determine a schedule, so a search finds the same with any number of threads.
//! Losses are drawn in several manners, because scattered losses hardly ever form the chains that break agreement:
//! a faulty node sends a value to only one node, which sends it to only one more in the next round.

use std::array;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::adversary::Adversary;
use crate::property::Property;
use crate::protocol::{Protocol, all_of, nodes_of};
use crate::schedule::{Counterexample, Schedule};

/// Number of schedules that a thread takes at a time.
const CHUNK: u64 = 4_096;

/// Which messages may be lost in a random search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Losses {
    /// Messages of faulty nodes, which are drawn for each schedule, at most as many as the protocol tolerates.
    Tolerated,
    /// Messages on any link.
    AnyLink,
}

impl Losses {
    /// An adversary of this kind; it determines which properties apply.
    fn example(self) -> Adversary {
        match self {
            Self::Tolerated => Adversary::Omissions { faulty: 1 },
            Self::AnyLink => Adversary::AnyLink,
        }
    }
}

/// Parameters of a random search.
#[derive(Clone, Debug)]
pub struct Search<P, const N: usize> {
    /// The protocol to check.
    pub protocol: P,
    /// Which messages may be lost.
    pub losses: Losses,
    /// Number of schedules to run.
    pub schedules: u64,
    /// Seed that determines the schedules.
    pub seed: u64,
}

/// The result of a random search.
#[derive(Clone, Debug)]
pub struct Searched<const N: usize> {
    /// Number of schedules run.
    pub schedules: u64,
    /// Number of rounds of the whole cluster in them.
    pub rounds: u64,
    /// The properties that were checked after every round.
    pub properties: Vec<Property>,
    /// The findings, one for each violated property.
    pub findings: Vec<Finding<N>>,
    /// Duration of the check.
    pub took: Duration,
}

/// A property that some schedules violated.
#[derive(Clone, Debug)]
pub struct Finding<const N: usize> {
    /// Number of schedules that violated this property before any other.
    pub violations: u64,
    /// Number of the first of these schedules.
    pub schedule: u64,
    /// The first of these schedules, minimised.
    pub counterexample: Counterexample<N>,
}

impl<P: Protocol, const N: usize> Search<P, N> {
    /// Runs the search. `progress` is called with the number of finished schedules from time to time.
    pub fn run(&self, threads: usize, mut progress: impl FnMut(u64)) -> Searched<N> {
        let begin = Instant::now();
        let properties: Vec<_> = Property::ALL
            .into_iter()
            .filter(|property| property.applies::<P>(self.losses.example()))
            .collect();
        let taken = AtomicU64::new(0);
        let done = AtomicU64::new(0);
        let rounds = AtomicU64::new(0);
        // For each property, the number of schedules that violate it, and the first of them.
        let broken = Mutex::new(vec![(0, u64::MAX); properties.len()]);
        std::thread::scope(|scope| {
            let work = || {
                loop {
                    let chunk = taken.fetch_add(CHUNK, Ordering::Relaxed);
                    if chunk >= self.schedules {
                        return;
                    }
                    let end = (chunk + CHUNK).min(self.schedules);
                    let mut rounds_of_chunk = 0;
                    for number in chunk..end {
                        let schedule = self.schedule(number);
                        rounds_of_chunk += schedule.losses.len() as u64;
                        if let Some((property, _)) = schedule.breaks(&self.protocol, &properties) {
                            let place = properties.iter().position(|other| *other == property);
                            let mut broken = broken.lock().expect("no thread panics with it");
                            let (violations, first) = &mut broken[place.expect("it was checked")];
                            *violations += 1;
                            *first = number.min(*first);
                        }
                    }
                    rounds.fetch_add(rounds_of_chunk, Ordering::Relaxed);
                    done.fetch_add(end - chunk, Ordering::Relaxed);
                }
            };
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                std::thread::sleep(Duration::from_millis(10));
                progress(done.load(Ordering::Relaxed));
            }
        });
        let broken = broken.into_inner().expect("no thread panicked");
        let findings = properties
            .iter()
            .zip(broken)
            .filter(|(_, (violations, _))| *violations != 0)
            .map(|(property, (violations, schedule))| {
                let counterexample = self.schedule(schedule).counterexample(&self.protocol, *property);
                let counterexample = counterexample.expect("a replay finds it again");
                Finding { violations, schedule, counterexample }
            })
            .collect();
        Searched {
            schedules: done.into_inner(),
            rounds: rounds.into_inner(),
            properties,
            findings,
            took: begin.elapsed(),
        }
    }

    /// The schedule with this number.
    pub fn schedule(&self, number: u64) -> Schedule<N> {
        // The generator's seeding mixes well, so neighbouring numbers give unrelated schedules.
        let mut random = Random(Xoshiro256PlusPlus::seed_from_u64(
            self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number),
        ));
        let quorums = self.protocol.quorums();
        let adversary = match self.losses {
            Losses::AnyLink => Adversary::AnyLink,
            Losses::Tolerated => {
                let most = quorums.faults as u32;
                let count = if random.one_in(4) { random.below(most + 1) } else { most };
                let mut faulty = 0u8;
                while faulty.count_ones() < count {
                    faulty |= 1 << random.below(N as u32);
                }
                Adversary::Omissions { faulty }
            }
        };
        let rounds = usize::from(adversary.faults().unwrap_or(quorums.faults as u8)) + 2;
        let mut rows = [all_of(N); N];
        let mut losses = vec![[0; N]; rounds];
        let manner = MANNERS[random.below(MANNERS.len() as u32) as usize];
        let both_directions = random.one_in(2);
        let same = random.rate();
        // For each round (dissemination last) and sender: the rate at which its messages are lost.
        let rates: Vec<[u32; N]> = (0..=rounds)
            .map(|_| array::from_fn(|_| if manner == Manner::Scattered { same } else { random.rate() }))
            .collect();
        for node in 0..N {
            for from in nodes_of(adversary.droppable(N, node)) {
                let link = 1 << from;
                if adversary.correct(N) & link != 0 && !both_directions {
                    continue;
                }
                if P::DISSEMINATES && random.happens(rates[rounds][from]) {
                    rows[node] &= !link;
                }
                let when = random.below(rounds as u32 + 1) as usize;
                for (round, lost) in losses.iter_mut().enumerate() {
                    let loses = match manner {
                        Manner::Scattered | Manner::Waves => random.happens(rates[round][from]),
                        Manner::ForEver => round >= when,
                        Manner::Once => round == when,
                    };
                    if loses {
                        lost[node] |= link;
                    }
                }
            }
        }
        Schedule { adversary, rows, losses }
    }
}

/// How losses are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Each message independently, all at one rate.
    Scattered,
    /// Each message independently, at a separate rate for every sender and round: in some rounds many, in others
    /// hardly any.
    Waves,
    /// From some round on, link by link: crashes while sending, and cut cables.
    ForEver,
    /// In one round only, link by link.
    Once,
}

/// The manners, drawn with equal probability. Waves occur most often, because they find most violations.
const MANNERS: [Manner; 8] = {
    use Manner::{ForEver, Once, Scattered, Waves};
    [Waves, Waves, Waves, Waves, Waves, Scattered, ForEver, Once]
};

/// Rates of loss in sixteenths.
const RATES: [u32; 6] = [0, 0, 1, 4, 8, 14];

struct Random(Xoshiro256PlusPlus);

impl Random {
    /// A random number below a small `bound`, uniform to within 2^-29.
    fn below(&mut self, bound: u32) -> u32 {
        (((self.0.next_u64() >> 32) * u64::from(bound)) >> 32) as u32
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.below(count) == 0
    }

    fn rate(&mut self) -> u32 {
        RATES[self.below(RATES.len() as u32) as usize]
    }

    /// True with a probability of `rate` sixteenths.
    fn happens(&mut self, rate: u32) -> bool {
        self.below(16) < rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Quorums;
    use crate::shipped::Shipped;
    use crate::variant::{Bug, Variant};

    #[test]
    fn six_and_seven_nodes_agree() {
        fn check<const N: usize>(losses: Losses) {
            let search = Search::<_, N> { protocol: Shipped::of(N), losses, schedules: 20_000, seed: 1 };
            let searched = search.run(2, |_| {});
            assert_eq!(searched.schedules, 20_000);
            assert!(searched.findings.is_empty(), "{:?}", searched.findings);
        }
        for losses in [Losses::Tolerated, Losses::AnyLink] {
            check::<6>(losses);
            check::<7>(losses);
        }
    }

    #[test]
    fn any_number_of_threads_finds_the_same() {
        let protocol = Variant { quorums: Quorums::of(5), bug: Some(Bug::OneSidedSuspicion) };
        let search = Search::<_, 5> { protocol, losses: Losses::Tolerated, schedules: 10_000, seed: 9 };
        let found = [1, 3].map(|threads| {
            let found = search.run(threads, |_| {});
            let findings: Vec<_> = found
                .findings
                .into_iter()
                .map(|finding| (finding.violations, finding.schedule, finding.counterexample))
                .collect();
            (found.schedules, found.rounds, findings)
        });
        assert!(!found[0].2.is_empty());
        assert_eq!(found[0], found[1]);
    }

    #[test]
    fn schedules_stay_within_what_is_tolerated() {
        let search =
            Search::<_, 6> { protocol: Shipped::of(6), losses: Losses::Tolerated, schedules: 0, seed: 2 };
        let mut most = 0;
        for number in 0..5_000 {
            let Schedule { adversary, rows, losses } = search.schedule(number);
            most = most.max(adversary.faults().expect("they are counted"));
            for node in 0..6 {
                let droppable = adversary.droppable(6, node);
                assert_eq!(all_of(6) & !rows[node] & !droppable, 0);
                assert!(losses.iter().all(|lost| lost[node] & !droppable == 0));
            }
        }
        assert_eq!(most, 2);
    }
}
