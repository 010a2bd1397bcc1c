//! Cards with engines in gateware, and a client that exchanges frames with them.

use std::net::Ipv4Addr;

use weft_gateware::{EngineConfig, MemoryTiming, RtlNicConfig};
use weft_harness::{ClusterHost, DATAGRAM_BYTES, address, hardware};
use weft_kv::message::{Kind, Reply, Request, Write};
use weft_kv::{Kv, Operation, Parameters, partition};
use weft_time::{Duration, Instant};
use weft_waist::{Configuration, Engine, Epoch, NODES_MAX, NodeId, NodeSet, View};
use weft_wire::datagram::{self, Builder, Datagram};
use weft_wire::ethernet::MacAddress;
use weft_wire::frame::{self, Endpoint, Flow, Frame};

use weft_harness::gateware;

/// The engine's slot.
const SLOT: u8 = 0;

/// Buckets of the table: enough for the keys of all runs here.
const BUCKETS: u32 = 4_096;

/// Expiry of a lease that outlasts all runs.
const LEASE: Instant = Instant::from_ps(60_000_000_000_000);

/// Bytes of the headers in front of a datagram: Ethernet, IPv4 and UDP.
const FRAME_HEADERS: u64 = 14 + 20 + 8;

const CLIENT: Endpoint = ClusterHost::Clients(0).endpoint(5_000);

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 8;

/// Parameters that all cards of a run share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) nodes: usize,
    pub(super) memory: MemoryTiming,
    pub(super) acknowledge_after_memory: bool,
    /// Seed of the keys.
    pub(super) seed: u64,
}

impl Setup {
    /// Configurations of the cards.
    pub(super) fn cards(&self) -> Vec<RtlNicConfig> {
        let mut peers = [None; NODES_MAX];
        for (node, peer) in peers.iter_mut().enumerate().take(self.nodes) {
            *peer = Some(address(node));
        }
        let engine = EngineConfig {
            needs: Kv::NEEDS,
            peers,
            buckets: BUCKETS,
            retransmit: Parameters::default().retransmit,
            retransmit_max: Parameters::default().retransmit_max,
            acknowledge_after_memory: self.acknowledge_after_memory,
            planted_bug: 0,
            memory: self.memory,
        };
        let card = |node| RtlNicConfig {
            engine: Some(engine.clone()),
            ..gateware::card(hardware(node), address(node))
        };
        (0..self.nodes).map(card).collect()
    }

    /// Stations in the cards' neighbour tables besides the cards: the client.
    pub(super) fn others() -> [(Ipv4Addr, MacAddress); 1] {
        [(CLIENT.address, CLIENT.hardware)]
    }

    fn view(&self) -> View {
        View { epoch: Epoch(1), full: NodeSet::first(self.nodes), joining: NodeSet::EMPTY }
    }

    /// The configuration that starts the cluster.
    pub(super) fn configuration(&self, node: usize) -> Configuration {
        let node = NodeId::new(node).expect("a cluster is no larger");
        Configuration { node, view: self.view(), lease_until: LEASE }
    }

    /// Keys whose leader is node 0.
    pub(super) fn keys(&self) -> impl Iterator<Item = [u8; KEY_BYTES]> {
        let view = self.view();
        let first = self.seed << 32;
        let all = (0_u64..).map(move |index| first.wrapping_add(index).to_be_bytes());
        all.filter(move |key| view.leader(partition(key)).is_some_and(|node| node.index() == 0))
    }
}

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) operation: Operation,
    pub(super) client: u64,
    pub(super) request: u64,
    pub(super) key: [u8; KEY_BYTES],
    /// Bytes of the value that is written or expected.
    pub(super) value_bytes: usize,
}

impl Asked {
    /// The key's value; all writers write the same one.
    pub(super) fn value(&self) -> Vec<u8> {
        (0..self.value_bytes).map(|at| self.key[at % KEY_BYTES] ^ (at / KEY_BYTES) as u8).collect()
    }

    /// The frame with this request to a node.
    pub(super) fn frame(&self, node: usize) -> Vec<u8> {
        let value = if self.operation == Operation::Put { self.value() } else { Vec::new() };
        let Self { operation, client, request, key, .. } = self;
        let header = Request {
            operation: *operation,
            client: *client,
            request: *request,
            expected: 0,
            key,
            value: &value,
        }
        .header();
        let mut builder = Builder::new(DATAGRAM_BYTES);
        let fits = builder.try_push_parts(SLOT, Kind::Request as u8, &[&header, key, &value]);
        assert!(fits, "a request fits into a datagram");
        let destination =
            Endpoint { hardware: hardware(node), address: address(node), port: datagram::UDP_PORT };
        let flow = Flow { source: CLIENT, destination, type_of_service: 0 };
        let mut frame = Vec::new();
        frame::emit_udp_frame(&mut frame, &flow, builder.finish());
        frame
    }

