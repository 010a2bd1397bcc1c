//! Hardware addresses of IPv4 neighbours.

use std::net::Ipv4Addr;

use weft_time::{Duration, Instant};
use weft_wire::ethernet::MacAddress;

/// Asking for the same neighbour again waits this long.
const REQUEST_INTERVAL: Duration = Duration::from_ms(1);

/// A small table of neighbours, searched in order: a NIC of a cluster speaks to few stations.
#[derive(Debug)]
pub(crate) struct Neighbours {
    entries: Vec<Entry>,
    capacity: usize,
    victim: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: Ipv4Addr,
    station: Option<MacAddress>,
    asked: Instant,
}

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// Its hardware address.
    Known(MacAddress),
    /// Unknown: ask.
    Ask,
    /// Unknown, and asked a moment ago.
    Wait,
}

impl Neighbours {
    /// A table of at most `capacity` neighbours; the oldest gives way.
    pub(crate) fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a neighbour table holds at least one entry");
        Self { entries: Vec::with_capacity(capacity), capacity, victim: 0 }
    }

    pub(crate) fn learn(&mut self, now: Instant, address: Ipv4Addr, station: MacAddress) {
        self.entry(now, address).station = Some(station);
    }

    /// Whether the table holds this neighbour or has asked for it: unsolicited claims of others are not learned.
    pub(crate) fn expects(&self, address: Ipv4Addr) -> bool {
        self.entries.iter().any(|entry| entry.address == address)
    }

    pub(crate) fn lookup(&mut self, now: Instant, address: Ipv4Addr) -> Lookup {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.address == address) {
            return match entry.station {
                Some(station) => Lookup::Known(station),
                None if now.saturating_since(entry.asked) < REQUEST_INTERVAL => Lookup::Wait,
                None => {
                    entry.asked = now;
                    Lookup::Ask
                }
            };
        }
        self.entry(now, address);
        Lookup::Ask
    }

    fn entry(&mut self, now: Instant, address: Ipv4Addr) -> &mut Entry {
        let position = self.entries.iter().position(|entry| entry.address == address).unwrap_or_else(|| {
            let fresh = Entry { address, station: None, asked: now };
            if self.entries.len() < self.capacity {
                self.entries.push(fresh);
                return self.entries.len() - 1;
            }
            let position = self.victim;
            self.victim = (self.victim + 1) % self.capacity;
            self.entries[position] = fresh;
            position
        });
        &mut self.entries[position]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATION: MacAddress = MacAddress([2, 0, 0, 0, 0, 7]);

    #[test]
    fn asks_once_then_waits_then_knows() {
        let mut table = Neighbours::new(4);
        let address = Ipv4Addr::new(10, 0, 0, 7);
        let start = Instant::ZERO;
        assert_eq!(table.lookup(start, address), Lookup::Ask);
        assert_eq!(table.lookup(start, address), Lookup::Wait);
        assert_eq!(table.lookup(start + REQUEST_INTERVAL, address), Lookup::Ask);
        table.learn(start, address, STATION);
        assert_eq!(table.lookup(start, address), Lookup::Known(STATION));
    }

    #[test]
    fn the_oldest_gives_way() {
        let mut table = Neighbours::new(2);
        for last in 1..=3 {
            table.learn(Instant::ZERO, Ipv4Addr::new(10, 0, 0, last), STATION);
        }
        assert!(!table.expects(Ipv4Addr::new(10, 0, 0, 1)));
        assert!(table.expects(Ipv4Addr::new(10, 0, 0, 3)));
    }
}
