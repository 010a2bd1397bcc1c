//! The server for clients of Redis, in a thread of the node's process. It has TCP connections to the clients and
//! exchanges datagrams with the nodes; [`RespServer`] translates between them.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use weft_cluster::{NodeConfig, RedisConfig};
use weft_nic::Egress;
use weft_resp::{ConnectionId, Now, RespServer, RespServerParameters};
use weft_time::{Duration, Instant};
use weft_wire::datagram::Datagram;

use crate::{BindError, Clock, KV_SLOT, PortOptions, Stop, UdpPort, system};

/// The server's own clients of the store. Together they have up to 1,024 requests outstanding, as many as a leader
/// accepts.
const SESSIONS: u32 = 64;
/// Time-out of a request to the store.
const GIVE_UP: Duration = Duration::from_secs(5);
/// The most connected clients.
const CLIENTS_MAX: usize = 10_000;
/// How long to accept no new clients after the system has refused more descriptors.
const LISTEN_AGAIN: Duration = Duration::from_ms(100);
/// The most times that sockets are polled before requests are sent to the nodes: each poll reports up to 16
/// sockets.
const SOCKET_POLLS_MAX: usize = 64;

/// Keys of the watched descriptors other than connections; the keys of connections follow these.
const STOP: u64 = 0;
const NODES: u64 = 1;
const LISTENER: u64 = 2;
const CONNECTIONS: u64 = 3;

/// Why a node has no server for clients of Redis.
#[derive(Debug, thiserror::Error)]
#[error("[redis] port: TCP {address} cannot be opened: {source}; choose another port, or remove [redis]")]
pub struct RedisError {
    address: SocketAddrV4,
    source: io::Error,
}

/// The thread of the server; it ends when this value is dropped.
pub(crate) struct RedisServer {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisServer").finish_non_exhaustive()
    }
}

