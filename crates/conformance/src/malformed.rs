//! Malformed packets. Each is dropped or answered as its rule says, is counted, and changes no memory; and
//! the next good packet is processed normally.

use weft_verbs::{
    AccessFlags, Modify, Operation, ProtectionDomain, QueuePairNumber, QueuePairState, ReceiveRequest,
    Region, RegionKeys, Target, WorkRequest,
};
use weft_wire::ethernet::MacAddress;
use weft_wire::frame::{Endpoint, Flow, emit_roce_bytes_frame};
use weft_wire::icrc;
use weft_wire::roce::{self, Opcode};

use crate::counters::COUNTERS;
use crate::language::describe_completion;
use crate::script::describe_frame;
use crate::stage::{Connection, Stage};
use crate::twin::{Kind, MEMORY_BYTES, Options, REGISTER_BYTES, address, hardware};

/// The side that plays the faulty peer.
const PEER: usize = 0;

/// The side under test.
const VICTIM: usize = 1;

/// Offsets of the headers in a frame.
const IPV4_AT: usize = 14;
const UDP_AT: usize = 34;
const BTH_AT: usize = 42;

/// The only memory range of the victim that the peer may access.
const BOX: u64 = 0x8000;
const BOX_BYTES: u64 = 0x100;

/// The mask of a queue pair number's bits that are its index; the bits above are its generation.
const INDEX: u32 = 0x1ff;

/// The PSN that the victim expects, and the PSN of the victim's own first request.
const EXPECTED: u32 = 100;
const OWN: u32 = 500;

/// One kind of malformed packet.
#[derive(Clone, Copy)]
pub struct Case {
    /// What is malformed, as a description.
    pub name: &'static str,
    /// The expected answers, packet by packet in the notation of scripts, without PSN and MSN.
    pub answer: &'static str,
    /// The counter that must be incremented.
    pub counter: &'static str,
    /// Whether the queue pair must enter ERROR.
    pub fatal: bool,
    make: fn(&mut Scene) -> Vec<u8>,
}

/// A victim with a queue pair connected to the peer.
#[derive(Debug)]
struct Scene {
    stage: Stage,
    keys: RegionKeys,
}

/// The effects of a malformed packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Frames that the victim sent.
    pub answers: Vec<Vec<u8>>,
    /// Counters of the victim that moved, and by how much.
    pub counters: Vec<(&'static str, u64)>,
    /// Completions of the victim, and frames passed to its host.
    pub told: Vec<String>,
    /// State of the victim's queue pair.
    pub state: QueuePairState,
}

/// The fields of a packet, valid or not.
#[derive(Clone, Debug)]
struct Raw {
    opcode: u8,
    flags: u8,
    partition_key: u16,
    destination: u32,
    acknowledge: bool,
    psn: u32,
    extended: Vec<u8>,
    payload: Vec<u8>,
}

impl Raw {
    /// A packet of which only the base transport header is complete.
    fn new(scene: &Scene, opcode: Opcode, psn: u32) -> Self {
        Self {
            opcode: opcode as u8,
            flags: 0x40,
            partition_key: 0xffff,
            destination: scene.stage.queue_pairs[VICTIM].0,
            acknowledge: true,
            psn,
            extended: Vec::new(),
            payload: Vec::new(),
        }
    }

    fn extended(mut self, parts: &[&[u8]]) -> Self {
        self.extended = parts.concat();
        self
    }

    /// Adds a payload with the required pad bytes.
    fn payload(mut self, bytes: usize) -> Self {
        self.payload = vec![0x5a; bytes];
        self.flags |= roce::pad_bytes(bytes) << 4;
        self.payload.resize(bytes.next_multiple_of(4), 0);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![self.opcode, self.flags];
        bytes.extend(self.partition_key.to_be_bytes());
        bytes.extend((self.destination & roce::MASK_24).to_be_bytes());
        bytes.extend((u32::from(self.acknowledge) << 31 | self.psn & roce::MASK_24).to_be_bytes());
        bytes.extend(&self.extended);
        bytes.extend(&self.payload);
        bytes
    }

    fn frame(&self) -> Vec<u8> {
        let mut frame = Vec::new();
        emit_roce_bytes_frame(&mut frame, &flow(), &self.bytes());
        frame
    }
}

fn flow() -> Flow {
    let end = |side, port| Endpoint { hardware: hardware(side), address: address(side), port };
    Flow { source: end(PEER, 0xc123), destination: end(VICTIM, roce::UDP_PORT), type_of_service: 0 }
}

fn reth(address: u64, rkey: u32, length: u32) -> Vec<u8> {
    [&address.to_be_bytes()[..], &rkey.to_be_bytes(), &length.to_be_bytes()].concat()
}

