//! Load for Redis: a master and two replicas. A write is `SET` and `WAIT 2`, sent together. It is complete when `WAIT`
//! answers that both replicas have acknowledged. A pipeline sends several writes together, with a `WAIT` behind each
//! `SET` or behind the last one ([`Wait`]); they are complete when the last `WAIT` is answered.
//!
//! The same load can be sent to other servers that implement Redis's protocol, such as a Weft node.
//!
//! `WAIT` counts the replicas that have acknowledged everything that the connection wrote before it
//! (<https://redis.io/docs/latest/commands/wait/>). Neither the master nor the replicas write to disk.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use tempfile::TempDir;

use crate::load::{KEY_BYTES, Keys, Load, Wait};
use crate::measure::{Measurement, Recorder};
use crate::server::{self, Interrupt, PeerError, Server};

const PROGRAM: &str = "redis-server";

/// Time-out of `WAIT` in milliseconds, as decimal digits.
const WAIT_MILLISECONDS: &str = "1000";

/// The answer to a pipeline of writes that both replicas have acknowledged.
fn acknowledged(pipeline: u32, wait: Wait) -> Vec<u8> {
    let count = pipeline as usize;
    match wait {
        Wait::Each => b"+OK\r\n:2\r\n".repeat(count),
        Wait::Last => [&b"+OK\r\n".repeat(count), &b":2\r\n"[..]].concat(),
    }
}

/// Time-out for the replicas to connect.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Interval at which a waiting program checks for an interrupt.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Starts the servers, loads them and returns the measurement.
pub fn measure(load: &Load) -> Result<Measurement, PeerError> {
    let version = version(&server::version_text(PROGRAM)?);
    allow_connections(load.clients)?;
    let interrupt = Interrupt::install()?;
    let mut replicated = Replicated::start(&interrupt)?;
    match run(load, replicated.master, &interrupt) {
        Ok(recorder) => Ok(recorder.finish("redis", version, load)),
        Err(error) => Err(server::explain(error, &mut replicated.servers)),
    }
}

/// Loads a running server and returns the measurement.
pub fn measure_at(load: &Load, server: SocketAddr) -> Result<Measurement, PeerError> {
    allow_connections(load.clients)?;
    let interrupt = Interrupt::install()?;
    let recorder = run(load, server, &interrupt)?;
    Ok(recorder.finish("resp", server.to_string(), load))
}

/// Finds `7.0.15` in `Redis server v=7.0.15 sha=...`.
fn version(text: &str) -> String {
    let found = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
    found.unwrap_or("unknown").to_owned()
}

/// Raises the limit on open file descriptors if the clients need more.
fn allow_connections(clients: u32) -> Result<(), PeerError> {
    let needed = libc::rlim_t::from(clients) + 64;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit writes to the structure that is passed, setrlimit reads it.
    let allowed = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0
            && (limit.rlim_cur >= needed || {
                limit.rlim_cur = needed.min(limit.rlim_max);
                limit.rlim_cur == needed && libc::setrlimit(libc::RLIMIT_NOFILE, &limit) == 0
            })
    };
    if allowed {
        return Ok(());
    }
    let action = format!("{clients} connections need {needed} open files (raise it with ulimit -n)");
    Err(PeerError::System { action, source: io::Error::last_os_error() })
}

/// A master with two attached replicas.
struct Replicated {
    servers: Vec<Server>,
    master: SocketAddr,
    /// Fields are dropped in order, so the directory is removed after the servers have been killed.
    _directory: TempDir,
}

impl Replicated {
    fn start(interrupt: &Interrupt) -> Result<Self, PeerError> {
        let directory = server::memory_directory()?;
        let [master, replicas @ ..] = server::free_addresses::<3>()?;
        let start = |label: &str, address: SocketAddr, more: &[String]| {
            let port = address.port().to_string();
            let home = directory.path().join(label);
            std::fs::create_dir(&home).map_err(PeerError::system("a server's directory cannot be made"))?;
            let fixed = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
            let fixed = fixed.into_iter().chain(["--repl-diskless-sync-delay", "0"]);
            let fixed = fixed.chain(["--maxclients", "20000"]).map(str::to_owned);
            Server::start(PROGRAM, label, &home, fixed.chain(more.iter().cloned()))
        };
        let mut servers = vec![start("master", master, &[])?];
        let replica_of = ["--replicaof".into(), "127.0.0.1".into(), master.port().to_string()];
        for (label, address) in ["replica-1", "replica-2"].into_iter().zip(replicas) {
            servers.push(start(label, address, &replica_of)?);
        }
        let mut this = Self { servers, master, _directory: directory };
        this.wait_until_replicated(interrupt)?;
        Ok(this)
    }

