//! Messages to a coordinator and to a proposer of the register.

use weft_register::{Acceptor, Coordinator, Message, Operation, Proposer, ProposerId, ProposerParameters};
use weft_time::{Duration, Instant};

use crate::input::Input;

const CLUSTER: u64 = 7;
const COORDINATORS: usize = 3;

/// Arbitrary bytes arrive at any time at the coordinators and at a proposer.
pub fn register(data: &[u8]) {
    let mut input = Input::new(data);
    let mut coordinators: Vec<Coordinator<u8>> = (0..COORDINATORS)
        .map(|number| Coordinator::new(CLUSTER, number as u8, Acceptor::default()))
        .collect();
    let parameters =
        ProposerParameters { cluster: CLUSTER, coordinators: COORDINATORS, patience: Duration::from_ms(1) };
    let mut proposer = Proposer::new(ProposerId { number: 1, incarnation: 9 }, parameters);
    let mut now = Instant::ZERO;
    while !input.is_empty() {
        match input.byte() % 8 {
            0..=2 => {
                let bytes = message(&mut input);
                check_codec(&bytes);
                let number = usize::from(input.byte()) % (COORDINATORS + 1);
                // What is refused has changed nothing.
                match coordinators.get_mut(number) {
                    Some(coordinator) => drop(coordinator.receive(0, &bytes)),
                    None => drop(proposer.receive(now, &bytes)),
                }
            }
            3 => {
                now += Duration::from_us(input.half().into());
                proposer.tick(now);
                assert!(proposer.next_deadline() > now, "the proposer has nothing left to do at {now:?}");
            }
            4 => {
                proposer.poll_outcome();
                if !proposer.is_busy() {
                    let expected = input.near(0);
                    let bytes = input.bytes(4).to_vec();
                    let operation = match input.byte() % 3 {
                        0 => Operation::Observe,
                        1 => Operation::Read,
                        _ => Operation::CompareAndSet { expected, bytes },
                    };
                    let give_up = now + Duration::from_us(1 + u64::from(input.half()));
                    proposer.start(now, operation, give_up);
                }
            }
            _ => {
                // Messages between the two arrive or are lost.
                while let Some((to, datagram)) = proposer.poll_transmit() {
                    if !input.rarely() {
                        let coordinator = &mut coordinators[usize::from(to)];
                        coordinator.receive(1, &datagram).expect("a proposer's message is one");
                    }
                }
                for (number, coordinator) in coordinators.iter_mut().enumerate() {
                    if let Some(state) = coordinator.take_unsaved() {
                        let stored = Acceptor::decode(CLUSTER, number as u8, &state);
                        assert_eq!(stored.as_ref(), Ok(coordinator.acceptor()));
                    }
                    while let Some((to, datagram)) = coordinator.poll_transmit() {
                        assert!(Message::decode(&datagram).is_ok());
                        if to == 1 && !input.rarely() {
                            proposer.receive(now, &datagram).expect("a coordinator's answer is one");
                        }
                    }
                }
            }
        }
    }
}

/// Random bytes, mostly with valid magic, version, cluster and checksum.
fn message(input: &mut Input<'_>) -> Vec<u8> {
    let plausible = !input.rarely();
    // Lengths of messages without a body, with a ballot, with a value, and with both.
    let length = if plausible { input.one_of(&[37, 54, 58, 71, 75]) } else { usize::from(input.byte()) };
    let mut bytes = input.bytes(length).to_vec();
    if plausible {
        bytes.resize(length, 0);
        bytes[..5].copy_from_slice(b"WFTR\x01");
        bytes[5] = bytes[5] % 7 + 1;
        (bytes[6], bytes[7]) = (bytes[6] % COORDINATORS as u8, 0);
        bytes[8..16].copy_from_slice(&CLUSTER.to_be_bytes());
        // Rounds and versions are small.
        bytes[16..23].fill(0);
        let covered = length - 4;
        let checksum = crc32fast::hash(&bytes[..covered]).to_be_bytes();
        bytes[covered..].copy_from_slice(&checksum);
    }
    bytes
}

/// The encoding of a message is unique, so it must be encoded to the same bytes.
fn check_codec(bytes: &[u8]) {
    if let Ok((cluster, coordinator, message)) = Message::decode(bytes) {
        assert_eq!(&*message.encode(cluster, coordinator), bytes);
        if let Ok(acceptor) = Acceptor::decode(cluster, coordinator, bytes) {
            assert_eq!(acceptor.encode(cluster, coordinator), bytes);
        }
    }
}
