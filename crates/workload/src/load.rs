//! When clients start operations: in a closed loop, or at times that do not depend on the answers.
//!
//! The schedulers are pure: the caller passes `now`, in virtual or real time.

use std::collections::VecDeque;

use weft_time::{Duration, Instant};

use crate::Random;

/// Number of the random stream for arrivals. Workloads use the streams from 0 on.
const ARRIVAL_STREAM: u32 = u16::MAX as u32;

/// How clients offer operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Each client starts its next operation when the previous one is answered, so the throughput follows
    /// from the latency.
    Closed {
        /// Clients, each with one operation outstanding.
        clients: u32,
    },
    /// Operations arrive independently of each other and of the answers (a Poisson process), and wait for a free client
    /// if necessary. Latency counts from the arrival, so a store that stalls is charged for all operations that arrive
    /// meanwhile (no coordinated omission).
    Open {
        /// The most operations outstanding.
        clients: u32,
        /// The mean rate of arrivals.
        operations_per_s: f64,
    },
}

impl Load {
    /// The most operations outstanding.
    pub fn clients(&self) -> u32 {
        match *self {
            Self::Closed { clients } | Self::Open { clients, .. } => clients,
        }
    }
}

/// End of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The run ends after this number of operations.
    Operations(u64),
    /// No operation starts at or after this time.
    Until(Instant),
}

/// An operation that starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The client that starts it.
    pub client: u32,
    /// Intended start time; the latency counts from it.
    pub intended: Instant,
}

/// Decides when each client starts an operation.
#[derive(Clone, Debug)]
pub struct Scheduler {
    idle: VecDeque<u32>,
    clients: u32,
    arrivals: Option<Arrivals>,
    limit: Limit,
    started: u64,
}

#[derive(Clone, Debug)]
struct Arrivals {
    random: Random,
    mean_gap_ps: f64,
    next: Instant,
}

impl Arrivals {
    /// Returns the next arrival, and draws the one after it.
    fn take(&mut self) -> Instant {
        let arrival = self.next;
        self.next += Duration::from_ps((self.random.exponential_gap() * self.mean_gap_ps) as u64);
        arrival
    }
}

impl Scheduler {
    /// A scheduler whose run begins at `begin`. The seed decides the arrivals of an open loop.
    ///
    /// # Panics
    /// If there is no client, or the rate of an open loop is not a positive number.
    pub fn new(load: Load, limit: Limit, seed: u64, begin: Instant) -> Self {
        let clients = load.clients();
        assert!(clients > 0, "a load needs a client");
        let arrivals = match load {
            Load::Closed { .. } => None,
            Load::Open { operations_per_s, .. } => {
                assert!(operations_per_s.is_finite() && operations_per_s > 0.0, "a rate is positive");
                let random = Random::new(seed ^ 0x6f70_656e_206c_6f61, ARRIVAL_STREAM);
                let mut arrivals = Arrivals { random, mean_gap_ps: 1e12 / operations_per_s, next: begin };
                arrivals.take();
                Some(arrivals)
            }
        };
        Self { idle: (0..clients).collect(), clients, arrivals, limit, started: 0 }
    }

