//! Status of the nodes of a running cluster, and of its membership service.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use weft_cluster::status::{
    COUNTERS_PER_PAGE, EngineReport, NodeStatus, ServiceStatus, StatusAnswer, StatusPart, StatusRequest,
};
use weft_cluster::{ClusterConfig, Phase, Text};
use weft_net::{Clock, Datagram, Directory, Endpoint, IdlePolicy, PortOptions, Seal, Stop, UdpPort, run};
use weft_time::{Duration, Instant};
use weft_waist::{EngineState, NodeId};

use crate::key_mismatch::KeyMismatch;

/// Time after which an unanswered request is sent again.
const AGAIN: Duration = Duration::from_ms(100);

/// Status of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOverview {
    /// Status of the node itself.
    pub status: NodeStatus,
    /// Its engines, in slot order.
    pub engines: Vec<EngineReport>,
    /// Its counters, in its own order.
    pub counters: Vec<(Text, u64)>,
}

/// Status of a cluster at the time of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterStatus {
    /// Status of the membership service; `None` if it has not answered in time. Of its keepers, the holder answers.
    pub service: Option<ServiceStatus>,
    /// Status of the nodes, node 0 first; `None` for a node that has not answered all requests in time.
    pub nodes: Vec<Option<NodeOverview>>,
    /// Why nobody answers, and what to do, if the nodes seal their datagrams under a key that this client does not
    /// have.
    pub key_mismatch: Option<&'static str>,
}

/// Index of the receiver of a request: a node, or after the last node the membership service or its keepers.
type Target = usize;

/// Requests the status of all nodes of a cluster and of its membership service, and waits for the answers, for at
/// most `patience`. The requests change nothing. A node that does not answer is left out.
///
/// # Errors
/// The system's error, if it grants no socket, one of kind [`io::ErrorKind::NotFound`], if no name resolves, or of kind
/// [`io::ErrorKind::InvalidInput`], if the cluster key cannot be used.
pub fn status(config: &ClusterConfig, patience: Duration) -> io::Result<ClusterStatus> {
    let nodes = config.peers.iter().map(|(_, peer)| peer.datagram_place());
    let directory = Directory::open(nodes.chain(config.membership_places()).collect())?;
    let seal = Seal::load(config.security.as_ref(), config.name)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let port = UdpPort::bind(directory.any_address(), &PortOptions::default()).map_err(io::Error::other)?;
    let (clock, stop) = (Clock::starting_now(), Stop::new()?);
    let mut survey = Survey::new(config, directory, (clock.now(), patience), &stop);
    let mut ports = [port.sealed(seal.as_ref())];
    run(&mut survey, &mut ports, clock, IdlePolicy::SLEEP, &stop)?;
    survey.key_mismatch = survey.key_mismatch.or(KeyMismatch::of_port(&ports[0]));
    Ok(survey.finish())
}

struct Survey<'a> {
    config: &'a ClusterConfig,
    /// The nodes, and behind them the membership service or its keepers.
    directory: Directory,
    token: u64,
    wanted: BTreeSet<(Target, StatusPart)>,
    answers: Vec<Vec<StatusAnswer>>,
    key_mismatch: Option<KeyMismatch>,
    /// Requests to send.
    requests: VecDeque<(Target, StatusPart)>,
    /// When unanswered requests are sent again.
    ask_at: Instant,
    end: Instant,
    /// Ends the survey.
    stop: &'a Stop,
}

impl Endpoint<SocketAddr> for Survey<'_> {
    fn receive(&mut self, _now: Instant, _port: usize, datagram: Datagram<'_, SocketAddr>) {
        self.key_mismatch = self.key_mismatch.or(KeyMismatch::of_datagram(datagram.bytes));
        self.take(datagram.from, datagram.bytes);
    }

    fn next_deadline(&self) -> Option<Instant> {
        Some(self.ask_at.min(self.end))
    }

    fn handle_deadline(&mut self, now: Instant) {
        if now >= self.end {
            self.stop.request();
        } else if now >= self.ask_at {
            self.requests = self.wanted.iter().copied().collect();
            self.ask_at = now + AGAIN;
        }
    }

    fn transmit(&mut self, _now: Instant, ports: &mut [UdpPort<SocketAddr>]) {
        if self.wanted.is_empty() {
            self.stop.request();
        }
        for (target, part) in self.requests.drain(..) {
            // A request that cannot be sent is repeated like a lost one.
            if let Some(address) = self.directory.address(target) {
                let request = StatusRequest { cluster: self.config.name.id(), token: self.token, part };
                ports[0].push(address, &request.encode());
            }
        }
    }
}

impl<'a> Survey<'a> {
    fn new(
        config: &'a ClusterConfig,
        directory: Directory,
        (now, patience): (Instant, Duration),
        stop: &'a Stop,
    ) -> Self {
        let (nodes, targets) = (config.peers.len(), config.peers.len() + config.membership_places().len());
        let part = |target| if target < nodes { StatusPart::Node } else { StatusPart::Service };
        let wanted = (0..targets).map(|target| (target, part(target))).collect();
        // The token makes sure that late answers to another survey are ignored.
        let token = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let answers = vec![Vec::new(); targets];
        let (requests, end) = (VecDeque::new(), now + patience);
        let key_mismatch = None;
        Self { config, directory, token, wanted, answers, key_mismatch, requests, ask_at: now, end, stop }
    }

