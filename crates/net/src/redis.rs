//! The server for clients of Redis, in the node's thread. It has TCP connections to the clients; [`RespServer`]
//! translates between them and the store.
//!
//! Requests for the node itself reach its engine without a socket: the two exchange datagrams in memory. Requests for
//! other nodes are datagrams from a port of the server's own.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{SystemTime, UNIX_EPOCH};

use weft_cluster::{NodeConfig, RedisConfig};
use weft_nic::Egress;
use weft_resp::{ConnectionId, Now, RespServer, RespServerParameters};
use weft_time::{Duration, Instant};
use weft_wire::datagram::Datagram;

use crate::{BindError, Clock, Directory, KV_SLOT, PortOptions, UdpPort, inside, system};

/// The server's own clients of the store. Together they have up to 1,024 requests outstanding, as many as a leader
/// accepts.
const SESSIONS: u32 = 64;
/// Time-out of a request to the store.
const GIVE_UP: Duration = Duration::from_secs(5);
/// The most connected clients.
const CLIENTS_MAX: usize = 10_000;
/// How long to accept no new clients after the system has refused more descriptors.
const LISTEN_AGAIN: Duration = Duration::from_ms(100);
/// The most sockets that are served before the requests are sent to the nodes. Requests that arrive on many sockets
/// share datagrams; meanwhile the other nodes have nothing to do.
const SOCKETS_AT_ONCE: usize = 128;
/// Bytes that are read from sockets, more or less, before the node does its other work.
const BYTES_AT_ONCE: usize = 1 << 18;
/// Bytes that are read from one socket at a time.
const READ_BYTES: usize = 1 << 16;

/// Keys of the watched descriptors other than connections; the keys of connections follow these.
const LISTENER: u64 = 0;
const CONNECTIONS: u64 = 1;

/// Why a node has no server for clients of Redis.
#[derive(Debug, thiserror::Error)]
#[error("[redis] port: TCP {address} cannot be opened: {source}; choose another port, or remove [redis]")]
pub struct RedisError {
    address: SocketAddr,
    source: io::Error,
}

/// The first number for the server's clients of the store, higher than those of earlier clients: quarters of a
/// nanosecond of the wall clock, as `weft-client` uses.
fn first_client() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_nanos() as u64) << 2 | u64::from(std::process::id() & 3)
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

struct Connection {
    stream: TcpStream,
    /// Whether the kernel reports when the stream is readable, and when it is writable.
    watches: (bool, bool),
}

/// The server. Its caller passes in datagrams of nodes, calls [`RedisServer::serve`] when [`RedisServer::watched`] is
/// readable, then [`RedisServer::transmit`], and at last [`RedisServer::write_answers`].
pub(crate) struct RedisServer {
    server: RespServer,
    /// The own node.
    own: usize,
    has_password: bool,
    watched: OwnedFd,
    listener: TcpListener,
    egress: Egress,
    /// Connections, by their numbers.
    connections: Vec<Option<Connection>>,
    /// Number of connections.
    connected: usize,
    /// Connections that may have answers to write.
    ready: Vec<ConnectionId>,
    /// When to accept new clients again, if they are not accepted now.
    listens_at: Option<Instant>,
    clock: Clock,
    keys: Vec<u64>,
    bytes: Vec<u8>,
    datagram: Vec<u8>,
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisServer").finish_non_exhaustive()
    }
}