    /// Waits until both replicas have acknowledged a write.
    fn wait_until_replicated(&mut self, interrupt: &Interrupt) -> Result<(), PeerError> {
        let limit = Instant::now() + START_LIMIT;
        loop {
            interrupt.check()?;
            for server in &mut self.servers {
                server.check()?;
            }
            match write_once(self.master) {
                Ok(answer) if answer == acknowledged(1, Wait::Last) => return Ok(()),
                _ if Instant::now() < limit => std::thread::sleep(LOOK_AGAIN),
                outcome => {
                    let seconds = START_LIMIT.as_secs();
                    let what = match outcome {
                        Ok(answer) => format!("it answers {:?}", String::from_utf8_lossy(&answer)),
                        Err(error) => error.to_string(),
                    };
                    let message = format!("redis has not replicated a write within {seconds} s: {what}");
                    return Err(PeerError::Server(message));
                }
            }
        }
    }
}

/// Makes one write over a connection of its own, and returns the answers to `SET` and `WAIT`.
fn write_once(master: SocketAddr) -> io::Result<Vec<u8>> {
    let mut stream = std::net::TcpStream::connect(master)?;
    stream.set_read_timeout(Some(Duration::from_secs(3)))?;
    stream.write_all(&Request::new(b"probe", 1, Wait::Last).bytes)?;
    let mut answer = Vec::new();
    let mut part = [0; 64];
    while answer.iter().filter(|&&byte| byte == b'\n').count() < 2 {
        let count = stream.read(&mut part)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&part[..count]);
    }
    Ok(answer)
}

/// `SET key value` for each write of a pipeline, with `WAIT 2 1000` behind each or behind the last, in Redis's
/// serialization protocol; with the positions at which the keys are filled in, and the expected answer.
#[derive(Clone, Debug)]
struct Request {
    bytes: Vec<u8>,
    keys: Vec<Range<usize>>,
    expected: Vec<u8>,
}

impl Request {
    fn new(value: &[u8], pipeline: u32, wait: Wait) -> Self {
        let (mut bytes, mut keys) = (Vec::new(), Vec::new());
        for number in 1..=pipeline {
            let key_start = bytes.len() + b"*3\r\n$3\r\nSET\r\n$8\r\n".len();
            keys.push(key_start..key_start + KEY_BYTES);
            array(&mut bytes, &[b"SET", &[0; KEY_BYTES], value]);
            if wait == Wait::Each || number == pipeline {
                array(&mut bytes, &[b"WAIT", b"2", WAIT_MILLISECONDS.as_bytes()]);
            }
        }
        Self { bytes, keys, expected: acknowledged(pipeline, wait) }
    }

    fn set_keys(&mut self, mut next: impl FnMut() -> [u8; KEY_BYTES]) {
        for key in &self.keys {
            self.bytes[key.clone()].copy_from_slice(&next());
        }
    }
}

/// Appends a command: an array of bulk strings.
fn array(bytes: &mut Vec<u8>, words: &[&[u8]]) {
    bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
}

/// A connection with one write or one pipeline outstanding.
struct Client {
    stream: TcpStream,
    request: Request,
    sent: usize,
    /// The answer received so far.
    answer: Vec<u8>,
    received: usize,
    started: Instant,
}

impl Client {
    fn connect(master: SocketAddr, request: Request) -> io::Result<Self> {
        let stream = std::net::TcpStream::connect(master)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let stream = TcpStream::from_std(stream);
        let answer = vec![0; request.expected.len()];
        Ok(Self { stream, request, sent: 0, answer, received: 0, started: Instant::now() })
    }