    fn take(&mut self, from: SocketAddr, bytes: &[u8]) {
        let Ok((cluster, token, answer)) = StatusAnswer::decode(bytes) else { return };
        let Some(target) = self.directory.find(from) else { return };
        let is_ours = cluster == self.config.name.id() && token == self.token;
        if !is_ours || !self.wanted.remove(&(target, answer.part())) {
            return;
        }
        if let StatusAnswer::Node(status) = &answer {
            let pages = usize::from(status.counters).div_ceil(COUNTERS_PER_PAGE).min(usize::from(u8::MAX));
            let engines = (0..status.engines).map(StatusPart::Engine);
            for part in engines.chain((0..pages as u8).map(StatusPart::Counters)) {
                self.wanted.insert((target, part));
                self.requests.push_back((target, part));
            }
        }
        if matches!(answer, StatusAnswer::Service(_)) {
            // Only the holder of the service answers.
            self.wanted.retain(|(_, part)| *part != StatusPart::Service);
        }
        self.answers[target].push(answer);
    }

    fn finish(mut self) -> ClusterStatus {
        let services = self.answers.split_off(self.config.peers.len());
        let service = services.into_iter().flatten().find_map(|answer| match answer {
            StatusAnswer::Service(service) => Some(service),
            _ => None,
        });
        let is_whole = |target: Target| !self.wanted.iter().any(|(wanted, _)| *wanted == target);
        let nodes = self.answers.iter().enumerate();
        let nodes = nodes.map(|(target, answers)| overview(answers).filter(|_| is_whole(target))).collect();
        ClusterStatus { service, nodes, key_mismatch: self.key_mismatch.map(KeyMismatch::remedy) }
    }
}

fn overview(answers: &[StatusAnswer]) -> Option<NodeOverview> {
    let status = answers.iter().find_map(|answer| match answer {
        StatusAnswer::Node(status) => Some(*status),
        _ => None,
    })?;
    let mut parts: Vec<_> = answers.iter().collect();
    parts.sort_by_key(|answer| answer.part());
    let (mut engines, mut counters) = (Vec::new(), Vec::new());
    for answer in parts {
        match answer {
            StatusAnswer::Engine(engine) => engines.push(*engine),
            StatusAnswer::Counters(page) => counters.extend(page.counters.iter().copied()),
            StatusAnswer::Node(_) | StatusAnswer::Service(_) => {}
        }
    }
    Some(NodeOverview { status, engines, counters })
}

impl ClusterStatus {
    /// The problems of the cluster, one line each; empty if there are none.
    pub fn problems(&self, config: &ClusterConfig) -> Vec<String> {
        let mut problems = Vec::new();
        if let Some(remedy) = self.key_mismatch {
            problems.push(format!("the nodes reject the datagrams of this client: {remedy}"));
        }
        match &self.service {
            None if config.membership.coordinators.is_empty() => problems
                .push(format!("the membership service at {} does not answer", config.membership.address)),
            None => problems.push("no keeper answers as holder of the membership service".to_owned()),
            Some(service) => match service.phase {
                Phase::Bootstrapping { missing } => {
                    problems.push(format!("the first view waits for {}", list(missing.iter())))
                }
                Phase::Halted => problems.push("the cluster has halted: its data is lost".to_owned()),
                Phase::Running => {}
            },
        }
        for ((node, peer), overview) in config.peers.iter().zip(&self.nodes) {
            match overview {
                None => problems.push(format!(
                    "node {} at {} does not answer",
                    node.index(),
                    peer.datagram_place()
                )),
                Some(overview) => self.problems_of(overview, &mut problems),
            }
        }
        problems
    }

    fn problems_of(&self, overview: &NodeOverview, problems: &mut Vec<String>) {
        let NodeOverview { status, engines, .. } = overview;
        let number = status.node.index();
        let mut say = |what: String| problems.push(format!("node {number} {what}"));
        if let Some(reason) = status.refusal {
            say(format!("waits: {reason}"));
        } else if status.lease_left == Duration::ZERO {
            say("has no lease".to_owned());
        }
        if let Some(service) = &self.service {
            if service.view.joining.contains(status.node) {
                say("is joining".to_owned());
            } else if service.phase == Phase::Running && !service.view.full.contains(status.node) {
                say(format!("is not in the view of epoch {}", service.view.epoch.0));
            } else if status.view.epoch < service.view.epoch {
                let (own, newest) = (status.view.epoch.0, service.view.epoch.0);
                say(format!("is at epoch {own}, the membership service at {newest}"));
            }
        }
        for engine in engines {
            if engine.status.state != EngineState::Full {
                say(format!("has {} {}", engine.name, state_name(engine.status.state)));
            }
            if !engine.stalled_for.is_empty() {
                let peers = list(engine.stalled_for.iter());
                say(format!("stalls: {} waits for {peers}", engine.name));
            }
        }
    }
}

/// Name of the state of an engine.
pub const fn state_name(state: EngineState) -> &'static str {
    match state {
        EngineState::Starting => "starting",
        EngineState::Joining { synced: false } => "joining",
        EngineState::Joining { synced: true } => "synced",
        EngineState::Full => "full",
        EngineState::Sealed => "sealed",
        EngineState::Lost => "lost",
        EngineState::Restored => "restored",
    }
}

fn list(nodes: impl Iterator<Item = NodeId>) -> String {
    let names: Vec<_> = nodes.map(|node| format!("node {}", node.index())).collect();
    names.join(", ")
}
