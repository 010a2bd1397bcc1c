//! Cards that are clocked in lock step, without MACs, and a record of what each does in which cycle.
//!
//! A beat that a card sends is recorded in the cycle in which it is offered, a received beat in the cycle in
//! which it arrives. A frame that is addressed to another card is forwarded when it is complete. The caller
//! gets all other frames, and plays the rest of the network.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use weft_nic::{HostCommand, HostEvent, Nic};
use weft_time::Instant;
use weft_waist::{Configuration, EngineStatus};
use weft_wire::ethernet::MacAddress;

use crate::board::MemoryActivity;
use crate::mac::{FrameSink, FrameSource};
use crate::{CYCLE, RtlNic, RtlNicConfig};

/// An action of a card in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The last beat of a frame came in.
    FrameIn,
    /// The first beat of a frame went out.
    FrameOut,
    /// The engine requested a burst from its memory.
    ReadCommand,
    /// The last word of a burst arrived from the engine's memory.
    ReadEnd,
    /// The engine started to write a burst to its memory.
    WriteCommand,
    /// The memory confirmed the write of a burst.
    WriteEnd,
}

/// One observation: card, action and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Clock cycle.
    pub cycle: u64,
    /// The card.
    pub card: usize,
    /// The action.
    pub act: Act,
}

/// A card, and the frames in flight to it and from it.
#[derive(Debug)]
struct CardUnderTest {
    nic: RtlNic,
    hardware: MacAddress,
    incoming: FrameSource,
    outgoing: FrameSink,
}

/// Cards on a network without latency.
#[derive(Debug)]
pub struct LockStep {
    stations: Vec<CardUnderTest>,
    cycle: u64,
    observations: Vec<Observation>,
    /// Frames that are addressed to no card.
    delivered: VecDeque<Vec<u8>>,
}

impl LockStep {
    /// Creates cards whose neighbour tables hold each other's addresses and those of `others`.
    pub fn new(configs: &[RtlNicConfig], others: &[(Ipv4Addr, MacAddress)]) -> Self {
        let known: Vec<_> = configs.iter().map(|config| (config.address, config.hardware)).collect();
        let station = |config: &RtlNicConfig| {
            let mut nic = RtlNic::new(config);
            for (address, hardware) in
                known.iter().chain(others).filter(|(address, _)| *address != config.address)
            {
                nic.add_neighbour(*address, *hardware);
            }
            CardUnderTest {
                nic,
                hardware: config.hardware,
                incoming: FrameSource::default(),
                outgoing: FrameSink::default(),
            }
        };
        Self {
            stations: configs.iter().map(station).collect(),
            cycle: 1,
            observations: Vec::new(),
            delivered: VecDeque::new(),
        }
    }

    /// The number of the next cycle.
    pub const fn cycle(&self) -> u64 {
        self.cycle
    }

    /// The card with this index.
    pub fn nic(&mut self, card: usize) -> &mut RtlNic {
        &mut self.stations[card].nic
    }

    /// Configures a card's engine.
    pub fn configure(&mut self, card: usize, configuration: Configuration) {
        let now = Instant::ZERO + CYCLE * self.cycle;
        self.stations[card].nic.submit(now, HostCommand::Configure { engine: 0, configuration });
    }

    /// The last status that a card's engine reported since the previous call, if any.
    pub fn status(&mut self, card: usize) -> Option<EngineStatus> {
        let nic = &mut self.stations[card].nic;
        nic.gather();
        let mut last = None;
        while let Some(event) = nic.poll_host() {
            if let HostEvent::Status { status, .. } = event {
                last = Some(status);
            }
        }
        last
    }

    /// Sends a frame to a card. It arrives beat by beat, behind the frames in flight to this card.
    pub fn send(&mut self, card: usize, frame: &[u8]) {
        self.stations[card].incoming.push(frame);
    }

    /// Bytes in flight to a card.
    pub fn bytes_to(&self, card: usize) -> usize {
        self.stations[card].incoming.bytes()
    }

    /// The next frame that is addressed to none of these cards.
    pub fn poll(&mut self) -> Option<Vec<u8>> {
        self.delivered.pop_front()
    }

    /// The observations since the last call.
    pub fn take_observations(&mut self) -> Vec<Observation> {
        std::mem::take(&mut self.observations)
    }

    /// Simulates one cycle of every card.
    pub fn step(&mut self) {
        let cycle = self.cycle;
        let mut complete = Vec::new();
        for (card, station) in self.stations.iter_mut().enumerate() {
            let mut saw = |act| self.observations.push(Observation { cycle, card, act });
            let received = station.incoming.beat();
            let sent = station.nic.board().tick_joined(cycle, received.as_ref());
            if let Some(beat) = received {
                station.incoming.advance();
                if beat.last {
                    saw(Act::FrameIn);
                }
            }
            let MemoryActivity { read_command, read_end, write_command, write_end } =
                station.nic.board().engine_memory_activity();
            let acts = [
                (read_command, Act::ReadCommand),
                (read_end, Act::ReadEnd),
                (write_command, Act::WriteCommand),
                (write_end, Act::WriteEnd),
            ];
            acts.into_iter().filter(|(seen, _)| *seen).for_each(|(_, act)| saw(act));
            if let Some(beat) = sent {
                if station.outgoing.is_empty() {
                    saw(Act::FrameOut);
                }
                complete.extend(station.outgoing.push(&beat));
            }
        }
        self.cycle += 1;
        for frame in complete {
            let addressed = |station: &&mut CardUnderTest| frame.starts_with(&station.hardware.0);
            match self.stations.iter_mut().find(addressed) {
                Some(station) => station.incoming.push(&frame),
                None => self.delivered.push_back(frame),
            }
        }
    }
}
