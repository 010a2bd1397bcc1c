//! Runs of seeds on several threads, with the results in the order of the seeds.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::{self, Builder};

/// Runs of each thread that may have begun before the first of them is taken. A run that takes that much longer than
/// others keeps the other threads waiting; more would keep more results.
const AHEAD: usize = 16;
/// Stack of a thread: what Linux gives to the first thread of a process, in which a single job runs.
const STACK_BYTES: usize = 8 << 20;
/// No seeds.
#[expect(clippy::reversed_empty_ranges, reason = "it is to be empty")]
const NONE: RangeInclusive<u64> = 1..=0;

/// Calls `run` with each of the seeds on at most `jobs` threads, and `take` with each result in this thread, in the
/// order of the seeds. The result of a run that panics is its panic.
///
/// # Errors
/// The first error of `take`. No run begins after it.
pub(crate) fn in_order<R: Send, E>(
    mut seeds: RangeInclusive<u64>,
    jobs: NonZeroUsize,
    run: impl Fn(u64) -> R + Sync,
    mut take: impl FnMut(u64, thread::Result<R>) -> Result<(), E>,
) -> Result<(), E> {
    let run = |seed| catch_unwind(AssertUnwindSafe(|| run(seed)));
    let threads = seeds.clone().take(jobs.get()).count();
    if threads <= 1 {
        return seeds.try_for_each(|seed| take(seed, run(seed)));
    }
    let runs = Runs::new(seeds.clone(), threads * AHEAD);
    thread::scope(|scope| {
        let _last = BeginsNoMore(&runs);
        let work = || {
            while let Some((number, seed)) = runs.begin() {
                runs.end(number, run(seed));
            }
        };
        let spawn = |_: &usize| Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work).is_ok();
        // The system may not have as many threads. Results do not depend on their number.
        if (0..threads).take_while(spawn).count() == 0 {
            return seeds.try_for_each(|seed| take(seed, run(seed)));
        }
        seeds.try_for_each(|seed| take(seed, runs.take()))
    })
}

/// The runs, which threads begin and end, and one thread takes.
struct Runs<R> {
    state: Mutex<State<R>>,
    /// Maximum number of runs that have begun and are not taken.
    most: usize,
    /// Notified when the first run has ended.
    ended: Condvar,
    /// Notified when a run was taken, or no more runs are to begin.
    taken: Condvar,
}

struct State<R> {
    /// Seeds of the runs that have not begun.
    seeds: RangeInclusive<u64>,
    /// The runs that have begun and are not taken, in order, with the results of those that have ended.
    begun: VecDeque<Option<R>>,
    /// Number of runs taken.
    taken: usize,
}

impl<R> Runs<R> {
    fn new(seeds: RangeInclusive<u64>, most: usize) -> Self {
        let state = Mutex::new(State { seeds, begun: VecDeque::with_capacity(most), taken: 0 });
        Self { state, most, ended: Condvar::new(), taken: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().expect(NEVER_POISONED)
    }

    /// The number and the seed of the next run, once there is room for its result; `None` if no more runs are to begin.
    fn begin(&self) -> Option<(usize, u64)> {
        let is_full = |state: &mut State<R>| state.begun.len() >= self.most && !state.seeds.is_empty();
        let mut state = self.taken.wait_while(self.lock(), is_full).expect(NEVER_POISONED);
        let seed = state.seeds.next()?;
        state.begun.push_back(None);
        Some((state.taken + state.begun.len() - 1, seed))
    }

    fn end(&self, number: usize, result: R) {
        let mut state = self.lock();
        let place = number - state.taken;
        state.begun[place] = Some(result);
        if place == 0 {
            self.ended.notify_one();
        }
    }

    /// The result of the next run that was not taken, once that run has ended. There must be one.
    fn take(&self) -> R {
        let is_open = |state: &mut State<R>| !matches!(state.begun.front(), Some(Some(_)));
        let mut state = self.ended.wait_while(self.lock(), is_open).expect(NEVER_POISONED);
        state.taken += 1;
        self.taken.notify_one();
        state.begun.pop_front().flatten().expect("the first run has ended")
    }
}

const NEVER_POISONED: &str = "nothing panics while the state is locked";

/// Lets no more runs begin when it is dropped, also by a panic: threads that wait would wait for ever.
struct BeginsNoMore<'a, R>(&'a Runs<R>);

