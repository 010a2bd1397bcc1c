//! Datagrams to a sealed socket.

use std::net::SocketAddr;

use weft_seal::{
    BEFORE_BYTES, ClusterKey, Endpoint, HANDSHAKE_BYTES, Handshake, KeySchedule, Kind, Opened, Parameters,
    SEAL_BYTES,
};
use weft_time::{Duration, Instant};

use crate::input::Input;

const CLUSTER: &str = "fuzz";

fn address(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number], 4793))
}

/// Two sockets that talk, and arbitrary datagrams from several senders, at any time.
pub fn seal(data: &[u8]) {
    let mut input = Input::new(data);
    let key = ClusterKey::new([7; 32]);
    let keys = KeySchedule::new(&key, CLUSTER);
    let mut drawn = 0_u64;
    let random = &mut |bytes: &mut [u8]| {
        drawn += 1;
        bytes.fill(drawn as u8);
        let length = bytes.len().min(8);
        bytes[..length].copy_from_slice(&drawn.to_le_bytes()[..length]);
    };
    let parameters = Parameters {
        peers_max: 2,
        unconfirmed_max: 2,
        frames_per_key: 16,
        life: Duration::from_ms(100),
        ..Parameters::default()
    };
    let mut ends =
        [0, 1].map(|number| Endpoint::new(&key, CLUSTER, address(number), parameters, &mut *random));
    let mut now = Instant::ZERO;
    // Payloads of the two, each of which begins with its number: the ones that have not arrived.
    let mut waiting: Vec<(u8, Vec<u8>)> = Vec::new();
    let mut flights: Vec<(u8, Vec<u8>)> = Vec::new();
    let mut sent = 0_u8;
    while !input.is_empty() && sent < u8::MAX {
        match input.byte() % 8 {
            0..=2 => {
                let end = input.byte() & 1;
                let from = address(input.byte() % 5);
                let mut bytes = datagram(&mut input, &keys, &flights);
                if let Ok(handshake) = Handshake::decode(&bytes, &keys) {
                    assert_eq!(handshake.encode(&keys)[..], bytes);
                }
                let opened = ends[usize::from(end)].open(now, from, &mut bytes, &mut *random);
                // Copies of frames that are on their way may arrive first.
                if let Opened::Payload(payload) = opened {
                    take(&mut waiting, 1 - end, payload);
                    assert_eq!(from, address(1 - end));
                }
            }
            3 => now += Duration::from_us(input.half().into()),
            4 | 5 => {
                let from = input.byte() & 1;
                let mut payload = vec![sent];
                payload.extend_from_slice(input.bytes(usize::from(from) * 9));
                sent += 1;
                waiting.push((from, payload.clone()));
                let mut frame = vec![0; payload.len() + SEAL_BYTES];
                frame[BEFORE_BYTES..BEFORE_BYTES + payload.len()].copy_from_slice(&payload);
                let end = &mut ends[usize::from(from)];
                if end.seal(now, address(1 - from), &mut frame, &mut *random) {
                    flights.push((from, frame));
                } else {
                    end.hold(now, address(1 - from), payload, &mut *random);
                }
            }
            _ => {
                for (from, mut bytes) in std::mem::take(&mut flights) {
                    if input.rarely() {
                        continue;
                    }
                    let end = &mut ends[usize::from(1 - from)];
                    if let Opened::Payload(payload) = end.open(now, address(from), &mut bytes, &mut *random) {
                        take(&mut waiting, from, payload);
                    }
                }
            }
        }
        for (from, end) in (0..).zip(&mut ends) {
            let (confirmed, unconfirmed) = end.peers();
            assert!(confirmed <= 2 && unconfirmed <= 2);
            while let Some((to, bytes)) = end.poll_transmit() {
                if to == address(1 - from) {
                    flights.push((from, bytes));
                }
            }
        }
    }
}

/// A payload arrives once.
fn take(waiting: &mut Vec<(u8, Vec<u8>)>, from: u8, payload: &[u8]) {
    let place = waiting.iter().position(|(sender, sent)| *sender == from && sent == payload);
    waiting.swap_remove(place.expect("it was sent and has not arrived"));
}

/// Random bytes, a handshake with a right tag, or a change of something on its way.
fn datagram(input: &mut Input<'_>, keys: &KeySchedule, flights: &[(u8, Vec<u8>)]) -> Vec<u8> {
    match input.byte() % 4 {
        0 => {
            let length = usize::from(input.byte());
            input.bytes(length).to_vec()
        }
        1 => {
            let kind = match input.byte() % 4 {
                0 => Kind::Stranger,
                1 => Kind::Hello,
                _ => Kind::Welcome { responder: [input.byte(); 16] },
            };
            let (spi, initiator) = (input.word(), [input.byte(); 16]);
            let [to, from] = [input.byte() % 3, input.byte() % 3].map(address);
            Handshake { kind, spi, initiator, to, from, process: [input.byte(); 8] }.encode(keys).to_vec()
        }
        2 => {
            // A right tag, whatever it covers.
            let mut bytes = input.bytes(HANDSHAKE_BYTES).to_vec();
            bytes.resize(HANDSHAKE_BYTES, 0);
            bytes[..3].copy_from_slice(b"Ws\x01");
            bytes
        }
        _ => {
            let Some((_, bytes)) = flights.get(usize::from(input.byte()) % flights.len().max(1)) else {
                return Vec::new();
            };
            let mut bytes = bytes.clone();
            let place = usize::from(input.byte()) % bytes.len();
            bytes[place] ^= input.byte();
            bytes
        }
    }
}
