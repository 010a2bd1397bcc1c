//! Writes first inputs from captures: `seed_corpus DIRECTORY CAPTURE...`.
//!
//! Frames go to the targets `frame`, `packet` and `datagram`; plans, configurations, histories and messages are made
//! from the crates that write them. What is kept in `fuzz/corpus` grew from these.

use std::fs;
use std::path::{Path, PathBuf};

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::PcapNgReader;
use weft_check::{Action, History, Operation, Outcome, Reply};
use weft_cluster::status::{
    CounterPage, EngineReport, MemberStatus, NodeStatus, ServiceStatus, StatusAnswer,
};
use weft_cluster::{
    ClusterId, ClusterName, Durable, Incarnation, Message, NodeRecord, Phase, Reason, Role, Text,
};
use weft_sim::{FaultKinds, FaultPlan, PlanShape};
use weft_time::Duration;
use weft_txn::client::{Answer, ClientMessage};
use weft_txn::{self as txn, Accesses, Key, Mode, ProcedureId, Request, TransactionId};
use weft_waist::{EngineState, EngineStatus, Epoch, NodeId, NodeSet, View};
use weft_wire::frame::Frame;
use weft_wire::icrc::Path as IcrcPath;
use weft_wire::{datagram, roce};

fn main() {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let seeds = Seeds { directory: arguments.next().expect("usage: seed_corpus DIRECTORY CAPTURE...") };
    for capture in arguments {
        for frame in frames(&capture) {
            seeds.frame(&frame);
        }
    }
    seeds.files();
    seeds.messages();
}

fn frames(capture: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(capture).expect("a readable capture");
    let mut frames = Vec::new();
    if let Ok(mut reader) = PcapReader::new(&bytes[..]) {
        while let Some(packet) = reader.next_packet() {
            frames.push(packet.expect("a packet").data.into_owned());
        }
    } else {
        let mut reader = PcapNgReader::new(&bytes[..]).expect("pcap or pcapng");
        while let Some(block) = reader.next_block() {
            if let Some(packet) = block.expect("a block").into_owned().into_enhanced_packet() {
                frames.push(packet.data.into_owned());
            }
        }
    }
    frames
}

struct Seeds {
    directory: PathBuf,
}

impl Seeds {
    fn add(&self, target: &str, bytes: &[u8]) {
        let directory = self.directory.join(target);
        fs::create_dir_all(&directory).expect("a writable directory");
        // Something that ends with its own CRC-32 always has the same one: hash a byte more.
        let name = format!("{:08x}", crc32fast::hash(&[bytes, &[0]].concat()));
        fs::write(directory.join(name), bytes).expect("a writable file");
    }

    fn frame(&self, frame: &[u8]) {
        self.add("frame", frame);
        let Ok(Frame::Udp { ipv4, udp, payload, .. }) = Frame::parse(frame) else { return };
        if udp.destination_port == datagram::UDP_PORT {
            self.add("datagram", payload);
        }
        if udp.destination_port == roce::UDP_PORT
            && let Ok(packet) = IcrcPath::new(&ipv4, &udp).verify(payload)
        {
            self.add("packet", packet);
            // The responder's step 7 takes a packet as it is, the card's step 10 a frame.
            self.add("responder", &[&[7, packet.len().min(255) as u8], packet].concat());
        }
        self.add("card", &[&[10, frame.len().min(255) as u8], frame].concat());
    }

    fn files(&self) {
        for seed in 0..8 {
            let machines: Vec<String> = (0..3).map(|node| format!("node{node}")).collect();
            let shape = PlanShape {
                crashable: machines.clone(),
                durable: machines[2..].to_vec(),
                disks: Vec::new(),
                machines,
                from_us: 100,
                until_us: 10_000,
                kinds: FaultKinds::ALL,
            };
            self.add("fault-plan", FaultPlan::random(seed, &shape).to_toml().as_bytes());
        }
        self.add("configuration", CONFIGURATION.as_bytes());
        let record = |number| NodeRecord { role: Role::Full, incarnation: Incarnation::new(number) };
        let state =
            Durable::new(Epoch(3), false, vec![record(1), record(2), record(9)]).expect("a valid state");
        self.add("durable", state.to_toml().as_bytes());
        let mut history = History::new();
        for (time, key, action, outcome) in [
            (0, b"a", Action::Put { value: 1 }, Outcome::Written { version: 1 }),
            (10, b"a", Action::Get, Outcome::Found { value: 1, version: 1 }),
            (20, b"b", Action::CompareAndSet { expected: 0, value: 2 }, Outcome::Mismatch { version: 3 }),
            (30, b"a", Action::Delete, Outcome::Deleted { version: 4 }),
        ] {
            let reply = Some(Reply { returned_ns: time + 5, outcome });
            let operation = Operation { client: 1, key, invoked_ns: time, action, reply };
            history.record(operation).expect("a valid operation");
            self.add("history", &history.encode());
        }
    }