impl RedisServer {
    /// Starts the server at a node whose cluster has a key-value store.
    pub(crate) fn start(config: &NodeConfig, redis: &RedisConfig) -> Result<Self, RedisError> {
        let address = SocketAddrV4::new(config.own().address, redis.port);
        let error = |source| RedisError { address, source };
        let listener = TcpListener::bind(address).map_err(error)?;
        listener.set_nonblocking(true).map_err(error)?;
        let unbound = |bind: BindError| error(io::Error::other(bind.to_string()));
        let port = UdpPort::bind(SocketAddrV4::new(config.own().address, 0), &PortOptions::default());
        let kv = config.engines.kv.expect("a checked configuration has a store for its door");
        let server = RespServer::new(RespServerParameters {
            own: config.node,
            servers: config.peers.iter().map(|(_, peer)| (peer.address, redis.port)).collect(),
            key_bytes: kv.key_bytes as usize,
            value_bytes_max: kv.value_bytes as usize,
            password: redis.password.clone(),
            durable: kv.durable,
            clock_skew: redis.clock_skew,
            give_up: GIVE_UP,
            first_client: first_client(),
            sessions: SESSIONS,
        });
        let stop = Arc::new(Stop::new().map_err(error)?);
        let watched = system::watch_set().map_err(error)?;
        let port = port.map_err(unbound)?;
        system::watch(watched.as_fd(), stop.as_fd(), STOP).map_err(error)?;
        system::watch(watched.as_fd(), port.as_fd(), NODES).map_err(error)?;
        system::watch(watched.as_fd(), listener.as_fd(), LISTENER).map_err(error)?;
        let mut server = Server {
            server,
            nodes: config.peers.iter().map(|(_, peer)| peer.datagram_address()).collect(),
            has_password: redis.password.is_some(),
            watched,
            listener,
            port,
            egress: Egress::new(config.datagram_bytes().min(weft_wire::datagram::BYTES_MAX)),
            connections: HashMap::new(),
            listens_at: None,
            clock: Clock::starting_now(),
            bytes: vec![0; 1 << 16],
        };
        tracing::info!(node = config.node.index(), %address, "node {} has a Redis door on {address}", config.node.index());
        let stopped = Arc::clone(&stop);
        let node = config.node.index();
        let body = move || {
            if let Err(error) = server.run(&stopped) {
                tracing::error!(node, "the Redis door of node {node} is closed: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("redis".to_owned()).spawn(body).map_err(error)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
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

struct Server {
    server: RespServer,
    /// Addresses at which the nodes receive Weft's datagrams.
    nodes: Vec<SocketAddrV4>,
    has_password: bool,
    watched: OwnedFd,
    listener: TcpListener,
    port: UdpPort,
    egress: Egress,
    connections: HashMap<ConnectionId, Connection>,
    /// When to accept new clients again, if they are not accepted now.
    listens_at: Option<Instant>,
    clock: Clock,
    bytes: Vec<u8>,
}

impl Server {
    fn now(&self) -> Now {
        Now { instant: self.clock.now(), unix_ms: unix_ms() }
    }

    /// Serves until the stop is requested.
    fn run(&mut self, stop: &Stop) -> io::Result<()> {
        system::make_timers_precise();
        let mut keys = Vec::with_capacity(64);
        let mut held_back = false;
        while !stop.is_requested() {
            let now = self.clock.now();
            if self.listens_at.is_some_and(|at| at <= now) {
                self.listens_at = None;
                self.watch_listener(true);
            }
            let deadline = [self.server.next_deadline(), self.listens_at].into_iter().flatten().min();
            let until = deadline.map(|deadline| deadline.saturating_since(now));
            let until = if held_back { Some(Duration::from_us(50)) } else { until };
            let limit_ns = until.map(|time| time.as_ps().div_ceil(1_000));
            keys.clear();
            system::sleep(self.watched.as_fd(), limit_ns, |key| keys.push(key))?;
            // Requests that arrive on many sockets at once are sent to the nodes together.
            for _ in 0..SOCKET_POLLS_MAX {
                let found = keys.len();
                for key in keys.drain(..) {
                    self.serve(key)?;
                }
                if found < system::EVENTS_AT_ONCE {
                    break;
                }
                system::readable(self.watched.as_fd(), |key| keys.push(key))?;
            }
            let now = self.now();
            if self.server.next_deadline().is_some_and(|deadline| deadline <= now.instant) {
                self.server.handle_deadline(now);
            }
            // Requests are sent to the nodes first, then answers that are ready are written to the clients.
            let mut ready = Vec::new();
            while let Some(id) = self.server.poll_ready(now) {
                ready.push(id);
            }
            self.transmit();
            held_back = self.port.flush()? == 0 && self.port.queued() > 0;
            for id in ready {
                self.write(id);
            }
        }
        Ok(())
    }

    fn serve(&mut self, key: u64) -> io::Result<()> {
        match key {
            STOP => {}
            NODES => {
                let Self { port, server, nodes, clock, .. } = self;
                let unix_ms = unix_ms();
                port.receive(|datagram| {
                    let now = Now { instant: clock.now(), unix_ms };
                    let Ok(parsed) = Datagram::parse(datagram.bytes) else { return };
                    if !nodes.contains(&datagram.from) {
                        return;
                    }
                    for message in parsed.messages().filter(|message| message.engine == KV_SLOT) {
                        server.message(now, message.kind, message.payload);
                    }
                })?;
            }
            LISTENER => self.accept(),
            key => self.read(ConnectionId((key - CONNECTIONS) as u32)),
        }
        Ok(())
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
            } else if self.connections.len() >= CLIENTS_MAX {
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
            self.connections.insert(id, Connection { stream, watches: (true, false) });
        }
    }

    fn watch_listener(&self, watches: bool) {
        let _ = system::watch_again(self.watched.as_fd(), self.listener.as_fd(), LISTENER, (watches, false));
    }

    fn read(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if self.server.takes_input(id) {
            match connection.stream.read(&mut self.bytes) {
                Ok(0) => return self.close(id),
                Ok(length) => self.server.receive(id, &self.bytes[..length]),
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_) => return self.close(id),
            }
        }
        if connection.watches.1 {
            self.write(id);
        }
    }

    /// Writes the output for a client, and updates which events of its socket are watched.
    fn write(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
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
        self.connections.remove(&id);
        self.server.close(id);
    }

    fn transmit(&mut self) {
        let mut payload = Vec::new();
        while let Some((node, kind)) = self.server.poll_transmit(&mut payload) {
            // The payload fits into a datagram, because the configuration's sizes have been checked.
            self.egress.push(self.nodes[node.index()], KV_SLOT, kind, &payload);
            payload.clear();
        }
        let mut datagram = payload;
        while let Some(to) = self.egress.poll(&mut datagram) {
            // A request that a full port drops is repeated after a time-out.
            self.port.push(to, &datagram);
            datagram.clear();
        }
    }
}
