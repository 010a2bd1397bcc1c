//! A NIC with the key-value engine, given arbitrary frames, datagrams, messages and views.

use std::net::{Ipv4Addr, SocketAddrV4};

use weft_kv::message::{
    Acknowledge, BackupDescription, CUTS_MAX, Commit, Cut, EntryRequest, Kind, Reply, Request, Sealed,
    StateChunk, StateRequest, What, Write, backup_records,
};
use weft_kv::{Kv, Operation, Parameters, SESSION_WINDOW, Status, partition, version};
use weft_nic::{CardConfig, HostCommand, Nic, SoftNic, SoftNicConfig};
use weft_time::{Duration, Instant};
use weft_waist::{Configuration, Epoch, Memory, NODES_MAX, NodeId, NodeSet, View};
use weft_wire::datagram::{self, Builder, Datagram};
use weft_wire::ethernet::MacAddress;
use weft_wire::frame::{Endpoint, Flow, Frame, emit_udp_frame};
use weft_wire::icrc;
use weft_wire::roce::{self, Packet};

use crate::frames::set_checksums;
use crate::input::Input;

/// Nodes of the cluster; the NIC is node 0.
const NODES: u8 = 3;

/// Number of the first client address.
const FIRST_CLIENT: u8 = 100;

/// The engine's slot.
const SLOT: u8 = 0;

/// Bytes of a key.
const KEY_BYTES: usize = 8;

/// Maximum size of a datagram: that of an Ethernet frame.
const DATAGRAM_BYTES: usize = 1472;

/// Parameters with small tables, so that a few writes fill them.
fn parameters() -> Parameters {
    Parameters {
        key_bytes: KEY_BYTES,
        value_bytes_max: 64,
        buckets: 256,
        ways: 2,
        window: 8,
        waiting_reads: 4,
        sessions: 4,
        burst: 4,
        chunk_bytes: 512,
        ..Parameters::default()
    }
}

/// Parses one of the engine's messages. A valid message is encoded again, and must parse to the same.
pub fn kv_message(data: &[u8]) {
    let Some((&kind, bytes)) = data.split_first() else { return };
    match kind % 9 {
        0 => {
            if let Ok(request) = Request::parse(bytes, KEY_BYTES) {
                assert_eq!(Request::identity(bytes), Some((request.client, request.request)));
                let again = [&request.header(), request.key, request.value].concat();
                assert_eq!(Request::parse(&again, KEY_BYTES), Ok(request));
            }
        }
        1 => {
            if let Ok(reply) = Reply::parse(bytes) {
                assert_eq!(Reply::parse(&[&reply.header(), reply.value].concat()), Ok(reply));
                // The values of parts of a backup.
                if let Ok(description) = BackupDescription::parse(reply.value) {
                    assert_eq!(BackupDescription::parse(&description.encode()), Ok(description));
                }
                let read = |record: Result<(&[u8], &[u8]), _>| {
                    record.map_or(0, |(key, value)| key.len() + value.len() + 2)
                };
                let bytes: usize = backup_records(reply.value, KEY_BYTES).map(read).sum();
                assert!(bytes <= reply.value.len());
            }
        }
        2 => {
            if let Ok(write) = Write::parse(bytes, KEY_BYTES) {
                let again = [&write.header(), write.key, write.value].concat();
                assert_eq!(Write::parse(&again, KEY_BYTES), Ok(write));
            }
        }
        3 => {
            if let Ok(acknowledge) = Acknowledge::parse(bytes) {
                let mut again = [0; Acknowledge::BYTES_MAX];
                let length = acknowledge.encode(&mut again);
                assert_eq!(Acknowledge::parse(&again[..length]), Ok(acknowledge));
            }
        }
        4 => {
            if let Ok(commit) = Commit::parse(bytes) {
                assert_eq!(Commit::parse(&commit.encode()), Ok(commit));
            }
        }
        5 => {
            if let Ok(sealed) = Sealed::parse(bytes) {
                let mut again = [0; Sealed::BYTES_MAX];
                let length = sealed.encode(&mut again);
                assert_eq!(Sealed::parse(&again[..length]), Ok(sealed));
            }
        }
        6 => {
            if let Ok(request) = StateRequest::parse(bytes) {
                assert_eq!(StateRequest::parse(&request.encode()), Ok(request));
            }
        }
        7 => {
            if let Ok(request) = EntryRequest::parse(bytes) {
                assert_eq!(EntryRequest::parse(&request.encode()), Ok(request));
            }
        }
        _ => {
            if let Ok(chunk) = StateChunk::parse(bytes) {
                assert_eq!(StateChunk::parse(&[&chunk.header(), chunk.records].concat()), Ok(chunk));
            }
        }
    }
}