    fn messages(&self) {
        let node = NodeId::new(1).expect("node 1 exists");
        let notice = Message::Notice { node, epoch: Epoch(4) }.encode(ClusterId::default());
        self.add("membership", &[&[0, 0, 0], &*notice, &[0], &[7, 3, 0, 9, 7]].concat());
        for part in 0..4 {
            self.add("status", &[0, part]);
        }
        for answer in status_answers() {
            let bytes = answer.encode(ClusterId::default(), 7);
            let (part, content) = (bytes[6], &bytes[..bytes.len() - 4]);
            let length = (content.len() as u16).to_be_bytes();
            self.add("status", &[&[1, part][..], &length, content].concat());
        }
        for kind in 0..8 {
            for length in [16, 24, 32, 40, 48, 56, 64, 144] {
                self.add("kv-message", &[&[kind][..], &vec![1; length]].concat());
            }
        }
        for kind in 0..5 {
            for length in [8, 16, 64, 72] {
                self.add("rounds-message", &[&[kind][..], &vec![0; length]].concat());
            }
        }
        // The lengths of the shortest messages behind their header; an identifier has an epoch.
        let of_nodes = [9, 12, 10, 10, 14, 11, 8, 25, 14, 14, 13, 1, 13, 26, 9, 11, 13, 8, 8];
        let of_hosts = [5, 14, 8, 29, 31, 17, 15].into_iter().map(|length| (64, length));
        let of_cards = [12, 9, 8, 0, 20, 30, 0, 2].into_iter().map(|length| (80, length));
        for (place, length) in of_nodes.into_iter().enumerate() {
            let identifier = (1_u64 << 36).to_be_bytes();
            let body = [&identifier[..], &[0; 26]].concat();
            self.add("txn-message", &[&[place as u8][..], &[0; 16], &body[..length]].concat());
        }
        for (place, (first, length)) in of_hosts.enumerate().chain(of_cards.enumerate()) {
            self.add("txn-message", &[&[first + place as u8][..], &vec![0; length]].concat());
        }
        let (client, life, sequence) = (1, 2, 3);
        let mut accesses = Accesses::default();
        accesses.add(Key::new(1, 7), Mode::Update).expect("the first key");
        let request = Request { procedure: ProcedureId(1), input: vec![0, 9], accesses };
        let id = TransactionId::new(node, Epoch(2), 5);
        for message in [
            ClientMessage::Hello { client },
            ClientMessage::Welcome { client, life },
            ClientMessage::Call { client, life, sequence, request },
            ClientMessage::Answered { client, life, sequence, answer: Answer::Refused },
            ClientMessage::Answered {
                client,
                life,
                sequence,
                answer: Answer::Ended(id, txn::Outcome::Conflict),
            },
        ] {
            let mut bytes = Vec::new();
            let kind = message.encode(&mut bytes) as u8;
            self.add("txn-client", &[&[kind], &bytes[..]].concat());
        }
        // What a client says and is told, and an answer and an entry of a log.
        let head = [1_u64, 2, 1].map(u64::to_be_bytes).concat();
        for (kind, body) in [(97, [32, 0, 0, 0, 0, 0, 0, 0]), (113, [65, 0, 0, 0, 0, 0, 0, 0])] {
            self.add("session", &[&[kind][..], &head, &body, &[0; 48]].concat());
        }
        self.add("session", &[&[96][..], &head[..8]].concat());
        self.add("session", &[&[112][..], &head[..16]].concat());
        self.add("session", &[&[24][..], &[0; 24], &1_u64.to_be_bytes(), &1_u64.to_be_bytes()].concat());
        self.add("session", &[&[25][..], &[0; 40]].concat());
        // A life with an attempt that has read one key and written it, and an object; then a piece of a second life.
        let item = [&[0; 7][..], &[7], &[0; 8], &[0, 2], b"is"].concat();
        let record =
            [b"LT", &id.bits().to_be_bytes()[..], &[1], &item, &[1], &item, b"O", &item, b"LT"].concat();
        self.add("txn-record", &record);
        for (kind, length) in [(1, 24), (2, 16)] {
            self.add("log-message", &[&[kind][..], &vec![0; length]].concat());
        }
        for choice in 0..8_u8 {
            // A node that begins, beats, and is told and sent a little of everything.
            let steps: Vec<u8> =
                (0..600_usize).map(|at| ((at * (7 + usize::from(choice))) >> (at % 5)) as u8).collect();
            self.add("log", &[&[choice, choice >> 1][..], &steps].concat());
            self.add("txn", &[&[choice, 0, 0, 0][..], &steps].concat());
            self.add("replica", &[&[choice, choice, choice >> 1, choice >> 2][..], &steps].concat());
        }
        for service in 0..2 {
            // A founder, a few rounds of two peers that say little; then the node comes back.
            let round = [&[8, 1, 0, 0, 0, 0, 0, 0][..], &[0; 49], &[8, 2], &[0; 55], &[0, 0]].concat();
            let steps = [&[service, 4, 0, 0, 5, 1][..], &round.repeat(12), &[4, 0, 1, 0, 0, 0, 0]].concat();
            self.add("rounds", &steps);
        }
    }
}

