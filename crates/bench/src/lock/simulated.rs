//! Locks in a simulated cluster: the campaign under faults, and the measurement without.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::json;
use weft_check::locks::{self, Hold};
use weft_harness::{
    Cluster, DRIFT_PPM, LEASE, MakeEngines, NodeCampaign, NodeCampaignResult, Planted, ShippedNodes,
    ShippedParameters, Subject, faults_of,
};
use weft_node::EngineChoice;
use weft_sim::{CostProfile, FaultPlan, LocalClock, NetworkProfile, PlanError};
use weft_time::{Duration, Instant};

use super::driver::{Driver, Workload};
use weft_harness::result::{Checked, Description, Machine, MachineKind, MeasuredRun, RunResult, World};

/// Clients of a campaign: few locks, held for hardly longer than a node takes to learn of a view.
const CONTENTION: Workload = Workload {
    clients: 8,
    locks: 3,
    ttl: Duration::from_ms(3),
    renewals: 20,
    pause: Duration::from_us(3_600),
};
/// Machines of clients in a campaign, each with a clock of its own.
const CLIENT_MACHINES: u32 = 2;

/// Runs of the campaign.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Parameters of all campaigns on nodes.
    pub runs: NodeCampaign,
    /// A bug to run with.
    #[cfg(feature = "planted-bugs")]
    pub planted_bug: Option<weft_lock::PlantedBug>,
}

impl Campaign {
    /// Runs it; `progress` is told how many seeds are done. `replay` names the command that repeats one seed.
    ///
    /// # Errors
    /// The given plan does not fit the cluster.
    pub fn run(
        &self,
        replay: impl Fn(u64) -> String,
        progress: impl FnMut(u64),
    ) -> Result<NodeCampaignResult, PlanError> {
        self.runs.run(self, replay, progress)
    }
}

fn engines(parameters: weft_lock::Parameters) -> MakeEngines {
    Rc::new(move || vec![EngineChoice::Lock(parameters.clone())])
}

impl Subject for Campaign {
    type Assembly = MakeEngines;
    type Clients = Driver;

    const HOLDS: &'static str = "exclusive";

    fn engines(&self, _: usize) -> MakeEngines {
        engines(weft_lock::Parameters {
            #[cfg(feature = "planted-bugs")]
            planted_bug: self.planted_bug,
            ..weft_lock::Parameters::default()
        })
    }

    fn clients(&self, nodes: usize, seed: u64) -> Vec<Driver> {
        let driver = |machine| {
            Driver::new(CONTENTION, (seed, machine), nodes, |client| {
                #[cfg(feature = "planted-bugs")]
                let client = client.with_planted_bug(self.planted_bug);
                client
            })
        };
        (0..CLIENT_MACHINES).map(driver).collect()
    }

    fn begin(now: Instant, clients: &mut Driver) {
        clients.begin(now, Duration::ZERO);
    }

    fn finish(clients: &mut Driver) {
        clients.finish();
    }

    fn is_idle(clients: &Driver) -> bool {
        clients.is_idle()
    }

    fn judge(
        &self,
        cluster: &Cluster<ShippedNodes<Driver>>,
        calm_from: Instant,
        counts: &mut BTreeMap<&'static str, u64>,
    ) -> Vec<String> {
        let holds = holds(cluster);
        *counts.entry("holds").or_default() += holds.len() as u64;
        for name in ["expired", "takeovers"] {
            *counts.entry(name).or_default() += cluster.counters()[name];
        }
        let mut wrong: Vec<_> = locks::check(&holds).iter().map(ToString::to_string).collect();
        let calm_from_ns = calm_from.saturating_since(Instant::ZERO).as_ns();
        if !holds.iter().any(|hold| hold.invoked_ns > calm_from_ns) {
            wrong.push("no lock was granted after all faults".to_owned());
        }
        wrong
    }
}

/// The holds of all clients, on the world's clock.
fn holds(cluster: &Cluster<ShippedNodes<Driver>>) -> Vec<Hold> {
    let on_world = |clock: LocalClock, ns: u64| {
        clock.world(Instant::ZERO + Duration::from_ns(ns)).saturating_since(Instant::ZERO).as_ns()
    };
    let of = |(clock, driver)| {
        let driver: &Driver = driver;
        let translated = move |hold: &Hold| Hold {
            invoked_ns: on_world(clock, hold.invoked_ns),
            returned_ns: on_world(clock, hold.returned_ns),
            until_ns: on_world(clock, hold.until_ns),
            ..*hold
        };
        driver.holds().iter().map(translated)
    };
    cluster.drivers().flat_map(of).collect()
}

/// Time at which a cluster serves.
const START: Duration = Duration::from_ms(20);
/// Until then after the last acquisition all have ended.
const END: Duration = Duration::from_ms(100);

/// A measurement in the simulator.
#[derive(Clone, Debug)]
pub struct SimulatedBench {
    /// Nodes of the cluster, 1 to 16.
    pub nodes: usize,
    /// Workload of the clients.
    pub workload: Workload,
    /// For how long, after the warm-up.
    pub length: Duration,
    /// Calls begun in this time are not measured.
    pub warm_up: Duration,
    /// Network between the machines.
    pub network: NetworkProfile,
    /// Cost profile of the cards.
    pub profile: CostProfile,
    /// Faults, at times from the beginning of the run on.
    pub plan: FaultPlan,
    /// Decides everything.
    pub seed: u64,
}

