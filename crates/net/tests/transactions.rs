//! A node that runs transactions, over real sockets: its answers to correct and to incorrect calls.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::thread;

use weft_client::{Client, Cluster, Ended, Error, Transactions};
use weft_cluster::{ClusterConfig, NodeConfig};
use weft_net::transactions::{Application, Ledger, LedgerRefusal, TRANSACTIONS_SLOT, read_record};
use weft_net::{Stop, run_node};
use weft_nic::Egress;
use weft_node::Registry;
use weft_time::Duration;
use weft_txn::client::ClientMessage;
use weft_txn::{
    Accesses, Context, Fault, Key, Mode, Outcome, Procedure, ProcedureId, Procedures, Request, Step,
};
use weft_wire::datagram::{BYTES_MAX, Datagram};

const TRANSFER: u16 = 0;
const DEPOSIT: u16 = 1;
const BALANCE: u16 = 2;
const ACCOUNTS: u64 = 10;

fn config(host: u8, record: Option<&Path>) -> NodeConfig {
    let record = record.map_or_else(String::new, |path| format!("record = {path:?}\n"));
    config_with(host, &record)
}

/// The configuration of a cluster of one node, with more keys of `[transactions]`.
fn config_with(host: u8, keys: &str) -> NodeConfig {
    // Addresses that no other test process uses.
    let own = std::process::id().to_be_bytes();
    let address = Ipv4Addr::new(127, 32 + (own[2] & 15), own[3], host);
    let text = format!(
        "[membership]\naddress = \"{address}:4794\"\nnode = 0\n[[node]]\naddress = \"{address}\"\n\
         [transactions]\nprocedures = \"ledger\"\nsize = {ACCOUNTS}\n{keys}"
    );
    ClusterConfig::parse(&text).unwrap().node(weft_waist::NodeId::new(0).unwrap()).unwrap()
}

fn caller(config: &NodeConfig, give_up: Duration) -> Transactions {
    let cluster = Cluster { give_up, ..Cluster::from(config) };
    Client::open(&cluster).unwrap().transactions().unwrap()
}

fn request(procedure: u16, keys: &[(Key, Mode)], input: &[u8]) -> Request {
    let mut accesses = Accesses::default();
    for &(key, mode) in keys {
        accesses.add(key, mode).unwrap();
    }
    Request { procedure: ProcedureId(procedure), input: input.to_vec(), accesses }
}

fn transfer(from: u64, to: u64, amount: i64) -> Request {
    let keys = [(Key::new(0, from), Mode::Update), (Key::new(0, to), Mode::Update)];
    request(TRANSFER, &keys, &amount.to_le_bytes())
}

fn outcome(ended: Result<Ended, Error>) -> Outcome {
    ended.expect("the node runs").outcome
}

#[test]
fn a_node_answers_each_call_as_it_deserves() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("records");
    let (config, stop) = (config(1, Some(&record)), Stop::new().unwrap());
    let ended = thread::scope(|scope| {
        let node = scope
            .spawn(|| run_node(&config, &Registry::new().with_application(&Ledger::new(ACCOUNTS)), &stop));
        let caller = caller(&config, Duration::from_secs(20));
        let call = |request| outcome(caller.request(request).wait());
        let numbers = |numbers: &[i64]| {
            let answer = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            Outcome::Committed { answer }
        };
        let refused = |refusal: LedgerRefusal| Outcome::Aborted { reason: refusal as u8, answer: Vec::new() };
        let ended = [
            (call(transfer(1, 2, 300)), numbers(&[700, 1_300])),
            (call(transfer(1, 2, 701)), refused(LedgerRefusal::NotCovered)),
            (call(transfer(1, ACCOUNTS, 1)), refused(LedgerRefusal::NoAccount)),
            (call(request(TRANSFER, &[], &[])), refused(LedgerRefusal::Malformed)),
            (
                call(request(DEPOSIT, &[(Key::new(0, 1), Mode::Update)], &(-1i64).to_le_bytes())),
                refused(LedgerRefusal::Malformed),
            ),
            (
                call(request(BALANCE, &[(Key::new(0, 1), Mode::Read), (Key::new(0, 2), Mode::Read)], &[])),
                numbers(&[2_000]),
            ),
            (
                call(request(
                    TRANSFER,
                    &[(Key::new(0, 1), Mode::Read), (Key::new(0, 2), Mode::Read)],
                    &[0; 8],
                )),
                Outcome::Faulty(Fault::NotLocked),
            ),
            (call(request(99, &[], &[])), Outcome::Faulty(Fault::NoSuchProcedure)),
            (call(request(BALANCE, &[(Key::new(7, 1), Mode::Read)], &[])), Outcome::Unavailable),
        ];
        stop.request();
        node.join().unwrap().unwrap();
        ended
    });
    for (index, (told, expected)) in ended.into_iter().enumerate() {
        assert_eq!(told, expected, "call {index}");
    }
    let record = read_record(&folder.path().join("records.node0")).unwrap();
    assert_eq!(record.objects.unwrap().len() as u64, ACCOUNTS);
    assert_eq!(record.attempts.iter().filter(|attempt| !attempt.writes.is_empty()).count(), 1);
}

#[test]
fn what_no_node_takes_has_not_begun() {
    let config = config(2, None);
    let caller = caller(&config, Duration::from_ms(200));
    let ended = caller.request(transfer(1, 2, 1)).wait();
    assert!(matches!(ended, Err(Error::NotBegun { .. })), "{ended:?}");
}

