//! A process of clients: a driver over one UDP port, controlled through its standard input.
//!
//! | the parent writes | the process answers |
//! |---|---|
//! | | `ready` once its port is open |
//! | `load` | `done <operations> <highest record>` |
//! | `run <JSON of [RunOrder]>` | `at <operations>` ten times a second, then `done ...` |
//! | `read-back <highest record>` | `done ...` |
//! | `save` | `saved`, and ends |
//!
//! The process ends when its standard input is closed.

use std::io::{self, BufRead, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weft_bench::kv::{Driver, DriverParameters, Phase};
use weft_cluster::{ClusterName, SecurityConfig};
use weft_kv::ReadPolicy;
use weft_net::{
    Clock, Datagram, Endpoint, IdlePolicy, KV_SLOT, Outgoing, PortOptions, Seal, Stop, UdpPort, keep_to_core,
    run,
};
use weft_nic::Egress;
use weft_results::write_whole;
use weft_time::{Duration, Instant};
use weft_waist::{NodeId, NodeSet};
use weft_wire::datagram;
use weft_workload::{ClientShare, Workload};
use weft_workload::{Limit, Load};

use crate::RealBenchError;
use crate::error::garbled;

/// Time until a client repeats an unanswered request: longer than a loaded machine takes to answer, shorter
/// than a lease.
const TIMEOUT: Duration = Duration::from_ms(50);
/// Time-out of a request.
const GIVE_UP: Duration = Duration::from_secs(20);
/// Interval of progress messages.
const PROGRESS_EVERY: Duration = Duration::from_ms(100);

/// Parameters of a process of clients, from its file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ClientSettings {
    pub workload: String,
    pub distribution: String,
    pub records: u64,
    pub value_bytes: usize,
    /// Clients of this process.
    pub clients: u32,
    /// Arrival rate of this process; `None` in a closed loop.
    pub operations_per_s: Option<f64>,
    pub lane: u32,
    pub lanes: u32,
    pub seed: u64,
    /// Address of the process's port.
    pub address: Ipv4Addr,
    /// Addresses at which the nodes receive requests, node 0 first.
    pub nodes: Vec<SocketAddrV4>,
    pub reads: Reads,
    /// The longest datagram, in bytes.
    pub datagram_bytes: usize,
    /// Time for which the process polls before it sleeps.
    pub spin: Duration,
    /// The core that the process is pinned to.
    pub core: Option<u32>,
    /// File of the cluster key, if datagrams are sealed.
    pub key_file: Option<PathBuf>,
    /// The origin of the clock that all processes of the run share.
    pub origin_ns: u64,
    /// File of the history.
    pub history: PathBuf,
    /// File of the measurements.
    pub recorder: PathBuf,
}

/// A [`ReadPolicy`] in a file.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reads {
    Leader,
    AnyReplica,
    Prefer(NodeId),
}

impl From<ReadPolicy> for Reads {
    fn from(policy: ReadPolicy) -> Self {
        match policy {
            ReadPolicy::Leader => Self::Leader,
            ReadPolicy::AnyReplica => Self::AnyReplica,
            ReadPolicy::Prefer(node) => Self::Prefer(node),
        }
    }
}

impl From<Reads> for ReadPolicy {
    fn from(reads: Reads) -> Self {
        match reads {
            Reads::Leader => Self::Leader,
            Reads::AnyReplica => Self::AnyReplica,
            Reads::Prefer(node) => Self::Prefer(node),
        }
    }
}

/// Beginning and end of the workload, on the clock of the run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct RunOrder {
    pub begin: Instant,
    pub warm_up: Duration,
    /// Number of operations of this process; `None`: no limit before the end.
    pub operations: Option<u64>,
    pub end: Instant,
}

/// Clients over a UDP port.
///
/// Requests to one node share datagrams, as a card's messages do.
pub struct Clients<'a> {
    driver: Driver,
    nodes: Vec<SocketAddrV4>,
    egress: Egress,
    /// The phase that has not begun yet, and its start.
    due: Option<(Instant, Phase)>,
    now: Instant,
    payload: Vec<u8>,
    outgoing: Outgoing,
    progress: Option<(Instant, &'a mut (dyn FnMut(u64) + Send))>,
    stop: &'a Stop,
}

impl<'a> Clients<'a> {
    /// The clients of `driver`, which send to the nodes at these addresses, node 0 first, in datagrams of at
    /// most `datagram_bytes` bytes. They begin `phase` at `begin` and request `stop` when it is over.
    pub fn new(
        driver: Driver,
        nodes: Vec<SocketAddrV4>,
        datagram_bytes: usize,
        (begin, phase): (Instant, Phase),
        stop: &'a Stop,
    ) -> Self {
        Self {
            driver,
            nodes,
            egress: Egress::new(datagram_bytes),
            due: Some((begin, phase)),
            now: Instant::ZERO,
            payload: Vec::new(),
            outgoing: Outgoing::default(),
            progress: None,
            stop,
        }
    }

    /// Calls `progress` ten times a second with the number of completed operations.
    #[must_use]
    pub fn with_progress(mut self, progress: &'a mut (dyn FnMut(u64) + Send)) -> Self {
        self.progress = Some((Instant::ZERO, progress));
        self
    }

    /// The driver, after the phase.
    pub fn into_driver(self) -> Driver {
        self.driver
    }
}

