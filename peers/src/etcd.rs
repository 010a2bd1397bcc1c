//! Load for etcd: three members that keep their data in memory. A write is one `Put` at the leader, which answers when
//! a majority has the write in its log and the leader has applied it.
//!
//! The gRPC messages are sent directly over HTTP/2 (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>),
//! because this needs less processor time than a general gRPC library would. The messages are those of etcd's
//! `rpc.proto`.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use prost::Message;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::load::{Keys, Load};
use crate::measure::{Measurement, Recorder};
use crate::server::{self, Interrupt, PeerError, Server};

const PROGRAM: &str = "etcd";

/// Members of the cluster.
const MEMBERS: usize = 3;

/// Time-out for the election of a leader.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Interval at which a waiting program checks for an interrupt.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Time-out of one call; then etcd counts as stuck.
const CALL_LIMIT: Duration = Duration::from_secs(30);

/// HTTP/2 flow-control window of a connection, in bytes: far more than its clients have outstanding.
const CREDIT: u32 = 1 << 24;

/// The fields of `etcdserverpb.PutRequest` that are used.
#[derive(Clone, PartialEq, Message)]
struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// The fields of `etcdserverpb.PutResponse` that are used.
#[derive(Clone, PartialEq, Message)]
struct PutResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<ResponseHeader>,
}

/// `etcdserverpb.StatusRequest`.
#[derive(Clone, PartialEq, Message)]
struct StatusRequest {}

/// The fields of `etcdserverpb.StatusResponse` that are used.
#[derive(Clone, PartialEq, Message)]
struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<ResponseHeader>,
    #[prost(uint64, tag = "4")]
    leader: u64,
}

/// The fields of `etcdserverpb.ResponseHeader` that are used.
#[derive(Clone, PartialEq, Message)]
struct ResponseHeader {
    #[prost(uint64, tag = "2")]
    member_id: u64,
    #[prost(int64, tag = "3")]
    revision: i64,
}

/// Starts the members, loads the leader and returns the measurement.
pub fn measure(load: &Load, connections: u32) -> Result<Measurement, PeerError> {
    let version = version(&server::version_text(PROGRAM)?);
    let interrupt = Interrupt::install()?;
    let mut cluster = Cluster::start()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(PeerError::system("the clients' runtime cannot be built"))?;
    let clients = tokio::task::LocalSet::new();
    let measured = clients.block_on(&runtime, async {
        let leader = cluster.leader(&interrupt).await?;
        run(load, connections, leader, &interrupt).await
    });
    match measured {
        Ok(recorder) => Ok(recorder.borrow().finish("etcd", version, load)),
        Err(error) => Err(server::explain(error, &mut cluster.servers)),
    }
}

/// Finds `3.4.23` in `etcd Version: 3.4.23`.
fn version(text: &str) -> String {
    let found = text.lines().find_map(|line| line.strip_prefix("etcd Version:"));
    found.map_or("unknown", str::trim).to_owned()
}

/// A cluster of three members.
struct Cluster {
    servers: Vec<Server>,
    members: [SocketAddr; MEMBERS],
    /// Fields are dropped in order, so the directory is removed after the servers have been killed.
    _directory: TempDir,
}

