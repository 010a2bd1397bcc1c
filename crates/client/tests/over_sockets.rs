//! A client over real sockets, and a node made of the bare engines, which loses and duplicates datagrams in both
//! directions.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use weft_client::{Client, Cluster, EngineDescription, Error, Proposal, Read, Update};
use weft_net::{Clock, Datagram, Endpoint, IdlePolicy, PortOptions, Stop, UdpPort, run};
use weft_nic::Egress;
use weft_rdt::client::{FIRST_KIND, SessionBody, Sessions, TOKENS, sessions};
use weft_rdt::replica::{Replica, ReplicaParameters};
use weft_rdt::{Bounds, Type};
use weft_rounds::message::Call;
use weft_rounds::{Ckc, ClientServer, ClientServerParameters, Parameters, Rounds};
use weft_smr::log::{Log, LogParameters};
use weft_time::{Duration, Instant};
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, Epoch, Event, Io, Memory, Message, NodeId, NodeSet, View,
};
use weft_wire::datagram::Datagram as WeftDatagram;

const SUBSCRIBE: u32 = 1;

/// An engine in a cluster of one node, with its timers.
struct TestEngine<E> {
    engine: E,
    memory: Memory,
    timers: BTreeMap<u32, Instant>,
}

type Reply = (Caller, u8, Vec<u8>);

impl<E: Engine> TestEngine<E> {
    fn new(engine: E, memory_bytes: usize) -> Self {
        let mut slot = Self { engine, memory: Memory::new(memory_bytes), timers: BTreeMap::new() };
        let view = View { epoch: Epoch(1), full: NodeSet::first(1), joining: NodeSet::EMPTY };
        let node = NodeId::new(0).unwrap();
        let configuration = Configuration { node, view, lease_until: Instant::FAR_FUTURE };
        slot.handle(Instant::ZERO, Event::Configure(configuration));
        slot
    }

    fn handle(&mut self, now: Instant, event: Event<'_>) -> Vec<Reply> {
        let mut effects = Effects::default();
        self.engine.handle(now, event, &mut Io { effects: &mut effects, memory: &mut self.memory });
        let mut replies = Vec::new();
        for effect in effects.iter() {
            match effect {
                Effect::Reply { to, kind, payload } => {
                    replies.push((*to, *kind, effects.message(*kind, payload).payload.to_vec()));
                }
                Effect::SetTimer { tag, at } => {
                    self.timers.insert(*tag, *at);
                }
                other => panic!("a cluster of one does not {other:?}"),
            }
        }
        replies
    }

    fn call(&mut self, now: Instant, caller: Caller, kind: u8, payload: &[u8]) -> Vec<Reply> {
        self.handle(now, Event::Call { caller, message: Message { kind, payload }, last: true })
    }

    fn due(&mut self, now: Instant) -> Vec<Reply> {
        let due: Vec<_> = self.timers.iter().filter(|(_, at)| **at <= now).map(|(tag, _)| *tag).collect();
        let mut replies = Vec::new();
        for tag in due {
            self.timers.remove(&tag);
            replies.extend(self.handle(now, Event::Timer { tag }));
        }
        replies
    }
}

const LOG: u8 = 0;
const OBJECT: u8 = 1;
const ROUNDS: u8 = 2;

/// The node: its engines, and a counter that decides which datagrams are lost.
struct Node {
    log: TestEngine<Log>,
    object: TestEngine<Replica>,
    object_sessions: Sessions<SocketAddrV4>,
    rounds: TestEngine<Rounds<Ckc>>,
    server: ClientServer<SocketAddrV4>,
    egress: Egress,
    /// Numbers of datagrams received and sent: some of them are lost, others duplicated.
    arrived: u64,
    left: u64,
}

/// How often the datagram with this number is delivered.
fn copies(number: u64) -> usize {
    [1, 0, 2, 1, 1, 0, 1][number as usize % 7]
}

