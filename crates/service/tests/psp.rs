//! Tests of PSP on frames: a frame that was sealed and opened is the original frame, and no other frame is
//! accepted.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use weft_service::Seal;
use weft_service::psp::{
    ASSOCIATIONS, InstallError, Key, Nonces, OVERHEAD_BYTES, Psp, PspConfig, PspHeader, Refusal, UDP_PORT,
};
use weft_wire::datagram;
use weft_wire::ethernet::MacAddress;
use weft_wire::frame::{Endpoint, Flow, Frame, emit_roce_bytes_frame, emit_udp_frame};
use weft_wire::roce;

const NODES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];

fn key(of: u8) -> Key {
    if of.is_multiple_of(2) { Key::Aes256([of; 32]) } else { Key::Aes128([of; 16]) }
}

/// A frame from node `from` to the other node, with this many random bytes after the UDP header.
fn frame(chance: &mut Xoshiro256PlusPlus, from: usize, port: u16, bytes: usize) -> Vec<u8> {
    let end = |node: usize, port| Endpoint {
        hardware: MacAddress([2, 0, 0, 0, 0, node as u8]),
        address: NODES[node],
        port,
    };
    let flow = Flow {
        source: end(from, 0xc000 | chance.next_u64() as u16 & 0x3fff),
        destination: end(1 - from, port),
        type_of_service: 2,
    };
    let mut payload = vec![0; bytes];
    chance.fill_bytes(&mut payload);
    let mut frame = Vec::new();
    if port == roce::UDP_PORT {
        emit_roce_bytes_frame(&mut frame, &flow, &payload);
    } else {
        emit_udp_frame(&mut frame, &flow, &payload);
    }
    frame
}

/// Two cards. The first one sends to the second one with SPI 5.
fn pair(of: u8) -> [Psp; 2] {
    let mut ends = [Psp::default(), Psp::default()];
    ends[0].install_sender(NODES[1], 5, &key(of)).unwrap();
    ends[1].install_receiver(NODES[0], 5, &key(of)).unwrap();
    ends
}

#[test]
fn frames_come_out_as_they_went_in() {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(1);
    for of in [0, 1] {
        let [mut sender, mut receiver] = pair(of);
        for port in [roce::UDP_PORT, datagram::UDP_PORT] {
            for bytes in (12..300).chain([1_024, 4_096, 8_000]) {
                let plain = frame(&mut chance, 0, port, bytes);
                let mut sealed = plain.clone();
                sender.seal(&mut sealed).unwrap();
                let Ok(Frame::Udp { ipv4, udp, payload, .. }) = Frame::parse(&sealed) else {
                    panic!("no UDP packet with the right lengths and checksums");
                };
                assert_eq!(
                    (ipv4.source, ipv4.destination, udp.destination_port),
                    (NODES[0], NODES[1], UDP_PORT)
                );
                let header = PspHeader::parse(payload[..16].try_into().unwrap()).unwrap();
                assert_eq!((header.spi, header.version), (5, key(of).version()));
                // Ethernet pads frames below 60 bytes, so only longer frames grow by the whole overhead.
                assert!(plain.len() == 60 || sealed.len() == plain.len() + OVERHEAD_BYTES);
                receiver.open(&mut sealed).unwrap();
                assert_eq!(sealed, plain, "{bytes} bytes to port {port}");
            }
        }
        assert_eq!(sender.counters().psp_sealed, receiver.counters().psp_opened);
    }
}

#[test]
fn a_frame_that_was_changed_anywhere_does_not_come_out_as_another() {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(2);
    let [mut sender, mut receiver] = pair(0);
    let plain = frame(&mut chance, 0, roce::UDP_PORT, 60);
    let mut sealed = plain.clone();
    sender.seal(&mut sealed).unwrap();
    for bit in 0..8 * sealed.len() {
        let mut changed = sealed.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let opened = receiver.open(&mut changed);
        // Ethernet and IPv4 headers are not authenticated, and the outer UDP header only identifies the frame
        // as PSP. A frame that is no longer a PSP packet passes unchanged, still sealed.
        let outside = bit / 8 < 42 && opened.is_ok();
        assert!(
            opened.is_err() || (outside && (changed[34..] == plain[34..] || changed[42..] == sealed[42..])),
            "bit {bit}"
        );
        if opened.is_ok() && changed[34..] == plain[34..] {
            // The frame was accepted. For the next one, use a receiver whose window has not recorded it.
            receiver = pair(0).into_iter().nth(1).unwrap();
        }
    }
    let mut cut = sealed.clone();
    for length in (0..sealed.len()).rev() {
        cut.truncate(length);
        let mut given = cut.clone();
        assert!(receiver.open(&mut given).is_err() || given == cut, "{length} bytes");
    }
    receiver.open(&mut sealed).unwrap();
}