impl RedisServer {
    /// Opens the server of a node at `own`, whose cluster has a key-value store. Returns it with its port for the
    /// datagrams that it exchanges with other nodes.
    pub(crate) fn open(
        config: &NodeConfig,
        redis: &RedisConfig,
        own: IpAddr,
        clock: Clock,
    ) -> Result<(Self, UdpPort<SocketAddr>), RedisError> {
        let address = SocketAddr::new(own, redis.port);
        let error = |source| RedisError { address, source };
        let listener = TcpListener::bind(address).map_err(error)?;
        listener.set_nonblocking(true).map_err(error)?;
        let unbound = |bind: BindError| error(io::Error::other(bind.to_string()));
        let port = UdpPort::bind(SocketAddr::new(own, 0), &PortOptions::default());
        let kv = config.engines.kv.expect("a checked configuration has a store for its door");
        let server = RespServer::new(RespServerParameters {
            own: config.node,
            servers: config.peers.iter().map(|(_, peer)| (peer.address.to_string(), redis.port)).collect(),
            key_bytes: kv.key_bytes as usize,
            value_bytes_max: kv.value_bytes as usize,
            password: redis.password.clone(),
            durable_copies: if kv.disk_lag.is_none() { kv.durable_copies } else { 0 },
            clock_skew: redis.clock_skew,
            give_up: GIVE_UP,
            first_client: first_client(),
            sessions: SESSIONS,
        });
        let watched = system::watch_set().map_err(error)?;
        let port = port.map_err(unbound)?;
        system::watch(watched.as_fd(), listener.as_fd(), LISTENER).map_err(error)?;
        let node = config.node.index();
        tracing::info!(node, %address, "node {node} has a Redis door on {address}");
        let server = Self {
            server,
            own: config.node.index(),
            has_password: redis.password.is_some(),
            watched,
            listener,
            egress: Egress::new(config.datagram_bytes().min(weft_wire::datagram::BYTES_MAX)),
            connections: Vec::new(),
            connected: 0,
            ready: Vec::new(),
            listens_at: None,
            clock,
            keys: Vec::with_capacity(system::EVENTS_AT_ONCE),
            bytes: vec![0; READ_BYTES],
            datagram: Vec::new(),
        };
        Ok((server, port))
    }

