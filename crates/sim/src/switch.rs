//! The switch: where a frame goes.

use weft_time::Duration;

use crate::MachineId;

/// An output-queued, store-and-forward Ethernet switch with one port per machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// From a frame's last bit in to its first chance to go out.
    pub forwarding_latency: Duration,
    /// What each output queue holds, counted on the wire (with preamble, check sequence, padding and gap). What
    /// does not fit is dropped.
    pub queue_bytes: u64,
    /// How many addresses the switch learns beside those of its ports. When the table is full it floods.
    pub learned_addresses_max: usize,
}

impl Default for SwitchConfig {
    /// 300 ns, as cut-through data-centre switches of 100 Gb/s promise, and 1 MiB per port. Estimates: no switch
    /// was measured.
    fn default() -> Self {
        Self {
            forwarding_latency: Duration::from_ns(300),
            queue_bytes: 1 << 20,
            learned_addresses_max: 1_024,
        }
    }
}

impl SwitchConfig {
    /// A switch of a network with flow control by priority (IEEE 802.1Qbb), as RoCE networks have it: what a port has no room for is not
    /// dropped, but waits where it comes from. Here it waits at the port, up to a terabyte, so that it holds up no other frames.
    pub fn lossless() -> Self {
        Self { queue_bytes: 1 << 40, ..Self::default() }
    }
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Out of one port.
    Port(MachineId),
    /// Out of all ports but the one that it came from.
    Flood,
    /// Nowhere: it has no complete Ethernet header.
    Malformed,
}

/// Which address is behind which port.
#[derive(Debug)]
pub(crate) struct ForwardingTable {
    /// Sorted by address. A static entry stays whatever arrives: a frame with corrupted bytes must not move a machine.
    entries: Vec<([u8; 6], Entry)>,
    learned: usize,
    learned_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    port: MachineId,
    is_static: bool,
}

impl ForwardingTable {
    pub(crate) fn new(learned_max: usize) -> Self {
        Self { entries: Vec::new(), learned: 0, learned_max }
    }

    /// Enters the address of the machine on `port`.
    pub(crate) fn assign(&mut self, address: [u8; 6], port: MachineId) {
        let entry = Entry { port, is_static: true };
        match self.find(address) {
            Ok(at) => {
                assert!(!self.entries[at].1.is_static, "two machines have one address");
                self.entries[at].1 = entry;
                self.learned -= 1;
            }
            Err(at) => self.entries.insert(at, (address, entry)),
        }
    }

    /// Learns from a frame that has come in on `from`, and decides where it goes.
    pub(crate) fn forward(&mut self, from: MachineId, frame: &[u8]) -> Destination {
        let Some((to, rest)) = frame.split_first_chunk::<6>() else { return Destination::Malformed };
        let Some((source, rest)) = rest.split_first_chunk::<6>() else { return Destination::Malformed };
        if rest.len() < 2 {
            return Destination::Malformed;
        }
        self.learn(*source, from);
        if is_group(*to) {
            return Destination::Flood;
        }
        self.find(*to).map_or(Destination::Flood, |at| Destination::Port(self.entries[at].1.port))
    }

    fn learn(&mut self, address: [u8; 6], port: MachineId) {
        if is_group(address) {
            return;
        }
        match self.find(address) {
            Ok(at) if self.entries[at].1.is_static => {}
            Ok(at) => self.entries[at].1.port = port,
            Err(at) if self.learned < self.learned_max => {
                self.entries.insert(at, (address, Entry { port, is_static: false }));
                self.learned += 1;
            }
            Err(_) => {}
        }
    }

    fn find(&self, address: [u8; 6]) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&address, |entry| entry.0)
    }
}

/// Broadcast or multicast: the first bit on the wire is set.
fn is_group(address: [u8; 6]) -> bool {
    address[0] & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(to: u8, from: u8) -> Vec<u8> {
        [[2, 0, 0, 0, 0, to], [2, 0, 0, 0, 0, from]].concat().into_iter().chain([8, 0]).collect()
    }

    #[test]
    fn learns_but_never_moves_a_static_address() {
        let port = MachineId::new;
        let mut table = ForwardingTable::new(1);
        table.assign([2, 0, 0, 0, 0, 1], port(1));
        assert_eq!(table.forward(port(2), &frame(9, 1)), Destination::Flood);
        assert_eq!(table.forward(port(2), &frame(1, 9)), Destination::Port(port(1)));
        assert_eq!(table.forward(port(1), &frame(9, 1)), Destination::Port(port(2)));
        assert_eq!(table.forward(port(3), &frame(9, 9)), Destination::Port(port(3)));
        // The table is full: 8 is not learned.
        table.forward(port(1), &frame(1, 8));
        assert_eq!(table.forward(port(3), &frame(8, 9)), Destination::Flood);
        assert_eq!(table.forward(port(1), &[0xff; 14]), Destination::Flood);
        assert_eq!(table.forward(port(1), &[2; 13]), Destination::Malformed);
        assert_eq!(table.forward(port(1), &[]), Destination::Malformed);
    }
}
