//! PSP on a card's data path: attacks of an adversary on the network that succeed without PSP, and fail with
//! it.

mod campaign;
mod pair;

use weft_service::Seal;
use weft_service::psp::{Key, Psp, PspConfig};
use weft_verbs::{CompletionStatus, LocalBuffer, Operation, QueuePairState, ReceiveRequest};
use weft_wire::roce::{Aeth, AtomicEth, NakCode, Opcode, Reth, Syndrome};

use pair::{NOW, PSN, Pair, address, spi};
use weft_nic::{HostCommand, Nic};

/// The bytes that the adversary writes.
const FORGED: [u8; 8] = *b"ReDMArk!";

/// An attack: its name, and a function that returns whether it succeeded.
type Attack = (&'static str, fn(&mut Pair, &dyn Fn(&mut Pair, usize, Vec<u8>)) -> bool);

/// Attacks of an adversary on the network (Rothenberger et al., ReDMArk, USENIX Security 2021) who knows
/// addresses, queue pairs, PSNs and region keys: none of these is secret in RoCE.
const ATTACKS: [Attack; 9] = [
    ("writes the responder's memory", |pair, inject| {
        let reth = Reth { address: 64, rkey: pair.keys[1].rkey, length: 8 };
        let frame = pair.forge_with(1, Opcode::WriteOnly, PSN, &FORGED, |packet| packet.reth = Some(reth));
        inject(pair, 1, frame);
        pair.settle();
        pair.memory(1, 64) == FORGED
    }),
    ("reads the responder's memory", |pair, inject| {
        pair.store(1, 64, *b"a secret");
        let reth = Reth { address: 64, rkey: pair.keys[1].rkey, length: 8 };
        let frame = pair.forge(1, Opcode::ReadRequest, PSN, |packet| packet.reth = Some(reth));
        inject(pair, 1, frame);
        pair.settle().iter().any(|(_, frame)| frame.windows(8).any(|bytes| bytes == b"a secret"))
    }),
    ("adds to the responder's memory", |pair, inject| {
        let atomic = AtomicEth { address: 64, rkey: pair.keys[1].rkey, swap_or_add: 7, compare: 0 };
        let frame = pair.forge(1, Opcode::FetchAdd, PSN, |packet| packet.atomic = Some(atomic));
        inject(pair, 1, frame);
        pair.settle();
        pair.memory(1, 64) != [0; 8]
    }),
    ("sends in another's name", |pair, inject| {
        let local = LocalBuffer { address: 64, length: 8, lkey: pair.keys[1].lkey };
        let receive = ReceiveRequest { id: 5, local };
        pair.nics[1].submit(NOW, HostCommand::PostReceive(pair.numbers[1], receive));
        let frame = pair.forge_with(1, Opcode::SendOnly, PSN, &FORGED, |_| {});
        inject(pair, 1, frame);
        pair.settle();
        pair.completions[1].iter().any(|completion| completion.id == 5)
    }),
    ("breaks the responder's queue pair", |pair, inject| {
        let reth = Reth { address: 64, rkey: !pair.keys[1].rkey, length: 8 };
        let frame = pair.forge_with(1, Opcode::WriteOnly, PSN, &FORGED, |packet| packet.reth = Some(reth));
        inject(pair, 1, frame);
        pair.settle();
        pair.state(1) == QueuePairState::Error
    }),
    ("breaks the requester's queue pair", |pair, inject| {
        pair.post_write(64);
        let _lost = pair.take(0);
        let aeth = Aeth { syndrome: Syndrome::Nak(NakCode::RemoteOperationalError), msn: 1 };
        let frame = pair.forge(0, Opcode::Acknowledge, PSN, |packet| packet.aeth = Some(aeth));
        inject(pair, 0, frame);
        pair.settle();
        pair.state(0) == QueuePairState::Error
    }),
    ("acknowledges what was lost", |pair, inject| {
        pair.store(0, 64, *b"too late");
        pair.post_write(64);
        let _lost = pair.take(0);
        let aeth = Aeth { syndrome: Syndrome::ACK, msn: 1 };
        let frame = pair.forge(0, Opcode::Acknowledge, PSN, |packet| packet.aeth = Some(aeth));
        inject(pair, 0, frame);
        pair.settle();
        pair.completions[0].iter().any(|completion| completion.status == CompletionStatus::Success)
    }),
    ("answers a READ", |pair, inject| {
        pair.post(1, 64, |remote| Operation::Read { remote });
        let _held = pair.take(0);
        let aeth = Aeth { syndrome: Syndrome::ACK, msn: 1 };
        let frame = pair.forge_with(0, Opcode::ReadResponseOnly, PSN, &FORGED, |packet| {
            packet.aeth = Some(aeth);
        });
        inject(pair, 0, frame);
        pair.settle();
        pair.memory(0, 64) == FORGED
    }),
    ("has a WRITE taken for a repetition", |pair, inject| {
        let reth = Reth { address: 128, rkey: pair.keys[1].rkey, length: 8 };
        let frame = pair.forge_with(1, Opcode::WriteOnly, PSN, &FORGED, |packet| packet.reth = Some(reth));
        inject(pair, 1, frame);
        let _answer = pair.take(1);
        pair.store(0, 64, *b"dropped!");
        pair.post_write(64);
        pair.settle();
        pair.memory(1, 64) != *b"dropped!"
    }),
];

/// Injects the frame unchanged.
fn plain(pair: &mut Pair, to: usize, frame: Vec<u8>) {
    pair.nics[to].receive_frame(NOW, &frame);
}

/// Injects the frame encrypted with the adversary's own key, under the SPI that the receiver knows.
fn sealed_by_another(pair: &mut Pair, to: usize, mut frame: Vec<u8>) {
    let mut psp = Psp::new(PspConfig::default());
    psp.install_sender(address(to), spi(1 - to), &Key::Aes256([9; 32])).unwrap();
    psp.seal(&mut frame).unwrap();
    pair.nics[to].receive_frame(NOW, &frame);
}

#[test]
fn every_injection_succeeds_in_plaintext() {
    for (name, attack) in ATTACKS {
        assert!(attack(&mut Pair::new(None), &plain), "the adversary {name}");
    }
}

#[test]
fn no_injection_succeeds_under_psp() {
    for (name, attack) in ATTACKS {
        for (inject, cause) in
            [(plain as fn(&mut Pair, usize, Vec<u8>), "psp_plaintext"), (sealed_by_another, "psp_bad_tag")]
        {
            let mut pair = Pair::new(Some(Psp::default));
            assert!(!attack(&mut pair, &inject), "the adversary {name}");
            let refused = pair.count(0, cause) + pair.count(1, cause);
            assert_eq!(refused, 1, "the adversary {name}");
            assert_eq!([0, 1].map(|node| pair.state(node)), [QueuePairState::ReadyToSend; 2]);
        }
    }
}

#[test]
fn a_repetition_is_dropped_and_what_the_transport_sends_again_is_not() {
    let mut pair = Pair::new(Some(Psp::default));
    pair.post_write(64);
    let lost = pair.take(0);
    assert_eq!(lost.len(), 1);
    let again = pair.nics[0].next_deadline().expect("the transport waits for an acknowledgement");
    pair.nics[0].handle_deadline(again);
    let frames = pair.settle();
    assert_eq!(pair.completions[0].len(), 1);
    assert_ne!(frames[0].1, lost[0], "a frame that is sent again is sealed anew");
    // The frame that seemed lost was late. It is new to the replay window, and a duplicate to the transport.
    let before = pair.reached(1);
    plain(&mut pair, 1, lost[0].clone());
    assert_eq!(pair.reached(1), before + 1);
    for frame in [&lost[0], &frames[0].1] {
        plain(&mut pair, 1, frame.clone());
    }
    assert_eq!((pair.reached(1), pair.count(1, "psp_replayed")), (before + 1, 2));
}

#[test]
fn a_card_without_psp_installs_nothing() {
    let mut pair = Pair::new(None);
    let change = weft_service::psp::Change::RemovePeer { peer: address(1) };
    pair.nics[0].submit(NOW, HostCommand::Associate(change));
    assert_eq!(pair.count(0, "associations_refused"), 1);
}