    /// Readable when there is something to [serve](RedisServer::serve).
    pub(crate) fn watched(&self) -> BorrowedFd<'_> {
        self.watched.as_fd()
    }

    fn now(&self) -> Now {
        Now { instant: self.clock.now(), unix_ms: unix_ms() }
    }

    /// Serves sockets that are ready, new clients among them. Returns their number.
    pub(crate) fn serve(&mut self) -> io::Result<usize> {
        let (mut served, mut bytes) = (0, 0);
        while served < SOCKETS_AT_ONCE && bytes < BYTES_AT_ONCE {
            let mut keys = std::mem::take(&mut self.keys);
            system::readable(self.watched.as_fd(), |key| keys.push(key))?;
            let found = keys.len();
            for key in keys.drain(..) {
                match key {
                    LISTENER => self.accept(),
                    key => bytes += self.read(ConnectionId((key - CONNECTIONS) as u32)),
                }
            }
            self.keys = keys;
            served += found;
            if found < system::EVENTS_AT_ONCE {
                break;
            }
        }
        Ok(served)
    }

    /// Processes a datagram of a node.
    pub(crate) fn receive(&mut self, now: Instant, datagram: &[u8]) {
        let Ok(parsed) = Datagram::parse(datagram) else { return };
        let now = Now { instant: now, unix_ms: unix_ms() };
        for message in parsed.messages().filter(|message| message.engine == KV_SLOT) {
            self.server.message(now, message.kind, message.payload);
        }
    }

    /// When [`RedisServer::handle_deadline`] must be called.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        // A connection whose answers have been written may have requests that waited for that.
        let at_once = self.server.has_ready().then_some(Instant::ZERO);
        [self.server.next_deadline(), self.listens_at, at_once].into_iter().flatten().min()
    }

    /// Handles expired deadlines.
    pub(crate) fn handle_deadline(&mut self, now: Instant) {
        if self.listens_at.is_some_and(|at| at <= now) {
            self.listens_at = None;
            self.watch_listener(true);
        }
        if self.server.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.server.handle_deadline(Now { instant: now, unix_ms: unix_ms() });
        }
    }

    /// Processes the requests that can go on, and queues the datagrams that they cause: to `port` those for other
    /// nodes. `to_own` gets those for the own node.
    pub(crate) fn transmit(
        &mut self,
        port: &mut UdpPort<SocketAddr>,
        directory: &Directory,
        mut to_own: impl FnMut(&[u8]),
    ) {
        let now = self.now();
        self.ready.extend(std::iter::from_fn(|| self.server.poll_ready(now)));
        let mut bytes = std::mem::take(&mut self.datagram);
        while let Some((node, kind)) = self.server.poll_transmit(&mut bytes) {
            // The payload fits into a datagram, because the configuration's sizes have been checked.
            self.egress.push(inside::node(node.index()), KV_SLOT, kind, &bytes);
            bytes.clear();
        }
        while let Some(to) = self.egress.poll(&mut bytes) {
            let node = inside::node_at(*to.ip()).expect("requests go to nodes");
            if node == self.own {
                to_own(&bytes);
            } else if let Some(address) = directory.address(node) {
                // A request that a full port drops is repeated after a time-out.
                port.push(address, &bytes);
            }
            bytes.clear();
        }
        self.datagram = bytes;
    }

    /// Whether there may be answers to write.
    pub(crate) fn has_answers(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Writes the answers that are ready to the clients.
    pub(crate) fn write_answers(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        ready.drain(..).for_each(|id| self.write(id));
        self.ready = ready;
    }

    fn accept(&mut self) {
        loop {
            let (mut stream, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                // Usually there are no more descriptors: keep the existing connections, and accept no new ones for
                // a while.
                Err(_) => {
                    self.watch_listener(false);
                    self.listens_at = Some(self.clock.now() + LISTEN_AGAIN);
                    return;
                }
            };
            let refusal = if !self.has_password && !peer.ip().is_loopback() {
                Some(
                    "-DENIED this door has no password, so only clients of its own machine are let in: set [redis] password\r\n",
                )
            } else if self.connected >= CLIENTS_MAX {
                Some("-ERR max number of clients reached\r\n")
            } else {
                None
            };
            if let Some(refusal) = refusal {
                let _ = stream.write_all(refusal.as_bytes());
                continue;
            }
            let prepared = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
            if prepared.is_err() {
                continue;
            }
            let id = self.server.open(self.now());
            let key = u64::from(id.0) + CONNECTIONS;
            if system::watch(self.watched.as_fd(), stream.as_fd(), key).is_err() {
                self.server.close(id);
                continue;
            }
            let place = id.0 as usize;
            if self.connections.len() <= place {
                self.connections.resize_with(place + 1, || None);
            }
            self.connections[place] = Some(Connection { stream, watches: (true, false) });
            self.connected += 1;
        }
    }

    fn watch_listener(&self, watches: bool) {
        let _ = system::watch_again(self.watched.as_fd(), self.listener.as_fd(), LISTENER, (watches, false));
    }

    /// Reads what a client has sent, if the server can take it now. Returns the number of bytes.
    fn read(&mut self, id: ConnectionId) -> usize {
        let Some(connection) = self.connections.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return 0;
        };
        let mut length = 0;
        if self.server.takes_input(id) {
            match connection.stream.read(&mut self.bytes) {
                Ok(0) => {
                    self.close(id);
                    return 0;
                }
                Ok(count) => {
                    self.server.receive(id, &self.bytes[..count]);
                    length = count;
                }
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_) => {
                    self.close(id);
                    return 0;
                }
            }
        }
        if connection.watches.1 {
            self.write(id);
        }
        length
    }

    /// Writes the output for a client, and updates which events of its socket are watched.
    fn write(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        let Some(output) = self.server.output(id) else { return };
        let mut written = 0;
        while written < output.len() {
            match connection.stream.write(&output[written..]) {
                Ok(0) => return self.close(id),
                Ok(length) => written += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return self.close(id),
            }
        }
        output.drain(..written);
        let is_written = output.is_empty();
        if is_written && self.server.is_closing(id) {
            return self.close(id);
        }
        if written > 0 {
            self.server.written(id);
        }
        let watches = (self.server.takes_input(id), !is_written);
        if watches != connection.watches {
            let key = u64::from(id.0) + CONNECTIONS;
            let watched = self.watched.as_fd();
            if system::watch_again(watched, connection.stream.as_fd(), key, watches).is_err() {
                return self.close(id);
            }
            connection.watches = watches;
        }
    }

    fn close(&mut self, id: ConnectionId) {
        if self.connections.get_mut(id.0 as usize).and_then(Option::take).is_some() {
            self.connected -= 1;
            self.server.close(id);
        }
    }
}
