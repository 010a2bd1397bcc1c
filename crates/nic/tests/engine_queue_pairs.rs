//! Two soft NICs whose engines own queue pairs: peers access memory, permissions are granted and revoked, and
//! connections are replaced.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;

use weft_nic::{CardConfig, HostCommand, Nic, Peering, SoftNic, SoftNicConfig};
use weft_time::Instant;
use weft_verbs::{
    AccessFlags, CompletionStatus, LocalBuffer, Operation, PathMtu, ProtectionDomain, QueuePairAttributes,
    QueuePairNumber, QueuePairState, Region, RegionKeys, RemoteAddress, Target, WorkRequest,
};
use weft_waist::{
    Accesses, Capabilities, Engine, EngineStatus, Event, Io, Memory, NODES_MAX, engine_address,
};
use weft_wire::ethernet::MacAddress;

const NOW: Instant = Instant::ZERO;
const MEMORY_BYTES: usize = 4_096;
/// Address of the part of an engine's memory where a peer's WRITE calls the engine.
const CALLING: u64 = 2_048;
/// First PSN of the first connection; also the difference between successive connections.
const PSN: u32 = 100;
const GENERATION: u32 = 1 << 20;

/// What a test tells an engine to do at its next call.
enum Act {
    Post(QueuePairNumber, WorkRequest),
    Access(QueuePairNumber, AccessFlags),
    Connect(QueuePairNumber, u32),
    Store(usize, Vec<u8>),
}

/// An engine that does what a test tells it, and records its events.
#[derive(Default)]
struct Puppet {
    acts: Rc<RefCell<Vec<Act>>>,
    heard: Rc<RefCell<Vec<String>>>,
    /// If a post on this queue pair fails, the engine connects it again, with this PSN.
    reconnects: Rc<RefCell<Option<(QueuePairNumber, u32)>>>,
}

impl Engine for Puppet {
    const NEEDS: Capabilities = Capabilities::VERBS;

    fn handle(&mut self, _: Instant, event: Event<'_>, io: &mut Io<'_>) {
        let mut heard = self.heard.borrow_mut();
        match event {
            Event::Call { message, .. } => {
                if !message.payload.is_empty() {
                    heard.push(format!("call {} {}", message.kind, String::from_utf8_lossy(message.payload)));
                }
                for act in self.acts.borrow_mut().drain(..) {
                    match act {
                        Act::Post(queue_pair, request) => io.effects.post(queue_pair, request),
                        Act::Access(queue_pair, access) => io.effects.access(queue_pair, access),
                        Act::Connect(queue_pair, psn) => io.effects.connect(queue_pair, psn, psn),
                        Act::Store(at, bytes) => io.memory.write(at, &bytes),
                    }
                }
            }
            Event::Done { tag, status } => {
                heard.push(format!("done {tag} {}", status.name()));
                if status != CompletionStatus::Success
                    && let Some((queue_pair, psn)) = self.reconnects.borrow_mut().take()
                {
                    io.effects.connect(queue_pair, psn, psn);
                }
            }
            _ => {}
        }
    }

    fn status(&self) -> EngineStatus {
        EngineStatus::STARTING
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// A NIC with a connected queue pair. Its engine's memory consists of a plain region and an RPC region.
struct Node {
    nic: SoftNic<Puppet>,
    acts: Rc<RefCell<Vec<Act>>>,
    heard: Rc<RefCell<Vec<String>>>,
    reconnects: Rc<RefCell<Option<(QueuePairNumber, u32)>>>,
    queue_pair: QueuePairNumber,
    /// A queue pair that belongs to the host.
    of_host: QueuePairNumber,
    plain: RegionKeys,
    calling: RegionKeys,
}

fn hardware(node: usize) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, node as u8])
}

fn address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 1 + node as u8)
}

