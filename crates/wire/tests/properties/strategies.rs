//! Proptest strategies for headers, packets and frames.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use weft_wire::arp::{Arp, Operation, Station};
use weft_wire::ethernet::{Ethernet, MacAddress};
use weft_wire::frame::{Endpoint, Flow};
use weft_wire::icmp::EchoKind;
use weft_wire::icrc::Path;
use weft_wire::ipv4::Ipv4;
use weft_wire::roce::{
    Aeth, AtomicEth, Bth, Congestion, MASK_24, NakCode, Opcode, Packet, Reth, Syndrome, UDP_PORT,
};
use weft_wire::udp::Udp;

pub fn mac_address() -> impl Strategy<Value = MacAddress> {
    any::<[u8; 6]>().prop_map(MacAddress)
}

pub fn address() -> impl Strategy<Value = Ipv4Addr> {
    any::<u32>().prop_map(Ipv4Addr::from_bits)
}

pub fn payload(longest: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..=longest)
}

pub fn ethernet() -> impl Strategy<Value = Ethernet> {
    (mac_address(), mac_address(), any::<u16>()).prop_map(|(destination, source, ether_type)| Ethernet {
        destination,
        source,
        ether_type,
    })
}

pub fn arp() -> impl Strategy<Value = Arp> {
    let station = || (mac_address(), address()).prop_map(|(hardware, address)| Station { hardware, address });
    let operation = prop_oneof![Just(Operation::Request), Just(Operation::Reply)];
    (operation, station(), station()).prop_map(|(operation, sender, target)| Arp {
        operation,
        sender,
        target,
    })
}

pub fn ipv4() -> impl Strategy<Value = Ipv4> {
    (any::<(u8, u16, bool, u8, u8)>(), address(), address()).prop_map(
        |((type_of_service, identification, dont_fragment, time_to_live, protocol), source, destination)| {
            Ipv4 {
                type_of_service,
                identification,
                dont_fragment,
                time_to_live,
                protocol,
                source,
                destination,
            }
        },
    )
}

pub fn path() -> impl Strategy<Value = Path> {
    (ipv4(), any::<u16>())
        .prop_map(|(ipv4, source_port)| Path::new(&ipv4, &Udp { source_port, destination_port: UDP_PORT }))
}

pub fn echo_kind() -> impl Strategy<Value = EchoKind> {
    prop_oneof![Just(EchoKind::Request), Just(EchoKind::Reply)]
}

pub fn flow() -> impl Strategy<Value = Flow> {
    let endpoint = || {
        (mac_address(), address(), any::<u16>()).prop_map(|(hardware, address, port)| Endpoint {
            hardware,
            address,
            port,
        })
    };
    (endpoint(), endpoint(), any::<u8>()).prop_map(|(source, destination, type_of_service)| Flow {
        source,
        destination,
        type_of_service,
    })
}

pub fn roce_flow() -> impl Strategy<Value = Flow> {
    flow().prop_map(|flow| Flow { destination: Endpoint { port: UDP_PORT, ..flow.destination }, ..flow })
}

fn bits_24() -> impl Strategy<Value = u32> {
    0..=MASK_24
}

fn syndrome() -> impl Strategy<Value = Syndrome> {
    prop_oneof![
        (0..32u8).prop_map(|credits| Syndrome::Ack { credits }),
        (0..32u8).prop_map(|timer| Syndrome::RnrNak { timer }),
        (0..5u8).prop_map(|code| Syndrome::Nak(NakCode::from_u8(code).unwrap())),
    ]
}

fn bth() -> impl Strategy<Value = Bth> {
    let opcode = prop::sample::select(&Opcode::ALL[..]);
    (opcode, any::<(bool, bool, bool, bool, bool, u16)>(), bits_24(), bits_24()).prop_map(
        |(opcode, flags, destination, psn)| {
            let (solicited, migration, forward, backward, acknowledge, partition_key) = flags;
            Bth {
                opcode,
                solicited,
                migration,
                pad: 0,
                partition_key,
                congestion: Congestion { forward, backward },
                destination,
                acknowledge,
                psn,
            }
        },
    )
}

/// A packet and the payload that it borrows.
#[derive(Clone, Debug)]
pub struct OwnedPacket {
    bth: Bth,
    reth: Reth,
    atomic: AtomicEth,
    aeth: Aeth,
    atomic_ack: u64,
    immediate: u32,
    payload: Vec<u8>,
}

impl OwnedPacket {
    /// The packet with the extended headers and the payload that its opcode allows.
    pub fn packet(&self) -> Packet<'_> {
        let opcode = self.bth.opcode;
        Packet {
            reth: opcode.has_reth().then_some(self.reth),
            atomic: opcode.has_atomic().then_some(self.atomic),
            aeth: opcode.has_aeth().then_some(self.aeth),
            atomic_ack: opcode.has_atomic_ack().then_some(self.atomic_ack),
            immediate: opcode.has_immediate().then_some(self.immediate),
            ..Packet::new(self.bth, if opcode.has_payload() { &self.payload } else { &[] })
        }
    }
}

pub fn packet() -> impl Strategy<Value = OwnedPacket> {
    let reth = any::<(u64, u32, u32)>().prop_map(|(address, rkey, length)| Reth { address, rkey, length });
    let atomic = any::<(u64, u32, u64, u64)>().prop_map(|(address, rkey, swap_or_add, compare)| AtomicEth {
        address,
        rkey,
        swap_or_add,
        compare,
    });
    let aeth = (syndrome(), bits_24()).prop_map(|(syndrome, msn)| Aeth { syndrome, msn });
    (bth(), reth, atomic, aeth, any::<(u64, u32)>(), payload(300)).prop_map(
        |(bth, reth, atomic, aeth, (atomic_ack, immediate), payload)| OwnedPacket {
            bth,
            reth,
            atomic,
            aeth,
            atomic_ack,
            immediate,
            payload,
        },
    )
}
