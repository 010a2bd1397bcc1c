//! Devices of all kinds against each other, connected by introductions.
//!
//! With a TAP device on one side, the other side is the kernel's IP stack behind it, or a NIC on a packet socket
//! of the same interface. These tests need root, for a network namespace of their own; otherwise they say so and
//! do nothing.

mod interface;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_net::{
    BindError, ConnectionOptions, Context, Device, FrameDevice, FramePort, IdlePolicy, Introduction,
    PacketPort, PortOptions, RemoteMemory, SocketDevice, TapPort, XdpPort, connect,
};
use weft_nic::{CardConfig, NoEngine, RdmaDriver, SoftNic, SoftNicConfig};
use weft_time::Duration;
use weft_verbs::{
    AccessFlags, ApiError, CompletionStatus, LocalBuffer, Operation, PathMtu, Region, RegionKeys,
    RemoteAddress, Target, WorkRequest,
};
use weft_wire::ethernet::MacAddress;

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const TAP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const PACKET: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);
const XDP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 4);

/// Bytes of a message: many packets, the last one short.
const LENGTH: usize = 100_001;
const MEMORY_BYTES: usize = 3 * LENGTH;

fn card() -> CardConfig {
    CardConfig::without_engines(MEMORY_BYTES, weft_rdma::Config::default())
}

fn sockets(address: Ipv4Addr, segmentation: bool) -> SocketDevice {
    let options = PortOptions { segmentation, ..PortOptions::default() };
    SocketDevice::open(address, card(), &options).unwrap()
}

fn frames<P: FramePort>(port: P, address: Ipv4Addr) -> FrameDevice<SoftNic<NoEngine>, P> {
    let [.., last] = address.octets();
    let config = SoftNicConfig { hardware: MacAddress([2, 0, 0, 0, 77, last]), address, card: card() };
    FrameDevice::new(SoftNic::new(config, Vec::new()), port)
}

/// One end of a connection, before it is connected.
struct End<D> {
    context: Context<D>,
    keys: RegionKeys,
    introduction: Introduction,
}

impl<D: Device> End<D> {
    fn new(device: D, address: impl Into<IpAddr>, fill: u8) -> Self {
        let mut context = Context::new(device, IdlePolicy::SLEEP).unwrap();
        let driver = context.driver();
        let region = Region::host(0, MEMORY_BYTES as u64, AccessFlags::ALL);
        let keys = driver.register_region(region).unwrap();
        let bytes: Vec<u8> = (0..LENGTH).map(|place| (place * 7) as u8 ^ fill).collect();
        driver.memory().write(Target::Host, 0, &bytes).unwrap();
        let start = RemoteAddress { address: 0, rkey: keys.rkey };
        let introduction = Introduction {
            gid: address.into().into(),
            number: driver.create_queue_pair(Default::default()).unwrap(),
            psn: 0xff_fff0 + u32::from(fill),
            memory: Some(RemoteMemory { start, length: MEMORY_BYTES as u64 }),
        };
        Self { context, keys, introduction }
    }

    fn memory(&mut self, place: usize) -> Vec<u8> {
        let memory = self.context.driver().memory();
        memory.read(Target::Host, (place * LENGTH) as u64, LENGTH).unwrap().to_vec()
    }

    /// WRITEs the first third of its memory to the second third of the peer's, and READs the peer's first third
    /// into its own last.
    fn post(&mut self, peer: &Introduction) {
        let RemoteMemory { start, .. } = peer.memory.unwrap();
        let (number, lkey) = (self.introduction.number, self.keys.lkey);
        let local =
            |place: usize| LocalBuffer { address: (place * LENGTH) as u64, length: LENGTH as u32, lkey };
        let there = RemoteAddress { address: LENGTH as u64, ..start };
        let write = Operation::Write { remote: there, immediate: None };
        self.context.post_send(number, WorkRequest::new(1, write, local(0)));
        self.context.post_send(number, WorkRequest::new(2, Operation::Read { remote: start }, local(2)));
    }
}