impl Node {
    fn new(node: usize) -> Self {
        let card = CardConfig {
            peers: [None; NODES_MAX],
            datagram_bytes: 1_472,
            transport: weft_rdma::Config::default(),
            region_bytes: 0,
        };
        let config = SoftNicConfig { hardware: hardware(node), address: address(node), card };
        let puppet = Puppet::default();
        let (acts, heard, reconnects) =
            (Rc::clone(&puppet.acts), Rc::clone(&puppet.heard), Rc::clone(&puppet.reconnects));
        let mut nic = SoftNic::new(config, vec![(puppet, Memory::new(MEMORY_BYTES))]);
        nic.add_neighbour(address(1 - node), hardware(1 - node));
        let transport = nic.card_mut().transport();
        let [queue_pair, of_host] =
            [0; 2].map(|_| transport.create_queue_pair(QueuePairAttributes::default()).unwrap());
        let plain = Region {
            domain: ProtectionDomain(0),
            address: engine_address(0, 0),
            length: CALLING,
            access: AccessFlags::ALL,
            target: Target::Hbm,
            write_through: false,
            rpc: None,
        };
        let calling = Region { address: engine_address(0, CALLING), rpc: Some(0), ..plain };
        let [plain, calling] = [plain, calling].map(|region| transport.register_region(region).unwrap());
        Self { nic, acts, heard, reconnects, queue_pair, of_host, plain, calling }
    }

    fn act(&mut self, acts: impl IntoIterator<Item = Act>) {
        self.acts.borrow_mut().extend(acts);
        self.nic.submit(NOW, HostCommand::Call { engine: 0, token: 0, kind: 0, payload: &[] });
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.borrow_mut())
    }

    fn image(&self) -> &[u8] {
        self.nic.card().engine(0).1.image()
    }

    fn state(&mut self, queue_pair: QueuePairNumber) -> QueuePairState {
        self.nic.card_mut().transport().query_queue_pair(queue_pair).unwrap().state
    }

    fn count(&self, name: &str) -> u64 {
        self.nic.counters().iter().find(|(counter, _)| *counter == name).expect("the counter exists").1
    }
}

/// Two nodes that are connected in both directions; the peer may only READ.
fn pair() -> [Node; 2] {
    let mut nodes = [Node::new(0), Node::new(1)];
    let numbers = [0, 1].map(|node: usize| nodes[node].queue_pair);
    for node in 0..2 {
        let peering = Peering {
            destination: address(1 - node),
            destination_qp_num: numbers[1 - node],
            path_mtu: PathMtu::Bytes1024,
            timeout: 1,
            retry_cnt: 7,
            max_rd_atomic: 4,
        };
        nodes[node].nic.card_mut().assign(numbers[node], 0, peering);
        nodes[node].act([Act::Connect(numbers[node], PSN)]);
    }
    nodes
}

/// Delivers frames between the two nodes until neither sends any, and returns those of node 0.
fn settle(nodes: &mut [Node; 2]) -> Vec<Vec<u8>> {
    let mut sent = Vec::new();
    loop {
        let mut moved = false;
        for from in 0..2 {
            let mut frame = Vec::new();
            while nodes[from].nic.poll_frame(NOW, &mut frame) {
                moved = true;
                nodes[1 - from].nic.receive_frame(NOW, &frame);
                if from == 0 {
                    sent.push(frame.clone());
                }
                frame.clear();
            }
        }
        if !moved {
            return sent;
        }
    }
}

fn allow(nodes: &mut [Node; 2], access: AccessFlags) {
    let queue_pair = nodes[1].queue_pair;
    nodes[1].act([Act::Access(queue_pair, access)]);
}

const READ_AND_WRITE: AccessFlags = AccessFlags::REMOTE_READ.with(AccessFlags::REMOTE_WRITE);

/// Node 0 stores `bytes` in its memory and WRITEs them to the same address of node 1's.
fn write(nodes: &mut [Node; 2], tag: u64, at: u64, bytes: &[u8], immediate: Option<u32>) {
    let keys = |node: &Node| if at < CALLING { node.plain } else { node.calling };
    let remote = RemoteAddress { address: engine_address(0, at), rkey: keys(&nodes[1]).rkey };
    let local = LocalBuffer {
        address: engine_address(0, at),
        length: bytes.len() as u32,
        lkey: keys(&nodes[0]).lkey,
    };
    let request = WorkRequest::new(tag, Operation::Write { remote, immediate }, local);
    let queue_pair = nodes[0].queue_pair;
    nodes[0].act([Act::Store(at as usize, bytes.to_vec()), Act::Post(queue_pair, request)]);
}