impl Endpoint for Clients<'_> {
    fn receive(&mut self, now: Instant, _port: usize, datagram: Datagram<'_>) {
        self.now = now;
        let Ok(parsed) = datagram::Datagram::parse(datagram.bytes) else { return };
        for message in parsed.messages().filter(|message| message.engine == KV_SLOT) {
            self.driver.receive(now, message.kind, message.payload);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let driver = match self.due {
            Some((begin, _)) => Some(begin),
            None => self.driver.next_deadline(self.now),
        };
        let progress = self.progress.as_ref().map(|(next, _)| *next);
        driver.into_iter().chain(progress).min()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.now = now;
        if let Some((next, progress)) = &mut self.progress
            && *next <= now
        {
            progress(self.driver.completed());
            *next = now + PROGRESS_EVERY;
        }
        match self.due {
            Some((begin, phase)) if begin <= now => {
                self.due = None;
                self.driver.begin(begin, phase);
            }
            Some(_) => {}
            None => self.driver.handle_deadline(now),
        }
    }

    fn transmit(&mut self, now: Instant, ports: &mut [UdpPort]) {
        self.now = now;
        if self.due.is_none() && self.driver.is_finished(now) {
            self.stop.request();
        }
        loop {
            self.payload.clear();
            let Some((node, kind)) = self.driver.poll_transmit(&mut self.payload) else { break };
            // A message that is too long for a datagram is dropped. The request times out, and the result
            // counts it as failed.
            self.egress.push(self.nodes[node.index()], KV_SLOT, kind, &self.payload);
        }
        self.outgoing.transmit(&mut ports[0], |datagram| self.egress.poll(datagram));
    }
}

/// Runs the process that `settings` (a file that the parent has written) describes.
///
/// # Errors
/// The port cannot be opened, a file cannot be read or written, or the parent's command is unknown.
pub fn client_main(settings: &Path) -> Result<(), RealBenchError> {
    let text = std::fs::read_to_string(settings)
        .map_err(|source| RealBenchError::Folder { path: settings.to_owned(), source })?;
    let settings: ClientSettings = serde_json::from_str(&text).map_err(garbled)?;
    settings.core.map_or(Ok(()), keep_to_core).map_err(|error| RealBenchError::Invalid(error.to_string()))?;
    let clock = Clock::with_origin(settings.origin_ns);
    let security = settings.key_file.clone().map(|key_file| SecurityConfig { key_file });
    let seal = Seal::load(security.as_ref(), ClusterName::default())
        .map_err(|error| RealBenchError::Invalid(error.to_string()))?;
    let port = UdpPort::bind(SocketAddrV4::new(settings.address, 0), &PortOptions::default())?;
    let mut ports = [port.sealed(seal.as_ref())];
    let mut driver = Driver::new(parameters(&settings)?);
    say("ready")?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let task = match word {
            "load" => (clock.now(), Phase::Load),
            "run" => {
                let order: RunOrder = serde_json::from_str(rest).map_err(garbled)?;
                let limit = order.operations.map_or(Limit::Until(order.end), Limit::Operations);
                (order.begin, Phase::Run { limit, warm_up: order.warm_up })
            }
            "read-back" => {
                driver.extend_records(rest.parse().map_err(garbled)?);
                (clock.now(), Phase::ReadBack)
            }
            "save" => break,
            _ => return Err(RealBenchError::Garbled(line)),
        };
        driver = carry_out(driver, &settings, clock, &mut ports, task)?;
        say(&format!("done {} {}", driver.completed(), driver.highest_record()))?;
    }
    let (recorder, history) = driver.into_parts();
    history
        .save(&settings.history)
        .map_err(|source| RealBenchError::Folder { path: settings.history.clone(), source })?;
    let recorder = serde_json::to_string(&recorder).map_err(garbled)?;
    write_whole(&settings.recorder, recorder.as_bytes())?;
    say("saved")?;
    Ok(())
}

/// Runs one phase.
fn carry_out(
    driver: Driver,
    settings: &ClientSettings,
    clock: Clock,
    ports: &mut [UdpPort],
    task: (Instant, Phase),
) -> Result<Driver, RealBenchError> {
    let stop = Stop::new()?;
    let mut tell = |completed| {
        // If the parent has ended, standard input is closed, which ends this process.
        let _ = say(&format!("at {completed}"));
    };
    let mut clients = Clients::new(driver, settings.nodes.clone(), settings.datagram_bytes, task, &stop);
    if matches!(task.1, Phase::Run { .. }) {
        clients = clients.with_progress(&mut tell);
    }
    run(&mut clients, ports, clock, IdlePolicy::share_then_sleep(settings.spin), &stop)?;
    Ok(clients.into_driver())
}

fn parameters(settings: &ClientSettings) -> Result<DriverParameters, RealBenchError> {
    let workload = Workload::parse(&settings.workload)
        .and_then(|workload| workload.with_records(settings.records))
        .and_then(|workload| workload.with_value_bytes(settings.value_bytes))
        .and_then(|workload| Ok(workload.with_distribution(settings.distribution.parse()?)))
        .map_err(garbled)?;
    let clients = settings.clients;
    let load = match settings.operations_per_s {
        Some(operations_per_s) => Load::Open { clients, operations_per_s },
        None => Load::Closed { clients },
    };
    Ok(DriverParameters {
        workload,
        load,
        lane: ClientShare::new(settings.lane, settings.lanes),
        seed: settings.seed,
        first_client: u64::from(settings.lane) * u64::from(clients) + 1,
        nodes: NodeSet::first(settings.nodes.len()),
        reads: settings.reads.into(),
        compares_deletes: true,
        timeout: TIMEOUT,
        give_up: GIVE_UP,
    })
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
