//! The addresses by which a card knows the other ends.
//!
//! A card compares and stores IPv4 addresses. A node's address may be one of IPv6, or may change, so the card gets
//! another one for each node, by its number, which never changes. Clients keep their IPv4 addresses. A client with an
//! IPv6 address gets an address of its own: the number of its entry in a table. All of these begin with 0; no datagram
//! from such an address is accepted.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use weft_waist::NODES_MAX;

/// The most clients with IPv6 addresses that are known at a time. The oldest gives way, and gets no answers to what it
/// has asked before; it asks again.
const CLIENTS_MAX: u64 = 1 << 16;
/// The numbers of entries: the last 40 bits of an address and its port, behind those of the nodes.
const FIRST_NUMBER: u64 = 1 << 24;
const LAST_NUMBER: u64 = (1 << 40) - 1;

/// The node's own client, in the same process.
pub(crate) const OWN_CLIENT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(0, 0, 0, 255), 0);

/// The address of a node.
pub(crate) const fn node(number: usize) -> SocketAddrV4 {
    assert!(number < NODES_MAX);
    SocketAddrV4::new(Ipv4Addr::new(0, 0, 0, 1 + number as u8), 0)
}

/// The number of the node that has this address.
#[inline]
pub(crate) fn node_at(address: Ipv4Addr) -> Option<usize> {
    match address.octets() {
        [0, 0, 0, number] => usize::from(number).checked_sub(1).filter(|number| *number < NODES_MAX),
        _ => None,
    }
}

/// The clients that have asked.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    /// The clients with IPv6 addresses. Entry *n* is at place *n* mod [`CLIENTS_MAX`].
    entries: Vec<(u64, SocketAddrV6)>,
    numbers: HashMap<SocketAddrV6, u64>,
    /// How many entries have been made.
    made: u64,
}

impl Clients {
    /// The address of a client inside the card; `None` if nobody may have it.
    #[inline]
    pub(crate) fn inside(&mut self, client: SocketAddr) -> Option<SocketAddrV4> {
        match client {
            SocketAddr::V4(client) => Some(client).filter(|client| client.ip().octets()[0] != 0),
            SocketAddr::V6(client) => Some(self.entry(client)),
        }
    }

    /// The client that has this address inside the card; `None` if it has given way.
    #[inline]
    pub(crate) fn outside(&self, address: SocketAddrV4) -> Option<SocketAddr> {
        if address.ip().octets()[0] != 0 {
            return Some(address.into());
        }
        let number = u64::from(address.ip().to_bits()) << 16 | u64::from(address.port());
        let (known, client) = self.entries.get((number % CLIENTS_MAX) as usize)?;
        (*known == number).then_some(SocketAddr::V6(*client))
    }

    fn entry(&mut self, client: SocketAddrV6) -> SocketAddrV4 {
        let number = match self.numbers.get(&client) {
            Some(number) => *number,
            None => {
                let number = FIRST_NUMBER + self.made % (LAST_NUMBER + 1 - FIRST_NUMBER);
                self.made += 1;
                let place = (number % CLIENTS_MAX) as usize;
                if place == self.entries.len() {
                    self.entries.push((number, client));
                } else {
                    let (_, former) = std::mem::replace(&mut self.entries[place], (number, client));
                    self.numbers.remove(&former);
                }
                self.numbers.insert(client, number);
                number
            }
        };
        SocketAddrV4::new(Ipv4Addr::from_bits((number >> 16) as u32), number as u16)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn client(number: u64) -> SocketAddr {
        SocketAddrV6::new(Ipv6Addr::from(u128::from(number) << 16), number as u16, 0, 0).into()
    }

    #[test]
    fn a_node_is_known_by_its_number() {
        for number in 0..NODES_MAX {
            assert_eq!(node_at(*node(number).ip()), Some(number));
        }
        for other in
            [*OWN_CLIENT.ip(), Ipv4Addr::UNSPECIFIED, Ipv4Addr::new(0, 0, 0, 17), Ipv4Addr::new(10, 0, 0, 1)]
        {
            assert_eq!(node_at(other), None);
        }
    }

    #[test]
    fn a_client_keeps_its_ipv4_address_unless_it_is_forged() {
        let mut clients = Clients::default();
        let address: SocketAddrV4 = "10.0.0.1:9".parse().unwrap();
        assert_eq!(clients.inside(address.into()), Some(address));
        assert_eq!(clients.outside(address), Some(address.into()));
        for forged in [node(3), OWN_CLIENT, "0.0.1.0:0".parse().unwrap()] {
            assert_eq!(clients.inside(forged.into()), None);
            assert_eq!(clients.outside(forged), None);
        }
    }

    #[test]
    fn answers_go_to_who_has_asked_or_to_nobody() {
        let mut clients = Clients::default();
        let first: Vec<_> = (0..CLIENTS_MAX).map(|number| clients.inside(client(number)).unwrap()).collect();
        for (number, inside) in (0..).zip(&first) {
            assert_eq!(clients.inside(client(number)), Some(*inside), "it keeps its address");
            assert_eq!(clients.outside(*inside), Some(client(number)));
            assert_eq!((node_at(*inside.ip()), inside.ip().octets()[0]), (None, 0));
        }
        let newest = clients.inside(client(CLIENTS_MAX)).unwrap();
        assert_eq!((clients.outside(newest), clients.outside(first[0])), (Some(client(CLIENTS_MAX)), None));
        assert_eq!(clients.outside(first[1]), Some(client(1)));
        assert_ne!(clients.inside(client(0)), Some(first[0]), "it has a new entry");
        assert_eq!(
            (clients.entries.len(), clients.numbers.len()),
            (CLIENTS_MAX as usize, CLIENTS_MAX as usize)
        );
    }

    #[test]
    fn numbers_begin_again_after_the_last() {
        let mut clients = Clients::default();
        for number in 0..CLIENTS_MAX {
            clients.inside(client(number));
        }
        clients.made = LAST_NUMBER - FIRST_NUMBER;
        let last = clients.inside(client(CLIENTS_MAX)).unwrap();
        assert_eq!(last, "0.255.255.255:65535".parse().unwrap());
        let again = clients.inside(client(CLIENTS_MAX + 1)).unwrap();
        assert_eq!(again, "0.0.1.0:0".parse().unwrap());
        assert_eq!(
            (clients.outside(last), clients.outside(again)),
            (Some(client(CLIENTS_MAX)), Some(client(CLIENTS_MAX + 1)))
        );
    }
}
