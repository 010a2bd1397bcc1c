//! Frames that neither twin made: real traffic of Linux' soft RoCE (`crates/wire/tests/data/README.md`),
//! frame by frame.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use pcap_file::pcap::PcapReader;
use weft_verbs::{
    AccessFlags, LocalBuffer, PathMtu, QueuePairNumber, ReadyToReceive, ReadyToSend, ReceiveRequest, Region,
    Target,
};
use weft_wire::ethernet::MacAddress;
use weft_wire::frame::{Endpoint, Flow, Frame, emit_roce_frame};
use weft_wire::icrc::{self, Path};
use weft_wire::roce::{self, Packet};

use crate::counters::COUNTERS;
use crate::twin::{Kind, MEMORY_BYTES, Options, Twin, hardware};

/// All frames of the capture of mixed traffic, unchanged.
///
/// # Panics
/// If the capture file is invalid.
pub fn frames() -> Vec<Vec<u8>> {
    read(include_bytes!("../../wire/tests/data/rxe.pcap"))
}

fn read(capture: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = PcapReader::new(capture).expect("as captured");
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.expect("as captured");
        let mut frame = packet.data.into_owned();
        if frame.len() < packet.orig_len as usize {
            frame.resize(packet.orig_len as usize, 0);
            seal(&mut frame);
        }
        frames.push(frame);
    }
    frames
}

/// Recomputes the ICRC of a RoCE frame whose payload was truncated in the capture.
fn seal(frame: &mut [u8]) {
    let Ok(Frame::Udp { ipv4, udp, payload, .. }) = Frame::parse(frame) else { panic!("a RoCE frame") };
    let mut payload = payload[..payload.len() - icrc::BYTES].to_vec();
    Path::new(&ipv4, &udp).append(&mut payload, 0);
    let start = frame.len() - payload.len();
    frame[start..].copy_from_slice(&payload);
}

/// Gives one kind of NIC all captured frames that were sent to `address`, unchanged, and returns its
/// reactions.
///
/// # Panics
/// If the NIC never becomes quiet.
pub fn untouched(
    kind: Kind,
    address: Ipv4Addr,
    station: MacAddress,
) -> (Vec<Vec<u8>>, BTreeMap<String, u64>, usize) {
    let mut nic = Twin::at(kind, station, address, Options::default());
    for frame in frames() {
        nic.receive(nic.now(), &frame);
        nic.settle(nic.now());
    }
    let counters = nic.counters();
    let counters = COUNTERS.iter().filter_map(|name| {
        let value = counters.iter().find(|(known, _)| known == name)?.1;
        (value > 0).then(|| ((*name).to_owned(), value))
    });
    let counters = counters.collect();
    (nic.take_frames(), counters, nic.host_frames.len())
}

/// The requests to one queue pair, and the responses to them.
#[derive(Clone, Debug)]
pub struct Conversation {
    source: Ipv4Addr,
    /// The requests.
    pub requests: Vec<Vec<u8>>,
    /// The responses of the captured responder.
    pub responses: Vec<Vec<u8>>,
}

/// The conversations in the capture of mixed traffic, by responder and its queue pair.
///
/// # Panics
/// If the capture file is invalid.
pub fn conversations() -> BTreeMap<(Ipv4Addr, u32), Conversation> {
    conversations_in(frames())
}

/// A conversation in which Linux retransmits WRITEs that precede atomics, with the responses of an earlier
/// version of Weft.
///
/// # Panics
/// If the capture file is invalid.
pub fn repeated_writes() -> Conversation {
    let capture = include_bytes!("../../wire/tests/data/rxe-repeated-writes.pcap");
    conversations_in(read(capture)).into_values().next().expect("as captured")
}

fn conversations_in(frames: Vec<Vec<u8>>) -> BTreeMap<(Ipv4Addr, u32), Conversation> {
    let mut requests: BTreeMap<(Ipv4Addr, u32), Conversation> = BTreeMap::new();
    let mut responses: BTreeMap<Ipv4Addr, Vec<(u32, Vec<u8>)>> = BTreeMap::new();
    for frame in frames {
        let Ok(Frame::Udp { ipv4, udp, payload, .. }) = Frame::parse(&frame) else { continue };
        let Ok(packet) = Path::new(&ipv4, &udp).verify(payload).and_then(Packet::parse) else { continue };
        if packet.bth.opcode.is_response() {
            responses.entry(ipv4.source).or_default().push((packet.bth.destination, frame.clone()));
        } else {
            let key = (ipv4.destination, packet.bth.destination);
            let new = || Conversation { source: ipv4.source, requests: Vec::new(), responses: Vec::new() };
            requests.entry(key).or_insert_with(new).requests.push(frame.clone());
        }
    }
    // A response carries the requester's queue pair. The PSNs show which conversation it belongs to.
    for ((responder, _), conversation) in &mut requests {
        let psns: Vec<u32> =
            conversation.requests.iter().map(|frame| parse(frame, |packet| packet.bth.psn)).collect();
        let first = psns[0];
        let last = psns.iter().map(|psn| psn.wrapping_sub(first) & roce::MASK_24).max().expect("as captured");
        for (_, frame) in responses.get(responder).into_iter().flatten() {
            let psn = parse(frame, |packet| packet.bth.psn);
            // The responses to a READ use the PSNs that follow its request's PSN.
            if psn.wrapping_sub(first) & roce::MASK_24 <= last + 8 {
                conversation.responses.push(frame.clone());
            }
        }
    }
    requests
}

