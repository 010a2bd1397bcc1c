//! Writes a capture with every kind of frame that Weft sends: each opcode of the reliable connection with
//! several payload sizes, Weft datagrams, ARP and ICMP echo.
//!
//! Run it with `cargo run -p weft-wire --example sample_capture -- out.pcapng`. Other tools then check the
//! bytes (`tests/oracle/check_wire.py`, Wireshark).

use std::fs::File;
use std::io::{self, BufWriter};
use std::net::Ipv4Addr;
use std::process::ExitCode;

use weft_wire::arp::{Arp, Operation, Station};
use weft_wire::datagram::{self, Builder};
use weft_wire::ethernet::{ETHER_TYPE_IPV4, Ethernet, MacAddress};
use weft_wire::frame::{Endpoint, Flow, emit_arp_frame, emit_echo_frame, emit_roce_frame, emit_udp_frame};
use weft_wire::icmp::{Echo, EchoKind};
use weft_wire::ipv4::{Ipv4, PROTOCOL_ICMP, TIME_TO_LIVE};
use weft_wire::pcapng::{Direction, Writer};
use weft_wire::roce::{
    self, Aeth, AtomicEth, Bth, Congestion, MASK_24, NakCode, Opcode, Packet, Reth, Syndrome,
};

/// Payload sizes: all four pad lengths, odd sizes, and path MTUs.
const PAYLOAD_BYTES: [usize; 11] = [0, 1, 2, 3, 4, 7, 64, 255, 256, 1024, 4096];

const SYNDROMES: [Syndrome; 4] = [
    Syndrome::ACK,
    Syndrome::Ack { credits: 3 },
    Syndrome::RnrNak { timer: 12 },
    Syndrome::Nak(NakCode::RemoteAccessError),
];

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: sample_capture OUT.pcapng");
        return ExitCode::from(2);
    };
    let written = File::create(&path).and_then(|file| write(BufWriter::new(file)));
    match written {
        Ok(frames) => {
            println!("{frames} frames written to {}", path.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cannot write {}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}

/// Writes a capture of both ends of a 500 ns link, and returns the number of frames sent.
fn write(output: impl io::Write) -> io::Result<usize> {
    let mut writer = Writer::new(output, &["node0/port0", "node1/port0"])?;
    let frames = frames();
    for (index, frame) in frames.iter().enumerate() {
        let sent_ns = index as u64 * 1_000;
        writer.write(0, sent_ns, Direction::Outbound, frame)?;
        writer.write(1, sent_ns + 500, Direction::Inbound, frame)?;
    }
    writer.finish()?;
    Ok(frames.len())
}

fn frames() -> Vec<Vec<u8>> {
    let mut frames = vec![arp_frame(), echo_frame()];
    let bytes: Vec<u8> = (0..4096u32).map(|index| ((index * 167) >> 3) as u8).collect();
    for opcode in Opcode::ALL {
        for (variant, &length) in PAYLOAD_BYTES.iter().enumerate() {
            if opcode.has_payload() || variant < SYNDROMES.len() {
                let payload = if opcode.has_payload() { &bytes[..length] } else { &[] };
                let mut frame = Vec::new();
                emit_roce_frame(&mut frame, &flow(roce::UDP_PORT), &packet(opcode, variant, payload));
                frames.push(frame);
            }
        }
    }
    for messages in [1, 2, 20] {
        let mut builder = Builder::new(1472);
        for index in 0..messages {
            assert!(builder.try_push(0, index as u8, &bytes[..index * 3]));
        }
        let mut frame = Vec::new();
        emit_udp_frame(&mut frame, &flow(datagram::UDP_PORT), builder.finish());
        frames.push(frame);
    }
    frames
}

/// A packet in which every field is non-zero. `variant` selects the flags and the syndrome.
fn packet(opcode: Opcode, variant: usize, payload: &[u8]) -> Packet<'_> {
    let bit = |position: usize| variant >> position & 1 != 0;
    let bth = Bth {
        opcode,
        solicited: bit(0),
        migration: bit(1),
        pad: 0, // set by Packet::new
        partition_key: 0xffff,
        congestion: Congestion { forward: bit(2), backward: bit(3) },
        destination: 0x12_3456,
        acknowledge: opcode.is_request() && opcode.ends_message(),
        psn: MASK_24 - variant as u32,
    };
    let address = 0x7f00_1122_3344_5560;
    let rkey = 0x89ab_cdef;
    Packet {
        reth: opcode.has_reth().then_some(Reth { address, rkey, length: payload.len() as u32 }),
        atomic: opcode.has_atomic().then_some(AtomicEth {
            address,
            rkey,
            swap_or_add: 0x0102_0304_0506_0708,
            compare: if opcode == Opcode::CompareSwap { 0x1112_1314_1516_1718 } else { 0 },
        }),
        aeth: opcode
            .has_aeth()
            .then_some(Aeth { syndrome: SYNDROMES[variant % SYNDROMES.len()], msn: 0x65_4321 }),
        atomic_ack: opcode.has_atomic_ack().then_some(0x2122_2324_2526_2728),
        immediate: opcode.has_immediate().then_some(0xcafe_f00d),
        ..Packet::new(bth, payload)
    }
}

fn endpoint(node: u8, port: u16) -> Endpoint {
    Endpoint {
        hardware: MacAddress([0x02, 0, 0, 0, 0, node]),
        address: Ipv4Addr::new(10, 0, 0, node + 1),
        port,
    }
}

fn flow(destination_port: u16) -> Flow {
    Flow {
        source: endpoint(0, 0xc123),
        destination: endpoint(1, destination_port),
        type_of_service: 0x6a, // differentiated services 26, ECN capable
    }
}

fn arp_frame() -> Vec<u8> {
    let station = |node| Station { hardware: endpoint(node, 0).hardware, address: endpoint(node, 0).address };
    let target = Station { hardware: MacAddress::default(), ..station(1) };
    let mut frame = Vec::new();
    emit_arp_frame(
        &mut frame,
        MacAddress::BROADCAST,
        &Arp { operation: Operation::Request, sender: station(0), target },
    );
    frame
}

fn echo_frame() -> Vec<u8> {
    let (source, destination) = (endpoint(0, 0), endpoint(1, 0));
    let ethernet =
        Ethernet { destination: destination.hardware, source: source.hardware, ether_type: ETHER_TYPE_IPV4 };
    let ipv4 = Ipv4 {
        type_of_service: 0,
        identification: 1,
        dont_fragment: true,
        time_to_live: TIME_TO_LIVE,
        protocol: PROTOCOL_ICMP,
        source: source.address,
        destination: destination.address,
    };
    let echo = Echo { kind: EchoKind::Request, identifier: 2, sequence: 3, payload: b"is anybody there?" };
    let mut frame = Vec::new();
    emit_echo_frame(&mut frame, &ethernet, &ipv4, &echo);
    frame
}