/// A node in a thread, until `calls` return.
fn with_node<T>(config: &NodeConfig, calls: impl FnOnce(&Transactions) -> T) -> T {
    let stop = Stop::new().unwrap();
    thread::scope(|scope| {
        let node = scope
            .spawn(|| run_node(config, &Registry::new().with_application(&Ledger::new(ACCOUNTS)), &stop));
        let told = calls(&caller(config, Duration::from_secs(20)));
        stop.request();
        node.join().unwrap().unwrap();
        told
    })
}

/// The number of the session that a node gives to a client.
fn session_of(config: &NodeConfig, client: u64) -> u64 {
    let address = config.own().address.to_string();
    let node = SocketAddrV4::new(address.parse().unwrap(), config.own().datagram_port);
    let socket = UdpSocket::bind((*node.ip(), 0)).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let mut hello = Vec::new();
    let kind = ClientMessage::Hello { client }.encode(&mut hello) as u8;
    let mut egress = Egress::new(BYTES_MAX);
    assert!(egress.push(node, TRANSACTIONS_SLOT, kind, &hello));
    let mut bytes = Vec::new();
    egress.poll(&mut bytes);
    socket.send_to(&bytes, node).unwrap();
    let mut answer = vec![0; BYTES_MAX];
    let length = socket.recv(&mut answer).unwrap();
    let datagram = Datagram::parse(&answer[..length]).unwrap();
    let message = datagram.messages().next().unwrap();
    match ClientMessage::parse(message.kind, message.payload).unwrap() {
        ClientMessage::Welcome { client: told, session } if told == client => session,
        other => panic!("{other:?}"),
    }
}

/// A node that keeps its data on disk stops, and starts again with the same file. It continues with the data, but it
/// does not take calls for its own that clients made in sessions of the former process.
#[test]
fn a_node_with_a_disk_goes_on_with_its_data_and_with_new_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.toml");
    let mut config = config_with(4, &format!("data_dir = {:?}\n", folder.path().join("data")));
    config.membership.serve.as_mut().unwrap().state_file = Some(state);
    let balance = request(BALANCE, &[(Key::new(0, 1), Mode::Read), (Key::new(0, 2), Mode::Read)], &[]);
    let answer = |numbers: &[i64]| Outcome::Committed {
        answer: numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
    };
    let mut sessions = Vec::new();
    for round in 1..=3 {
        with_node(&config, |caller| {
            assert_eq!(outcome(caller.request(balance.clone()).wait()), answer(&[2_000 + 100 * (round - 1)]));
            let deposit = request(DEPOSIT, &[(Key::new(0, 1), Mode::Update)], &100i64.to_le_bytes());
            assert_eq!(outcome(caller.request(deposit).wait()), answer(&[1_000 + 100 * round]));
            sessions.push(session_of(&config, 77));
        });
    }
    assert!(sessions.is_sorted_by(|former, later| former < later), "{sessions:?}");
}

/// A procedure that writes the input to all keys, or deletes them if the input is empty; returns how many of them
/// existed.
struct Set;

impl Procedure for Set {
    fn name(&self) -> &'static str {
        "set"
    }

    fn run(&self, context: &mut Context<'_>) -> Step {
        let keys = context.keys().len();
        let there = (0..keys).filter(|&index| context.value(index).is_some()).count();
        context.answer(&[there as u8]);
        let input = context.input().to_vec();
        for index in 0..keys {
            match context.keys()[index].mode {
                Mode::Read => {}
                _ if input.is_empty() => context.delete(index),
                _ => context.write(index, &input),
            }
        }
        Step::Commit
    }
}

/// A store that is empty at first, and has room for few objects.
struct Few;

impl Application for Few {
    fn procedures(&self) -> Procedures {
        Procedures::new(vec![Box::new(Set)])
    }

    fn objects(&self) -> u64 {
        16
    }

    fn value_bytes(&self) -> usize {
        8
    }

    fn load(&self, _: usize, _: &mut dyn FnMut(Key, &[u8])) {}
}

/// Fills a store until it has no room, and again after all has been deleted. While the store is full, transactions
/// that insert nothing succeed.
#[test]
fn a_full_store_says_so_and_goes_on() {
    let (config, stop) = (config(3, None), Stop::new().unwrap());
    thread::scope(|scope| {
        let node = scope.spawn(|| run_node(&config, &Registry::new().with_application(&Few), &stop));
        let caller = caller(&config, Duration::from_secs(20));
        let call = |mode: Mode, keys: std::ops::Range<u64>, input: &[u8]| {
            let keys: Vec<_> = keys.map(|key| (Key::new(0, key), mode)).collect();
            outcome(caller.request(request(0, &keys, input)).wait())
        };
        let there = |count: u64| Outcome::Committed { answer: vec![count as u8] };
        for _ in 0..2 {
            let outcomes = (0..1_000).map(|key| call(Mode::Update, key..key + 1, b"first"));
            let told: Vec<_> = outcomes.take_while(|outcome| *outcome == there(0)).collect();
            let full = told.len() as u64;
            assert!((16..1_000).contains(&full), "{full} objects");
            assert_eq!(call(Mode::Update, full..full + 1, b"one more"), Outcome::Full);
            for first in (0..full).step_by(32) {
                let some = first..full.min(first + 32);
                let count = some.end - some.start;
                assert_eq!(
                    call(Mode::Update, some.clone(), b"second"),
                    there(count),
                    "what is there is written"
                );
                assert_eq!(call(Mode::Read, some.clone(), b""), there(count), "and read");
                assert_eq!(call(Mode::Update, some, b""), there(count), "and deleted");
            }
        }
        assert_eq!(call(Mode::Update, 0..1, b"nine bytes"), Outcome::Faulty(Fault::LongValue));
        stop.request();
        node.join().unwrap().unwrap();
    });
}