impl SimulatedBench {
    /// Measures.
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    ///
    /// # Panics
    /// If the cluster does not come to serve.
    pub fn run(&self, replay: String) -> Result<MeasuredRun, PlanError> {
        let clients = vec![Driver::new(self.workload, (self.seed, 0), self.nodes, |client| client)];
        let parameters = ShippedParameters {
            nodes: self.nodes,
            seed: self.seed,
            engines: engines(weft_lock::Parameters { locks: 16_384, ..weft_lock::Parameters::default() }),
            network: self.network,
            profile: self.profile,
            lease: LEASE,
            drift_ppm: DRIFT_PPM,
            planted: Planted::default(),
        };
        let mut cluster = Cluster::shipped(parameters, &self.plan, clients)?;
        cluster.run_until(Instant::ZERO + START);
        let is_faulty = !self.plan.faults.is_empty();
        assert!(is_faulty || cluster.is_whole(), "a cluster without faults serves after {START}");
        cluster.for_each_driver(|now, driver| driver.begin(now, self.warm_up));
        cluster.run_until(cluster.world.now() + self.warm_up + self.length);
        cluster.for_each_driver(|_, driver| driver.finish());
        cluster.run_until(self.plan.ends_at().max(cluster.world.now()) + END);
        let holds = holds(&cluster);
        let (_, driver) = cluster.drivers().next().expect("there are clients");
        let machine = Machine {
            kind: MachineKind::Simulated,
            description: format!(
                "virtual time; network `{}`; cost profile `{}`: {}",
                self.network.name, self.profile.name, self.profile.basis
            ),
        };
        let description = description(World::Sim, self.nodes, (&self.workload, self.seed), machine, replay);
        let mut result = checked(RunResult::new(description, driver.recorder()), &holds);
        result.log_hash = Some(cluster.world.log_hash().to_string());
        result.faults = faults_of(&cluster.world);
        Ok(MeasuredRun { result, latencies: driver.recorder().overall() })
    }
}

/// Description of a run, in either world.
pub(super) fn description(
    world: World,
    nodes: usize,
    (workload, seed): (&Workload, u64),
    machine: Machine,
    replay: String,
) -> Description {
    let parameters = [
        ("clients", json!(workload.clients)),
        ("locks", if workload.locks == 0 { json!("one for each client") } else { json!(workload.locks) }),
        ("ttl_us", json!(workload.ttl.as_ns() / 1_000)),
        ("renewals", json!(workload.renewals)),
        ("acknowledged", json!("by every live replica")),
        ("engine_on", json!("nic")),
    ];
    Description {
        world,
        nic: "soft".to_owned(),
        nodes: nodes as u32,
        workload: "lock".to_owned(),
        seed,
        replay,
        machine,
        parameters: parameters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    }
}

/// The result with the verdict of the check of these holds.
pub(super) fn checked(mut result: RunResult, holds: &[Hold]) -> RunResult {
    let violations = locks::check(holds);
    result.checked = if violations.is_empty() { Checked::Exclusive } else { Checked::NotExclusive };
    result.check_report = violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    result
}

#[cfg(test)]
mod tests {
    use weft_sim::FaultKinds;

    use super::*;

    #[test]
    fn no_two_clients_hold_a_lock_whatever_fails() {
        for nodes in [3, 5] {
            let campaign = Campaign {
                runs: NodeCampaign {
                    nodes,
                    seeds: 1..=3,
                    network: NetworkProfile::SWITCH,
                    profile: CostProfile::FPGA,
                    kinds: FaultKinds::ALL,
                    plan: None,
                    #[cfg(feature = "planted-bugs")]
                    node_bug: None,
                },
                #[cfg(feature = "planted-bugs")]
                planted_bug: None,
            };
            let result = campaign.run(|seed| seed.to_string(), |_| {}).unwrap();
            assert_eq!(result.findings.violations, [], "{nodes} nodes");
            assert!(result.counts["holds"] > 500 && result.faults["crash"] > 0, "{result:?}");
        }
    }

    #[test]
    fn a_measurement_repeats_itself() {
        let workload =
            Workload { clients: 4, locks: 2, ttl: Duration::from_ms(5), renewals: 1, pause: Duration::ZERO };
        let bench = SimulatedBench {
            nodes: 3,
            workload,
            length: Duration::from_ms(2),
            warm_up: Duration::from_us(100),
            network: NetworkProfile::SWITCH,
            profile: CostProfile::FPGA,
            plan: FaultPlan::default(),
            seed: 5,
        };
        let [one, other] = [0, 1].map(|_| bench.run("again".to_owned()).unwrap().result);
        assert_eq!(one, other);
        assert_eq!(one.checked, Checked::Exclusive, "{}", one.check_report);
        assert!(
            one.by_operation["renew"].latency.summary.p50_ns
                < one.by_operation["acquire"].latency.summary.p50_ns
        );
        assert!(one.by_operation["acquire"].failed > 0, "two clients want the same lock");
    }
}
