//! The network between the two ends, which loses, duplicates and reorders RoCE packets.

use weft_time::{Duration, Instant};
use weft_wire::frame::Frame;
use weft_wire::{ipv4, roce};

use crate::random::Random;

/// Whether a frame is a RoCE packet, over IPv4 or over IPv6.
fn is_roce(frame: &[u8]) -> bool {
    // Checks the EtherType and then, without extension headers, the UDP protocol number and destination port.
    let over_ipv6 = frame.get(12..14) == Some(&[0x86, 0xdd])
        && frame.get(20) == Some(&ipv4::PROTOCOL_UDP)
        && frame.get(56..58) == Some(&roce::UDP_PORT.to_be_bytes());
    over_ipv6
        || matches!(Frame::parse(frame), Ok(Frame::Udp { udp, .. }) if udp.destination_port == roce::UDP_PORT)
}

/// Fault rates, in a thousand packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    pub loss: u32,
    pub duplication: u32,
    pub reordering: u32,
}

/// Counts of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    pub packets: u64,
    pub lost: u64,
    pub doubled: u64,
    pub delayed: u64,
}

/// Maximum delay of a reordered packet.
const DELAY_MAX: Duration = Duration::from_ms(4);

/// One direction of the network.
#[derive(Debug)]
pub struct Line {
    random: Random,
    pub rates: Rates,
    pub tally: Tally,
    held: Vec<(Instant, Vec<u8>)>,
}

impl Line {
    pub const fn new(seed: u64) -> Self {
        let rates = Rates { loss: 0, duplication: 0, reordering: 0 };
        let tally = Tally { packets: 0, lost: 0, doubled: 0, delayed: 0 };
        Self { random: Random::new(seed), rates, tally, held: Vec::new() }
    }

    /// Takes a frame, and returns the frames that arrive at once. Only RoCE packets are subject to faults.
    pub fn carry(&mut self, now: Instant, frame: Vec<u8>) -> Vec<Vec<u8>> {
        if !is_roce(&frame) {
            return vec![frame];
        }
        self.tally.packets += 1;
        if self.random.chance(self.rates.loss) {
            self.tally.lost += 1;
            return Vec::new();
        }
        if self.random.chance(self.rates.reordering) {
            self.tally.delayed += 1;
            let delay = Duration::from_ps(self.random.below(DELAY_MAX.as_ps()));
            self.held.push((now + delay, frame));
            return Vec::new();
        }
        if self.random.chance(self.rates.duplication) {
            self.tally.doubled += 1;
            return vec![frame.clone(), frame];
        }
        vec![frame]
    }

    /// When the next delayed frame is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.held.iter().map(|(due, _)| *due).min()
    }

    /// A delayed frame that is due.
    pub fn release(&mut self, now: Instant) -> Option<Vec<u8>> {
        let index = self.held.iter().position(|(due, _)| *due <= now)?;
        Some(self.held.swap_remove(index).1)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use weft_wire::ethernet::MacAddress;
    use weft_wire::frame::{Endpoint, Flow, emit_udp_frame};

    use super::*;

    fn frame(port: u16) -> Vec<u8> {
        let end = Endpoint { hardware: MacAddress([2; 6]), address: Ipv4Addr::LOCALHOST, port };
        let mut frame = Vec::new();
        emit_udp_frame(&mut frame, &Flow { source: end, destination: end, type_of_service: 0 }, &[0; 16]);
        frame
    }

    #[test]
    fn roce_packets_suffer_at_the_rates_given_and_others_never() {
        let mut line = Line::new(3);
        line.rates = Rates { loss: 100, duplication: 10, reordering: 20 };
        let mut arrived = 0;
        for _ in 0..10_000 {
            arrived += line.carry(Instant::ZERO, frame(roce::UDP_PORT)).len();
            assert_eq!(line.carry(Instant::ZERO, frame(53)).len(), 1);
        }
        while line.release(Instant::ZERO + DELAY_MAX).is_some() {
            arrived += 1;
        }
        let tally = line.tally;
        assert_eq!(arrived as u64, tally.packets - tally.lost + tally.doubled);
        assert!((900..1_100).contains(&tally.lost) && (130..230).contains(&tally.delayed), "{tally:?}");
        assert!((50..130).contains(&tally.doubled), "{tally:?}");
    }
}
