//! Seals datagrams of a socket for another implementation of PSP to open: prints lines of KEY PLAIN FRAME, each in
//! hexadecimal, where PLAIN is a UDP header and a payload. `tests/oracle/check_psp.py` has the other implementation.

use std::net::SocketAddr;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_seal::{
    BEFORE_BYTES, ClusterKey, Direction, Endpoint, Handshake, KeySchedule, Kind, Parameters, SEAL_BYTES,
};
use weft_service::psp::Key;
use weft_time::Instant;
use weft_wire::udp::Udp;

fn main() {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut random = |bytes: &mut [u8]| chance.fill_bytes(bytes);
    let (key, cluster, now) = (ClusterKey::new([7; 32]), "oracle", Instant::ZERO);
    let places = [1, 2].map(|node| SocketAddr::from(([10, 0, 0, node], 4793)));
    let mut ends =
        places.map(|place| Endpoint::new(&key, cluster, place, Parameters::default(), &mut random));
    ends[0].hold(now, places[1], vec![0], &mut random);
    let (_, mut hello) = ends[0].poll_transmit().expect("a hello");
    ends[1].open(now, places[0], &mut hello, &mut random);
    let (_, mut welcome) = ends[1].poll_transmit().expect("a welcome");
    let keys = KeySchedule::new(&key, cluster);
    let handshake = Handshake::decode(&welcome, &keys).expect("its tag is right");
    let Kind::Welcome { responder } = handshake.kind else { panic!("a welcome answers a hello") };
    let secret = keys.association(&handshake.initiator, &responder, Direction::FromInitiator);
    let Key::Aes256(secret) = secret else { panic!("version 1 has keys of 256 bits") };
    ends[0].open(now, places[1], &mut welcome, &mut random);
    for length in (1..200).chain([255, 1_024, 4_136]) {
        let mut payload = vec![0; length];
        random(&mut payload);
        let mut frame = vec![0; length + SEAL_BYTES];
        frame[BEFORE_BYTES..BEFORE_BYTES + length].copy_from_slice(&payload);
        assert!(ends[0].seal(now, places[1], &mut frame, &mut random), "there is an association");
        let udp = Udp { source_port: places[0].port(), destination_port: places[1].port() };
        let plain = [&udp.to_bytes(length)[..], &payload].concat();
        println!("{} {} {}", hex(&secret), hex(&plain), hex(&frame));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