#[test]
fn what_an_adversary_may_try_is_refused() {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(3);
    let [mut sender, mut receiver] = pair(0);
    for port in [roce::UDP_PORT, datagram::UDP_PORT] {
        let mut plain = frame(&mut chance, 0, port, 100);
        assert_eq!(receiver.open(&mut plain), Err(Refusal::Plaintext), "a downgrade");
        let mut unknown = frame(&mut chance, 1, port, 100);
        assert_eq!(receiver.seal(&mut unknown), Err(Refusal::NoAssociation));
    }
    let mut sealed = frame(&mut chance, 0, roce::UDP_PORT, 100);
    sender.seal(&mut sealed).unwrap();
    let with = |at: usize, value: &[u8]| {
        let mut other = sealed.clone();
        other[at..at + value.len()].copy_from_slice(value);
        other
    };
    assert_eq!(receiver.open(&mut with(26, &[10, 0, 0, 9])), Err(Refusal::WrongPeer), "another source");
    assert_eq!(receiver.open(&mut with(46, &[0, 0, 0, 37])), Err(Refusal::UnknownSpi));
    assert_eq!(receiver.open(&mut with(45, &[0x01])), Err(Refusal::WrongVersion), "a weaker cipher");
    assert_eq!(receiver.open(&mut with(42, &[4])), Err(Refusal::Malformed), "tunnel mode");
    assert_eq!(receiver.open(&mut with(50, &[1])), Err(Refusal::BadTag), "another counter");
    receiver.open(&mut sealed.clone()).unwrap();
    assert_eq!(receiver.open(&mut sealed.clone()), Err(Refusal::Replayed));
    for _ in 0..128 {
        let mut next = frame(&mut chance, 0, roce::UDP_PORT, 20);
        sender.seal(&mut next).unwrap();
        receiver.open(&mut next).unwrap();
    }
    assert_eq!(receiver.open(&mut sealed.clone()), Err(Refusal::Replayed), "behind the window");
    receiver.remove_peer(NODES[0]);
    let mut late = frame(&mut chance, 0, roce::UDP_PORT, 20);
    sender.seal(&mut late).unwrap();
    assert_eq!(receiver.open(&mut late), Err(Refusal::UnknownSpi), "of a node that was removed");
    assert_eq!(receiver.counters().psp_opened, 129);
}

#[test]
fn other_frames_pass_as_they_are() {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(4);
    let [mut sender, mut receiver] = pair(0);
    let ordinary = frame(&mut chance, 0, 5_353, 100);
    let mut given = ordinary.clone();
    sender.seal(&mut given).unwrap();
    receiver.open(&mut given).unwrap();
    assert_eq!(given, ordinary);
    for length in 0..100 {
        let mut noise = vec![0; length];
        chance.fill_bytes(&mut noise);
        let before = noise.clone();
        receiver.open(&mut noise).unwrap();
        assert_eq!(noise, before);
    }
    assert_eq!((sender.counters().psp_sealed, receiver.counters().psp_opened), (0, 0));
}

#[test]
fn keys_change_without_a_loss_and_stop_when_they_are_used_up() {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(5);
    let mut sender = Psp::new(PspConfig { frames_per_key: 10, ..PspConfig::default() });
    let mut receiver = Psp::new(PspConfig { frames_per_key: 10, ..PspConfig::default() });
    let mut on_the_way = VecDeque::new();
    for generation in 0..6_u8 {
        let spi = 8 + u32::from(generation % 2);
        receiver.remove_receiver(spi);
        receiver.install_receiver(NODES[0], spi, &key(generation)).unwrap();
        sender.install_sender(NODES[1], spi, &key(generation)).unwrap();
        for _ in 0..10 {
            let mut next = frame(&mut chance, 0, roce::UDP_PORT, 40);
            sender.seal(&mut next).unwrap();
            on_the_way.push_back(next);
            // Four frames with the previous key are still on their way when the next key is in use.
            if on_the_way.len() > 4 {
                receiver.open(&mut on_the_way.pop_front().unwrap()).unwrap();
            }
        }
        let mut next = frame(&mut chance, 0, roce::UDP_PORT, 40);
        assert_eq!(sender.seal(&mut next), Err(Refusal::KeyUsedUp));
    }
    assert_eq!(receiver.counters().dropped(), 0);
}