impl Node {
    fn new() -> Self {
        let mut log = LogParameters::default().with_nodes(1);
        log.pulse.period = Duration::from_ms(2);
        let kind = Type::shipped("account", &Bounds::uniform(4)).unwrap();
        let mut object = ReplicaParameters::new(kind, 1);
        object.pulse.period = Duration::from_ms(2);
        object.poll = Duration::from_ms(2);
        let parameters =
            Parameters { value_bytes: 64, period: Duration::from_ms(1), ..Parameters::default() };
        let server = ClientServerParameters {
            first_session: 1,
            clients: 8,
            value_bytes: 64,
            kept: 64,
            answer_bytes: 1_000,
        };
        let mut rounds = TestEngine::new(Rounds::new(parameters), 0);
        rounds.call(Instant::ZERO, Caller::Host(SUBSCRIBE), Call::Subscribe as u8, &[]);
        rounds.call(Instant::ZERO, Caller::Host(SUBSCRIBE), Call::Start as u8, &[]);
        Self {
            log: TestEngine::new(Log::new(log.clone()), log.memory_bytes()),
            object: TestEngine::new(Replica::new(object.clone()), object.memory_bytes()),
            object_sessions: sessions(1, 8),
            rounds,
            server: ClientServer::new(server),
            egress: Egress::new(1_408),
            arrived: 0,
            left: 0,
        }
    }

    fn log_replied(&mut self, replies: Vec<Reply>) {
        for (to, kind, payload) in replies {
            let Caller::Endpoint { address, port } = to else { panic!("clients ask the log") };
            assert!(self.egress.push(SocketAddrV4::new(address, port), LOG, kind, &payload));
        }
    }

    fn object_replied(&mut self, replies: Vec<Reply>) {
        for (to, kind, bytes) in replies {
            let Caller::Host(token) = to else { panic!("its host asks the object") };
            self.object_sessions.finish(token, Some(SessionBody { kind, bytes: &bytes }));
        }
    }

    fn rounds_replied(&mut self, replies: Vec<Reply>) {
        for (to, kind, bytes) in replies {
            match to {
                Caller::Host(token) if token & TOKENS != 0 => self.server.replied(token, kind, &bytes),
                _ if kind == Call::Decided as u8 => self.server.decided(&bytes).unwrap(),
                _ => {}
            }
        }
    }

    fn take(&mut self, now: Instant, from: SocketAddrV4, bytes: &[u8]) {
        for message in WeftDatagram::parse(bytes).unwrap().messages() {
            let (kind, payload) = (message.kind, message.payload);
            match message.engine {
                LOG => {
                    let replies = self.log.call(now, from.into(), kind, payload);
                    self.log_replied(replies);
                }
                OBJECT if kind >= FIRST_KIND => {
                    let begin = self.object_sessions.receive(now, from, (kind, payload), true).unwrap();
                    if let Some(begin) = begin {
                        let (kind, bytes) = (begin.body.kind, begin.body.bytes);
                        let replies = self.object.call(now, Caller::Host(begin.token), kind, bytes);
                        self.object_replied(replies);
                    }
                }
                ROUNDS if kind >= FIRST_KIND => {
                    let begin = self.server.receive(now, from, (kind, payload), true).unwrap();
                    if let Some(begin) = begin {
                        let (kind, bytes) = (begin.body.kind, begin.body.bytes);
                        let replies = self.rounds.call(now, Caller::Host(begin.token), kind, bytes);
                        self.rounds_replied(replies);
                    }
                }
                slot => panic!("a client sends kind {kind} to slot {slot}"),
            }
        }
    }
}