/// A NIC; the input decides the actions of its peers, clients and host, and the time.
pub fn card(data: &[u8]) {
    let mut input = Input::new(data);
    let mut door = Door::new();
    while !input.is_empty() {
        door.step(&mut input);
    }
    door.drain();
}

struct Door {
    nic: SoftNic<Kv>,
    known: Known,
    now: Instant,
}

impl Door {
    fn new() -> Self {
        let mut peers = [None; NODES_MAX];
        for node in 0..NODES {
            peers[usize::from(node)] = Some(SocketAddrV4::new(address(node), datagram::UDP_PORT));
        }
        let transport = weft_rdma::Config {
            max_queue_pairs: 2,
            max_regions: 4,
            completion_queue_depth: 8,
            rpc_queue_depth: 4,
            ..weft_rdma::Config::default()
        };
        let card = CardConfig { peers, datagram_bytes: DATAGRAM_BYTES, transport, region_bytes: 256 };
        let config = SoftNicConfig { hardware: hardware(0), address: address(0), card };
        let memory = Memory::new(parameters().memory_bytes());
        let mut nic = SoftNic::new(config, vec![(Kv::new(parameters()), memory)]);
        for station in (1..NODES).chain([FIRST_CLIENT, FIRST_CLIENT + 1]) {
            nic.add_neighbour(address(station), hardware(station));
        }
        let mut door = Self { nic, known: Known::default(), now: Instant::ZERO };
        door.configure(View { epoch: Epoch(1), full: NodeSet::first(NODES.into()), joining: NodeSet::EMPTY });
        door
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 16 {
            0..=5 => {
                let from = 1 + input.byte() % (NODES - 1);
                self.receive_messages(from, input);
            }
            6..=9 => self.receive_messages(FIRST_CLIENT + (input.byte() & 1), input),
            10 => {
                let length = usize::from(input.byte());
                let mut frame = input.bytes(length).to_vec();
                set_checksums(&mut frame);
                self.nic.receive_frame(self.now, &frame);
            }
            11 => {
                let message = message(input, 0, &mut self.known);
                let call = HostCommand::Call { engine: SLOT, token: 1, kind: message.0, payload: &message.1 };
                self.nic.submit(self.now, call);
            }
            12 if input.rarely() => {
                self.nic.submit(self.now, HostCommand::Reset { engine: 0 });
                let Known { view, previous, .. } = self.known;
                self.known = Known { view, previous, ..Known::default() };
            }
            12 => self.change_view(input),
            13 => {
                self.now += Duration::from_us(u64::from(input.half()) * 4);
                self.nic.handle_deadline(self.now);
                assert!(self.nic.next_deadline().is_none_or(|at| at > self.now));
            }
            _ => self.drain(),
        }
    }

    /// Receives a datagram with a few messages.
    fn receive_messages(&mut self, from: u8, input: &mut Input<'_>) {
        let mut builder = Builder::new(DATAGRAM_BYTES);
        for _ in 0..=input.byte() & 3 {
            let peer = if from < NODES { from } else { 0 };
            let (kind, payload) = message(input, peer, &mut self.known);
            let slot = if input.rarely() { input.byte() } else { SLOT };
            if !builder.try_push(slot, kind, &payload) {
                break;
            }
        }
        if builder.is_empty() {
            return;
        }
        let flow = Flow { source: endpoint(from), destination: endpoint(0), type_of_service: 0 };
        let mut frame = Vec::new();
        emit_udp_frame(&mut frame, &flow, builder.finish());
        self.nic.receive_frame(self.now, &frame);
    }

