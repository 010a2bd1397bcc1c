//! Frames that neither twin has made: real traffic of Linux' soft RoCE (`crates/wire/tests/data/README.md`), frame by frame.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use pcap_file::pcap::PcapReader;
use weft_conformance::rules::COUNTERS;
use weft_conformance::script::describe_frame;
use weft_conformance::twin::{Kind, MEMORY_BYTES, Options, Twin, hardware};
use weft_rdma::{
    AccessFlags, LocalBuffer, PathMtu, QueuePairNumber, ReadyToReceive, ReadyToSend, ReceiveRequest, Region,
    Target,
};
use weft_wire::ethernet::{Ethernet, MacAddress};
use weft_wire::frame::{Endpoint, Flow, Frame, emit_roce_frame};
use weft_wire::icrc::Path;
use weft_wire::roce::{self, Opcode, Packet};

fn frames() -> Vec<Vec<u8>> {
    let capture = include_bytes!("../../wire/tests/data/rxe.pcap");
    let mut reader = PcapReader::new(&capture[..]).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        frames.push(packet.unwrap().data.into_owned());
    }
    frames
}

/// What one kind of NIC makes of all frames that were sent to `address`, as they are.
fn untouched(
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

/// To NICs with the addresses of the two machines: their ICRCs are right, nobody has those queue pairs, and what is not RoCE
/// goes to the host or is answered.
#[test]
fn frames_as_they_came() {
    let mut stations = BTreeMap::new();
    for frame in frames() {
        if let (Ok(Frame::Udp { ipv4, .. }), Ok((Ethernet { destination, .. }, _))) =
            (Frame::parse(&frame), Ethernet::parse(&frame))
        {
            stations.insert(ipv4.destination, destination);
        }
    }
    assert_eq!(stations.len(), 2);
    let mut verified = 0;
    for (address, station) in stations {
        let soft = untouched(Kind::Soft, address, station);
        let rtl = untouched(Kind::Rtl, address, station);
        assert_eq!(soft, rtl);
        assert_eq!(soft.1.get("icrc_errors"), None);
        verified += soft.1["roce_received"] + soft.1["roce_malformed"];
    }
    assert_eq!(verified, 134);
}

/// The requests to one queue pair, with what they were answered.
struct Conversation {
    source: Ipv4Addr,
    requests: Vec<Vec<u8>>,
    responses: Vec<Vec<u8>>,
}

/// Conversations by the responding machine and its queue pair.
fn conversations() -> BTreeMap<(Ipv4Addr, u32), Conversation> {
    let mut requests: BTreeMap<(Ipv4Addr, u32), Conversation> = BTreeMap::new();
    let mut responses: BTreeMap<Ipv4Addr, Vec<(u32, Vec<u8>)>> = BTreeMap::new();
    for frame in frames() {
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
    // A response names the requester's queue pair; PSNs tell whose it is.
    for ((responder, _), conversation) in &mut requests {
        let psns: Vec<u32> =
            conversation.requests.iter().map(|frame| parse(frame, |packet| packet.bth.psn)).collect();
        let (first, last) = (psns[0], *psns.last().unwrap());
        for (_, frame) in responses.get(responder).into_iter().flatten() {
            let psn = parse(frame, |packet| packet.bth.psn);
            // A READ's responses have PSNs of their own behind its request's.
            if psn.wrapping_sub(first) & roce::MASK_24 <= (last.wrapping_sub(first) & roce::MASK_24) + 8 {
                conversation.responses.push(frame.clone());
            }
        }
    }
    requests
}

fn parse<T>(frame: &[u8], read: impl FnOnce(&Packet<'_>) -> T) -> T {
    let Ok(Frame::Udp { ipv4, udp, payload, .. }) = Frame::parse(frame) else { panic!("a RoCE frame") };
    let packet = Path::new(&ipv4, &udp).verify(payload).and_then(Packet::parse).unwrap();
    read(&packet)
}

/// Answers, completions, memory and counters.
type Outcome = (Vec<Vec<u8>>, Vec<String>, Vec<u8>, Vec<(&'static str, u64)>);

const OWN_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 9, 8, 7);

/// Replays requests to a queue pair that expects the first of them. Queue pair, key and address of memory are this NIC's,
/// everything else, payloads and packet sequence numbers and path included, is as it was captured.
fn replay(kind: Kind, conversation: &Conversation) -> Outcome {
    let mut nic = Twin::at(kind, hardware(1), OWN_ADDRESS, Options::default());
    nic.add_neighbour(conversation.source, hardware(0));
    let region = Region::host(0, MEMORY_BYTES as u64, AccessFlags::ALL);
    let keys = nic.driver().register_region(region).unwrap();
    let number = nic.create_queue_pair().unwrap();
    let receive = ReadyToReceive {
        destination: conversation.source,
        destination_qp_num: QueuePairNumber(0x11),
        rq_psn: parse(&conversation.requests[0], |packet| packet.bth.psn),
        path_mtu: PathMtu::Bytes1024,
        max_dest_rd_atomic: 16,
        min_rnr_timer: 12,
    };
    let send = ReadyToSend { sq_psn: 0, timeout: 14, retry_cnt: 7, rnr_retry: 7, max_rd_atomic: 16 };
    nic.driver().connect(number, AccessFlags::ALL, receive, send).unwrap();
    for id in 0..32 {
        let local = LocalBuffer { address: 0x1_0000 + 0x800 * id, length: 0x2000, lkey: keys.lkey };
        let local = LocalBuffer { address: local.address.min(0x1_e000), ..local };
        nic.post_receive(number, ReceiveRequest { id, local }).unwrap();
    }
    let (mut answers, mut told) = (Vec::new(), Vec::new());
    for frame in &conversation.requests {
        let Ok(Frame::Udp { ipv4, udp, payload, .. }) = Frame::parse(frame) else { unreachable!() };
        let bytes = Path::new(&ipv4, &udp).verify(payload).unwrap();
        let mut packet = Packet::parse(bytes).unwrap();
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

/// Both twins take every request of every connection, answer alike, and answer as Linux did: the same responses with the same PSNs.
#[test]
fn requests_of_a_real_peer() {
    let mut requests = 0;
    for (key, conversation) in conversations() {
        let soft = replay(Kind::Soft, &conversation);
        let rtl = replay(Kind::Rtl, &conversation);
        for (one, other) in soft.0.iter().zip(&rtl.0) {
            assert_eq!(describe_frame(one), describe_frame(other), "{key:?}");
        }
        assert!(soft.2 == rtl.2, "{key:?}: memory");
        assert_eq!(soft, rtl, "{key:?}");
        for name in ["sent_invalid_request", "sent_access_error", "out_of_seq_request", "send_rnr_err"] {
            assert!(soft.3.iter().all(|(counted, _)| *counted != name), "{key:?}: {:?}", soft.3);
        }
        // Acknowledgements may be merged in other ways; what carries data may not.
        let shape = |frames: &[Vec<u8>]| -> Vec<(Opcode, u32, usize)> {
            let all = frames.iter().map(|frame| {
                parse(frame, |packet| (packet.bth.opcode, packet.bth.psn, packet.payload.len()))
            });
            all.filter(|(opcode, ..)| *opcode != Opcode::Acknowledge).collect()
        };
        let linux = shape(&conversation.responses);
        let own = shape(&soft.0);
        assert!(own.iter().all(|response| linux.contains(response)), "{key:?}:\n{own:?}\n{linux:?}");
        requests += conversation.requests.len();
    }
    assert!(requests > 60, "{requests} requests");
}