#[test]
fn peers_write_and_read_the_engines_memory() {
    let mut nodes = pair();
    allow(&mut nodes, READ_AND_WRITE);
    write(&mut nodes, 1, 64, b"slot", None);
    settle(&mut nodes);
    assert_eq!(nodes[0].heard(), ["done 1 IBV_WC_SUCCESS"]);
    assert_eq!(&nodes[1].image()[64..68], b"slot");
    assert_eq!(nodes[1].heard(), Vec::<String>::new(), "a plain WRITE calls nobody");
    let work = nodes[1].nic.take_work();
    assert_eq!(work.verbs, Accesses { writes: 1, bytes: 4, ..Accesses::default() });
    assert_eq!(work.memory, Accesses::default(), "verbs are not the engine");

    nodes[1].act([Act::Store(64, b"mine".to_vec())]);
    let remote = RemoteAddress { address: engine_address(0, 64), rkey: nodes[1].plain.rkey };
    let local = LocalBuffer { address: engine_address(0, 1_000), length: 4, lkey: nodes[0].plain.lkey };
    let read = WorkRequest::new(2, Operation::Read { remote }, local);
    let queue_pair = nodes[0].queue_pair;
    nodes[0].act([Act::Post(queue_pair, read)]);
    settle(&mut nodes);
    assert_eq!(nodes[0].heard(), ["done 2 IBV_WC_SUCCESS"]);
    assert_eq!(&nodes[0].image()[1_000..1_004], b"mine");
    let work = nodes[1].nic.take_work();
    assert_eq!(work.verbs, Accesses { reads: 1, bytes: 4, ..Accesses::default() });
    assert_eq!(work.memory, Accesses { writes: 1, bytes: 4, ..Accesses::default() });
}

#[test]
fn a_write_into_a_calling_region_is_stored_and_told() {
    let mut nodes = pair();
    allow(&mut nodes, READ_AND_WRITE);
    write(&mut nodes, 1, CALLING + 128, b"entry", Some(9));
    settle(&mut nodes);
    assert_eq!(nodes[0].heard(), ["done 1 IBV_WC_SUCCESS"]);
    assert_eq!(nodes[1].heard(), ["call 9 entry"]);
    assert_eq!(&nodes[1].image()[2_176..2_181], b"entry");
}

#[test]
fn a_write_without_permission_is_refused_and_lands_nowhere() {
    let mut nodes = pair();
    write(&mut nodes, 1, 64, b"early", None);
    settle(&mut nodes);
    assert_eq!(nodes[0].heard(), ["done 1 IBV_WC_REM_INV_REQ_ERR"]);
    assert_eq!(nodes[1].image()[64..69], [0; 5]);
    for node in &mut nodes {
        let queue_pair = node.queue_pair;
        assert_eq!(node.state(queue_pair), QueuePairState::Error);
    }
}

#[test]
fn permission_that_is_taken_away_is_gone_at_the_next_packet() {
    let mut nodes = pair();
    allow(&mut nodes, READ_AND_WRITE);
    // The first of three packets is stored, the others are not.
    write(&mut nodes, 1, 0, &[7; 2_048], None);
    let mut frame = Vec::new();
    assert!(nodes[0].nic.poll_frame(NOW, &mut frame));
    nodes[1].nic.receive_frame(NOW, &frame);
    allow(&mut nodes, AccessFlags::REMOTE_READ);
    settle(&mut nodes);
    assert_eq!(nodes[0].heard(), ["done 1 IBV_WC_REM_INV_REQ_ERR"]);
    assert_eq!(nodes[1].image()[..1_024], [7; 1_024]);
    assert_eq!(nodes[1].image()[1_024..2_048], [0; 1_024]);
}

#[test]
fn both_ends_connect_again_after_an_error() {
    let mut nodes = pair();
    write(&mut nodes, 1, 64, b"early", None);
    settle(&mut nodes);
    assert_eq!(nodes[0].heard(), ["done 1 IBV_WC_REM_INV_REQ_ERR"]);
    // Granting permissions on a queue pair in the state ERROR has no effect.
    allow(&mut nodes, READ_AND_WRITE);
    assert_eq!(nodes[1].count("queue_pair_effects_refused"), 1);

    let numbers = [0, 1].map(|node: usize| nodes[node].queue_pair);
    nodes[1].act([Act::Connect(numbers[1], PSN + GENERATION), Act::Access(numbers[1], READ_AND_WRITE)]);
    nodes[0].act([Act::Connect(numbers[0], PSN + GENERATION)]);
    write(&mut nodes, 2, 64, b"later", None);
    settle(&mut nodes);
    assert_eq!(nodes[0].heard(), ["done 2 IBV_WC_SUCCESS"]);
    assert_eq!(&nodes[1].image()[64..69], b"later");
}

