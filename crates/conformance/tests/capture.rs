//! Real traffic of Linux' soft RoCE, on both kinds of NIC.

use std::collections::{BTreeMap, BTreeSet};

use weft_conformance::capture::{conversations, frames, parse, repeated_writes, replay, untouched};
use weft_conformance::script::describe_frame;
use weft_conformance::twin::Kind;
use weft_wire::ethernet::Ethernet;
use weft_wire::frame::Frame;
use weft_wire::roce::{Opcode, Syndrome};

/// Captured frames are given unchanged to NICs with the addresses of the two machines. Their ICRCs are right,
/// their queue pairs do not exist, and frames other than RoCE go to the host or are answered.
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

/// Both twins accept every request of every connection, give the same answers, and these match Linux's: the
/// same responses with the same PSNs.
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
        // Acknowledgements may be merged differently; packets with data may not.
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

/// Linux retransmits a WRITE that precedes atomics which have not completed. Linux would take an
/// acknowledgement with an atomic's PSN as the completion of the atomic. An earlier version of Weft sent two
/// such acknowledgements.
fn repeats_writes_before_atomics(kind: Kind) {
    let conversation = repeated_writes();
    let requests = conversation.requests.iter().map(|frame| parse(frame, |packet| packet.bth));
    let atomics: BTreeSet<u32> =
        requests.filter(|bth| bth.opcode == Opcode::FetchAdd).map(|bth| bth.psn).collect();
    assert_eq!(atomics, [0x107, 0x10b, 0x10f, 0x113].into());
    let acknowledged = |frames: &[Vec<u8>]| -> Vec<u32> {
        let positive = |frame: &Vec<u8>| {
            parse(frame, |packet| match packet.aeth?.syndrome {
                Syndrome::Ack { .. } if packet.bth.opcode == Opcode::Acknowledge => Some(packet.bth.psn),
                _ => None,
            })
        };
        frames.iter().filter_map(positive).collect()
    };
    assert!(acknowledged(&conversation.responses).ends_with(&[0x113, 0x113]), "two repeated packets");
    let (answers, _, _, counters) = replay(kind, &conversation);
    let acknowledged = acknowledged(&answers);
    assert_eq!(acknowledged, [0x10a, 0x10e, 0x112, 0x10a, 0x10a]);
    assert!(acknowledged.iter().all(|psn| !atomics.contains(psn)));
    assert!(counters.contains(&("duplicate_request", 2)), "{counters:?}");
}

#[test]
fn soft_acknowledges_a_repeated_write_before_the_next_atomic() {
    repeats_writes_before_atomics(Kind::Soft);
}

#[test]
fn rtl_acknowledges_a_repeated_write_before_the_next_atomic() {
    repeats_writes_before_atomics(Kind::Rtl);
}