    /// The operation to start at `now`, if any. Call this until it returns `None`.
    pub fn poll(&mut self, now: Instant) -> Option<Start> {
        let intended = self.next_start(now)?;
        if intended > now {
            return None;
        }
        let client = self.idle.pop_front().expect("a start has a client");
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.take();
        }
        self.started += 1;
        Some(Start { client, intended })
    }

    /// When the next operation starts if no answer arrives before. `None` if all clients have an operation outstanding,
    /// or no more operations start.
    pub fn next_start(&self, now: Instant) -> Option<Instant> {
        let intended = self.arrivals.as_ref().map_or(now, |arrivals| arrivals.next);
        (!self.idle.is_empty() && !self.is_exhausted(intended.max(now))).then_some(intended)
    }

    /// Notes that `client` has received its answer, or has timed out.
    ///
    /// # Panics
    /// If every client is idle already.
    pub fn complete(&mut self, client: u32) {
        assert!(self.idle.len() < self.clients as usize, "client {client} has nothing outstanding");
        self.idle.push_back(client);
    }

    /// Number of outstanding operations.
    pub fn outstanding(&self) -> u32 {
        self.clients - self.idle.len() as u32
    }

    /// Number of operations started so far.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Whether no operation is outstanding and none will start any more.
    pub fn is_finished(&self, now: Instant) -> bool {
        let next = self.arrivals.as_ref().map_or(now, |arrivals| arrivals.next.max(now));
        self.outstanding() == 0 && self.is_exhausted(next)
    }

    fn is_exhausted(&self, start: Instant) -> bool {
        match self.limit {
            Limit::Operations(operations) => self.started >= operations,
            Limit::Until(end) => start >= end,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_us(us)
    }

    #[test]
    fn a_closed_loop_keeps_one_outstanding_for_each_client() {
        let mut scheduler =
            Scheduler::new(Load::Closed { clients: 2 }, Limit::Operations(3), 1, Instant::ZERO);
        assert_eq!(scheduler.poll(at(0)), Some(Start { client: 0, intended: at(0) }));
        assert_eq!(scheduler.poll(at(0)), Some(Start { client: 1, intended: at(0) }));
        assert_eq!(scheduler.poll(at(1)), None);
        scheduler.complete(1);
        assert_eq!(scheduler.next_start(at(5)), Some(at(5)));
        assert_eq!(scheduler.poll(at(5)), Some(Start { client: 1, intended: at(5) }));
        scheduler.complete(0);
        assert_eq!(scheduler.poll(at(6)), None);
        assert!(!scheduler.is_finished(at(6)));
        scheduler.complete(1);
        assert!(scheduler.is_finished(at(6)));
        assert_eq!(scheduler.started(), 3);
    }

    #[test]
    fn a_time_limit_ends_starts() {
        let mut scheduler =
            Scheduler::new(Load::Closed { clients: 1 }, Limit::Until(at(10)), 1, Instant::ZERO);
        assert!(scheduler.poll(at(9)).is_some());
        scheduler.complete(0);
        assert_eq!(scheduler.poll(at(10)), None);
        assert!(scheduler.is_finished(at(10)));
    }

    #[test]
    fn arrivals_have_the_rate_and_the_spread_of_a_poisson_process() {
        let load = Load::Open { clients: 1, operations_per_s: 1e6 };
        let mut scheduler = Scheduler::new(load, Limit::Operations(u64::MAX), 9, Instant::ZERO);
        let n = 50_000;
        let (mut last, mut sum, mut squares) = (Instant::ZERO, 0.0, 0.0);
        for _ in 0..n {
            let now = scheduler.next_start(last).unwrap();
            let start = scheduler.poll(now).unwrap();
            scheduler.complete(start.client);
            let gap = (now - last).as_secs_f64() * 1e6;
            (last, sum, squares) = (now, sum + gap, squares + gap * gap);
        }
        let mean = sum / f64::from(n);
        let variance = squares / f64::from(n) - mean * mean;
        assert!((mean - 1.0).abs() < 0.03 && (variance - 1.0).abs() < 0.1, "{mean} {variance}");
    }

    /// The store stalls for a millisecond. The latency of operations that arrive meanwhile counts from their
    /// arrival.
    #[test]
    fn a_stall_is_charged_to_what_arrived_in_it() {
        let load = Load::Open { clients: 1, operations_per_s: 1e6 };
        let mut scheduler = Scheduler::new(load, Limit::Operations(u64::MAX), 9, Instant::ZERO);
        let first = scheduler.next_start(Instant::ZERO).unwrap();
        assert!(scheduler.poll(first).is_some());
        assert_eq!(scheduler.next_start(first), None, "the only client waits");
        let end = first + Duration::from_ms(1);
        let mut late = 0;
        scheduler.complete(0);
        while let Some(start) = scheduler.poll(end) {
            assert!(start.intended <= end);
            late += 1;
            scheduler.complete(start.client);
        }
        assert!((850..1150).contains(&late), "{late}");
    }

    proptest! {
        #[test]
        fn never_more_outstanding_than_clients(
            seed: u64, clients in 1u32..8, open: bool, steps in prop::collection::vec(0u64..3_000, 1..200)
        ) {
            let load =
                if open { Load::Open { clients, operations_per_s: 1e6 } } else { Load::Closed { clients } };
            let mut scheduler = Scheduler::new(load, Limit::Operations(100), seed, Instant::ZERO);
            let (mut now, mut busy) = (Instant::ZERO, Vec::new());
            for step in steps {
                now += Duration::from_ns(step);
                let mut last = Instant::ZERO;
                while let Some(start) = scheduler.poll(now) {
                    prop_assert!(!busy.contains(&start.client));
                    prop_assert!(start.intended <= now && start.intended >= last);
                    last = start.intended;
                    busy.push(start.client);
                }
                prop_assert_eq!(busy.len() as u32, scheduler.outstanding());
                prop_assert!(busy.len() <= clients as usize && scheduler.started() <= 100);
                if step % 2 == 0 && !busy.is_empty() {
                    scheduler.complete(busy.remove(0));
                }
            }
        }
    }
}