impl<R> Drop for BeginsNoMore<'_, R> {
    fn drop(&mut self) {
        self.0.lock().seeds = NONE;
        self.0.taken.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn jobs(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).unwrap()
    }

    /// The seeds and results of runs that return the square of their seed.
    fn squares(seeds: RangeInclusive<u64>, count: usize) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        let Ok(()) = in_order(
            seeds,
            jobs(count),
            |seed| seed.wrapping_mul(seed),
            |seed, square| {
                all.push((seed, square.unwrap()));
                Ok::<_, Infallible>(())
            },
        );
        all
    }

    #[test]
    fn results_come_in_the_order_of_seeds() {
        for seeds in [NONE, 7..=7, 0..=1, 5..=500, u64::MAX - 40..=u64::MAX] {
            let expected: Vec<_> = seeds.clone().map(|seed| (seed, seed.wrapping_mul(seed))).collect();
            for count in [1, 2, 3, 100] {
                assert_eq!(squares(seeds.clone(), count), expected, "{count} jobs");
            }
        }
    }

    /// The runs wait for each other, so this ends only if all of them are made at the same time.
    #[test]
    fn as_many_runs_as_jobs_are_made_at_once() {
        let all = Barrier::new(4);
        let wait = |_| all.wait().is_leader();
        let mut leaders = 0;
        let Ok(()) = in_order(1..=8, jobs(4), wait, |_, is_leader| {
            leaders += u64::from(is_leader.unwrap());
            Ok::<_, Infallible>(())
        });
        assert_eq!(leaders, 2);
    }

    /// The first run waits until the last that may begin meanwhile has begun, and lets the other thread run on.
    #[test]
    fn a_bounded_number_of_results_waits_for_its_turn() {
        let most = (2 * AHEAD) as u64;
        let (begun, last) = (AtomicU64::new(0), Barrier::new(2));
        let run = |seed| {
            begun.fetch_add(1, Ordering::SeqCst);
            if seed == 1 || seed == most {
                last.wait();
                (0..1_000).for_each(|_| thread::yield_now());
            }
            begun.load(Ordering::SeqCst)
        };
        let mut begun = Vec::new();
        let Ok(()) = in_order(1..=10 * most, jobs(2), run, |_, result| {
            begun.push(result.unwrap());
            Ok::<_, Infallible>(())
        });
        assert_eq!((begun[0], begun.len() as u64), (most, 10 * most));
    }

    #[test]
    fn a_panic_is_the_result_of_its_run() {
        let odd = |seed: u64| assert!(seed.is_multiple_of(2), "{seed} is odd");
        for count in [1, 3] {
            let mut said = Vec::new();
            let Ok(()) = in_order(1..=4, jobs(count), odd, |_, run| {
                said.push(run.err().map(|panic| panic.downcast_ref::<String>().cloned().unwrap()));
                Ok::<_, Infallible>(())
            });
            let odd = |seed: u64| Some(format!("{seed} is odd"));
            assert_eq!(said, [odd(1), None, odd(3), None]);
        }
    }

    #[test]
    fn nothing_begins_after_an_error() {
        for count in [1, 3] {
            let begun = AtomicU64::new(0);
            let run = |_| begun.fetch_add(1, Ordering::SeqCst);
            let refuse = |seed, _| if seed == 20 { Err(seed) } else { Ok(()) };
            assert_eq!(in_order(1..=u64::MAX, jobs(count), run, refuse), Err(20));
            let begun = begun.into_inner();
            assert!((20..=20 + (count * AHEAD) as u64).contains(&begun), "{begun}");
        }
    }

    #[test]
    #[should_panic(expected = "enough")]
    fn a_panic_of_who_takes_ends_it() {
        let _ = in_order(
            1..=u64::MAX,
            jobs(2),
            |seed| seed,
            |_, _| -> Result<(), Infallible> { panic!("enough") },
        );
    }
}
