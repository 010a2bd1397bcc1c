//! The interface of a path with services, for the test suite. Software and gateware implement it.

use crate::services::{Services, Setting};
use crate::shapes::Flow;

/// The payload of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The flow that the packet belongs to.
    pub flow: Flow,
    /// Offset of the first byte in the message or, for the response of a READ, in the region.
    pub offset: u64,
    /// From 1 to 4,096 bytes. Services never get packets without payload.
    pub bytes: Vec<u8>,
}

/// Result of passing a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The payload after the map.
    pub bytes: Vec<u8>,
    /// Verdict of the tap.
    pub verdict: u32,
}

/// A path that the suite tests.
pub trait Path {
    /// Sets the services of a flow, from the next packet on.
    fn configure(&mut self, flow: Flow, setting: Setting);

    /// Passes packets one after the other without a pause.
    fn pass(&mut self, packets: &[Packet]) -> Vec<Outcome>;

    /// Notifies the path that the transport has accepted a packet with this verdict. Returns whether the packet
    /// is marked.
    fn accept(&mut self, flow: Flow, verdict: u32) -> bool;

    /// The tap's state for a flow.
    fn reading(&mut self, flow: Flow) -> u64;

    /// The timing of the last [`Path::pass`]; `None` if the path has no clock.
    fn pace(&self) -> Option<Pace> {
        None
    }
}

/// Timing of packets on a path with a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Number of beats of all packets.
    pub beats: u64,
    /// Number of cycles from the first beat in to the last beat out.
    pub cycles: u64,
    /// The path's declared latency: number of cycles from a beat in to the same beat out.
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

    fn accept(&mut self, flow: Flow, verdict: u32) -> bool {
        self.accept(flow, verdict)
    }

    fn reading(&mut self, flow: Flow) -> u64 {
        Services::reading(self, flow)
    }
}
