//! Bounds: what an adversary, or a crowd, can make an endpoint keep and send.

use std::net::SocketAddr;

use weft_seal::{
    BEFORE_BYTES, ClusterKey, Endpoint, HANDSHAKE_BYTES, Opened, Parameters, SEAL_BYTES, is_handshake,
};
use weft_service::psp::PspHeader;
use weft_time::{Duration, Instant};

use crate::network::{CLUSTER, address};

/// Gives each endpoint other random values.
struct Counted(u64);

impl Counted {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.0 += 1;
        for (byte, at) in bytes.iter_mut().zip(0_u64..) {
            *byte = (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (at % 8 * 8)) as u8;
        }
    }
}

fn endpoint(local: SocketAddr, parameters: Parameters, random: &mut Counted) -> Endpoint {
    Endpoint::new(&ClusterKey::new([7; 32]), CLUSTER, local, parameters, &mut |bytes| random.fill(bytes))
}

fn client(number: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 1, 1], 1_000 + number))
}

/// Passes datagrams between the two until there are no more.
fn settle(now: Instant, ends: [&mut Endpoint; 2], at: [SocketAddr; 2], random: &mut Counted) {
    for turn in 0..8 {
        let (from, to) = (turn % 2, 1 - turn % 2);
        while let Some((destination, mut bytes)) = ends[from].poll_transmit() {
            if destination == at[to] {
                ends[to].open(now, at[from], &mut bytes, &mut |bytes| random.fill(bytes));
            }
        }
    }
}

#[test]
fn a_crowd_of_peers_displaces_the_silent_and_forged_frames_displace_no_one() {
    let mut random = Counted(0);
    let parameters = Parameters { peers_max: 4, unconfirmed_max: 3, ..Parameters::default() };
    let mut node = endpoint(address(0), parameters, &mut random);
    let now = Instant::ZERO;
    for number in 0..6 {
        let now = now + Duration::from_ms(number.into());
        let mut peer = endpoint(client(number), Parameters::default(), &mut random);
        peer.hold(now, address(0), vec![1], &mut |bytes| random.fill(bytes));
        settle(now, [&mut peer, &mut node], [client(number), address(0)], &mut random);
        assert_eq!(node.peers(), (4.min(usize::from(number) + 1), 0));
    }
    assert_eq!(node.counters().seal_no_room, 2);
    // Frames of senders that nobody knows, each from another address.
    let (mut hellos, later) = (0, now + Duration::from_secs(1));
    for number in 0..1_000_u16 {
        let now = later + Duration::from_us(10 * u64::from(number));
        let mut forged = [0; SEAL_BYTES];
        let header = PspHeader { version: 1, spi: number.into(), counter: 1 };
        forged[..PspHeader::BYTES].copy_from_slice(&header.to_bytes());
        let from = client(100 + number);
        assert_eq!(node.open(now, from, &mut forged, &mut |bytes| random.fill(bytes)), Opened::Refused);
        while let Some((to, bytes)) = node.poll_transmit() {
            assert!(to == from && is_handshake(&bytes) && bytes.len() == HANDSHAKE_BYTES);
            hellos += 1;
        }
        let (confirmed, unconfirmed) = node.peers();
        assert!(confirmed == 4 && unconfirmed <= 3);
    }
    assert_eq!(hellos, 10, "one each millisecond");
    // The last four clients have their associations.
    for number in 2..6 {
        let mut frame = [0; SEAL_BYTES + 1];
        assert!(node.seal(later, client(number), &mut frame, &mut |bytes| random.fill(bytes)));
    }
}

#[test]
fn replayed_hellos_change_nothing_that_works() {
    let mut random = Counted(0);
    let mut node = endpoint(address(0), Parameters::default(), &mut random);
    let mut old = Vec::new();
    // Many lives of the same peer.
    let mut peer = endpoint(address(1), Parameters::default(), &mut random);
    for life in 0..20 {
        let now = Instant::ZERO + Duration::from_secs(life);
        peer = endpoint(address(1), Parameters::default(), &mut random);
        peer.hold(now, address(0), vec![1], &mut |bytes| random.fill(bytes));
        let (_, hello) = peer.poll_transmit().unwrap();
        old.push(hello.clone());
        node.open(now, address(1), &mut hello.clone(), &mut |bytes| random.fill(bytes));
        settle(now, [&mut node, &mut peer], [address(0), address(1)], &mut random);
    }
    let now = Instant::ZERO + Duration::from_secs(100);
    for _ in 0..5 {
        for hello in &old {
            node.open(now, address(1), &mut hello.clone(), &mut |bytes| random.fill(bytes));
            let (to, welcome) = node.poll_transmit().unwrap();
            assert_eq!((to, welcome.len()), (address(1), hello.len()), "nothing is amplified");
            assert_eq!(node.poll_transmit(), None);
            let mut frame = [5; SEAL_BYTES + 1];
            assert!(node.seal(now, address(1), &mut frame, &mut |bytes| random.fill(bytes)));
            let opened = peer.open(now, address(0), &mut frame, &mut |bytes| random.fill(bytes));
            assert_eq!(opened, Opened::Payload(&[5]));
        }
    }
    assert_eq!(node.peers(), (1, 0));
}

#[test]
fn what_waits_for_a_peer_that_does_not_answer_is_bounded_and_grows_old() {
    let mut random = Counted(0);
    let mut node = endpoint(address(0), Parameters::default(), &mut random);
    let mut peer = endpoint(address(1), Parameters::default(), &mut random);
    for number in 0..100_u8 {
        let now = Instant::ZERO + Duration::from_ms(u64::from(number));
        node.hold(now, address(1), vec![number], &mut |bytes| random.fill(bytes));
    }
    let hellos: Vec<_> = std::iter::from_fn(|| node.poll_transmit()).collect();
    assert_eq!((hellos.len(), node.counters().seal_no_room), (10, 84));
    // The peer answers when half of the last 16 have waited for too long.
    let now = Instant::ZERO + Duration::from_ms(1_091);
    node.hold(now, address(1), vec![200], &mut |bytes| random.fill(bytes));
    let mut arrived = Vec::new();
    for _ in 0..3 {
        while let Some((_, mut bytes)) = node.poll_transmit() {
            if let Opened::Payload(payload) =
                peer.open(now, address(0), &mut bytes, &mut |bytes| random.fill(bytes))
            {
                arrived.push(payload[0]);
            }
        }
        while let Some((_, mut bytes)) = peer.poll_transmit() {
            node.open(now, address(1), &mut bytes, &mut |bytes| random.fill(bytes));
        }
    }
    assert_eq!(arrived, [92, 93, 94, 95, 96, 97, 98, 99, 200]);
}

#[test]
fn own_datagrams_that_come_back_are_refused() {
    let mut random = Counted(0);
    // A socket bound to all addresses cannot tell by the address.
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 1_000));
    let mut end = endpoint(everywhere, Parameters::default(), &mut random);
    end.hold(Instant::ZERO, address(1), vec![1], &mut |bytes| random.fill(bytes));
    let (to, mut hello) = end.poll_transmit().unwrap();
    assert_eq!(end.open(Instant::ZERO, to, &mut hello, &mut |bytes| random.fill(bytes)), Opened::Refused);
    assert_eq!(end.counters().seal_misdirected, 1);
    assert_eq!(end.poll_transmit(), None);
}

#[test]
fn a_frame_has_the_payload_where_it_was_sealed() {
    assert_eq!((BEFORE_BYTES, SEAL_BYTES), (24, 40));
}