/// Parses a RoCE frame.
///
/// # Panics
/// If the frame is not a valid RoCE frame.
pub fn parse<T>(frame: &[u8], read: impl FnOnce(&Packet<'_>) -> T) -> T {
    let Ok(Frame::Udp { ipv4, udp, payload, .. }) = Frame::parse(frame) else { panic!("a RoCE frame") };
    let packet = Path::new(&ipv4, &udp).verify(payload).and_then(Packet::parse).expect("as captured");
    read(&packet)
}

/// Responses, completions, memory and counters.
pub type Outcome = (Vec<Vec<u8>>, Vec<String>, Vec<u8>, Vec<(&'static str, u64)>);

const OWN_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 9, 8, 7);

/// Replays requests to a queue pair that expects the first of them. Queue pair number, key and memory address
/// are replaced by this NIC's. Everything else is as captured, including payloads, PSNs and addresses of the
/// path.
///
/// # Panics
/// If the NIC refuses the set-up.
pub fn replay(kind: Kind, conversation: &Conversation) -> Outcome {
    let mut nic = Twin::at(kind, hardware(1), OWN_ADDRESS, Options::default());
    nic.add_neighbour(conversation.source, hardware(0));
    let region = Region::host(0, MEMORY_BYTES as u64, AccessFlags::ALL);
    let keys = nic.driver().register_region(region).expect("as captured");
    let number = nic.create_queue_pair().expect("as captured");
    let receive = ReadyToReceive {
        destination: conversation.source.into(),
        destination_qp_num: QueuePairNumber(0x11),
        rq_psn: parse(&conversation.requests[0], |packet| packet.bth.psn),
        path_mtu: PathMtu::Bytes1024,
        max_dest_rd_atomic: 16,
        min_rnr_timer: 12,
    };
    let send = ReadyToSend { sq_psn: 0, timeout: 14, retry_cnt: 7, rnr_retry: 7, max_rd_atomic: 16 };
    nic.driver().connect(number, AccessFlags::ALL, receive, send).expect("as captured");
    for id in 0..32 {
        let local = LocalBuffer { address: 0x1_0000 + 0x800 * id, length: 0x2000, lkey: keys.lkey };
        let local = LocalBuffer { address: local.address.min(0x1_e000), ..local };
        nic.post_receive(number, ReceiveRequest { id, local }).expect("as captured");
    }
    let (mut answers, mut told) = (Vec::new(), Vec::new());
    for frame in &conversation.requests {
        let Ok(Frame::Udp { ipv4, udp, payload, .. }) = Frame::parse(frame) else { unreachable!() };
        let bytes = Path::new(&ipv4, &udp).verify(payload).expect("as captured");
        let mut packet = Packet::parse(bytes).expect("as captured");
        packet.bth.destination = number.0;
        if let Some(reth) = &mut packet.reth {
            (reth.address, reth.rkey) = (reth.address & 0x7fff, keys.rkey);
        }
        if let Some(atomic) = &mut packet.atomic {
            (atomic.address, atomic.rkey) = (atomic.address & 0x7fff, keys.rkey);
        }
        let flow = Flow {
            source: Endpoint { hardware: hardware(0), address: ipv4.source, port: udp.source_port },
            destination: Endpoint { hardware: hardware(1), address: OWN_ADDRESS, port: roce::UDP_PORT },
            type_of_service: ipv4.type_of_service,
        };
        let mut rewritten = Vec::new();
        emit_roce_frame(&mut rewritten, &flow, &packet);
        nic.receive(nic.now(), &rewritten);
        nic.settle(nic.now());
        answers.extend(nic.take_frames());
        told.extend(nic.take_completions().iter().map(|completion| format!("{completion:?}")));
    }
    let counters = nic.counters();
    let counters =
        COUNTERS.iter().filter_map(|name| counters.iter().find(|(known, _)| known == name).copied());
    let counters = counters.filter(|(_, value)| *value > 0).collect();
    (answers, told, nic.image(Target::Host, MEMORY_BYTES), counters)
}