    /// Changes the view as a membership service does: with ascending epochs and never an empty member set.
    /// The input chooses the nodes.
    fn change_view(&mut self, input: &mut Input<'_>) {
        let sets = input.byte();
        let full = NodeSet::from_bits(u16::from(sets & 7));
        let joining = NodeSet::from_bits(u16::from(sets >> 3 & 7 & !sets));
        let steps = u32::from(input.byte() & 3);
        if steps == 0 || full.is_empty() {
            self.configure(self.known.view);
        } else if let Some(epoch) = self.known.view.epoch.0.checked_add(steps) {
            self.configure(View { epoch: Epoch(epoch), full, joining });
        }
    }

    fn configure(&mut self, view: View) {
        self.known.change(view);
        let node = NodeId::new(0).expect("node 0 exists");
        let lease_until = self.now + Duration::from_ms(100);
        self.nic.submit(
            self.now,
            HostCommand::Configure { engine: 0, configuration: Configuration { node, view, lease_until } },
        );
    }

    /// Removes all frames and host events. Checks that sent frames are well formed.
    fn drain(&mut self) {
        let mut bytes = Vec::new();
        while self.nic.poll_frame(self.now, &mut bytes) {
            match Frame::parse(&bytes).expect("what is sent can be parsed") {
                Frame::Udp { udp, payload, .. } if udp.destination_port == roce::UDP_PORT => {
                    assert!(Packet::parse(&payload[..payload.len() - icrc::BYTES]).is_ok());
                }
                Frame::Udp { ipv4, udp, payload, .. } if udp.source_port == datagram::UDP_PORT => {
                    let datagram = Datagram::parse(payload).expect("what is sent can be parsed");
                    let peer = (1..NODES).find(|&node| address(node) == ipv4.destination);
                    for message in datagram.messages().filter(|_| peer.is_some()) {
                        let peer = usize::from(peer.unwrap_or_default());
                        self.known.hear(peer, message.kind, message.payload);
                    }
                }
                Frame::Udp { .. } | Frame::Other => panic!("neither datagram nor answer: {bytes:02x?}"),
                Frame::Arp { .. } | Frame::Echo { .. } => {}
            }
            bytes.clear();
        }
        while self.nic.poll_host().is_some() {}
        self.nic.take_work();
    }
}

fn hardware(station: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, station])
}

fn address(station: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, station + 1)
}

fn endpoint(station: u8) -> Endpoint {
    Endpoint { hardware: hardware(station), address: address(station), port: datagram::UDP_PORT }
}

/// What a correct peer would know of the NIC's state, to build messages that continue the protocol.
#[derive(Clone, Debug, Default)]
struct Known {
    view: View,
    previous: View,
    /// Accepted length of each peer's stream.
    accepted: [u64; NODES as usize],
    /// The latest write of the NIC's own stream.
    led: u64,
    /// The latest request for state.
    asked: Option<StateRequest>,
}

impl Known {
    fn change(&mut self, view: View) {
        if view != self.view {
            *self = Self { view, previous: self.view, ..Self::default() };
        }
    }

    /// Updates this from a message that the NIC sends to `peer`.
    fn hear(&mut self, peer: usize, kind: u8, payload: &[u8]) {
        if kind == Kind::Write as u8 {
            let write = Write::parse(payload, KEY_BYTES).expect("the engine writes what it can read");
            self.led = self.led.max(write.number);
        } else if kind == Kind::Acknowledge as u8 {
            let acknowledge = Acknowledge::parse(payload).expect("the engine writes what it can read");
            self.accepted[peer] = acknowledge.accepted;
        } else if kind == Kind::StateRequest as u8 {
            self.asked = Some(StateRequest::parse(payload).expect("the engine writes what it can read"));
        }
    }
}

