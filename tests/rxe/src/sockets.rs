//! A NIC that consists of Weft's card, an ordinary UDP socket, and this machine's IP stack behind a TAP
//! device.
//!
//! It sends and receives Ethernet frames like any NIC, so the test's faulty network is between it and the
//! guest. The kernel handles everything behind the TAP device: ARP, IP, UDP, and the socket of the card.

use std::io;
use std::os::fd::AsFd;

use weft_net::{Address, BindError, Clock, Device as _, FramePort, SocketDevice, TapPort};
use weft_nic::{HostCommand, HostEvent, Nic, RdmaDriver, Work};
use weft_time::{Duration, Instant};

use crate::world::{Device, Trouble};

/// Interval at which the TAP device is polled.
const LOOK: Duration = Duration::from_ms(1);

pub struct SocketNic<A> {
    tap: TapPort,
    card: SocketDevice<A>,
    clock: Clock,
}

/// Checks that the process is unprivileged: not root, and all sets of capabilities empty. Returns its user.
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

impl<A: Address + 'static> SocketNic<A> {
    /// Opens the TAP device of this name, which belongs to this user. `open` creates a card behind a UDP
    /// socket of that device. Standard input is a descriptor of `/dev/net/tun`. Also returns the user, who
    /// must not have any capability.
    pub fn open(
        tap: &str,
        clock: Clock,
        open: impl FnOnce() -> Result<SocketDevice<A>, BindError>,
    ) -> Result<(Box<dyn Device>, u32), Trouble> {
        let user = user_without_capabilities(&std::fs::read_to_string("/proc/self/status")?)?;
        let opened = |tun: io::Result<_>| TapPort::with_tun(tun?, tap);
        let tap = opened(io::stdin().as_fd().try_clone_to_owned())
            .map_err(|error| Trouble(format!("TAP device {tap}: {error}")))?;
        let card = open().map_err(|error| Trouble(error.to_string()))?;
        Ok((Box::new(Self { tap, card, clock }), user))
    }
}

impl<A: Address> Nic for SocketNic<A> {
    fn receive_frame(&mut self, _now: Instant, frame: &[u8]) {
        // When this returns, the kernel has put the packet's data into the socket.
        self.tap.transmit(frame).expect("the TAP device stays");
        while self.card.receive(self.clock).expect("the socket stays open") {}
    }

    fn submit(&mut self, now: Instant, command: HostCommand<'_>) {
        self.card.submit(now, command);
    }

    fn next_deadline(&self) -> Option<Instant> {
        // The kernel also sends frames by itself when it resolves a neighbour, so the device is polled.
        let look = self.clock.now() + LOOK;
        Some(self.card.next_deadline().map_or(look, |deadline| deadline.min(look)))
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.card.handle_deadline(now);
    }

    fn poll_frame(&mut self, now: Instant, frame: &mut Vec<u8>) -> bool {
        self.card.transmit(now).expect("the socket stays open");
        self.tap.receive(frame).expect("the TAP device stays")
    }

    fn poll_host(&mut self) -> Option<HostEvent> {
        self.card.poll_host()
    }

    fn take_work(&mut self) -> Work {
        Work::default()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.card.counters()
    }
}

impl<A: Address> Device for SocketNic<A> {
    fn driver(&mut self) -> &mut dyn RdmaDriver {
        self.card.driver()
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
