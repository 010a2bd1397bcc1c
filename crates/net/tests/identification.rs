//! The IP identifications of packets that this machine really sends, and of packets that it receives.
//!
//! A TUN interface passes every IP packet that the kernel sends through it to these tests, already segmented, and
//! packets that they write to the kernel. This needs root, for a network namespace; otherwise the tests say so and
//! do nothing.

mod interface;

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};

use weft_net::{CardPorts, Clock, OversizedDatagram, PortOptions, UdpPort};
use weft_nic::{Card, CardConfig, NoEngine};
use weft_time::{Duration, Instant};
use weft_waist::NODES_MAX;
use weft_wire::icrc::Path;
use weft_wire::ipv4::{self, Ipv4};
use weft_wire::roce::{Bth, Opcode, Packet};
use weft_wire::udp::Udp;

const HERE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const THERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 2), 4791);

/// Enters a network namespace with one interface, 10.77.0.1/24, whose packets are read from and written to the
/// file.
fn open_tunnel() -> io::Result<File> {
    interface::enter_namespace()?;
    let tunnel = interface::open_tun("weft0")?;
    interface::set_up("weft0", HERE)?;
    Ok(tunnel)
}

/// The next packet to [`THERE`]: its identification, whether fragmentation is forbidden, and its UDP payload.
fn next_packet(tunnel: &mut File) -> (u16, bool, Vec<u8>) {
    let mut packet = [0; 2048];
    loop {
        let length = tunnel.read(&mut packet).unwrap();
        let packet = &packet[..length];
        let is_ours = packet[0] >> 4 == 4 && packet[9] == 17 && packet[16..20] == THERE.ip().octets();
        if is_ours {
            let header = usize::from(packet[0] & 15) * 4;
            let identification = u16::from_be_bytes([packet[4], packet[5]]);
            return (identification, packet[6] & 0x40 != 0, packet[header + 8..].to_vec());
        }
    }
}

#[test]
fn datagrams_carry_the_identification_that_their_writer_was_told() {
    let mut tunnel = match open_tunnel() {
        Ok(tunnel) => tunnel,
        Err(error) => return eprintln!("skipped: no network namespace with a TUN interface: {error}"),
    };
    let mut port = UdpPort::bind(SocketAddrV4::new(HERE, 0), &PortOptions::default()).unwrap();

    for number in 0..5u8 {
        assert!(port.push(THERE, &[number; 64]));
        assert_eq!(port.flush().unwrap(), 1);
        assert_eq!(next_packet(&mut tunnel), (0, true, vec![number; 64]), "a datagram of its own");
    }

    for run in 0..3u8 {
        for number in 0..20u8 {
            let length = if number == 19 { 5 } else { 1400 };
            assert!(port.push_with(THERE, length, |identification, buffer| {
                assert_eq!(identification, if number == 0 { 0 } else { u16::from(number) });
                buffer.fill(run + number);
            }));
        }
        if port.flush().unwrap() < 20 {
            assert!(!port.segmentation());
            return eprintln!("skipped: this kernel does not segment for a device without checksum offload");
        }
        for number in 0..20u8 {
            let length = if number == 19 { 5 } else { 1400 };
            let expected = (u16::from(number), true, vec![run + number; length]);
            assert_eq!(next_packet(&mut tunnel), expected, "segment {number}");
        }
    }

    // A payload of 1472 bytes fills the MTU of 1500. One byte more is refused, alone and in a run, and is reported
    // once.
    assert!(port.push(THERE, &[7; 1473]));
    assert!(port.push(THERE, &[8; 1473]));
    assert_eq!(port.flush().unwrap(), 0);
    assert!(port.push(THERE, &[9; 1473]));
    assert_eq!(port.flush().unwrap(), 0);
    assert!(port.push(THERE, &[10; 1472]));
    assert_eq!(port.flush().unwrap(), 1);
    assert_eq!(next_packet(&mut tunnel), (0, true, vec![10; 1472]));
    assert_eq!(port.take_oversized(), Some(OversizedDatagram { to: THERE.into(), length: 1473 }));
    assert_eq!(port.take_oversized(), None);
    assert_eq!(port.counters().oversized + port.counters().refused, 3);
}