/// A message from a peer (or, from 0, a client). Its fields mostly continue the protocol; rarely it is
/// truncated or random.
fn message(input: &mut Input<'_>, from: u8, known: &mut Known) -> (u8, Vec<u8>) {
    if input.rarely() {
        let (kind, length) = (input.byte(), usize::from(input.byte()));
        return (kind, input.bytes(length).to_vec());
    }
    let epoch = Epoch(input.near(known.view.epoch.0.into()) as u32);
    let of_peers = [
        Kind::Write,
        Kind::Acknowledge,
        Kind::Commit,
        Kind::Sealed,
        Kind::StateRequest,
        Kind::StateChunk,
        Kind::Write,
        Kind::Acknowledge,
        Kind::EntryRequest,
        Kind::Entry,
    ];
    let kind = match (from, input.rarely()) {
        (0, false) | (1.., true) => Kind::Request,
        (0, true) if input.rarely() => Kind::Leave,
        (0, true) => Kind::Reply,
        (1.., false) => input.one_of(&of_peers),
    };
    let mut payload = match kind {
        Kind::Request => request(input),
        Kind::Reply => reply(input, epoch),
        Kind::Leave => number(input).to_be_bytes().to_vec(),
        Kind::Write | Kind::Entry => write(input, epoch, from, known),
        Kind::Acknowledge => {
            let behind = u64::from(input.byte() & 3);
            let accepted = input.near(known.led.saturating_sub(behind));
            let (committed, flags) = (number(input), input.byte());
            let (gap, asks) = (flags & 1 != 0, flags & 2 != 0);
            let message = Acknowledge { epoch, accepted, committed, durable: None, gap, asks };
            let mut bytes = [0; Acknowledge::BYTES_MAX];
            let length = message.encode(&mut bytes);
            bytes[..length].to_vec()
        }
        Kind::Commit => {
            let committed = input.near(known.accepted[usize::from(from)]);
            Commit { epoch, committed }.encode().to_vec()
        }
        Kind::Sealed => sealed(input, epoch, known),
        Kind::StateRequest => {
            let (attempt, what, from) = (small(input), what(input), small(input));
            StateRequest { epoch, attempt, what, from }.encode().to_vec()
        }
        Kind::EntryRequest => {
            let (stream, from) = (input.byte() & 15, number(input));
            EntryRequest { base: epoch, stream, from }.encode().to_vec()
        }
        Kind::StateChunk => state_chunk(input, epoch, known),
        Kind::Record
        | Kind::Durable
        | Kind::Restore
        | Kind::Restored
        | Kind::Snapshot
        | Kind::SnapshotPart => unreachable!("only an engine and its own host exchange them"),
    };
    if input.rarely() {
        payload.truncate(input.byte().into());
    }
    (kind as u8, payload)
}

/// One of few keys.
fn key(input: &mut Input<'_>) -> [u8; KEY_BYTES] {
    u64::from(input.byte() & 15).to_be_bytes()
}

/// A value if `has_value`, or none; rarely the opposite, or one that is too long.
fn value<'a>(input: &mut Input<'a>, has_value: bool) -> &'a [u8] {
    match input.byte() {
        0xff => input.bytes(usize::from(!has_value)),
        0xfe => input.bytes(65),
        choice if has_value => {
            let bytes = input.bytes(1 + usize::from(choice & 31));
            if bytes.is_empty() { b"value" } else { bytes }
        }
        _ => &[],
    }
}

/// The number of a write in a stream, of a request or of a client: mostly small.
fn number(input: &mut Input<'_>) -> u64 {
    let expected = input.byte() & 15;
    input.near(expected.into())
}

/// The number of a bucket or an attempt: mostly small.
fn small(input: &mut Input<'_>) -> u32 {
    number(input) as u32
}

fn operation(input: &mut Input<'_>) -> Operation {
    input.one_of(&[Operation::Get, Operation::Put, Operation::Delete, Operation::CompareAndSet])
}

fn status(input: &mut Input<'_>) -> Status {
    input.one_of(&[
        Status::Ok,
        Status::NotFound,
        Status::Mismatch,
        Status::TableFull,
        Status::Busy,
        Status::NotLeader,
        Status::NotServing,
        Status::SessionsFull,
        Status::BadRequest,
    ])
}

fn what(input: &mut Input<'_>) -> What {
    input.one_of(&[What::Buckets, What::Sessions])
}

fn request(input: &mut Input<'_>) -> Vec<u8> {
    let (key, operation) = (key(input), operation(input));
    let (client, request) = (number(input) & 7, number(input).wrapping_add(1));
    let expected = if operation == Operation::CompareAndSet { number(input) } else { input.near(0) };
    let has_value = matches!(operation, Operation::Put | Operation::CompareAndSet);
    let value = value(input, has_value);
    let request = Request { operation, client, request, expected, key: &key, value };
    [&request.header(), request.key, request.value].concat()
}

fn reply(input: &mut Input<'_>, epoch: Epoch) -> Vec<u8> {
    let (status, version, value) = (status(input), number(input), value(input, true));
    let full = NodeSet::from_bits(input.half());
    let reply = Reply { status, client: 1, request: number(input), version, epoch, full, value };
    [&reply.header(), reply.value].concat()
}