impl Endpoint for Node {
    fn receive(&mut self, now: Instant, _: usize, datagram: Datagram<'_>) {
        self.arrived += 1;
        for _ in 0..copies(self.arrived) {
            self.take(now, datagram.from, datagram.bytes);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let timers = [&self.log.timers, &self.object.timers, &self.rounds.timers];
        timers.into_iter().flat_map(BTreeMap::values).min().copied()
    }

    fn handle_deadline(&mut self, now: Instant) {
        let replies = self.log.due(now);
        self.log_replied(replies);
        let replies = self.object.due(now);
        self.object_replied(replies);
        let replies = self.rounds.due(now);
        self.rounds_replied(replies);
    }

    fn transmit(&mut self, _: Instant, ports: &mut [UdpPort]) {
        let mut bytes = Vec::new();
        while let Some((to, kind)) = self.object_sessions.poll_transmit(&mut bytes) {
            assert!(self.egress.push(to, OBJECT, kind, &bytes));
            bytes.clear();
        }
        while let Some((to, kind)) = self.server.poll_transmit(&mut bytes) {
            assert!(self.egress.push(to, ROUNDS, kind, &bytes));
            bytes.clear();
        }
        while let Some(to) = self.egress.poll(&mut bytes) {
            self.left += 1;
            for _ in 0..copies(self.left) {
                ports[0].push(to, &bytes);
            }
            bytes.clear();
        }
    }
}

/// Runs `test` with a client of a running node.
fn with_node(test: impl FnOnce(&Client)) {
    let port = UdpPort::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), &PortOptions::default()).unwrap();
    let address = port.local_address();
    let cluster = Cluster::new(vec![address.into()])
        .with(EngineDescription::Log { name: "events".into() })
        .with(EngineDescription::Object { name: "till".into(), kind: "account".into() })
        .with(EngineDescription::Rounds);
    let cluster = Cluster { give_up: Duration::from_secs(20), ..cluster };
    let stop = Stop::new().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            run(&mut Node::new(), &mut [port], Clock::starting_now(), IdlePolicy::SLEEP, &stop).unwrap();
        });
        let client = Client::open(&cluster).unwrap();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&client)));
        stop.request();
        if let Err(panic) = ended {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn a_log_has_what_its_clients_append_once() {
    with_node(|client| {
        let log = client.log("events").unwrap();
        let appends: Vec<_> = (0..40u8).map(|number| log.append(&[number])).collect();
        let indices: Vec<_> = appends.into_iter().map(|append| append.wait().unwrap()).collect();
        let mut tail = log.tail(0);
        let mut read = BTreeMap::new();
        while read.len() < 40 {
            let entry = tail.next_within(std::time::Duration::from_secs(20)).unwrap().expect("it is there");
            read.insert(entry.content[0], entry.index);
        }
        let told: Vec<_> = (0..40u8).map(|number| read[&number]).collect();
        assert_eq!(told, indices);
        assert_eq!(tail.next_within(std::time::Duration::ZERO), Ok(None));
        assert!(matches!(log.read(tail.index()).wait(), Ok(Read::NotYet { .. })));
        assert_eq!(log.status().wait().unwrap().index, tail.index());
        let longer = log.append(&[0; 1_000]).wait();
        assert_eq!(longer, Err(Error::Refused("what is appended does not fit into an entry")));
        let error = log.append(&[0; 10_000]).wait().unwrap_err().to_string();
        assert!(error.contains("shorten it"), "{error}");
    });
}

#[test]
fn an_object_has_each_update_once() {
    with_node(|client| {
        let till = client.object("till").unwrap();
        let deposits: Vec<_> = (0..40).map(|_| till.update("deposit", &[2])).collect();
        for deposit in deposits {
            assert_eq!(deposit.wait(), Ok(Update::Done));
        }
        assert_eq!(till.update("withdraw", &[81]).wait(), Ok(Update::Refused));
        assert_eq!(till.update("withdraw", &[30]).wait(), Ok(Update::Done));
        assert_eq!(till.at(0).unwrap().query("balance", &[]).wait(), Ok(50));
        let error = till.update("steal", &[1]).wait().unwrap_err();
        assert!(matches!(&error, Error::Invalid(text) if text.contains("withdraw(amount)")), "{error}");
        assert!(matches!(till.query("deposit", &[1]).wait(), Err(Error::Invalid(_))));
        assert!(till.at(1).is_err());
    });
}

#[test]
fn rounds_decide_each_proposal_once() {
    with_node(|client| {
        let rounds = client.rounds().unwrap();
        let proposals: Vec<_> = (0..30u8).map(|number| rounds.propose(&[number, 7])).collect();
        let mut places = BTreeMap::new();
        for (number, proposal) in proposals.into_iter().enumerate() {
            let Proposal::Decided { instance } = proposal.wait().unwrap() else {
                panic!("nobody else proposes")
            };
            places.insert(number as u8, instance);
        }
        let mut after = None;
        let mut read = BTreeMap::new();
        loop {
            let list = rounds.read(after).wait().unwrap();
            assert!(!list.forgotten);
            let Some(last) = list.decisions.last() else { break };
            after = Some(last.place);
            for decision in &list.decisions {
                assert_eq!(read.insert(decision.proposal[0], decision.place.0), None, "it is decided twice");
            }
        }
        assert_eq!(read, places);
        assert_eq!(rounds.status().wait().unwrap().members.len(), 1);
        assert!(matches!(rounds.propose(&[0; 100]).wait(), Err(Error::Refused(_))));
        assert!(matches!(rounds.propose(&[]).wait(), Err(Error::Invalid(_))));
    });
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A minimal executor for one future.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn answers_are_futures() {
    with_node(|client| {
        let balance = block_on(async {
            let till = client.object("till")?;
            let deposits = [till.update("deposit", &[5]), till.update("deposit", &[6])];
            for deposit in deposits {
                deposit.await?;
            }
            till.query("balance", &[]).await
        });
        assert_eq!(balance, Ok(11));
    });
}

/// A waker that drops a client when it is called, and raises a flag.
struct DropsClient(std::sync::Mutex<Option<Client>>, Stop);

impl Wake for DropsClient {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock().unwrap().take());
        self.1.request();
    }
}

