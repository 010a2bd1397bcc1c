//! Engines of any kind under one load, on one network: what a researcher compares her own engine by.
//!
//! A [`Contender`] is an engine with its clients and a check of what they were told. [`Contest::run`] measures it on
//! the nodes that ship, with closed loops of clients on a machine of their own; [`CampaignOf`] makes fault campaigns of
//! the same clients. Nothing in here knows an engine.

use std::collections::BTreeMap;

use serde::Serialize;
use weft_sim::{CostProfile, FaultPlan, NetworkProfile, PlanError};
use weft_time::{Duration, Instant};
use weft_workload::Random;

use crate::histogram::{Latencies, Recorder, Summary};
use crate::{
    Assemble, ClientProgram, Cluster, DRIFT_PPM, LEASE, Planted, ShippedNodes, ShippedParameters, Subject,
    faults_of,
};

/// Kinds of calls.
const KINDS: [&str; 2] = ["update", "read"];
const UPDATE: usize = 0;
const READ: usize = 1;

/// Pause of a client after a call that did not do what it was to.
const PAUSE: Duration = Duration::from_us(50);
/// Clients begin when the cluster serves.
pub const CLIENTS_BEGIN: Duration = Duration::from_ms(20);
/// All calls have ended this long after the last one has begun,
const END: Duration = Duration::from_ms(100);
/// for which is looked in steps of so long,
const STEP: Duration = Duration::from_us(500);
/// and all that they have changed has reached every node after so long again.
const SETTLE: Duration = Duration::from_ms(2);
/// Clients of a campaign, and the share of their updates in percent.
const CAMPAIGN: Load = Load { clients: 8, updates: 50 };
/// Longest pause between two calls of a client in a campaign.
const CAMPAIGN_PAUSE: Duration = Duration::from_us(200);

/// Outcome of a call, as far as measurements go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It did what it was to.
    Done,
    /// It was refused or given up.
    Failed,
}

/// One client of an engine, with one call under way at a time. Pure: messages and time go in. It notes what it was
/// told, for the judge.
pub trait Caller {
    /// Begins the next call.
    fn begin(&mut self, now: Instant, is_update: bool);

    /// A message from a node has arrived, perhaps for another client: whether the call has ended with it.
    fn receive(&mut self, now: Instant, node: usize, message: (u8, &[u8])) -> Option<Ended>;

    /// When [`Caller::handle_deadline`] must be called.
    fn next_deadline(&self) -> Option<Instant>;

    /// Handles what is due: whether the call has ended.
    fn handle_deadline(&mut self, now: Instant) -> Option<Ended>;

    /// The next message to send: appends its content to `out`, and returns the node and the kind.
    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)>;
}

/// A cluster of a contender.
pub type ClusterOf<T> =
    Cluster<ShippedNodes<ClosedLoops<<T as Contender>::Caller>, <T as Contender>::Assembly>>;

/// An engine, its clients, and what they must have been told.
pub trait Contender {
    /// Puts a node together.
    type Assembly: Assemble;
    /// One of its clients.
    type Caller: Caller;

    /// Verdict when nothing is wrong.
    const HOLDS: &'static str;

    /// Puts a node together, for a cluster of so many nodes with so many clients.
    fn assembly(&self, nodes: usize, clients: u32) -> Self::Assembly;

    /// The client of this number, from 0.
    fn caller(&self, number: u32, nodes: usize) -> Self::Caller;

    /// Judges what all clients were told, and what the nodes hold in the end: violations, in words.
    fn judge(&self, cluster: &ClusterOf<Self>) -> Vec<String>
    where
        Self: Sized;
}

/// Clients and what they ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Clients, each with one call under way.
    pub clients: u32,
    /// Updates in percent; the other calls are reads.
    pub updates: u8,
}

/// One client and its current call.
struct Loop<C> {
    caller: C,
    /// Kind of the call under way, and when it was begun.
    call: Option<(usize, Instant)>,
    /// Time of its next call.
    next: Instant,
}

/// All clients of a machine: each makes its next call when the last one has ended.
pub struct ClosedLoops<C> {
    loops: Vec<Loop<C>>,
    updates: u8,
    longest_pause: Duration,
    random: Random,
    recorder: Recorder,
    is_over: bool,
}

