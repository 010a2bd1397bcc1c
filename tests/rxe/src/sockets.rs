//! A NIC made of Weft's card, an ordinary UDP socket, and the IP stack of this machine behind a TAP device.
//!
//! It takes and gives Ethernet frames like any NIC, so that the network of the trial lies between it and the guest.
//! What is on the other side of the TAP device is the kernel's: ARP, IP, UDP, and the socket that the card is behind.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;

use weft_net::{CardPorts, FramePort, PortOptions, TapPort, UdpPort};
use weft_nic::{Card, CardConfig, HostCommand, HostEvent, Nic, NoEngine, RdmaDriver, Work};
use weft_rdma::{
    ApiError, Modify, QueuePairAttributes, QueuePairInformation, QueuePairNumber, ReceiveRequest, Region,
    RegionKeys, RegionMemory,
};
use weft_time::Instant;
use weft_wire::roce;

use crate::world::Trouble;

pub struct SocketNic {
    tap: TapPort,
    port: UdpPort,
    card: CardPorts<NoEngine>,
}

/// That the process has no privilege: its user, if that is not root and no set of capabilities has any.
fn user_without_capabilities(status: &str) -> Result<u32, Trouble> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    for name in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        if field(name).is_none_or(|set| set.bytes().any(|digit| digit != b'0')) {
            return Err(Trouble(format!("this process has capabilities ({name} of /proc/self/status)")));
        }
    }
    let users = field("Uid:").into_iter().flat_map(str::split_whitespace);
    let users: Vec<u32> = users.map_while(|user| user.parse().ok()).collect();
    match users[..] {
        [user, effective, saved, _] if user != 0 && user == effective && user == saved => Ok(user),
        _ => Err(Trouble("this process is root's".into())),
    }
}

impl SocketNic {
    /// A card behind port 4791 of `address`, the address of the TAP device of this name, which belongs to this user.
    /// Standard input is a descriptor of `/dev/net/tun`. Gives the user, too, who must not have any capability.
    pub fn open(config: CardConfig, tap: &str, address: Ipv4Addr) -> Result<(Self, u32), Trouble> {
        let user = user_without_capabilities(&std::fs::read_to_string("/proc/self/status")?)?;
        let opened = |tun: io::Result<_>| TapPort::with_tun(tun?, tap);
        let tap = opened(io::stdin().as_fd().try_clone_to_owned())
            .map_err(|error| Trouble(format!("TAP device {tap}: {error}")))?;
        // As on any real link over IPv4.
        let options = PortOptions { segmentation: false, ..PortOptions::default() };
        let port = UdpPort::bind(SocketAddrV4::new(address, roce::UDP_PORT), &options)
            .map_err(|error| Trouble(error.to_string()))?;
        Ok((Self { tap, port, card: CardPorts::new(Card::new(config, Vec::new()), address) }, user))
    }
}

impl Nic for SocketNic {
    fn receive_frame(&mut self, now: Instant, frame: &[u8]) {
        // What the kernel takes of it lies in the socket when this returns.
        self.tap.transmit(frame).expect("the TAP device stays");
        let Self { port, card, .. } = self;
        while port.receive(|datagram| card.receive_roce(now, datagram)).expect("the socket stays open") > 0 {}
    }

    fn submit(&mut self, now: Instant, command: HostCommand<'_>) {
        self.card.card_mut().submit(now, command);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.card.card().next_deadline()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.card.card_mut().handle_deadline(now);
    }

    fn poll_frame(&mut self, now: Instant, frame: &mut Vec<u8>) -> bool {
        self.card.transmit_roce(now, &mut self.port);
        self.port.flush().expect("the socket stays open");
        self.tap.receive(frame).expect("the TAP device stays")
    }

    fn poll_host(&mut self) -> Option<HostEvent> {
        self.card.card_mut().poll_host()
    }

    fn take_work(&mut self) -> Work {
        self.card.card_mut().take_work()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.card.card().counters();
        all.push(("identifications_refused", self.card.identifications_refused()));
        all.extend(self.port.counters().named());
        all
    }
}

impl RdmaDriver for SocketNic {
    fn create_queue_pair(&mut self, attributes: QueuePairAttributes) -> Result<QueuePairNumber, ApiError> {
        self.card.card_mut().create_queue_pair(attributes)
    }

    fn modify_queue_pair(&mut self, number: QueuePairNumber, change: Modify) -> Result<(), ApiError> {
        self.card.card_mut().modify_queue_pair(number, change)
    }

    fn destroy_queue_pair(&mut self, number: QueuePairNumber) -> Result<(), ApiError> {
        self.card.card_mut().destroy_queue_pair(number)
    }

    fn query_queue_pair(&mut self, number: QueuePairNumber) -> Result<QueuePairInformation, ApiError> {
        self.card.card_mut().query_queue_pair(number)
    }

    fn post_receive(&mut self, number: QueuePairNumber, request: ReceiveRequest) -> Result<(), ApiError> {
        self.card.card_mut().post_receive(number, request)
    }

    fn register_region(&mut self, region: Region) -> Result<RegionKeys, ApiError> {
        self.card.card_mut().register_region(region)
    }

    fn modify_region(&mut self, keys: RegionKeys, access: weft_rdma::AccessFlags) -> Result<(), ApiError> {
        self.card.card_mut().modify_region(keys, access)
    }

    fn deregister_region(&mut self, keys: RegionKeys) -> Result<Region, ApiError> {
        self.card.card_mut().deregister_region(keys)
    }

    fn memory(&mut self) -> &mut dyn RegionMemory {
        self.card.card_mut().memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privileges_of_any_kind_are_noticed() {
        let status = |uid: &str, effective: &str, bounding: &str| {
            let zero = "0000000000000000";
            format!(
                "Name:\tweft\nUid:\t{uid}\nCapInh:\t{zero}\nCapPrm:\t{zero}\nCapEff:\t{effective}\n\
                 CapBnd:\t{bounding}\nCapAmb:\t{zero}\n"
            )
        };
        let none = "0000000000000000";
        let user = user_without_capabilities(&status("65534\t65534\t65534\t65534", none, none));
        assert!(matches!(user, Ok(65_534)));
        for bad in [
            status("0\t0\t0\t0", none, none),
            status("65534\t65534\t0\t65534", none, none),
            status("65534\t65534\t65534\t65534", "0000000000002000", none),
            status("65534\t65534\t65534\t65534", none, "000001ffffffffff"),
            String::new(),
        ] {
            assert!(user_without_capabilities(&bad).is_err(), "{bad}");
        }
    }
}
