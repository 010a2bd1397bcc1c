//! The switch: where a frame is forwarded to.

use weft_time::Duration;

use crate::MachineId;
use crate::random::Probability;

/// An output-queued, store-and-forward Ethernet switch with one port per machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Time from a frame's last bit in to its earliest first bit out.
    pub forwarding_latency: Duration,
    /// Size of each output queue in bytes on the wire (with preamble, check sequence, padding and gap).
    /// Frames that do not fit are dropped.
    pub queue_bytes: u64,
    /// When packets are marked; `None`: never.
    pub marking: Option<Marking>,
    /// The most addresses that the switch learns, in addition to those of its ports. If the table is full, it
    /// floods.
    pub learned_addresses_max: usize,
}

impl Default for SwitchConfig {
    /// 300 ns, as vendors give for cut-through data-centre switches of 100 Gb/s, and 1 MiB per port. These
    /// are estimates: no switch was measured.
    fn default() -> Self {
        Self {
            forwarding_latency: Duration::from_ns(300),
            queue_bytes: 1 << 20,
            marking: None,
            learned_addresses_max: 1_024,
        }
    }
}

impl SwitchConfig {
    /// A switch of a network with priority flow control (IEEE 802.1Qbb), as RoCE networks have it: frames for
    /// a full port are not dropped, but wait at their source. In this model they wait at the port, up to a
    /// terabyte, so that they delay no other frames.
    pub fn lossless() -> Self {
        Self { queue_bytes: 1 << 40, ..Self::default() }
    }
}

/// Explicit congestion notification by the length of an output queue (RFC 3168). A packet that finds a queue
/// of at least `from_bytes` is marked with a probability that grows linearly up to `probability_max` at
/// `all_from_bytes`. From there on every packet is marked. Packets that must not be marked are not. The
/// present length of the queue is used, not its mean, as in DCQCN (section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// The shortest queue that marks, in bytes on the wire (`K_min`).
    pub from_bytes: u64,
    /// The length from which on all packets are marked (`K_max`).
    pub all_from_bytes: u64,
    /// The probability just below `all_from_bytes` (`P_max`).
    pub probability_max: Probability,
}

impl Marking {
    /// The probability with which a packet is marked that finds `waiting` bytes in the queue.
    pub(crate) fn probability(&self, waiting: u64) -> Probability {
        if waiting >= self.all_from_bytes {
            return Probability::ALWAYS;
        }
        let above = waiting.saturating_sub(self.from_bytes);
        self.probability_max.share(above, self.all_from_bytes - self.from_bytes)
    }
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// To one port.
    Port(MachineId),
    /// To all ports except the one that it came from.
    Flood,
    /// Nowhere, because it has no complete Ethernet header.
    Malformed,
}

/// The switch's table of addresses and their ports.
#[derive(Debug)]
pub(crate) struct ForwardingTable {
    /// Sorted by address. Static entries never change, because a frame with corrupted bytes must not move a
    /// machine to another port.
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

    /// Enters the address of the machine on `port`, as a static entry.
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

    /// Learns the sender's address of a frame from port `from`, and returns where the frame goes.
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

/// Whether an address is broadcast or multicast: the first bit on the wire is set.
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
    fn the_longer_the_queue_the_likelier_a_mark() {
        let probability_max = Probability::new(0.25).unwrap();
        let marking = Marking { from_bytes: 1_000, all_from_bytes: 5_000, probability_max };
        let of = |value| Probability::new(value).unwrap();
        for (waiting, expected) in
            [(0, 0.0), (1_000, 0.0), (2_000, 0.0625), (3_000, 0.125), (5_000, 1.0), (u64::MAX, 1.0)]
        {
            assert_eq!(marking.probability(waiting), of(expected), "{waiting}");
        }
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
        // The table is full, so address 8 is not learned.
        table.forward(port(1), &frame(1, 8));
        assert_eq!(table.forward(port(3), &frame(8, 9)), Destination::Flood);
        assert_eq!(table.forward(port(1), &[0xff; 14]), Destination::Flood);
        assert_eq!(table.forward(port(1), &[2; 13]), Destination::Malformed);
        assert_eq!(table.forward(port(1), &[]), Destination::Malformed);
    }
}