impl<C: Caller> ClosedLoops<C> {
    /// Clients that do nothing yet.
    pub fn new(callers: impl Iterator<Item = C>, updates: u8, seed: u64) -> Self {
        let idle = |caller| Loop { caller, call: None, next: Instant::FAR_FUTURE };
        Self {
            loops: callers.map(idle).collect(),
            updates,
            longest_pause: Duration::ZERO,
            random: Random::new(seed, 0),
            recorder: Recorder::new(&KINDS, Instant::ZERO, Duration::ZERO),
            is_over: false,
        }
    }

    /// Begins. Calls begun within the warm-up are not measured.
    pub fn begin(&mut self, now: Instant, warm_up: Duration) {
        self.recorder = Recorder::new(&KINDS, now, warm_up);
        self.loops.iter_mut().for_each(|one| one.next = now);
    }

    /// Lets no further call begin.
    pub fn finish(&mut self) {
        self.is_over = true;
    }

    /// Whether nobody waits for an answer.
    pub fn is_idle(&self) -> bool {
        self.loops.iter().all(|one| one.call.is_none())
    }

    /// The clients.
    pub fn callers(&self) -> impl Iterator<Item = &C> {
        self.loops.iter().map(|one| &one.caller)
    }

    fn call(&mut self, now: Instant, index: usize) {
        let one = &mut self.loops[index];
        one.next = Instant::FAR_FUTURE;
        if self.is_over {
            return;
        }
        let is_update = self.random.below(100) < u64::from(self.updates);
        one.call = Some((if is_update { UPDATE } else { READ }, now));
        one.caller.begin(now, is_update);
    }

    fn end(&mut self, now: Instant, index: usize, ended: Ended) {
        let one = &mut self.loops[index];
        let Some((kind, begun)) = one.call.take() else { return };
        let pause = self.longest_pause.as_ps();
        let pause = Duration::from_ps(if pause == 0 { 0 } else { self.random.below(pause) });
        match ended {
            Ended::Done => self.recorder.record(kind, begun, now),
            Ended::Failed => self.recorder.record_failure(kind, begun),
        }
        one.next = now + if ended == Ended::Done { pause } else { PAUSE.max(pause) };
        if one.next == now {
            self.call(now, index);
        }
    }
}

impl<C: Caller> ClientProgram for ClosedLoops<C> {
    fn receive(&mut self, now: Instant, node: usize, message: (u8, &[u8])) {
        // Each client knows the answers to its own calls.
        for index in 0..self.loops.len() {
            if let Some(ended) = self.loops[index].caller.receive(now, node, message) {
                return self.end(now, index, ended);
            }
        }
    }

    fn next_deadline(&self, _: Instant) -> Option<Instant> {
        let of = |one: &Loop<C>| one.caller.next_deadline().map_or(one.next, |at| at.min(one.next));
        self.loops.iter().map(of).min().filter(|at| *at < Instant::FAR_FUTURE)
    }

    fn handle_deadline(&mut self, now: Instant) {
        for index in 0..self.loops.len() {
            if let Some(ended) = self.loops[index].caller.handle_deadline(now) {
                self.end(now, index, ended);
            }
            if self.loops[index].next <= now {
                self.call(now, index);
            }
        }
    }

    fn poll_transmit(&mut self, payload: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.loops.iter_mut().find_map(|one| one.caller.poll_transmit(payload))
    }
}

/// The one ground of all contenders.
#[derive(Clone, Debug)]
pub struct Contest {
    /// Nodes of each cluster.
    pub nodes: usize,
    /// Network between the machines.
    pub network: NetworkProfile,
    /// Cost profile of the nodes.
    pub profile: CostProfile,
    /// Faults; clients begin at [`CLIENTS_BEGIN`].
    pub plan: FaultPlan,
    /// Time of the measurement.
    pub length: Duration,
    /// Calls begun in this time before it are not measured.
    pub warm_up: Duration,
    /// Decides everything.
    pub seed: u64,
}

/// What was measured of a contender at one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// Clients, each with one call under way.
    pub clients: u32,
    /// Calls that did what they were to, for each second.
    pub throughput_ops_per_s: f64,
    /// Of these calls, from the beginning to the answer.
    pub latency: Summary,
    /// Calls refused or given up; they are in no other figure.
    pub failed: u64,
    /// Faults injected, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Verdict of the check.
    pub checked: &'static str,
    /// Violations, in words.
    pub violations: Vec<String>,
    /// A hash of everything that happened.
    pub log_hash: String,
    /// Latencies, whole.
    #[serde(skip)]
    pub latencies: Latencies,
}