impl Cluster {
    fn start() -> Result<Self, PeerError> {
        let directory = server::memory_directory()?;
        let addresses = server::free_addresses::<{ 2 * MEMBERS }>()?;
        let (for_clients, for_peers) = addresses.split_at(MEMBERS);
        let url = |address: &SocketAddr| format!("http://{address}");
        let name = |index: usize| format!("member-{index}");
        let all: Vec<String> = for_peers
            .iter()
            .enumerate()
            .map(|(index, peer)| format!("{}={}", name(index), url(peer)))
            .collect();
        let start = |index: usize| {
            let (client, peer) = (url(&for_clients[index]), url(&for_peers[index]));
            let data: PathBuf = directory.path().join(name(index));
            let arguments = [
                ("--name", name(index)),
                ("--data-dir", data.display().to_string()),
                ("--listen-client-urls", client.clone()),
                ("--advertise-client-urls", client),
                ("--listen-peer-urls", peer.clone()),
                ("--initial-advertise-peer-urls", peer),
                ("--initial-cluster", all.join(",")),
                ("--initial-cluster-state", "new".into()),
                ("--logger", "zap".into()),
                ("--log-level", "error".into()),
            ];
            let arguments = arguments.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]);
            Server::start(PROGRAM, &name(index), directory.path(), arguments)
        };
        let servers = (0..MEMBERS).map(start).collect::<Result<_, _>>()?;
        let members = std::array::from_fn(|index| for_clients[index]);
        Ok(Self { servers, members, _directory: directory })
    }

    /// Waits until all members agree on a leader, and returns its address.
    async fn leader(&mut self, interrupt: &Interrupt) -> Result<SocketAddr, PeerError> {
        let limit = Instant::now() + START_LIMIT;
        loop {
            interrupt.check()?;
            for server in &mut self.servers {
                server.check()?;
            }
            match self.agreed_leader().await {
                Ok(Some(leader)) => return Ok(leader),
                _ if Instant::now() < limit => tokio::time::sleep(LOOK_AGAIN).await,
                Ok(None) => return Err(PeerError::Server("etcd's members agree on no leader".into())),
                Err(error) => return Err(error),
            }
        }
    }

    async fn agreed_leader(&self) -> Result<Option<SocketAddr>, PeerError> {
        let (mut leaders, mut address) = (Vec::new(), None);
        for &member in &self.members {
            let mut connection = Connection::open(member).await?;
            let status: StatusResponse =
                connection.call("/etcdserverpb.Maintenance/Status", &StatusRequest {}).await?;
            leaders.push(status.leader);
            if status.header.is_some_and(|header| header.member_id == status.leader) {
                address = Some(member);
            }
        }
        leaders.dedup();
        Ok(address.filter(|_| leaders.len() == 1))
    }
}

/// An HTTP/2 connection for gRPC. Clones share the connection.
#[derive(Clone)]
struct Connection {
    requests: SendRequest<Bytes>,
    member: SocketAddr,
}

impl Connection {
    async fn open(member: SocketAddr) -> Result<Self, PeerError> {
        let stream = tokio::net::TcpStream::connect(member).await.map_err(PeerError::system("etcd"))?;
        stream.set_nodelay(true).map_err(PeerError::system("etcd"))?;
        let (requests, connection) = h2::client::Builder::new()
            .initial_window_size(CREDIT)
            .initial_connection_window_size(CREDIT)
            .handshake(stream)
            .await
            .map_err(refused)?;
        // If the connection breaks, the calls on it report the error.
        tokio::task::spawn_local(async move { drop(connection.await) });
        Ok(Self { requests, member })
    }

    /// Makes one unary call.
    async fn call<Answer: Message + Default>(
        &mut self,
        path: &str,
        question: &impl Message,
    ) -> Result<Answer, PeerError> {
        let request = Request::post(format!("http://{}{path}", self.member))
            .header("te", "trailers")
            .header("content-type", "application/grpc")
            .body(())
            .expect("a valid request");
        let mut answer = match tokio::time::timeout(CALL_LIMIT, self.exchange(request, frame(question))).await
        {
            Ok(answer) => answer?,
            Err(_) => return Err(PeerError::Server(format!("etcd has not answered within {CALL_LIMIT:?}"))),
        };
        let malformed = || PeerError::Server(format!("etcd's answer to {path} cannot be read"));
        // The prefix of a message: one byte says whether it is compressed, four bytes give its length.
        if answer.remaining() < 5 || answer.get_u8() != 0 || answer.get_u32() as usize != answer.remaining() {
            return Err(malformed());
        }
        Answer::decode(answer).map_err(|_| malformed())
    }

    /// Sends one request and returns the body of the response.
    async fn exchange(&mut self, request: Request<()>, body: Bytes) -> Result<Bytes, PeerError> {
        std::future::poll_fn(|context| self.requests.poll_ready(context)).await.map_err(refused)?;
        let (response, mut out) = self.requests.send_request(request, false).map_err(refused)?;
        out.send_data(body, true).map_err(refused)?;
        let (head, mut incoming) = response.await.map_err(refused)?.into_parts();
        let mut answer = Bytes::new();
        while let Some(part) = incoming.data().await {
            let part = part.map_err(refused)?;
            incoming.flow_control().release_capacity(part.len()).map_err(refused)?;
            answer = if answer.is_empty() { part } else { [answer, part].concat().into() };
        }
        // If the server rejects the call at once, the status is in the response's headers instead of
        // trailers.
        let trailers = incoming.trailers().await.map_err(refused)?.unwrap_or(head.headers);
        check_status(&trailers)?;
        Ok(answer)
    }
}