fn atomic_header(address: u64, rkey: u32) -> Vec<u8> {
    [&address.to_be_bytes()[..], &rkey.to_be_bytes(), &1_u64.to_be_bytes(), &0_u64.to_be_bytes()].concat()
}

fn aeth(syndrome: u8) -> Vec<u8> {
    vec![syndrome, 0, 0, 1]
}

/// Recomputes the checksums of a frame: IPv4's and the ICRC.
fn sealed(mut frame: Vec<u8>) -> Vec<u8> {
    let total = usize::from(u16::from_be_bytes([frame[IPV4_AT + 2], frame[IPV4_AT + 3]]));
    frame[IPV4_AT + 10..IPV4_AT + 12].fill(0);
    let sum: u32 = frame[IPV4_AT..UDP_AT]
        .chunks_exact(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !(((folded & 0xffff) + (folded >> 16)) as u16);
    frame[IPV4_AT + 10..IPV4_AT + 12].copy_from_slice(&checksum.to_be_bytes());
    let end = IPV4_AT + total;
    if end >= BTH_AT + 16 && end <= frame.len() {
        let ipv4 = frame[IPV4_AT..UDP_AT].try_into().expect("20 bytes");
        let udp = frame[UDP_AT..BTH_AT].try_into().expect("8 bytes");
        let value = icrc::icrc(&ipv4, &udp, &frame[BTH_AT..end - icrc::BYTES]);
        frame[end - icrc::BYTES..end].copy_from_slice(&value.to_le_bytes());
    }
    frame
}

/// Changes bytes of a frame and recomputes its checksums.
fn edited(mut frame: Vec<u8>, edit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    edit(&mut frame);
    sealed(frame)
}

impl Scene {
    fn new(kind: Kind) -> Self {
        let connection = Connection { psn: [EXPECTED, OWN], ..Connection::default() };
        let options = Options { power_on_seed: 3, ..Options::default() };
        let mut stage = Stage::new([Kind::Soft, kind], &connection, options);
        // The peer may access nothing but the box.
        let all = stage.keys[VICTIM];
        let victim = &mut stage.twins[VICTIM];
        victim.driver().modify_region(all, AccessFlags::LOCAL_WRITE).expect("registered");
        let region = Region::host(BOX, BOX_BYTES, AccessFlags::ALL);
        let keys = victim.driver().register_region(region).expect("room");
        stage.settle(VICTIM);
        Self { stage, keys }
    }

    /// A valid WRITE of 8 bytes to the box.
    fn good(&self) -> Vec<u8> {
        self.write(EXPECTED, BOX, self.keys.rkey, 8).frame()
    }

    fn write(&self, psn: u32, address: u64, rkey: u32, bytes: u32) -> Raw {
        Raw::new(self, Opcode::WriteOnly, psn)
            .extended(&[&reth(address, rkey, bytes)])
            .payload(bytes as usize)
    }

    fn read(&self, psn: u32, address: u64, rkey: u32, bytes: u32) -> Raw {
        Raw::new(self, Opcode::ReadRequest, psn).extended(&[&reth(address, rkey, bytes)])
    }

    fn atomic(&self, psn: u32, address: u64, rkey: u32) -> Raw {
        Raw::new(self, Opcode::FetchAdd, psn).extended(&[&atomic_header(address, rkey)])
    }

    fn answer(&self, psn: u32, syndrome: u8) -> Raw {
        Raw::new(self, Opcode::Acknowledge, psn).extended(&[&aeth(syndrome)])
    }

    /// Delivers a preceding packet to the victim, which is not the malformed one.
    fn before(&mut self, raw: &Raw) {
        self.stage.deliver(VICTIM, &raw.frame());
        self.stage.outbox[VICTIM].clear();
    }

    /// Registers another region of the victim.
    fn region(&mut self, region: Region) -> RegionKeys {
        let keys = self.stage.twins[VICTIM].driver().register_region(region).expect("room");
        self.stage.settle(VICTIM);
        keys
    }

    fn box_with(&mut self, access: AccessFlags) -> RegionKeys {
        self.region(Region::host(BOX, BOX_BYTES, access))
    }

    fn receive(&mut self, bytes: u32) {
        let local = self.stage.local(VICTIM, 0x4000, bytes);
        self.stage.post_receive(VICTIM, ReceiveRequest { id: 77, local }).expect("room");
    }

    /// The victim sends a request to the peer; its packets are lost.
    fn request(&mut self, operation: Operation, bytes: u32) {
        let local = self.stage.local(VICTIM, 0x5000, bytes);
        self.stage.post(VICTIM, WorkRequest::new(78, operation, local));
        self.stage.outbox[VICTIM].clear();
    }

    fn images(&mut self) -> Vec<Vec<u8>> {
        Target::ALL
            .map(|target| {
                let bytes = if target == Target::Register { REGISTER_BYTES } else { MEMORY_BYTES };
                self.stage.twins[VICTIM].image(target, bytes)
            })
            .into()
    }
}

/// Delivers one kind of malformed packet to a NIC.
///
/// # Errors
/// Memory changed, or the next good packet was not processed.
pub fn suffer(case: &Case, kind: Kind) -> Result<Outcome, String> {
    let mut scene = Scene::new(kind);
    let bad = (case.make)(&mut scene);
    let victim = &mut scene.stage.twins[VICTIM];
    victim.take_completions();
    victim.host_frames.clear();
    let before = scene.images();
    let counters_before = scene.stage.twins[VICTIM].counters();

    scene.stage.deliver(VICTIM, &bad);

    let answers: Vec<_> = scene.stage.outbox[VICTIM].drain(..).collect();
    let counters_after = scene.stage.twins[VICTIM].counters();
    let value = |all: &[(&str, u64)], name: &&str| -> u64 {
        all.iter().filter(|(known, _)| *known == *name).map(|(_, value)| value).sum()
    };
    let moved = |name: &&str| value(&counters_after, name) - value(&counters_before, name);
    let counters = COUNTERS
        .iter()
        .chain(&["memory_fault"])
        .map(|name| (*name, moved(name)))
        .filter(|(_, by)| *by > 0)
        .collect();
    if scene.images() != before {
        return Err("memory changed".into());
    }
    let victim = &mut scene.stage.twins[VICTIM];
    let mut told: Vec<_> = victim.take_completions().iter().map(describe_completion).collect();
    told.extend(std::mem::take(&mut victim.host_frames).iter().map(|frame| format!("{} bytes", frame.len())));
    let number = scene.stage.queue_pairs[VICTIM];
    let information = scene.stage.twins[VICTIM].driver().query_queue_pair(number).expect("created");
    let state = information.state;
    scene.stage.settle(VICTIM);
    next_good_packet(&mut scene, state == QueuePairState::Error || information.rq_psn != EXPECTED)?;
    Ok(Outcome { answers, counters, told, state })
}

/// Sends a good WRITE over the same queue pair, or over a new one if that one is in ERROR.
fn next_good_packet(scene: &mut Scene, fresh: bool) -> Result<(), String> {
    let stage = &mut scene.stage;
    if fresh {
        let connection = Connection { psn: [7, 9], ..Connection::default() };
        let numbers: [QueuePairNumber; 2] =
            [0, 1].map(|side: usize| stage.twins[side].create_queue_pair().expect("room"));
        for side in 0..2 {
            let (receive, send) = connection.attributes(side, numbers[1 - side]);
            let driver = stage.twins[side].driver();
            driver
                .connect(numbers[side], AccessFlags::ALL, receive, send)
                .map_err(|error| error.to_string())?;
        }
        stage.queue_pairs = numbers;
        for side in 0..2 {
            stage.settle(side);
        }
    } else {
        let access = Modify::Access(AccessFlags::ALL);
        stage.modify(VICTIM, access).map_err(|error| format!("the queue pair does not work: {error}"))?;
    }
    stage.outbox.iter_mut().for_each(|outbox| outbox.clear());
    let remote = weft_verbs::RemoteAddress { address: BOX + 0x40, rkey: scene.keys.rkey };
    let request =
        WorkRequest::new(99, Operation::Write { remote, immediate: None }, stage.local(PEER, 0x1003, 64));
    stage.post(PEER, request);
    stage.exchange();
    let completions = stage.twins[PEER].take_completions();
    let done = completions.iter().any(|completion| {
        completion.id == 99 && describe_completion(completion) == "#99 IBV_WC_SUCCESS Write"
    });
    let source = stage.twins[PEER].image(Target::Host, 0x1003 + 64).split_off(0x1003);
    let at = (BOX + 0x40) as usize;
    let arrived = stage.twins[VICTIM].image(Target::Host, at + 64).split_off(at);
    if !done || arrived != source {
        return Err(format!("the next good packet does not work: {completions:?}"));
    }
    Ok(())
}

impl Outcome {
    /// The answers in the format of [`Case::answer`].
    pub fn answer(&self) -> String {
        let texts: Vec<String> = self
            .answers
            .iter()
            .map(|frame| {
                let line = describe_frame(frame);
                let words =
                    line.split(' ').filter(|word| !word.starts_with("psn=") && !word.starts_with("msn="));
                words.collect::<Vec<_>>().join(" ")
            })
            .collect();
        texts.join("; ")
    }

    /// The increment of a counter.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.iter().find(|(known, _)| *known == name).map_or(0, |(_, by)| *by)
    }
}