impl Contest {
    /// Measures a contender under a load.
    ///
    /// # Errors
    /// The fault plan does not fit the cluster.
    pub fn run<T: Contender>(&self, contender: &T, load: Load) -> Result<Standing, PlanError> {
        let callers = (0..load.clients).map(|number| contender.caller(number, self.nodes));
        let clients = vec![ClosedLoops::new(callers, load.updates, self.seed)];
        let parameters = ShippedParameters {
            nodes: self.nodes,
            seed: self.seed,
            engines: contender.assembly(self.nodes, load.clients),
            network: self.network,
            profile: self.profile,
            lease: LEASE,
            drift_ppm: DRIFT_PPM,
            planted: Planted::default(),
        };
        let mut cluster = Cluster::shipped(parameters, &self.plan, clients)?;
        cluster.run_until(Instant::ZERO + CLIENTS_BEGIN);
        cluster.for_each_driver(|now, clients| clients.begin(now, self.warm_up));
        cluster.run_until(cluster.world.now() + self.warm_up + self.length);
        cluster.for_each_driver(|_, clients| clients.finish());
        let until = self.plan.ends_at().max(cluster.world.now()) + END;
        let is_idle = |cluster: &ClusterOf<T>| cluster.drivers().all(|(_, clients)| clients.is_idle());
        cluster.run_until(self.plan.ends_at().max(cluster.world.now()));
        while !is_idle(&cluster) && cluster.world.now() < until {
            cluster.run_until(cluster.world.now() + STEP);
        }
        // After faults, nodes may have to rejoin first.
        cluster.run_until(if self.plan.faults.is_empty() { cluster.world.now() + SETTLE } else { until });
        let mut violations = contender.judge(&cluster);
        let (_, clients) = cluster.drivers().next().expect("clients do not crash");
        if !clients.is_idle() {
            violations.push(format!("a call has not ended {END} after the last one was begun"));
        }
        let recorder = &clients.recorder;
        Ok(Standing {
            clients: load.clients,
            throughput_ops_per_s: recorder.operations() as f64 / self.length.as_secs_f64(),
            latency: recorder.overall().summary(),
            failed: recorder.by_kind().map(|(_, _, failed)| failed).sum(),
            faults: faults_of(&cluster.world),
            checked: if violations.is_empty() { T::HOLDS } else { "violation" },
            violations,
            log_hash: cluster.world.log_hash().to_string(),
            latencies: recorder.overall(),
        })
    }
}

/// A fault campaign of a contender, with its clients and its judge.
#[derive(Clone, Copy, Debug)]
pub struct CampaignOf<T>(pub T);

impl<T: Contender> Subject for CampaignOf<T> {
    type Assembly = T::Assembly;
    type Clients = ClosedLoops<T::Caller>;

    const HOLDS: &'static str = T::HOLDS;

    fn engines(&self, nodes: usize) -> T::Assembly {
        self.0.assembly(nodes, CAMPAIGN.clients)
    }

    fn clients(&self, nodes: usize, seed: u64) -> Vec<ClosedLoops<T::Caller>> {
        let callers = (0..CAMPAIGN.clients).map(|number| self.0.caller(number, nodes));
        let clients = ClosedLoops::new(callers, CAMPAIGN.updates, seed);
        vec![ClosedLoops { longest_pause: CAMPAIGN_PAUSE, ..clients }]
    }

    fn begin(now: Instant, clients: &mut ClosedLoops<T::Caller>) {
        clients.begin(now, Duration::ZERO);
    }

    fn finish(clients: &mut ClosedLoops<T::Caller>) {
        clients.finish();
    }

    fn is_idle(clients: &ClosedLoops<T::Caller>) -> bool {
        clients.is_idle()
    }

    fn judge(
        &self,
        cluster: &ClusterOf<T>,
        _: Instant,
        counts: &mut BTreeMap<&'static str, u64>,
    ) -> Vec<String> {
        let (_, clients) = cluster.drivers().next().expect("clients do not crash");
        *counts.entry("operations").or_default() += clients.recorder.operations();
        self.0.judge(cluster)
    }
}