#[test]
fn a_place_is_not_taken_twice_and_a_key_not_used_twice() {
    let mut psp = Psp::default();
    psp.install_receiver(NODES[0], 3, &key(0)).unwrap();
    assert_eq!(psp.install_receiver(NODES[0], 3, &key(1)), Err(InstallError::PlaceTaken));
    assert_eq!(psp.install_receiver(NODES[0], 3 + 32, &key(1)), Err(InstallError::PlaceTaken));
    psp.remove_receiver(3 + 32);
    psp.install_sender(NODES[1], 3, &key(0)).unwrap();
    assert_eq!(psp.install_sender(NODES[1], 4, &key(0)), Err(InstallError::KeyInUse));
    for peer in 1..ASSOCIATIONS as u8 {
        psp.install_sender(Ipv4Addr::new(10, 0, 1, peer), 3, &Key::Aes128([peer; 16])).unwrap();
    }
    let one_more = psp.install_sender(Ipv4Addr::new(10, 0, 2, 1), 3, &key(100));
    assert_eq!(one_more, Err(InstallError::Full));
}

/// Planted bugs in the use of nonces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// After a restart, the card continues with its previous key and starts its counter at 0 again.
    KeySurvives,
    /// After a restart, the card continues with its previous key and the last stored counter. It stores the
    /// counter every 64 frames.
    CounterPersisted,
}

/// Sends frames with loss, retransmissions, key changes and restarts, and checks the nonce of every frame
/// that is sent.
fn campaign(seed: u64, frames: u64, planted: Planted) -> Result<Nonces, weft_service::psp::Repeated> {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut nonces, mut keys) = (Nonces::default(), 0_u64);
    let mut sender = Psp::new(PspConfig { frames_per_key: 5_000, ..PspConfig::default() });
    let mut install = |sender: &mut Psp, new: bool| {
        keys += u64::from(new);
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&keys.to_be_bytes());
        // SPIs are used again, keys are not.
        sender.install_sender(NODES[1], (keys % 8) as u32, &Key::Aes256(bytes)).unwrap();
        keys
    };
    let mut current = install(&mut sender, true);
    let mut counter = 0;
    let mut again: Option<Vec<u8>> = None;
    while nonces.frames() < frames {
        match chance.next_u64() % 2_000 {
            0 => {
                sender = Psp::new(PspConfig { frames_per_key: 5_000, ..PspConfig::default() });
                current = install(&mut sender, planted == Planted::Nothing);
                counter = if planted == Planted::CounterPersisted { counter / 64 * 64 } else { 0 };
                for _ in 0..counter {
                    // These frames are not sent. They only increase the counter to the stored value.
                    sender.seal(&mut frame(&mut chance, 0, roce::UDP_PORT, 16)).unwrap();
                }
            }
            1 => (current, counter) = (install(&mut sender, true), 0),
            _ => {}
        }
        // A retransmission is the same frame again.
        let resend = again.take().filter(|_| chance.next_u64() % 4 == 0);
        let mut next = resend.unwrap_or_else(|| frame(&mut chance, 0, roce::UDP_PORT, 16));
        again = Some(next.clone());
        match sender.seal(&mut next) {
            Err(Refusal::KeyUsedUp) => (current, counter) = (install(&mut sender, true), 0),
            sealed => {
                sealed.unwrap();
                let header = PspHeader::parse(next[42..58].try_into().unwrap()).unwrap();
                counter += 1;
                nonces.observe(current, header.spi, header.counter)?;
            }
        }
    }
    Ok(nonces)
}

#[test]
fn no_nonce_is_used_twice() {
    let nonces = campaign(6, 100_000, Planted::Nothing).unwrap();
    assert_eq!(nonces.frames(), 100_000);
}

/// The same check with a hundred million frames.
#[test]
#[ignore = "takes minutes in a release build"]
fn no_nonce_is_ever_used_twice() {
    assert_eq!(campaign(7, 100_000_000, Planted::Nothing).unwrap().frames(), 100_000_000);
}

#[test]
fn a_nonce_that_is_used_twice_is_found() {
    for planted in [Planted::KeySurvives, Planted::CounterPersisted] {
        campaign(6, 100_000, planted).unwrap_err();
    }
}