/// Both ends write to and read from each other, driven by this thread.
fn exchange<A: Device, B: Device>(mut one: End<A>, mut other: End<B>, path_mtu: PathMtu) {
    let introductions = [one.introduction, other.introduction].map(|end| end.to_string().parse().unwrap());
    let options = ConnectionOptions { path_mtu, ..ConnectionOptions::default() };
    connect(one.context.driver(), &one.introduction, &introductions[1], &options).unwrap();
    connect(other.context.driver(), &other.introduction, &introductions[0], &options).unwrap();
    one.post(&introductions[1]);
    other.post(&introductions[0]);
    let mut completed = 0;
    for _ in 0..100_000 {
        one.context.progress(Duration::from_us(20)).unwrap();
        other.context.progress(Duration::from_us(20)).unwrap();
        for completion in [one.context.poll(), other.context.poll()].into_iter().flatten() {
            assert_eq!(completion.status, CompletionStatus::Success);
            completed += 1;
        }
        if completed == 4 {
            break;
        }
    }
    assert_eq!(completed, 4);
    let expected = [one.memory(0), other.memory(0)];
    assert!(expected[0] != expected[1]);
    for place in [1, 2] {
        assert!(one.memory(place) == expected[1] && other.memory(place) == expected[0]);
    }
}

#[test]
fn cards_over_ordinary_sockets() {
    // The addresses depend on the process number, so that no other process uses them.
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    for (segmentation, path_mtu) in [(true, PathMtu::Bytes4096), (false, PathMtu::Bytes1024)] {
        let [one, other] = [1, 2].map(|last| {
            let address = Ipv4Addr::new(127, high, low, last);
            End::new(sockets(address, segmentation), address, last)
        });
        exchange(one, other, path_mtu);
    }
}

/// Two queue pairs of one card, because a machine may have only one IPv6 address.
#[test]
fn a_card_over_ipv6() {
    let options = PortOptions::default();
    let device = match SocketDevice::open_ipv6(Ipv6Addr::LOCALHOST, 0, card(), &options) {
        Ok(device) => device,
        Err(BindError::NotLocal { .. }) => return eprintln!("skipped: this machine has no IPv6"),
        Err(error) => panic!("{error}"),
    };
    let mut end = End::new(device, Ipv6Addr::LOCALHOST, 3);
    let own = end.introduction;
    let other = Introduction {
        number: end.context.driver().create_queue_pair(Default::default()).unwrap(),
        psn: 5,
        ..own
    };
    for (one, two) in [(own, other), (other, own)] {
        connect(end.context.driver(), &one, &two, &ConnectionOptions::default()).unwrap();
    }
    end.post(&other);
    for _ in 0..2 {
        let completion = end.context.wait(Duration::from_secs(60)).unwrap().expect("nothing completes");
        assert_eq!(completion.status, CompletionStatus::Success);
    }
    let expected = end.memory(0);
    assert!(end.memory(1) == expected && end.memory(2) == expected);
    let counters = end.context.device().counters();
    assert!(counters.iter().all(|(name, count)| *name != "icrc_errors" || *count == 0));
    assert!(counters.contains(&("malformed", 0)) && counters.contains(&("other_family", 0)));
}

/// A peer with an address of the other family cannot be reached: packets to it are counted.
#[test]
fn a_peer_of_the_other_family_is_counted() {
    let [high, low] = (std::process::id() as u16).to_be_bytes();
    let address = Ipv4Addr::new(127, high, low, 9);
    let mut end = End::new(sockets(address, false), address, 1);
    let peer = Introduction { gid: IpAddr::V6(Ipv6Addr::LOCALHOST).into(), ..end.introduction };
    connect(end.context.driver(), &end.introduction, &peer, &ConnectionOptions::default()).unwrap();
    end.post(&peer);
    end.context.progress(Duration::ZERO).unwrap();
    let counters = end.context.device().counters();
    assert!(counters.iter().any(|(name, count)| *name == "other_family" && *count > 0));
    let nic = &mut SoftNic::<NoEngine>::new(
        SoftNicConfig { hardware: MacAddress([2; 6]), address, card: card() },
        Vec::new(),
    );
    let own = Introduction { number: nic.create_queue_pair(Default::default()).unwrap(), ..end.introduction };
    let refused = connect(nic, &own, &peer, &ConnectionOptions::default());
    assert_eq!(refused, Err(ApiError::NoIpv4(Ipv6Addr::LOCALHOST)));
}

