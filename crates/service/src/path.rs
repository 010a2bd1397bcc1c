//! A path with services on it, as the suite sees it: soft or gates.

use crate::services::{Services, Setting};
use crate::shapes::Flow;

/// The payload of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Flow of the packet.
    pub flow: Flow,
    /// Of the first byte, in the message or, for a READ's response, in the region.
    pub offset: u64,
    /// 1 to 4,096 bytes: a packet without payload does not come to a service.
    pub bytes: Vec<u8>,
}

/// Outcome of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The payload behind the map.
    pub bytes: Vec<u8>,
    /// Verdict of the tap.
    pub verdict: u32,
}

/// The path that the suite drives.
pub trait Path {
    /// Sets what a flow has, from the next packet on.
    fn configure(&mut self, flow: Flow, setting: Setting);

    /// Passes packets, one behind the other without a pause.
    fn pass(&mut self, packets: &[Packet]) -> Vec<Outcome>;

    /// The transport has accepted a packet with this verdict.
    fn accept(&mut self, flow: Flow, verdict: u32);

    /// The tap's state of a flow.
    fn reading(&mut self, flow: Flow) -> u64;

    /// Beats that the last [`Path::pass`] has put in, and cycles from the first that went in to the last that came
    /// out, if the path has a clock.
    fn pace(&self) -> Option<Pace> {
        None
    }
}

/// Latency of packets on a clocked path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Beats of all packets.
    pub beats: u64,
    /// Cycles from the first beat in to the last beat out.
    pub cycles: u64,
    /// Cycles from a beat in to the same beat out, as the path declares them.
    pub latency: u64,
}

impl Path for Services {
    fn configure(&mut self, flow: Flow, setting: Setting) {
        self.configure(flow, setting);
    }

    fn pass(&mut self, packets: &[Packet]) -> Vec<Outcome> {
        let pass = |packet: &Packet| {
            let mut bytes = packet.bytes.clone();
            let verdict = Services::pass(self, packet.flow, packet.offset, &mut bytes);
            Outcome { bytes, verdict }
        };
        packets.iter().map(pass).collect()
    }

    fn accept(&mut self, flow: Flow, verdict: u32) {
        self.accept(flow, verdict);
    }

    fn reading(&mut self, flow: Flow) -> u64 {
        Services::reading(self, flow)
    }
}