    /// Whether `value` is the correct value in the answer.
    pub(super) fn is_answered_by(&self, value: &[u8]) -> bool {
        match self.operation {
            Operation::Get => value == self.value(),
            _ => value.is_empty(),
        }
    }
}

/// Passes each answer to the client in this frame to `each`. Other frames have none.
pub(super) fn answers(frame: &[u8], mut each: impl FnMut(&Reply<'_>)) {
    let Ok(Frame::Udp { udp, payload, .. }) = Frame::parse(frame) else { return };
    if udp.destination_port != CLIENT.port {
        return;
    }
    let Ok(datagram) = Datagram::parse(payload) else { return };
    let replies = datagram.messages().filter(|message| message.kind == Kind::Reply as u8);
    replies.filter_map(|message| Reply::parse(message.payload).ok()).for_each(|reply| each(&reply));
}

/// Bytes of a frame on the wire, including preamble, frame check sequence and gap.
pub(super) fn wire_bytes(frame_bytes: u64) -> u64 {
    frame_bytes.max(60) + 24
}

/// Time that `bytes` take on a link of 100 Gb/s.
pub(super) const fn wire_time(bytes: u64) -> Duration {
    Duration::from_ps(80 * bytes)
}

/// Bytes per second that a link of 100 Gb/s carries.
pub(super) const WIRE_BYTES_PER_S: f64 = 12.5e9;

/// Bytes on the wire of a message in a frame of its own.
const fn message_on_wire(payload_bytes: usize) -> u64 {
    let datagram = datagram::HEADER_BYTES + datagram::message_bytes(payload_bytes) + datagram::TRAILER_BYTES;
    FRAME_HEADERS + datagram as u64 + 24
}

/// Bytes on the wire of an answer with a value of `value_bytes` bytes.
pub(super) const fn answer_on_wire(value_bytes: usize) -> u64 {
    message_on_wire(Reply::HEADER + value_bytes)
}

/// Bytes on the wire of the copy of a write for a follower.
pub(super) const fn copy_on_wire(value_bytes: usize) -> u64 {
    message_on_wire(Write::HEADER + KEY_BYTES + value_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(nodes: usize, seed: u64) -> Setup {
        let memory = MemoryTiming::Fixed(weft_gateware::Latency { read_cycles: 1, write_cycles: 1 });
        Setup { nodes, memory, acknowledge_after_memory: false, seed }
    }

    #[test]
    fn sizes_on_the_wire_are_those_of_frames() {
        let put = Asked { operation: Operation::Put, client: 1, request: 1, key: [7; 8], value_bytes: 1_024 };
        let payload = Request::HEADER + KEY_BYTES + 1_024;
        assert_eq!(wire_bytes(put.frame(0).len() as u64), message_on_wire(payload));
        assert_eq!(answer_on_wire(64), 42 + 8 + 8 + 104 + 8 + 24);
        assert_eq!(copy_on_wire(1_024), 42 + 8 + 8 + 1_080 + 8 + 24);
        assert_eq!(wire_bytes(14), 84);
    }

    #[test]
    fn keys_are_led_by_node_0_and_follow_from_the_seed() {
        for nodes in [1, 2, 8] {
            let keys: Vec<_> = setup(nodes, 7).keys().take(100).collect();
            let view = setup(nodes, 7).view();
            assert!(keys.iter().all(|key| view.leader(partition(key)).unwrap().index() == 0));
            assert!(keys.is_sorted() && keys[0] >= (7_u64 << 32).to_be_bytes());
        }
    }

    #[test]
    fn a_value_belongs_to_its_key() {
        let asked = |operation, key| Asked { operation, client: 1, request: 1, key, value_bytes: 20 };
        let (one, other) = (asked(Operation::Get, [1; 8]), asked(Operation::Get, [2; 8]));
        assert!(one.is_answered_by(&one.value()) && !one.is_answered_by(&other.value()));
        assert!(asked(Operation::Put, [1; 8]).is_answered_by(&[]));
    }
}
