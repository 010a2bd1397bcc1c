//! Messages to the membership service and to a node's lease holder.

use weft_cluster::status::{DATAGRAM_BYTES, StatusAnswer, StatusRequest};
use weft_cluster::{
    Agent, AgentParameters, ClusterConfig, ClusterId, ClusterName, Incarnation, Membership, Message, Profile,
    Server, Service, ServiceParameters,
};
use weft_time::{Duration, Instant};
use weft_waist::{EngineState, EngineStatus, Epoch, NodeId};

use crate::input::Input;

/// Number of nodes of the cluster.
const NODES: usize = 3;

/// Arbitrary bytes arrive at any time at the service and at a node's agent.
pub fn membership(data: &[u8]) {
    let mut input = Input::new(data);
    let lease = Duration::from_ms(10);
    let service = Service::new(ServiceParameters::new(NODES, lease));
    let mut server: Server<u8> = Server::new(service).of_cluster(ClusterName::default(), None);
    let node = NodeId::new(0).expect("node 0 exists");
    let incarnation = Incarnation::new(7).expect("not zero");
    let agent = Agent::new(node, incarnation, AgentParameters::default());
    let mut agent = agent.of_cluster(ClusterName::default(), profile());
    let (mut now, mut is_storing) = (Instant::ZERO, false);
    while !input.is_empty() {
        match input.byte() % 8 {
            0..=2 => {
                let bytes = message(&mut input);
                check_codec(&bytes);
                // The caller would count refused bytes.
                if input.coin() {
                    let _ = server.receive(now, input.byte(), &bytes);
                } else {
                    let _ = agent.receive(now, &bytes);
                }
            }
            3 => {
                now += Duration::from_us(input.half().into());
                server.tick(now);
                assert!(server.next_deadline() > now, "the service has nothing left to do at {now:?}");
            }
            4 => {
                let state = input.one_of(&[
                    EngineState::Starting,
                    EngineState::Joining { synced: false },
                    EngineState::Joining { synced: true },
                    EngineState::Full,
                ]);
                let epoch = Epoch(input.near(agent.view().epoch.0.into()) as u32);
                agent.engine_status(now, EngineStatus { epoch, state });
            }
            _ => {
                // Messages between the two arrive or are lost.
                while let Some(datagram) = agent.poll_transmit(now) {
                    assert!(Message::decode(&datagram).is_ok());
                    if !input.rarely() {
                        server.receive(now, 0, &datagram).expect("an agent's message is one");
                    }
                }
                // Saving the service's state always succeeds here, and takes a while.
                if is_storing && !input.rarely() {
                    server.stored(now);
                    is_storing = false;
                }
                is_storing |= server.take_unsaved().is_some();
                while let Some((to, datagram)) = server.poll_transmit() {
                    assert!(Message::decode(&datagram).is_ok());
                    if to == 0 && !input.rarely() {
                        // An agent that has ended, or whose incarnation differs, ignores it.
                        let _ = agent.receive(now, &datagram);
                    }
                }
                agent.poll_configuration();
                agent.poll_action();
            }
        }
    }
}

/// Parses a status request or an answer to one. A valid message is encoded again, and must parse to the same.
pub fn status(data: &[u8]) {
    let mut input = Input::new(data);
    let (kind, part) = (input.byte() % 2, input.byte() % 4);
    let length =
        if kind == 0 { DATAGRAM_BYTES - 4 } else { usize::from(input.half()) % (DATAGRAM_BYTES - 3) };
    let mut bytes = input.bytes(length).to_vec();
    bytes.resize(length.max(24), 0);
    if !input.rarely() {
        bytes[..7].copy_from_slice(&[b'W', b'F', b'T', b'S', 1, kind, part]);
    }
    let checksum = crc32fast::hash(&bytes).to_be_bytes();
    bytes.extend(checksum);
    if let Ok(request) = StatusRequest::decode(&bytes) {
        assert_eq!(request.encode(), bytes);
    }
    if let Ok((cluster, token, answer)) = StatusAnswer::decode(&bytes) {
        assert_eq!(answer.encode(cluster, token), bytes);
    }
}

/// The profile that all nodes of the cluster share: an engine of each kind.
fn profile() -> Profile {
    let mut text = String::from("[membership]\naddress = \"10.0.0.9:4794\"\n");
    (1..=NODES).for_each(|node| text += &format!("[[node]]\naddress = \"10.0.0.{node}\"\n"));
    text += "[kv]\n[transactions]\nprocedures = \"ledger\"\nsize = 10\n[[object]]\nname = \"cart\"\ntype = \"g-set\"\n";
    text += "[[log]]\nname = \"events\"\n[rounds]\n";
    let config = ClusterConfig::parse(&text).expect("a configuration");
    config.node(NodeId::new(0).expect("node 0 exists")).expect("it is configured").profile()
}

/// Random bytes, mostly with valid magic, version and checksum.
fn message(input: &mut Input<'_>) -> Vec<u8> {
    let plausible = !input.rarely();
    // Lengths of messages without a body, with bodies of fixed size, and with the profiles of a store and of
    // all kinds of engines.
    let length =
        if plausible { input.one_of(&[40, 44, 48, 52, 56, 78, 116]) } else { usize::from(input.byte()) };
    let mut bytes = input.bytes(length).to_vec();
    if plausible {
        bytes.resize(length, 0);
        bytes[8..16].copy_from_slice(&ClusterId::default().0.to_be_bytes());
        bytes[..5].copy_from_slice(b"WFTM\x06");
        let covered = length - 4;
        let checksum = crc32fast::hash(&bytes[..covered]).to_be_bytes();
        bytes[covered..].copy_from_slice(&checksum);
    }
    bytes
}

/// The encoding of a message is unique, so it must be encoded to the same bytes.
fn check_codec(bytes: &[u8]) {
    if let Ok((cluster, message)) = Message::decode(bytes) {
        assert_eq!(&*message.encode(cluster), bytes);
    }
}