const INVALID: &str = "ACKNOWLEDGE NAK InvalidRequest";
const FORBIDDEN: &str = "ACKNOWLEDGE NAK RemoteAccessError";
const FAILED: &str = "ACKNOWLEDGE NAK RemoteOperationalError";
const GAP: &str = "ACKNOWLEDGE NAK PsnSequenceError";
const WAIT: &str = "ACKNOWLEDGE RNR timer=12";

macro_rules! cases {
    ($($name:literal, $answer:expr, $counter:ident $(, $fatal:ident)?: $make:expr;)*) => {
        /// All kinds of malformed packets.
        pub const CASES: &[Case] = &[
            $(Case {
                name: $name,
                answer: $answer,
                counter: stringify!($counter),
                fatal: <[&str]>::len(&[$(stringify!($fatal))?]) == 1,
                make: $make,
            },)*
        ];
    };
}

cases! {
    "a frame that ends in its Ethernet header", "", frames_malformed: |scene| scene.good()[..10].to_vec();
    "a frame that ends in its IPv4 header", "", frames_malformed: |scene| scene.good()[..24].to_vec();
    "a frame for another station", "", frames_for_others: |scene| edited(scene.good(), |bytes| bytes[..6].copy_from_slice(&MacAddress([2, 0, 0, 0, 0, 9]).0));
    "IP version 6 behind IPv4's type", "", frames_malformed: |scene| edited(scene.good(), |bytes| bytes[IPV4_AT] = 0x65);
    "an IPv4 header of four words", "", frames_malformed: |scene| edited(scene.good(), |bytes| bytes[IPV4_AT] = 0x44);
    "a wrong IPv4 checksum", "", frames_malformed: |scene| { let mut bytes = scene.good(); bytes[IPV4_AT + 10] ^= 1; bytes };
    "an IPv4 packet longer than its frame", "", frames_malformed: |scene| edited(scene.good(), |bytes| bytes[IPV4_AT + 2] = 1);
    "an IPv4 packet shorter than its header", "", frames_malformed: |scene| edited(scene.good(), |bytes| bytes[IPV4_AT + 2..IPV4_AT + 4].copy_from_slice(&[0, 19]));
    "IPv4's reserved flag", "", frames_malformed: |scene| edited(scene.good(), |bytes| bytes[IPV4_AT + 6] |= 0x80);
    "a fragment", "", frames_to_host: |scene| edited(scene.good(), |bytes| bytes[IPV4_AT + 6] |= 0x20);
    "another destination address", "", frames_to_host: |scene| edited(scene.good(), |bytes| bytes[IPV4_AT + 19] = 77);
    "a UDP length beyond the packet", "", frames_malformed: |scene| edited(scene.good(), |bytes| bytes[UDP_AT + 4] = 1);
    "a UDP length below its header", "", frames_malformed: |scene| edited(scene.good(), |bytes| bytes[UDP_AT + 4..UDP_AT + 6].copy_from_slice(&[0, 7]));
    "a wrong UDP checksum", "", frames_malformed: |scene| edited(scene.good(), |bytes| bytes[UDP_AT + 6..UDP_AT + 8].copy_from_slice(&[0x12, 0x34]));
    "a wrong ICRC", "", icrc_errors: |scene| { let mut bytes = scene.good(); let last = bytes.len() - 1; bytes[last] ^= 0x80; bytes };
    "a flipped bit of the payload", "", icrc_errors: |scene| { let mut bytes = scene.good(); let last = bytes.len() - 6; bytes[last] ^= 4; bytes };
    "a flipped bit of the PSN", "", icrc_errors: |scene| { let mut bytes = scene.good(); bytes[BTH_AT + 11] ^= 1; bytes };
    "a packet cut short, with lengths that agree", "", icrc_errors: |scene| {
        let mut bytes = scene.write(EXPECTED, BOX, scene.keys.rkey, 64).frame();
        bytes.truncate(bytes.len() - 8);
        let (ipv4, udp) = ((bytes.len() - IPV4_AT) as u16, (bytes.len() - UDP_AT) as u16);
        bytes[IPV4_AT + 2..IPV4_AT + 4].copy_from_slice(&ipv4.to_be_bytes());
        bytes[UDP_AT + 4..UDP_AT + 6].copy_from_slice(&udp.to_be_bytes());
        let mut right = sealed(bytes.clone());
        let icrc_at = bytes.len() - icrc::BYTES;
        right[icrc_at..].copy_from_slice(&bytes[icrc_at..]);
        right
    };
    "a datagram too short for a base transport header", "", icrc_errors: |scene| {
        edited(scene.good(), |bytes| {
            bytes[IPV4_AT + 2..IPV4_AT + 4].copy_from_slice(&40_u16.to_be_bytes());
            bytes[UDP_AT + 4..UDP_AT + 6].copy_from_slice(&20_u16.to_be_bytes());
        })
    };
    "a length that is not a multiple of four", "", roce_malformed: |scene| {
        let mut raw = scene.write(EXPECTED, BOX, scene.keys.rkey, 8);
        raw.payload.pop();
        raw.frame()
    };
    "an opcode that is reserved", "", roce_malformed: |scene| { let mut raw = scene.write(EXPECTED, BOX, scene.keys.rkey, 8); raw.opcode = 0x1f; raw.frame() };
    "an opcode of the unreliable datagram service", "", roce_malformed: |scene| { let mut raw = scene.write(EXPECTED, BOX, scene.keys.rkey, 8); raw.opcode = 0x64; raw.frame() };
    "a transport header of version 1", "", roce_malformed: |scene| { let mut raw = scene.write(EXPECTED, BOX, scene.keys.rkey, 8); raw.flags |= 1; raw.frame() };
    "a RETH that is cut short", "", roce_malformed: |scene| Raw::new(scene, Opcode::WriteOnly, EXPECTED).extended(&[&reth(BOX, scene.keys.rkey, 0)[..8]]).frame();
    "an AtomicETH that is cut short", "", roce_malformed: |scene| Raw::new(scene, Opcode::FetchAdd, EXPECTED).extended(&[&atomic_header(BOX, scene.keys.rkey)[..24]]).frame();
    "more pad than payload", "", roce_malformed: |scene| { let mut raw = scene.write(EXPECTED, BOX, scene.keys.rkey, 0); raw.flags |= 0x30; raw.frame() };
    "a READ request with a payload", "", roce_malformed: |scene| scene.read(EXPECTED, BOX, scene.keys.rkey, 8).payload(8).frame();
    "an acknowledgement with a payload", "", roce_malformed: |scene| scene.answer(OWN, 0x1f).payload(4).frame();
    "an acknowledgement of a reserved kind", "", roce_malformed: |scene| scene.answer(OWN, 0x45).frame();
    "a NAK of a reserved code", "", roce_malformed: |scene| scene.answer(OWN, 0x6a).frame();
    "a queue pair that does not exist", "", drop_unknown_queue_pair: |scene| { let mut raw = scene.write(EXPECTED, BOX, scene.keys.rkey, 8); raw.destination = 0x77_0123; raw.frame() };
    "a queue pair number of another generation", "", drop_unknown_queue_pair: |scene| { let mut raw = scene.write(EXPECTED, BOX, scene.keys.rkey, 8); raw.destination += 0x200; raw.frame() };
    "an acknowledgement for a queue pair that does not exist", "", drop_unknown_queue_pair: |scene| { let mut raw = scene.answer(OWN, 0x1f); raw.destination = 0x77_0123; raw.frame() };
    "a number that was destroyed", "", drop_unknown_queue_pair: |scene| {
        let gone = destroyed(scene);
        let mut raw = scene.write(EXPECTED, BOX, scene.keys.rkey, 8);
        raw.destination = gone.0;
        raw.frame()
    };
    "a number that was destroyed, without its generation", "", drop_unknown_queue_pair: |scene| {
        let gone = destroyed(scene);
        let mut raw = scene.write(EXPECTED, BOX, scene.keys.rkey, 8);
        raw.destination = gone.0 & INDEX;
        raw.frame()
    };
    "an acknowledgement for a number that was destroyed", "", drop_unknown_queue_pair: |scene| {
        let gone = destroyed(scene);
        let mut raw = scene.answer(OWN, 0x1f);
        raw.destination = gone.0;
        raw.frame()
    };
    "an acknowledgement for a number that was destroyed, without its generation", "", drop_unknown_queue_pair: |scene| {
        let gone = destroyed(scene);
        let mut raw = scene.answer(OWN, 0x1f);
        raw.destination = gone.0 & INDEX;
        raw.frame()
    };
    "another source address", "", drop_wrong_source: |scene| edited(scene.good(), |bytes| bytes[IPV4_AT + 15] = 77);
    "an acknowledgement from another source address", "", drop_wrong_source: |scene| edited(scene.answer(OWN, 0x1f).frame(), |bytes| bytes[IPV4_AT + 15] = 77);
    "another partition", "", drop_partition_key: |scene| { let mut raw = scene.write(EXPECTED, BOX, scene.keys.rkey, 8); raw.partition_key = 0x8001; raw.frame() };
    "an acknowledgement of another partition", "", drop_partition_key: |scene| { let mut raw = scene.answer(OWN, 0x1f); raw.partition_key = 0x8001; raw.frame() };
    "a queue pair in RESET", "", drop_wrong_state: |scene| {
        let idle = scene.stage.twins[VICTIM].create_queue_pair().expect("room");
        let mut raw = scene.write(EXPECTED, BOX, scene.keys.rkey, 8);
        raw.destination = idle.0;
        raw.frame()
    };
    "a queue pair in ERROR", "", drop_wrong_state, fatal: |scene| {
        scene.stage.modify(VICTIM, Modify::Error).expect("legal");
        scene.good()
    };
    "a packet longer than the path MTU", INVALID, sent_invalid_request, fatal: |scene| scene.write(EXPECTED, BOX, scene.keys.rkey, 256 - 4).payload(260).frame();
    "a frame longer than any may be", "", frames_malformed: |scene| scene.write(EXPECTED, BOX, scene.keys.rkey, 9_300).frame();
    "a key that no region has", FORBIDDEN, violation_key, fatal: |scene| scene.write(EXPECTED, BOX, 0x1234_5678, 8).frame();
    "the key of a region that is gone", FORBIDDEN, violation_key, fatal: |scene| {
        let keys = scene.box_with(AccessFlags::ALL);
        scene.stage.twins[VICTIM].driver().deregister_region(keys).expect("registered");
        scene.write(EXPECTED, BOX, keys.rkey, 8).frame()
    };
    "the local key in place of the remote one", FORBIDDEN, violation_key, fatal: |scene| scene.write(EXPECTED, BOX, scene.keys.lkey, 8).frame();
    "a region of another protection domain", FORBIDDEN, violation_domain, fatal: |scene| {
        let keys = scene.region(Region { domain: ProtectionDomain(5), ..Region::host(BOX, BOX_BYTES, AccessFlags::ALL) });
        scene.write(EXPECTED, BOX, keys.rkey, 8).frame()
    };
    "a WRITE past the end", FORBIDDEN, violation_bounds, fatal: |scene| scene.write(EXPECTED, BOX + BOX_BYTES - 7, scene.keys.rkey, 8).frame();
    "a WRITE before the beginning", FORBIDDEN, violation_bounds, fatal: |scene| scene.write(EXPECTED, BOX - 1, scene.keys.rkey, 8).frame();
    "a WRITE that wraps the address space", FORBIDDEN, violation_bounds, fatal: |scene| scene.write(EXPECTED, u64::MAX - 3, scene.keys.rkey, 8).frame();
    "a WRITE whose address matches in its low 48 bits", FORBIDDEN, violation_bounds, fatal: |scene| scene.write(EXPECTED, BOX | 1 << 48, scene.keys.rkey, 8).frame();
    "a WRITE whose later packets would leave the region", FORBIDDEN, violation_bounds, fatal: |scene| Raw::new(scene, Opcode::WriteFirst, EXPECTED).extended(&[&reth(BOX, scene.keys.rkey, 0x101)]).payload(256).frame();
    "a WRITE without permission", FORBIDDEN, violation_permission, fatal: |scene| {
        let keys = scene.box_with(AccessFlags::REMOTE_READ);
        scene.write(EXPECTED, BOX, keys.rkey, 8).frame()
    };
    "a READ without permission", FORBIDDEN, violation_permission, fatal: |scene| {
        let keys = scene.box_with(AccessFlags::LOCAL_WRITE.with(AccessFlags::REMOTE_WRITE));
        scene.read(EXPECTED, BOX, keys.rkey, 8).frame()
    };
    "an atomic without permission", FORBIDDEN, violation_permission, fatal: |scene| {
        let keys = scene.box_with(AccessFlags::LOCAL_WRITE.with(AccessFlags::REMOTE_WRITE).with(AccessFlags::REMOTE_READ));
        scene.atomic(EXPECTED, BOX, keys.rkey).frame()
    };
    "a READ past the end", FORBIDDEN, violation_bounds, fatal: |scene| scene.read(EXPECTED, BOX, scene.keys.rkey, 0x101).frame();
    "an atomic past the end", FORBIDDEN, violation_bounds, fatal: |scene| scene.atomic(EXPECTED, BOX + BOX_BYTES, scene.keys.rkey).frame();
    "a WRITE that the queue pair does not allow", INVALID, sent_invalid_request, fatal: |scene| {
        scene.stage.modify(VICTIM, Modify::Access(AccessFlags::REMOTE_READ)).expect("legal");
        scene.good()
    };
    "a READ that the queue pair does not allow", INVALID, sent_invalid_request, fatal: |scene| {
        scene.stage.modify(VICTIM, Modify::Access(AccessFlags::REMOTE_WRITE)).expect("legal");
        scene.read(EXPECTED, BOX, scene.keys.rkey, 8).frame()
    };
    "an atomic that the queue pair does not allow", INVALID, sent_invalid_request, fatal: |scene| {
        scene.stage.modify(VICTIM, Modify::Access(AccessFlags::REMOTE_WRITE)).expect("legal");
        scene.atomic(EXPECTED, BOX, scene.keys.rkey).frame()
    };
    "memory that is not installed", FAILED, sent_operational_error, fatal: |scene| {
        let keys = scene.region(Region::host(0x100_0000, 0x100, AccessFlags::ALL));
        scene.write(EXPECTED, 0x100_0000, keys.rkey, 8).frame()
    };
    "an atomic on a word that is not aligned", INVALID, sent_invalid_request, fatal: |scene| scene.atomic(EXPECTED, BOX + 4, scene.keys.rkey).frame();
    "a READ of more than 2^31 bytes", INVALID, sent_invalid_request, fatal: |scene| scene.read(EXPECTED, BOX, scene.keys.rkey, (1 << 31) + 1).frame();
    "a WRITE of more bytes than it announces", INVALID, sent_invalid_request, fatal: |scene| scene.write(EXPECTED, BOX, scene.keys.rkey, 4).payload(8).frame();
    "a WRITE of fewer bytes than it announces", INVALID, sent_invalid_request, fatal: |scene| scene.write(EXPECTED, BOX, scene.keys.rkey, 12).payload(8).frame();
    "a WRITE FIRST of one packet", INVALID, sent_invalid_request, fatal: |scene| Raw::new(scene, Opcode::WriteFirst, EXPECTED).extended(&[&reth(BOX, scene.keys.rkey, 256)]).payload(256).frame();
    "a WRITE MIDDLE without a FIRST", INVALID, sent_invalid_request, fatal: |scene| Raw::new(scene, Opcode::WriteMiddle, EXPECTED).payload(256).frame();
    "a WRITE LAST without a FIRST", INVALID, sent_invalid_request, fatal: |scene| Raw::new(scene, Opcode::WriteLast, EXPECTED).payload(8).frame();
    "a SEND MIDDLE without a FIRST", INVALID, sent_invalid_request, fatal: |scene| Raw::new(scene, Opcode::SendMiddle, EXPECTED).payload(256).frame();
    "a SEND LAST without a FIRST", INVALID, sent_invalid_request, fatal: |scene| Raw::new(scene, Opcode::SendLast, EXPECTED).payload(8).frame();
    "a SEND LAST in a WRITE", INVALID, sent_invalid_request, fatal: |scene| begun_write(scene, &Raw::new(scene, Opcode::SendLast, EXPECTED + 1).payload(8));
    "a WRITE ONLY in a WRITE", INVALID, sent_invalid_request, fatal: |scene| begun_write(scene, &scene.write(EXPECTED + 1, BOX, scene.keys.rkey, 8));
    "a READ in a WRITE", INVALID, sent_invalid_request, fatal: |scene| begun_write(scene, &scene.read(EXPECTED + 1, BOX, scene.keys.rkey, 8));
    "a WRITE LAST that is too long", INVALID, sent_invalid_request, fatal: |scene| begun_write(scene, &Raw::new(scene, Opcode::WriteLast, EXPECTED + 1).payload(252));
    "a WRITE LAST of nothing", INVALID, sent_invalid_request, fatal: |scene| begun_write(scene, &Raw::new(scene, Opcode::WriteLast, EXPECTED + 1));
    "a WRITE MIDDLE that is not full", INVALID, sent_invalid_request, fatal: |scene| begun_write(scene, &Raw::new(scene, Opcode::WriteMiddle, EXPECTED + 1).payload(128));
    "a SEND FIRST that is not full", INVALID, sent_invalid_request, fatal: |scene| {
        scene.receive(1_000);
        Raw::new(scene, Opcode::SendFirst, EXPECTED).payload(252).frame()
    };
    "a WRITE LAST in a SEND", INVALID, sent_invalid_request, fatal: |scene| {
        scene.receive(1_000);
        let first = Raw::new(scene, Opcode::SendFirst, EXPECTED).payload(256);
        scene.before(&first);
        Raw::new(scene, Opcode::WriteLast, EXPECTED + 1).payload(8).frame()
    };
    "a SEND longer than its receive request", INVALID, sent_invalid_request, fatal: |scene| {
        scene.receive(4);
        Raw::new(scene, Opcode::SendOnly, EXPECTED).payload(8).frame()
    };
    "a SEND without a receive request", WAIT, send_rnr_err: |scene| Raw::new(scene, Opcode::SendOnly, EXPECTED).payload(8).frame();
    "a WRITE with immediate without a receive request", WAIT, send_rnr_err: |scene| {
        Raw::new(scene, Opcode::WriteOnlyWithImmediate, EXPECTED).extended(&[&reth(BOX, scene.keys.rkey, 0), &[0; 4]]).frame()
    };
    "a PSN behind a gap", GAP, out_of_seq_request: |scene| scene.write(EXPECTED + 1, BOX, scene.keys.rkey, 8).frame();
    "a PSN far ahead", GAP, out_of_seq_request: |scene| scene.write(EXPECTED + 0x7f_ffff, BOX, scene.keys.rkey, 8).frame();
    "a second packet behind a gap", "", drop_out_of_sequence: |scene| {
        let first = scene.write(EXPECTED + 1, BOX, scene.keys.rkey, 8);
        scene.before(&first);
        scene.write(EXPECTED + 2, BOX, scene.keys.rkey, 8).frame()
    };
    "a PSN far behind", "ACKNOWLEDGE", duplicate_request: |scene| scene.write(EXPECTED.wrapping_sub(0x7f_0000), BOX, scene.keys.rkey, 8).frame();
    "a duplicate atomic that never was", "", drop_unknown_duplicate: |scene| scene.atomic(EXPECTED - 3, BOX, scene.keys.rkey).frame();
    "a duplicate READ that never was", "", drop_unknown_duplicate: |scene| scene.read(EXPECTED - 3, BOX, scene.keys.rkey, 8).frame();
    "an acknowledgement of what was never sent", "", drop_ghost_response: |scene| scene.answer(OWN, 0x1f).frame();
    "a NAK of what was never sent", "", drop_ghost_response: |scene| scene.answer(OWN + 3, 0x62).frame();
    "a receiver-not-ready of what was never sent", "", drop_ghost_response: |scene| scene.answer(OWN + 3, 0x2c).frame();
    "a READ response that nobody asked for", "", drop_ghost_response: |scene| Raw::new(scene, Opcode::ReadResponseOnly, OWN).extended(&[&aeth(0x1f)]).payload(8).frame();
    "an atomic response that nobody asked for", "", drop_ghost_response: |scene| Raw::new(scene, Opcode::AtomicAcknowledge, OWN).extended(&[&aeth(0x1f), &[0; 8]]).frame();
    "an acknowledgement from long ago", "", drop_stale_response: |scene| scene.answer(OWN - 1, 0x1f).frame();
    "a READ response that is too long", "", rcvd_pkts, fatal: |scene| {
        scene.request(read(), 8);
        Raw::new(scene, Opcode::ReadResponseOnly, OWN).extended(&[&aeth(0x1f)]).payload(12).frame()
    };
    "a READ response that is too short", "", rcvd_pkts, fatal: |scene| {
        scene.request(read(), 8);
        Raw::new(scene, Opcode::ReadResponseOnly, OWN).extended(&[&aeth(0x1f)]).payload(4).frame()
    };
    "an atomic response to a READ", "", rcvd_pkts, fatal: |scene| {
        scene.request(read(), 8);
        Raw::new(scene, Opcode::AtomicAcknowledge, OWN).extended(&[&aeth(0x1f), &[0; 8]]).frame()
    };
    "a NAK: invalid request", "", rcvd_invalid_request, fatal: |scene| { scene.request(read(), 8); scene.answer(OWN, 0x61).frame() };
    "a NAK: remote access", "", rcvd_access_error, fatal: |scene| { scene.request(read(), 8); scene.answer(OWN, 0x62).frame() };
    "a NAK: remote operation", "", rcvd_operational_error, fatal: |scene| { scene.request(read(), 8); scene.answer(OWN, 0x63).frame() };
    "a NAK that only reliable datagrams have", "", drop_reserved_syndrome: |scene| { scene.request(read(), 8); scene.answer(OWN, 0x64).frame() };
}