/// Every table and key of a configuration.
const CONFIGURATION: &str = r#"
[cluster]
name = "orders"
mtu_bytes = 1500
[membership]
address = "127.0.0.1:4794"
node = 0
lease_ms = 1000
state_file = "state.toml"
[[node]]
address = "127.0.0.1"
datagram_port = 4793
core = 1
spin_us = 0
[[node]]
address = "127.0.0.2"
[cores]
spin_us = 50
[kv]
key_bytes = 8
value_bytes = 1024
capacity_keys = 65536
[transactions]
procedures = "ledger"
size = 10
replicas = 2
record = "records"
[[object]]
name = "cart"
type = "2p-set"
[[log]]
name = "events"
[rounds]
period_us = 1000
"#;

/// An answer of each kind.
fn status_answers() -> [StatusAnswer; 4] {
    let node = NodeId::new(1).expect("node 1 exists");
    let incarnation = Incarnation::FIRST;
    let view = View { epoch: Epoch(4), full: NodeSet::first(3), joining: NodeSet::EMPTY };
    let (lease, left) = (Duration::from_secs(1), Duration::from_ms(750));
    let name = |name| Text::new(name).expect("it is short and plain");
    let node = NodeStatus {
        node,
        incarnation,
        uptime: lease,
        view,
        lease,
        lease_left: left,
        refusal: Some(Reason::Superseded { by: incarnation }),
        engines: 1,
        counters: 2,
    };
    let engine = EngineReport {
        slot: 0,
        name: name("[[log]] events"),
        status: EngineStatus { epoch: Epoch(4), state: EngineState::Full },
        leads: 1,
        shards: 1,
        sessions: 5,
        sessions_max: 4_096,
        waits_for: NodeSet::first(1),
        stalled_for: NodeSet::EMPTY,
    };
    let counters = vec![(name("writes_led"), 12), (name("gaps"), 0)];
    let member =
        MemberStatus { incarnation: Some(incarnation), lease_left: left, silent: None, reported: Epoch(4) };
    let cluster = ClusterName::default();
    let service = ServiceStatus { cluster, phase: Phase::Running, view, replicas: 3, nodes: vec![member; 3] };
    [
        StatusAnswer::Node(node),
        StatusAnswer::Engine(engine),
        StatusAnswer::Counters(CounterPage { page: 0, counters }),
        StatusAnswer::Service(service),
    ]
}