#[test]
fn the_last_handle_may_be_dropped_by_whoever_is_woken() {
    let unused = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9);
    let cluster = Cluster { give_up: Duration::from_ms(50), ..Cluster::new(vec![unused.into()]) }
        .with(EngineDescription::Log { name: "events".into() });
    let client = Client::open(&cluster).unwrap();
    let mut append = client.log("events").unwrap().append(b"entry");
    let drops = Arc::new(DropsClient(std::sync::Mutex::new(Some(client)), Stop::new().unwrap()));
    let waker = Waker::from(Arc::clone(&drops));
    let append = std::pin::Pin::new(&mut append);
    assert!(append.poll(&mut Context::from_waker(&waker)).is_pending());
    while !drops.1.is_requested() {
        thread::yield_now();
    }
}

#[test]
fn a_client_without_an_answer_is_told_what_may_have_happened() {
    // Nothing listens on this port.
    let address = {
        let port = UdpPort::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), &PortOptions::default()).unwrap();
        port.local_address()
    };
    let cluster = Cluster { give_up: Duration::from_ms(200), ..Cluster::new(vec![address.into()]) }
        .with(EngineDescription::Log { name: "events".into() })
        .with(EngineDescription::Object { name: "till".into(), kind: "account".into() })
        .with(EngineDescription::KeyValue { key_bytes: 8 })
        .with(EngineDescription::Transactions);
    let client = Client::open(&cluster).unwrap();
    let append = client.log("events").unwrap().append(b"entry");
    let update = client.object("till").unwrap().update("deposit", &[1]);
    let put = client.kv().unwrap().put(&[0; 8], b"value");
    let call = client.transactions().unwrap().call(weft_txn::ProcedureId(0), &[], &[]);
    let ended = append.wait().unwrap_err();
    assert!(ended.may_have_happened(), "{ended}");
    assert!(put.wait().unwrap_err().may_have_happened());
    assert!(matches!(update.wait(), Err(Error::NotBegun { .. })));
    assert!(matches!(call.wait(), Err(Error::NotBegun { .. })));
    let error = client.object("safe").unwrap_err().to_string();
    assert!(
        error.contains("no object `safe`; it has the log `events`, the object `till` (account)"),
        "{error}"
    );
    assert!(matches!(client.kv().unwrap().get(&[0; 7]).wait(), Err(Error::Invalid(_))));
    // More gets than may be outstanding, and the client is closed before any has an answer.
    let kv = client.kv().unwrap();
    let gets: Vec<_> = (0..40u64).map(|key| kv.get(&key.to_be_bytes())).collect();
    drop((kv, client));
    for get in gets {
        assert!(matches!(get.wait(), Err(Error::Closed | Error::Unknown { .. })));
    }
    let wrong = Cluster::new(vec![address.into()])
        .with(EngineDescription::Object { name: "till".into(), kind: "safe".into() });
    let error = Client::open(&wrong).unwrap_err().to_string();
    assert!(error.contains("the types are g-counter"), "{error}");
}