/// The number of a queue pair that was connected and then destroyed.
fn destroyed(scene: &mut Scene) -> QueuePairNumber {
    let connection = Connection { psn: [EXPECTED, OWN], ..Connection::default() };
    let victim = &mut scene.stage.twins[VICTIM];
    let number = victim.create_queue_pair().expect("room");
    let (receive, send) = connection.attributes(VICTIM, scene.stage.queue_pairs[PEER]);
    victim.driver().connect(number, AccessFlags::ALL, receive, send).expect("legal");
    victim.driver().destroy_queue_pair(number).expect("created");
    scene.stage.settle(VICTIM);
    number
}

/// A READ of the peer's memory.
fn read() -> Operation {
    Operation::Read { remote: weft_verbs::RemoteAddress { address: 0x2000, rkey: 1 } }
}

/// The first packet of a two-packet WRITE to the box is delivered; returns the frame of `then`.
fn begun_write(scene: &mut Scene, then: &Raw) -> Vec<u8> {
    let keys = scene.region(Region::host(BOX, 0x1000, AccessFlags::ALL));
    let first =
        Raw::new(scene, Opcode::WriteFirst, EXPECTED).extended(&[&reth(BOX, keys.rkey, 300)]).payload(256);
    scene.before(&first);
    then.frame()
}
