//! Under all network faults, each work request completes once and in order, and the memory is the same as in
//! a model that executes the requests one after the other.

use std::collections::VecDeque;

use crate::common::{Connection, Node, connected_pair};
use proptest::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_rdma::{AdditiveIncrease, Config, FixedWindow};
use weft_time::{Duration, Instant};
use weft_verbs::{
    CompletionOpcode, CompletionStatus, Operation, PathMtu, ReceiveRequest, RemoteAddress, Target,
    WorkRequest,
};
use weft_wire::roce::Packet;

/// Addresses on each node: data that does not change, the target of the peer's operations, and buffers for
/// responses and messages.
const SOURCE: usize = 0x0000;
const TARGET: usize = 0x8000;
const SINKS: usize = 0x1_0000;
const RECEIVES: usize = 0x1_8000;
const AREA: usize = 0x4000;
const SLOT: usize = 0x800;
const SLOTS: usize = AREA / SLOT;
const OPERATIONS: u64 = 60;

/// Probabilities of network faults, in thousandths of all packets.
#[derive(Clone, Copy, Debug)]
struct Faults {
    loss: u64,
    duplication: u64,
    reordering: u64,
}

/// The expected result of an operation.
enum Expected {
    Nothing,
    Data(Vec<u8>),
}

/// What a receive request will complete with.
enum Delivered {
    /// These bytes.
    Send(Vec<u8>),
    /// A WRITE of this length.
    Write(usize),
}

/// One node's requests that are outstanding, and the model of its target area.
struct Player {
    model: Vec<u8>,
    posted: u64,
    outstanding: VecDeque<(u64, Expected)>,
    /// Messages that this node must receive, in order, with their immediate data.
    messages: VecDeque<(Delivered, Option<u32>)>,
    receives_posted: u64,
    receives_done: u64,
}

struct World {
    nodes: [Node; 2],
    players: [Player; 2],
    random: Xoshiro256PlusPlus,
    faults: Faults,
    now: Instant,
    flying: Vec<(Instant, u64, usize, Vec<u8>)>,
    order: u64,
    mtu: u64,
    /// Whether each request waits for earlier READs and atomics.
    fenced: bool,
}