/// A message with gRPC's prefix, which says that the message is not compressed, and gives its length.
fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(5 + length);
    bytes.put_u8(0);
    bytes.put_u32(length as u32);
    message.encode(&mut bytes).expect("room was reserved");
    bytes.freeze()
}

fn check_status(trailers: &HeaderMap) -> Result<(), PeerError> {
    let text = |name| trailers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("none");
    match text("grpc-status") {
        "0" => Ok(()),
        status => Err(PeerError::Server(format!("etcd refuses (status {status}): {}", text("grpc-message")))),
    }
}

fn refused(error: h2::Error) -> PeerError {
    PeerError::Server(format!("the connection to etcd fails: {error}"))
}

/// Runs all clients on this thread until the measured time ends.
async fn run(
    load: &Load,
    connections: u32,
    leader: SocketAddr,
    interrupt: &Interrupt,
) -> Result<Rc<RefCell<Recorder>>, PeerError> {
    let mut opened = Vec::new();
    for _ in 0..connections.min(load.clients) {
        opened.push(Connection::open(leader).await?);
    }
    let value = Bytes::from(load.value());
    let keys = Rc::new(RefCell::new(load.keys()));
    let recorder = Rc::new(RefCell::new(Recorder::start(load)));
    let mut clients = JoinSet::new();
    for connection in opened.iter().cycle().take(load.clients as usize) {
        let client = client(connection.clone(), value.clone(), Rc::clone(&keys), Rc::clone(&recorder));
        clients.spawn_local(client);
    }
    loop {
        interrupt.check()?;
        // The time-out lets the loop check for an interrupt.
        match tokio::time::timeout(LOOK_AGAIN, clients.join_next()).await {
            Ok(None) => return Ok(recorder),
            Ok(Some(ended)) => ended.expect("a client does not panic")?,
            Err(_) => {}
        }
    }
}

/// Runs one client: it makes one write after the other.
async fn client(
    mut connection: Connection,
    value: Bytes,
    keys: Rc<RefCell<Keys>>,
    recorder: Rc<RefCell<Recorder>>,
) -> Result<(), PeerError> {
    let closes = recorder.borrow().closes();
    loop {
        let key = Bytes::copy_from_slice(&keys.borrow_mut().next());
        let started = Instant::now();
        let put = PutRequest { key, value: value.clone() };
        let answer: PutResponse = connection.call("/etcdserverpb.KV/Put", &put).await?;
        let ended = Instant::now();
        if answer.header.is_none_or(|header| header.revision == 0) {
            return Err(PeerError::Server("etcd answers a write without a revision".into()));
        }
        recorder.borrow_mut().record(started, ended);
        if ended >= closes {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_framed_as_grpc_says() {
        let put = PutRequest { key: Bytes::from_static(b"k"), value: Bytes::from_static(b"vv") };
        let expected = [&[0, 0, 0, 0, 7][..], &[0x0a, 1], b"k", &[0x12, 2], b"vv"].concat();
        assert_eq!(frame(&put), expected);
    }

    #[test]
    fn a_status_other_than_zero_is_a_refusal() {
        let mut trailers = HeaderMap::new();
        assert!(check_status(&trailers).is_err());
        trailers.insert("grpc-status", "0".parse().expect("a value"));
        assert!(check_status(&trailers).is_ok());
        trailers.insert("grpc-status", "8".parse().expect("a value"));
        trailers.insert("grpc-message", "no space".parse().expect("a value"));
        let error = check_status(&trailers).expect_err("a refusal");
        assert_eq!(error.to_string(), "etcd refuses (status 8): no space");
    }

    #[test]
    fn the_version_is_found() {
        assert_eq!(version("etcd Version: 3.4.23\nGit SHA: Not provided\n"), "3.4.23");
    }
}
