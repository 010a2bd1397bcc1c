//! One request to a cluster, for people and scripts.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{SystemTime, UNIX_EPOCH};

use weft_kv::{Client, ClientParameters, Outcome, ReadPolicy, Task};
use weft_nic::Egress;
use weft_time::{Duration, Instant};
use weft_waist::NodeSet;
use weft_wire::datagram::Datagram as WeftDatagram;

use crate::{BindError, Clock, Datagram, Endpoint, IdlePolicy, KV_SLOT, PortOptions, Stop, UdpPort, run};

/// Which cluster to ask, and how.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Where the nodes take requests, node 0 first; 1 to 16 of them.
    pub nodes: Vec<SocketAddrV4>,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// The longest datagram, in bytes.
    pub datagram_bytes: usize,
    /// When to give up.
    pub give_up: Duration,
}

/// What a cluster answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The key has this value.
    Value {
        /// Its version.
        version: u64,
        /// The value.
        value: Vec<u8>,
    },
    /// A write took effect, with this version.
    Done {
        /// The version of the write.
        version: u64,
    },
    /// The key is absent.
    NotFound,
    /// The key has another version than expected; 0: it is absent.
    Mismatch {
        /// Its version.
        version: u64,
    },
    /// The cluster refuses, and nothing changed.
    Refused(&'static str),
    /// Nobody answered in time: a write may or may not have taken effect.
    Unknown,
}

/// Why nothing could be asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No port could be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The system fails.
    #[error("the network fails: {0}")]
    Network(#[from] io::Error),
}

/// Asks once, repeating the request until there is an answer or it is time to give up. The request takes effect at
/// most once.
///
/// # Errors
/// No socket can be opened or used.
///
/// # Panics
/// If there is no node, the key does not have the cluster's size, or the value exceeds a datagram.
pub fn ask(cluster: &Cluster, task: Task<'_>) -> Result<Answer, AskError> {
    let clock = Clock::starting_now();
    let mut ports = [UdpPort::bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0), &PortOptions::default())?];
    // No other client has the same identity: the wall clock's nanoseconds tell apart requests of one machine, the process
    // number those of one moment.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let identity = (since.as_nanos() as u64) ^ u64::from(std::process::id()) << 40;
    let mut client = Client::new(ClientParameters {
        key_bytes: cluster.key_bytes,
        reads: ReadPolicy::Leader,
        timeout: Duration::from_ms(50),
        give_up: cluster.give_up,
        ..ClientParameters::new(identity, NodeSet::first(cluster.nodes.len()))
    });
    client.start(clock.now(), task).expect("a new client has room for a request");
    let stop = Stop::new()?;
    let egress = Egress::new(cluster.datagram_bytes);
    let mut asking =
        Asking { client, nodes: &cluster.nodes, egress, payload: Vec::new(), answer: None, stop: &stop };
    run(&mut asking, &mut ports, clock, IdlePolicy::SLEEP, &stop)?;
    Ok(asking.answer.unwrap_or(Answer::Unknown))
}

/// A client with its one request.
struct Asking<'a> {
    client: Client,
    nodes: &'a [SocketAddrV4],
    egress: Egress,
    payload: Vec<u8>,
    answer: Option<Answer>,
    stop: &'a Stop,
}

impl Asking<'_> {
    fn end(&mut self, outcome: Outcome<'_>) {
        self.answer = Some(match outcome {
            Outcome::Value { version, value } => Answer::Value { version, value: value.to_vec() },
            Outcome::Done { version } => Answer::Done { version },
            Outcome::NotFound => Answer::NotFound,
            Outcome::Mismatch { version } => Answer::Mismatch { version },
            Outcome::TableFull => Answer::Refused("the key's bucket is full: raise capacity_keys"),
            Outcome::SessionsFull => Answer::Refused("the cluster remembers too many clients: wait a minute"),
            Outcome::BadRequest => Answer::Refused("the cluster has other key or value sizes"),
            Outcome::Unknown => Answer::Unknown,
        });
        self.stop.request();
    }
}

impl Endpoint for Asking<'_> {
    fn receive(&mut self, now: Instant, _: usize, datagram: Datagram<'_>) {
        let Ok(parsed) = WeftDatagram::parse(datagram.bytes) else { return };
        for message in parsed.messages().filter(|message| message.engine == KV_SLOT) {
            if let Ok(Some(completion)) = self.client.receive(now, message.kind, message.payload) {
                self.end(completion.outcome);
                return;
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.client.next_deadline()
    }

    fn handle_deadline(&mut self, now: Instant) {
        while let Some(completion) = self.client.handle_deadline(now) {
            self.end(completion.outcome);
        }
    }

    fn transmit(&mut self, _: Instant, ports: &mut [UdpPort]) {
        while let Some((node, kind)) = self.client.poll_transmit(&mut self.payload) {
            let fits = self.egress.push(self.nodes[node.index()], KV_SLOT, kind, &self.payload);
            assert!(fits, "a request fits into a datagram");
            self.payload.clear();
        }
        while let Some(to) = self.egress.poll(&mut self.payload) {
            // What a full port does not take is asked again after the time-out.
            ports[0].push(to, &self.payload);
            self.payload.clear();
        }
    }
}