#[test]
fn connecting_closes_what_was_open() {
    let mut nodes = pair();
    allow(&mut nodes, READ_AND_WRITE);
    let numbers = [0, 1].map(|node: usize| nodes[node].queue_pair);
    for node in 0..2 {
        nodes[node].act([Act::Connect(numbers[node], PSN + GENERATION)]);
    }
    write(&mut nodes, 1, 64, b"early", None);
    settle(&mut nodes);
    assert_eq!(nodes[0].heard(), ["done 1 IBV_WC_REM_INV_REQ_ERR"]);
}

#[test]
fn packets_of_an_earlier_connection_change_nothing() {
    let mut nodes = pair();
    allow(&mut nodes, READ_AND_WRITE);
    write(&mut nodes, 1, 64, b"old", None);
    let old = settle(&mut nodes);
    assert_eq!(nodes[0].heard(), ["done 1 IBV_WC_SUCCESS"]);
    let numbers = [0, 1].map(|node: usize| nodes[node].queue_pair);
    for node in 0..2 {
        nodes[node].act([Act::Connect(numbers[node], PSN + GENERATION)]);
    }
    allow(&mut nodes, READ_AND_WRITE);
    write(&mut nodes, 2, 64, b"new", None);
    settle(&mut nodes);
    assert_eq!(&nodes[1].image()[64..67], b"new");
    // The packets of the first connection, delayed until now.
    for frame in &old {
        nodes[1].nic.receive_frame(NOW, frame);
    }
    settle(&mut nodes);
    assert_eq!(&nodes[1].image()[64..67], b"new");
    assert_eq!(nodes[1].count("duplicate_request"), old.len() as u64);
    write(&mut nodes, 3, 64, b"end", None);
    settle(&mut nodes);
    assert_eq!(nodes[0].heard(), ["done 2 IBV_WC_SUCCESS", "done 3 IBV_WC_SUCCESS"]);
    assert_eq!(&nodes[1].image()[64..67], b"end");
}

#[test]
fn nothing_of_an_earlier_connection_completes_after_the_next_began() {
    let mut nodes = pair();
    *nodes[0].reconnects.borrow_mut() = Some((nodes[0].queue_pair, PSN + GENERATION));
    for tag in 1..=3 {
        write(&mut nodes, tag, 64 * tag, b"early", None);
    }
    settle(&mut nodes);
    // The first post is refused, and the engine connects again at once. It gets no events for the flushed
    // posts.
    assert_eq!(nodes[0].heard(), ["done 1 IBV_WC_REM_INV_REQ_ERR"]);
    let numbers = [0, 1].map(|node: usize| nodes[node].queue_pair);
    assert_eq!(nodes[0].state(numbers[0]), QueuePairState::ReadyToSend);
    nodes[1].act([Act::Connect(numbers[1], PSN + GENERATION), Act::Access(numbers[1], READ_AND_WRITE)]);
    write(&mut nodes, 4, 64, b"later", None);
    settle(&mut nodes);
    assert_eq!(nodes[0].heard(), ["done 4 IBV_WC_SUCCESS"]);
}

#[test]
fn an_engine_touches_no_queue_pair_but_its_own() {
    let mut nodes = pair();
    let of_host = nodes[0].of_host;
    let nothing = LocalBuffer { address: 0, length: 0, lkey: 0 };
    let send = WorkRequest::new(5, Operation::Send { immediate: None }, nothing);
    for queue_pair in [of_host, QueuePairNumber(0x77)] {
        nodes[0].act([
            Act::Connect(queue_pair, PSN),
            Act::Access(queue_pair, READ_AND_WRITE),
            Act::Post(queue_pair, send),
        ]);
        assert_eq!(nodes[0].heard(), ["done 5 IBV_WC_LOC_QP_OP_ERR"]);
    }
    assert_eq!(nodes[0].count("queue_pair_effects_refused"), 6);
    assert_eq!(nodes[0].state(of_host), QueuePairState::Reset);
}
