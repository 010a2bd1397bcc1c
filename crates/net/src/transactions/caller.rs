//! One who calls transactions at a running cluster, for people, scripts and programs.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{SystemTime, UNIX_EPOCH};

use weft_nic::Egress;
use weft_time::{Duration, Instant};
use weft_txn::Request;
use weft_txn::client::{Client, ClientParameters, Ended};
use weft_wire::datagram::{BYTES_MAX, Datagram as WeftDatagram};

use super::TRANSACTIONS_SLOT;
use crate::{AskError, Clock, Datagram, Endpoint, IdlePolicy, PortOptions, Stop, UdpPort, run};

/// Which cluster is called, and how.
#[derive(Clone, Debug)]
pub struct CallerOptions {
    /// Where the nodes take datagrams, node 0 first; 1 to 16 of them.
    pub nodes: Vec<SocketAddrV4>,
    /// The node that is asked first.
    pub first: usize,
    /// The longest datagram, in bytes.
    pub datagram_bytes: usize,
    /// When a call is given up; at most 20 s.
    pub give_up: Duration,
}

/// A client with a port of its own. It calls one transaction after the other, and waits for each.
#[derive(Debug)]
pub struct Caller {
    client: Client,
    nodes: Vec<SocketAddrV4>,
    egress: Egress,
    ports: [UdpPort; 1],
    clock: Clock,
}

impl Caller {
    /// Opens a port. Nobody is asked anything yet.
    ///
    /// # Errors
    /// There is no port to be had.
    ///
    /// # Panics
    /// If there is no node, or not the one that is to be asked first.
    pub fn new(options: CallerOptions) -> Result<Self, AskError> {
        let CallerOptions { nodes, first, datagram_bytes, give_up } = options;
        let port = UdpPort::bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0), &PortOptions::default())?;
        let parameters =
            ClientParameters { first, give_up, ..ClientParameters::new(new_identity(), nodes.len()) };
        let (client, egress) = (Client::new(parameters), Egress::new(datagram_bytes.min(BYTES_MAX)));
        Ok(Self { client, nodes, egress, ports: [port], clock: Clock::starting_now() })
    }

    /// Calls a transaction and waits for its end. It takes effect at most once.
    ///
    /// # Errors
    /// The system fails. What becomes of the transaction is then unknown.
    ///
    /// # Panics
    /// If the request is longer than a datagram.
    pub fn call(&mut self, request: Request) -> Result<Ended, AskError> {
        let stop = Stop::new()?;
        self.client.start(self.clock.now(), request);
        let Self { client, nodes, egress, ports, clock } = self;
        let mut calling = Calling { client, nodes, egress, bytes: Vec::new(), ended: None, stop: &stop };
        run(&mut calling, ports, *clock, IdlePolicy::SLEEP, &stop)?;
        Ok(calling.ended.expect("the loop ends when the call has ended"))
    }
}

/// A number that no other client has: the wall clock's nanoseconds tell apart those of one process, its number those of
/// one moment.
pub(crate) fn new_identity() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_nanos() as u64) ^ u64::from(std::process::id()) << 40
}

/// One call.
struct Calling<'a> {
    client: &'a mut Client,
    nodes: &'a [SocketAddrV4],
    egress: &'a mut Egress,
    bytes: Vec<u8>,
    ended: Option<Ended>,
    stop: &'a Stop,
}

impl Calling<'_> {
    fn end(&mut self, ended: Option<Ended>) {
        if ended.is_some() {
            self.ended = ended;
            self.stop.request();
        }
    }
}

impl Endpoint for Calling<'_> {
    fn receive(&mut self, now: Instant, _port: usize, datagram: Datagram<'_>) {
        let Some(node) = self.nodes.iter().position(|node| *node == datagram.from) else { return };
        let Ok(parsed) = WeftDatagram::parse(datagram.bytes) else { return };
        for message in parsed.messages().filter(|message| message.engine == TRANSACTIONS_SLOT) {
            let ended = self.client.receive(now, node, message.kind, message.payload);
            self.end(ended);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.client.next_deadline()
    }

    fn handle_deadline(&mut self, now: Instant) {
        let ended = self.client.handle_deadline(now);
        self.end(ended);
    }

    fn transmit(&mut self, _now: Instant, ports: &mut [UdpPort]) {
        self.bytes.clear();
        if let Some((node, kind)) = self.client.poll_transmit(&mut self.bytes) {
            let fits = self.egress.push(self.nodes[node], TRANSACTIONS_SLOT, kind, &self.bytes);
            assert!(fits, "a call fits into a datagram");
        }
        self.bytes.clear();
        while let Some(to) = self.egress.poll(&mut self.bytes) {
            // What a full port does not take is asked again after a while.
            ports[0].push(to, &self.bytes);
            self.bytes.clear();
        }
    }
}