/// An IPv4 packet from [`THERE`] with a RoCE v2 packet, as rdma_rxe sends it.
fn roce_packet(identification: u16) -> Vec<u8> {
    let bth = Bth {
        opcode: Opcode::SendOnly,
        solicited: false,
        migration: true,
        pad: 0,
        partition_key: 0xffff,
        congestion: Default::default(),
        destination: 17,
        acknowledge: true,
        psn: identification.into(),
    };
    let mut packet = Vec::new();
    Packet::new(bth, &[7; 64]).emit(&mut packet);
    let ipv4 = Ipv4 {
        type_of_service: 0,
        identification,
        dont_fragment: true,
        time_to_live: 64,
        protocol: ipv4::PROTOCOL_UDP,
        source: *THERE.ip(),
        destination: HERE,
    };
    let udp = Udp { source_port: 51_117, destination_port: 4791 };
    Path::new(&ipv4, &udp).append(&mut packet, 0);
    [&ipv4.to_bytes(Udp::BYTES + packet.len())[..], &udp.to_bytes(packet.len()), &packet].concat()
}

/// A card behind an ordinary socket that receives the packets.
struct Listener {
    tunnel: File,
    port: UdpPort,
    card: CardPorts<NoEngine>,
    now: Instant,
}

impl Listener {
    /// Whether a packet is passed to the transport.
    fn hears(&mut self, packet: &[u8]) -> bool {
        let before = [self.count("roce_received"), self.count("icrc_errors")];
        self.now += Duration::from_us(50);
        self.tunnel.write_all(packet).unwrap();
        let (clock, mut received) = (Clock::starting_now(), 0);
        while received == 0 {
            assert!(clock.now() < Instant::ZERO + Duration::from_secs(60), "the packet never arrives");
            received = self.port.receive(|datagram| self.card.receive_roce(self.now, datagram)).unwrap();
        }
        let heard = self.count("roce_received") - before[0];
        assert_eq!(heard + self.count("icrc_errors") - before[1], 1);
        heard == 1
    }

    fn count(&self, name: &str) -> u64 {
        self.card.card().counters().into_iter().find(|(known, _)| *known == name).unwrap().1
    }
}

#[test]
fn a_socket_hears_a_peer_whose_identifications_vary() {
    let tunnel = match open_tunnel() {
        Ok(tunnel) => tunnel,
        Err(error) => return eprintln!("skipped: no network namespace with a TUN interface: {error}"),
    };
    let port = UdpPort::bind(SocketAddrV4::new(HERE, 4791), &PortOptions::default()).unwrap();
    let config = CardConfig {
        peers: [None; NODES_MAX],
        datagram_bytes: 1_472,
        transport: weft_rdma::Config::default(),
        region_bytes: 4_096,
    };
    let card = CardPorts::new(Card::<NoEngine>::new(config, Vec::new()), HERE);
    let mut listener = Listener { tunnel, port, card, now: Instant::ZERO };
    for number in 0..200 {
        assert!(listener.hears(&roce_packet(61_811_u16.wrapping_add(number * 37))));
    }
    // The last identification was 3,638. A packet whose identification is changed after the ICRC was computed
    // counts as damaged.
    let mut damaged = 0;
    for bit in (20 + 8) * 8..roce_packet(0).len() * 8 {
        let mut packet = roce_packet(3_700);
        packet[bit / 8] ^= 1 << (bit % 8);
        damaged += usize::from(bit / 8 != 20 + 8 + 4 && listener.hears(&packet));
    }
    assert_eq!(damaged, 0, "a flipped bit was not noticed");
    // A distant identification with the right ICRC: a forged packet, or a peer that was restarted.
    assert!(!listener.hears(&roce_packet(40_000)));
    assert!(listener.hears(&roce_packet(3_701)) && listener.hears(&roce_packet(3_702)));
    assert_eq!(listener.card.identifications_refused(), 1);
    assert!(!listener.hears(&roce_packet(50_000)) && !listener.hears(&roce_packet(50_001)));
    assert!(listener.hears(&roce_packet(50_002)) && listener.hears(&roce_packet(50_003)));
}
