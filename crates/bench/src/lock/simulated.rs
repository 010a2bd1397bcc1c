//! Locks in a simulated cluster: fault campaigns, and measurements without faults.

use std::collections::BTreeMap;
use std::rc::Rc;

use weft_check::locks::Hold;
use weft_harness::{Caller, ClosedLoops, ClusterOf, Contender, ContenderCluster, Contest, MakeEngines, Pace};
use weft_lock::{Client, LockCalls};
use weft_node::EngineChoice;
use weft_results::MeasuredRun;
use weft_session::ClientParameters;
use weft_sim::{LocalClock, PlanError};
use weft_time::{Duration, Instant};
use weft_workload::Random;

use super::{LockCaller, Workload, check};

/// Workload of a campaign: few locks, with a time to live that is hardly longer than a node takes to receive
/// a view.
const CONTENTION: Workload = Workload {
    clients: 8,
    locks: 3,
    ttl: Duration::from_ms(3),
    renewals: 20,
    releases_early: true,
    pause: Duration::from_us(3_600),
};
/// Machines of clients in a campaign, each with a clock of its own.
const CLIENT_MACHINES: u32 = 2;

/// The locks as the subject of a fault campaign.
#[derive(Clone, Copy, Debug, Default)]
pub struct Locks {
    /// Bug planted in the engine.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<weft_lock::PlantedBug>,
}

fn engines(parameters: weft_lock::Parameters) -> MakeEngines {
    Rc::new(move || vec![EngineChoice::Lock(parameters.clone())])
}

/// The engine of measurements, with room for the locks of all clients.
pub(crate) fn measured_engines() -> MakeEngines {
    engines(weft_lock::Parameters { locks: 16_384, ..weft_lock::Parameters::default() })
}

impl Contender for Locks {
    type Assembly = MakeEngines;
    type Caller = LockCaller;

    const HOLDS: &'static str = "exclusive";

    fn assembly(&self, _: usize, _: u32) -> MakeEngines {
        engines(weft_lock::Parameters {
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
            ..weft_lock::Parameters::default()
        })
    }

    fn client(&self, number: u32, nodes: usize) -> (Client, LockCaller) {
        let calls = LockCalls {
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
        };
        client(CONTENTION, number, nodes, calls)
    }

    fn judge(&self, cluster: &ContenderCluster<Self>) -> Vec<String> {
        check(&holds(cluster, |caller| caller)).violations
    }

    fn campaign_clients(&self, nodes: usize, seed: u64) -> Vec<ClosedLoops<LockCaller>> {
        (0..CLIENT_MACHINES)
            .map(|machine| clients(CONTENTION, (seed, machine), |number| self.client(number, nodes)))
            .collect()
    }

    fn judge_campaign(
        &self,
        cluster: &ContenderCluster<Self>,
        calm_from: Instant,
        counts: &mut BTreeMap<&'static str, u64>,
    ) -> Vec<String> {
        let holds = holds(cluster, |caller| caller);
        *counts.entry("holds").or_default() += holds.len() as u64;
        let counters = cluster.counters();
        for name in ["expired", "takeovers"] {
            *counts.entry(name).or_default() += counters[name];
        }
        let mut wrong = check(&holds).violations;
        let calm_from_ns = calm_from.saturating_since(Instant::ZERO).as_ns();
        if !holds.iter().any(|hold| hold.invoked_ns > calm_from_ns) {
            wrong.push("no lock was granted after all faults".to_owned());
        }
        wrong
    }
}

/// The client of this number, from 0, in a cluster of `nodes` nodes.
fn client(workload: Workload, number: u32, nodes: usize, calls: LockCalls) -> (Client, LockCaller) {
    let parameters = ClientParameters {
        first: (number % workload.clients) as usize % nodes,
        repeat: Duration::from_us(250),
        pause: Duration::from_us(50),
        give_up: Duration::from_ms(20),
        ..ClientParameters::new(u64::from(number + 1) << 32, nodes)
    };
    (Client::with_calls(parameters, calls), LockCaller::new(workload, number))
}

/// The clients of the machine with this number.
fn clients(
    workload: Workload,
    (seed, machine): (u64, u32),
    client: impl Fn(u32) -> (Client, LockCaller),
) -> ClosedLoops<LockCaller> {
    // With these pauses, some holders call again only after their lock has expired.
    let pace = Pace { longest: Some(workload.pause), after_failure: Duration::ZERO };
    let numbers = machine * workload.clients..(machine + 1) * workload.clients;
    ClosedLoops::new(numbers.map(client), 100, pace, Random::new(seed, machine))
}

/// The holds of all clients, on the world's clock. `load` returns the load on locks of a client.
pub(crate) fn holds<C: Caller>(
    cluster: &ClusterOf<C, MakeEngines>,
    load: fn(&C) -> &LockCaller,
) -> Vec<Hold> {
    let on_world = |clock: LocalClock, ns: u64| {
        clock.world(Instant::ZERO + Duration::from_ns(ns)).saturating_since(Instant::ZERO).as_ns()
    };
    let translated = |clock: LocalClock, hold: &Hold| Hold {
        invoked_ns: on_world(clock, hold.invoked_ns),
        returned_ns: on_world(clock, hold.returned_ns),
        until_ns: on_world(clock, hold.until_ns),
        ..*hold
    };
    let callers =
        cluster.drivers().flat_map(|(clock, clients)| clients.callers().map(move |it| (clock, load(it))));
    callers.flat_map(|(clock, caller)| caller.holds().iter().map(move |it| translated(clock, it))).collect()
}

/// Measures the clients of a workload.
///
/// # Errors
/// The fault plan does not fit the cluster.
pub fn measure(contest: &Contest, workload: Workload, replay: String) -> Result<MeasuredRun, PlanError> {
    let client = |number| client(workload, number, contest.nodes, LockCalls::default());
    let clients = clients(workload, (contest.seed, 0), client);
    contest.measure_workload(workload.description(replay), measured_engines(), clients, |cluster| {
        check(&holds(cluster, |caller| caller))
    })
}

#[cfg(test)]
mod tests {
    use weft_harness::{Campaign, OnNodes};
    use weft_results::Checked;

    use super::*;

    #[test]
    fn no_two_clients_hold_a_lock_whatever_fails() {
        for nodes in [3, 5] {
            let (runs, locks) = (Campaign::new(nodes, 1..=3), Locks::default());
            let result = runs.run(&OnNodes::new(&locks), |seed| seed.to_string(), |_| {}).unwrap();
            assert_eq!(result.findings.violations, [], "{nodes} nodes");
            assert!(result.figures.counts["holds"] > 500 && result.faults["crash"] > 0, "{result:?}");
        }
    }

    #[test]
    fn a_measurement_repeats_itself() {
        let workload = Workload { clients: 4, locks: 2, ttl: Duration::from_ms(5), ..Workload::ONE };
        let contest = Contest { warm_up: Duration::from_us(100), ..Contest::new(3, Duration::from_ms(2), 5) };
        let [one, other] = [0, 1].map(|_| measure(&contest, workload, "again".to_owned()).unwrap().result);
        assert_eq!(one, other);
        assert_eq!(one.checked, Checked::Exclusive, "{}", one.check_report);
        assert!(
            one.by_operation["renew"].latency.summary.p50_ns
                < one.by_operation["acquire"].latency.summary.p50_ns
        );
        assert!(one.by_operation["acquire"].failed > 0, "two clients want the same lock");
    }
}