/// The next write of a peer's stream, for a key that the peer leads.
fn write(input: &mut Input<'_>, epoch: Epoch, from: u8, known: &mut Known) -> Vec<u8> {
    let leads = |key: &u64| known.view.leader(partition(&key.to_be_bytes())) == NodeId::new(from.into());
    let choice = u64::from(input.byte());
    // The number of undecided writes is sometimes larger than a window.
    let (first, undecided) = (choice & 15, choice >> 4);
    let key = (first..first + 32).find(leads).unwrap_or(first).to_be_bytes();
    let operation =
        input.one_of(&[Operation::Put, Operation::Put, Operation::Delete, Operation::CompareAndSet]);
    let status = if input.rarely() { status(input) } else { Status::Ok };
    let number = input.near(known.accepted[usize::from(from)] + 1);
    let (committed, client, request) = (
        input.near(number.saturating_sub(1 + undecided)),
        self::number(input) & 7,
        self::number(input).wrapping_add(1),
    );
    let version = input.near(version(epoch, number & 0xff));
    let value = value(input, status == Status::Ok && operation != Operation::Delete);
    // The NIC's acknowledgement shows whether the write was accepted; until then the stream continues.
    known.accepted[usize::from(from)] = number & 0xff;
    let write =
        Write { epoch, operation, status, number, committed, client, request, version, key: &key, value };
    [&write.header(), write.key, write.value].concat()
}

/// A member's report of the streams at the end of the previous view.
fn sealed(input: &mut Input<'_>, epoch: Epoch, known: &Known) -> Vec<u8> {
    let base = Epoch(input.near(known.previous.epoch.0.into()) as u32);
    let base_members = NodeSet::from_bits(input.near(known.previous.members().bits().into()) as u16);
    let heard = NodeSet::from_bits(input.near(known.view.full.bits().into()) as u16);
    let accepted = lengths(input);
    let mut cuts = [Cut::default(); CUTS_MAX];
    for cut in &mut cuts[..usize::from(input.byte()) % (CUTS_MAX + 1)] {
        *cut = Cut { epoch: Epoch(small(input)), lengths: lengths(input) };
    }
    let mut bytes = [0; Sealed::BYTES_MAX];
    let certain = NodeSet::EMPTY;
    let length = Sealed { epoch, base, base_members, heard, certain, accepted, cuts }.encode(&mut bytes);
    bytes[..length].to_vec()
}

fn lengths(input: &mut Input<'_>) -> [u64; NODES_MAX] {
    let mut lengths = [0; NODES_MAX];
    for length in &mut lengths[..NODES.into()] {
        *length = number(input);
    }
    lengths
}

/// An answer to the latest request for state.
fn state_chunk(input: &mut Input<'_>, epoch: Epoch, known: &Known) -> Vec<u8> {
    let asked = known.asked.unwrap_or(StateRequest { epoch, attempt: 1, what: What::Buckets, from: 0 });
    let attempt = input.near(asked.attempt.into()) as u32;
    let from = input.near(asked.from.into()) as u32;
    let what = if input.rarely() { what(input) } else { asked.what };
    let next = input.one_of(&[u32::MAX, from.wrapping_add(1), from.wrapping_add(128), 256, from]);
    let (last, tag) = (!input.rarely(), number(input));
    let mut records = Vec::new();
    for _ in 0..input.byte() & 3 {
        match what {
            What::Buckets => {
                let version = input.near(version(known.previous.epoch, 1));
                let (key, value) = (key(input), value(input, true));
                records.extend(version.to_be_bytes());
                records.extend((value.len() as u64).rotate_right(16).to_be_bytes());
                records.extend(key);
                records.extend(value);
                records.resize(records.len().next_multiple_of(8), 0);
            }
            What::Sessions => {
                records.extend(number(input).to_be_bytes());
                for _ in 0..SESSION_WINDOW {
                    records.extend(number(input).to_be_bytes());
                    records.extend(number(input).to_be_bytes());
                    records.extend((input.near(0) & 3).rotate_right(8).to_be_bytes());
                }
            }
        }
    }
    let chunk = StateChunk { epoch, attempt, what, last, from, next, tag, records: &records };
    [&chunk.header(), chunk.records].concat()
}