/// A TAP device in a network namespace of this thread; the kernel's side has an address.
fn tap() -> Option<TapPort> {
    let opened = interface::enter_namespace().and_then(|()| {
        let port = TapPort::open("weft0")?;
        interface::set_up("weft0", KERNEL)?;
        Ok(port)
    });
    opened.inspect_err(|error| eprintln!("skipped: no network namespace with a TAP device: {error}")).ok()
}

#[test]
fn a_nic_on_a_tap_device_and_a_card_over_a_socket() {
    let Some(port) = tap() else { return };
    let (nic, card) = (frames(port, TAP), sockets(KERNEL, false));
    exchange(End::new(nic, TAP, 1), End::new(card, KERNEL, 2), PathMtu::Bytes1024);
}

#[test]
fn a_nic_on_a_tap_device_and_a_nic_on_a_packet_socket() {
    let Some(port) = tap() else { return };
    let (one, other) = (frames(port, TAP), frames(PacketPort::open("weft0").unwrap(), PACKET));
    exchange(End::new(one, TAP, 1), End::new(other, PACKET, 2), PathMtu::Bytes1024);
}

/// An AF_XDP socket on one end of a virtual link in a network namespace of this thread; the ends are `one` and
/// `other`.
fn xdp() -> Option<XdpPort> {
    let opened = interface::enter_namespace().and_then(|()| {
        interface::virtual_link("one", "other")?;
        XdpPort::open("one", 0)
    });
    opened.inspect_err(|error| eprintln!("skipped: no virtual link with an AF_XDP socket: {error}")).ok()
}

#[test]
fn nics_on_two_af_xdp_sockets() {
    let Some(port) = xdp() else { return };
    let (one, other) = (frames(port, XDP), frames(XdpPort::open("other", 0).unwrap(), PACKET));
    exchange(End::new(one, XDP, 1), End::new(other, PACKET, 2), PathMtu::Bytes1024);
}

#[test]
fn a_nic_on_an_af_xdp_socket_and_a_nic_on_a_packet_socket() {
    let Some(port) = xdp() else { return };
    let (one, other) = (frames(port, XDP), frames(PacketPort::open("other").unwrap(), PACKET));
    exchange(End::new(one, XDP, 1), End::new(other, PACKET, 2), PathMtu::Bytes1024);
}

/// More frames than a ring has entries: none is damaged, duplicated or out of order. A frame that finds no room
/// stays with the caller or is lost, and no other frame is.
#[test]
fn the_rings_of_an_af_xdp_socket_go_round() {
    let Some(mut one) = xdp() else { return };
    let mut other = XdpPort::open("other", 0).unwrap();
    let frame = |number: u32| {
        let mut frame = vec![number as u8; 64 + (number % 1_400) as usize];
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
        frame[14..18].copy_from_slice(&number.to_be_bytes());
        frame
    };
    let (mut sent, mut arrived, mut last) = (0, 0, None);
    for _ in 0..100_000 {
        while sent < 10_000 && sent - arrived < 600 && one.transmit(&frame(sent)).unwrap() {
            sent += 1;
        }
        one.flush().unwrap();
        let mut bytes = Vec::new();
        while other.receive(&mut bytes).unwrap() {
            let number = u32::from_be_bytes(bytes[14..18].try_into().unwrap());
            assert!(last.is_none_or(|last| number > last) && bytes == frame(number), "frame {number}");
            last = Some(number);
            arrived += 1;
            bytes.clear();
        }
        if last == Some(9_999) {
            break;
        }
    }
    assert_eq!((arrived, last), (10_000, Some(9_999)));
    assert!(one.transmit(&[0; 5_000]).unwrap(), "what is too long is lost");
    assert!(XdpPort::open("one", 0).is_err() && XdpPort::open("one", 77).is_err());
}

#[test]
fn what_is_no_interface_is_an_error() {
    assert!(PacketPort::open("no such interface").is_err());
    assert!(XdpPort::open("no such interface", 0).is_err());
    assert!(TapPort::open("a name that is too long").is_err());
}