    fn begin(&mut self, now: Instant, keys: &mut Keys) -> Result<(), PeerError> {
        self.request.set_keys(|| keys.next());
        (self.sent, self.received, self.started) = (0, 0, now);
        self.send()
    }

    /// Sends as much as the kernel accepts. The remaining bytes are sent when the socket is writable again.
    fn send(&mut self) -> Result<(), PeerError> {
        while self.sent < self.request.bytes.len() {
            match self.stream.write(&self.request.bytes[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(lost(error)),
            }
        }
        Ok(())
    }

    /// Reads the available bytes. Returns true when the write is acknowledged.
    fn receive(&mut self) -> Result<bool, PeerError> {
        while self.received < self.request.expected.len() {
            match self.stream.read(&mut self.answer[self.received..]) {
                Ok(0) => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => self.received += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(lost(error)),
            }
            // This is checked on every read, because a refusal can be shorter or longer than the expected
            // answer.
            if self.answer[..self.received] != self.request.expected[..self.received] {
                let answer = String::from_utf8_lossy(&self.answer[..self.received]);
                let expected = String::from_utf8_lossy(&self.request.expected);
                return Err(PeerError::Server(format!("redis answers {answer:?} instead of {expected:?}")));
            }
        }
        Ok(self.received == self.request.expected.len())
    }
}

fn lost(source: io::Error) -> PeerError {
    PeerError::System { action: "the connection to redis is lost".into(), source }
}

/// Drives all clients from one thread until the measured time ends.
fn run(load: &Load, master: SocketAddr, interrupt: &Interrupt) -> Result<Recorder, PeerError> {
    let mut poll = Poll::new().map_err(PeerError::system("epoll"))?;
    let request = Request::new(&load.value(), load.pipeline, load.wait);
    let mut clients = Vec::with_capacity(load.clients as usize);
    for index in 0..load.clients as usize {
        let mut client = Client::connect(master, request.clone()).map_err(lost)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry()
            .register(&mut client.stream, Token(index), interest)
            .map_err(PeerError::system("epoll"))?;
        clients.push(client);
    }
    let mut keys = load.keys();
    let mut recorder = Recorder::start(load);
    for client in &mut clients {
        client.begin(Instant::now(), &mut keys)?;
    }
    let mut events = Events::with_capacity(clients.len());
    while Instant::now() < recorder.closes() {
        interrupt.check()?;
        match poll.poll(&mut events, Some(LOOK_AGAIN)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                return Err(PeerError::System { action: "epoll".into(), source: error });
            }
            _ => {}
        }
        for event in &events {
            let client = &mut clients[event.token().0];
            if event.is_writable() {
                client.send()?;
            }
            if event.is_readable() && client.receive()? {
                let now = Instant::now();
                (0..load.pipeline).for_each(|_| recorder.record(client.started, now));
                client.begin(now, &mut keys)?;
            }
        }
    }
    Ok(recorder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_two_commands() {
        let mut request = Request::new(b"value", 1, Wait::Each);
        request.set_keys(|| *b"12345678");
        let text = String::from_utf8(request.bytes).expect("text");
        let set = "*3\r\n$3\r\nSET\r\n$8\r\n12345678\r\n$5\r\nvalue\r\n";
        let wait = "*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$4\r\n1000\r\n";
        assert_eq!(text, format!("{set}{wait}"));
        let pipeline = |wait| {
            let mut pipeline = Request::new(b"value", 2, wait);
            pipeline.set_keys(|| *b"12345678");
            let text = |bytes| String::from_utf8(bytes).expect("text");
            (text(pipeline.bytes), text(pipeline.expected))
        };
        assert_eq!(pipeline(Wait::Last), (format!("{set}{set}{wait}"), "+OK\r\n+OK\r\n:2\r\n".into()));
        let each = "+OK\r\n:2\r\n+OK\r\n:2\r\n";
        assert_eq!(pipeline(Wait::Each), (format!("{set}{wait}{set}{wait}"), each.into()));
    }

    #[test]
    fn the_version_is_found() {
        assert_eq!(version("Redis server v=7.0.15 sha=00000000:0 bits=64"), "7.0.15");
    }
}