impl World {
    #[allow(clippy::too_many_arguments, reason = "what a run is drawn from")]
    fn new(
        seed: u64,
        faults: Faults,
        mtu: PathMtu,
        window: u32,
        rd_atomic: u8,
        adaptive: bool,
        fenced: bool,
        keeps: [usize; 2],
    ) -> Self {
        let congestion_control = if adaptive { AdditiveIncrease::boxed } else { FixedWindow::boxed };
        let configs = keeps.map(|reorder_packets| Config {
            max_queue_pairs: 4,
            window_packets: window,
            congestion_control,
            reorder_packets,
            read_parts: reorder_packets > 0,
            ..Config::default()
        });
        let with = Connection {
            path_mtu: mtu,
            psn: [0xff_ffe0, 0xff_fff8],
            timeout: 5,
            min_rnr_timer: 1,
            rd_atomic,
            ..Connection::default()
        };
        let mut nodes = connected_pair([&configs[0], &configs[1]], &with);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        for node in &mut nodes {
            random.fill_bytes(&mut node.memory.image_mut(Target::Host)[SOURCE..SOURCE + AREA]);
        }
        let players = [(); 2].map(|()| Player {
            model: vec![0; AREA],
            posted: 0,
            outstanding: VecDeque::new(),
            messages: VecDeque::new(),
            receives_posted: 0,
            receives_done: 0,
        });
        Self {
            nodes,
            players,
            random,
            faults,
            now: Instant::ZERO,
            flying: Vec::new(),
            order: 0,
            mtu: u64::from(mtu.bytes()),
            fenced,
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit
    }

    fn happens(&mut self, thousandths: u64) -> bool {
        self.below(1_000) < thousandths
    }

    /// Posts a random work request of node `side`, and executes it in the model.
    fn post(&mut self, side: usize) {
        let id = self.players[side].posted;
        if id == OPERATIONS || self.players[side].outstanding.len() == SLOTS {
            return;
        }
        let length = match self.below(4) {
            0 => self.below(9),
            1 => self.mtu,
            _ => self.below(3 * self.mtu),
        }
        .min(SLOT as u64) as usize;
        let from = self.below((AREA - length) as u64 + 1) as usize;
        let at = self.below((AREA - length) as u64 + 1) as usize;
        let word = (self.below(4) * 8) as usize;
        let sink = SINKS + (id as usize % SLOTS) * SLOT;
        let rkey = self.nodes[1 - side].keys.rkey;
        let remote = RemoteAddress { address: (TARGET + at) as u64, rkey };
        let remote_word = RemoteAddress { address: (TARGET + word) as u64, rkey };
        let choice = self.below(6);
        let value = self.random.next_u64();
        let immediate = (value.is_multiple_of(2)).then_some(value as u32);
        // An unsignalled request frees its entry only when a later signalled one completes, so not all
        // entries may be unsignalled.
        let silent = self.below(4) == 0 && self.players[side].outstanding.len() + 1 < SLOTS;

        // A repeated READ may see the effect of a later request, unless that one is fenced. So without fences
        // only constant data is checked.
        let constant = (!self.fenced).then(|| {
            let image = self.nodes[1 - side].memory.image(Target::Host);
            image[SOURCE + at..SOURCE + at + length].to_vec()
        });
        let content =
            self.nodes[side].memory.image(Target::Host)[SOURCE + from..SOURCE + from + length].to_vec();
        let peer = &mut self.players[1 - side];
        let model = &mut peer.model;
        let mut expected = Expected::Nothing;
        let (operation, local, length) = match choice {
            0 => {
                peer.messages.push_back((Delivered::Send(content), immediate));
                (Operation::Send { immediate }, SOURCE + from, length)
            }
            1 | 2 => {
                model[at..at + length].copy_from_slice(&content);
                if immediate.is_some() {
                    peer.messages.push_back((Delivered::Write(length), immediate));
                }
                (Operation::Write { remote, immediate }, SOURCE + from, length)
            }
            3 => {
                let remote =
                    if self.fenced { remote } else { RemoteAddress { address: (SOURCE + at) as u64, rkey } };
                expected = Expected::Data(constant.unwrap_or_else(|| model[at..at + length].to_vec()));
                (Operation::Read { remote }, sink, length)
            }
            _ => {
                let original: [u8; 8] = model[word..word + 8].try_into().unwrap();
                expected = Expected::Data(original.to_vec());
                let original = u64::from_le_bytes(original);
                let (result, operation) = if choice == 4 {
                    (original.wrapping_add(value), Operation::FetchAdd { remote: remote_word, add: value })
                } else {
                    let compare = if value.is_multiple_of(3) { !original } else { original };
                    let result = if compare == original { value } else { original };
                    (result, Operation::CompareSwap { remote: remote_word, compare, swap: value })
                };
                model[word..word + 8].copy_from_slice(&result.to_le_bytes());
                (operation, sink, 8)
            }
        };
        let node = &mut self.nodes[side];
        let mut request = WorkRequest::new(id, operation, node.local(local as u64, length as u32));
        request.fence = self.fenced;
        request.signaled = !silent || id + 1 == OPERATIONS;
        node.transport.post_send(self.now, node.queue_pair, request).unwrap();
        let player = &mut self.players[side];
        player.posted += 1;
        player.outstanding.push_back((id, expected));
    }

    fn post_receive(&mut self, side: usize) {
        let player = &mut self.players[side];
        if player.receives_posted - player.receives_done == SLOTS as u64 {
            return;
        }
        let address = (RECEIVES + (player.receives_posted as usize % SLOTS) * SLOT) as u64;
        let node = &mut self.nodes[side];
        let request = ReceiveRequest { id: player.receives_posted, local: node.local(address, SLOT as u32) };
        node.transport.post_receive(node.queue_pair, request).unwrap();
        player.receives_posted += 1;
    }

    /// Passes all packets of node `side` to the network.
    fn transmit(&mut self, side: usize) {
        loop {
            let mut bytes = Vec::new();
            let node = &mut self.nodes[side];
            if node.transport.poll_transmit(self.now, &mut node.memory, &mut bytes).is_none() {
                return;
            }
            if self.happens(self.faults.loss) {
                continue;
            }
            let copies = 1 + u64::from(self.happens(self.faults.duplication));
            for _ in 0..copies {
                let late = self.happens(self.faults.reordering);
                let delay = 1_000 + if late { self.below(60_000) } else { 0 };
                self.order += 1;
                self.flying.push((self.now + Duration::from_ns(delay), self.order, 1 - side, bytes.clone()));
            }
        }
    }

    fn check_completions(&mut self, side: usize) {
        let node = &mut self.nodes[side];
        let player = &mut self.players[side];
        while let Some(completion) = node.transport.poll_completion() {
            assert_eq!(completion.status, CompletionStatus::Success, "{completion:?}");
            let image = node.memory.image(Target::Host);
            match completion.opcode {
                CompletionOpcode::Receive | CompletionOpcode::ReceiveWriteWithImmediate => {
                    assert_eq!(completion.id, player.receives_done, "receive requests complete in order");
                    let (content, immediate) = player.messages.pop_front().expect("nothing else was sent");
                    assert_eq!(completion.immediate, immediate);
                    match content {
                        Delivered::Send(content) => {
                            let start = RECEIVES + (completion.id as usize % SLOTS) * SLOT;
                            assert_eq!(completion.bytes as usize, content.len());
                            assert_eq!(image[start..start + content.len()], content);
                        }
                        Delivered::Write(length) => assert_eq!(completion.bytes as usize, length),
                    }
                    player.receives_done += 1;
                }
                _ => loop {
                    // Earlier unsignalled requests have completed too.
                    let (id, expected) =
                        player.outstanding.pop_front().expect("only what is outstanding completes");
                    if let Expected::Data(data) = expected {
                        let start = SINKS + (id as usize % SLOTS) * SLOT;
                        assert_eq!(image[start..start + data.len()], data, "answer of request {id}");
                    }
                    assert!(id <= completion.id, "work requests complete in order");
                    if id == completion.id {
                        break;
                    }
                },
            }
        }
    }

    fn is_done(&self) -> bool {
        self.players.iter().all(|player| {
            player.posted == OPERATIONS && player.outstanding.is_empty() && player.messages.is_empty()
        })
    }

    fn run(&mut self) {
        for _ in 0..200_000 {
            for side in 0..2 {
                if self.happens(300) {
                    self.post(side);
                }
                if self.happens(60) {
                    self.post_receive(side);
                }
                self.transmit(side);
                self.check_completions(side);
            }
            if self.is_done() {
                return self.check_memory();
            }
            let deadlines = self.nodes.iter().filter_map(|node| node.transport.next_deadline());
            let arrivals = self.flying.iter().map(|&(at, ..)| at);
            // Users act every two microseconds.
            let tick = self.now + Duration::from_us(2);
            self.now = deadlines.chain(arrivals).chain([tick]).min().unwrap().max(self.now);
            for node in &mut self.nodes {
                node.transport.handle_deadline(self.now);
            }
            self.flying.sort_by_key(|&(at, order, ..)| (at, order));
            let arrived = self.flying.partition_point(|&(at, ..)| at <= self.now);
            for (_, _, side, bytes) in self.flying.drain(..arrived).collect::<Vec<_>>() {
                let packet = Packet::parse(&bytes).unwrap();
                let source = self.nodes[1 - side].address;
                let node = &mut self.nodes[side];
                node.transport.receive(self.now, source, &packet, &mut node.memory);
            }
        }
        panic!("the conversation does not end");
    }

    fn check_memory(&self) {
        for side in 0..2 {
            let image = &self.nodes[side].memory.image(Target::Host)[TARGET..TARGET + AREA];
            assert!(image == self.players[side].model, "memory of node {side} differs from the model");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_complete_once_and_in_order(
        seed: u64,
        loss in 0..50u64,
        duplication in 0..80u64,
        reordering in 0..150u64,
        mtu in 0..5usize,
        window in 1..40u32,
        rd_atomic in 1..5u8,
        adaptive: bool,
        fenced: bool,
        keeps in prop::array::uniform2(prop_oneof![Just(0), 1..6usize, Just(64)]),
    ) {
        let faults = Faults { loss, duplication, reordering };
        World::new(seed, faults, PathMtu::ALL[mtu], window, rd_atomic, adaptive, fenced, keeps).run();
    }
}

/// Checks that the faults cause every kind of recovery. Otherwise the property above would prove little.
#[test]
fn the_faults_force_every_kind_of_recovery() {
    let mut sums = std::collections::BTreeMap::new();
    for seed in 0..20 {
        let faults = Faults { loss: 50, duplication: 50, reordering: 100 };
        let mut world = World::new(seed, faults, PathMtu::Bytes256, 16, 4, false, seed % 2 == 0, [0; 2]);
        world.run();
        for node in &world.nodes {
            for (name, value) in node.transport.counters().list() {
                *sums.entry(name).or_insert(0) += value;
            }
        }
    }
    for name in [
        "duplicate_request",
        "out_of_seq_request",
        "rcvd_seq_err",
        "rcvd_rnr_err",
        "implied_nak_seq_err",
        "ack_timeout",
        "ack_deferred",
        "drop_stale_response",
    ] {
        assert!(sums[name] > 20, "{name} happened {} times", sums[name]);
    }
}
