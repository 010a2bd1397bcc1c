//! A machine so simple that the expected events can be computed by hand.

#![allow(dead_code, reason = "each test binary uses a part")]

pub mod replicator;

use std::collections::VecDeque;

use weft_sim::{Director, Machine, MachineId, Machines, PortConfig, SwitchConfig, World};
use weft_time::{Duration, Instant};

/// Sends given frames at given times, and records the frames that it receives.
#[derive(Debug, Default)]
pub struct ScriptedMachine {
    pub to_send: VecDeque<(Instant, Vec<u8>)>,
    pub received: Vec<(Instant, Vec<u8>)>,
    /// Number of frames that it still answers with one of the same size.
    pub echoes_left: u64,
    pub echo_latency: Duration,
    pub answers: VecDeque<(Instant, Vec<u8>)>,
    pub spare: Vec<Vec<u8>>,
    pub due: Vec<(Instant, Vec<u8>)>,
    pub keep: bool,
}

impl ScriptedMachine {
    pub fn silent() -> Self {
        Self { keep: true, ..Self::default() }
    }

    pub fn sending(frames: impl IntoIterator<Item = (Instant, Vec<u8>)>) -> Self {
        Self { to_send: frames.into_iter().collect(), ..Self::silent() }
    }
}

impl Machine for ScriptedMachine {
    fn receive(&mut self, now: Instant, frame: &[u8]) {
        if self.keep {
            self.received.push((now, frame.to_vec()));
        }
        if self.echoes_left > 0 {
            self.echoes_left -= 1;
            let mut answer = self.spare.pop().unwrap_or_default();
            answer.clear();
            answer.extend_from_slice(&frame[6..12]);
            answer.extend_from_slice(&frame[..6]);
            answer.extend_from_slice(&frame[12..]);
            self.answers.push_back((now + self.echo_latency, answer));
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.to_send.front().map(|(at, _)| *at)
    }

    fn wake(&mut self, now: Instant) {
        while self.to_send.front().is_some_and(|(at, _)| *at <= now) {
            self.due.extend(self.to_send.pop_front());
        }
    }

    fn poll_frame(&mut self, frame: &mut Vec<u8>) -> Option<Instant> {
        if !self.due.is_empty() {
            let (at, bytes) = self.due.remove(0);
            frame.extend_from_slice(&bytes);
            return Some(at);
        }
        let (at, bytes) = self.answers.pop_front()?;
        frame.extend_from_slice(&bytes);
        self.spare.push(bytes);
        Some(at)
    }
}

pub fn address(machine: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, machine]
}

/// A frame of `length` bytes that contains its number.
pub fn frame(to: u8, from: u8, number: u32, length: usize) -> Vec<u8> {
    let mut frame = [address(to), address(from)].concat();
    frame.extend_from_slice(&[0x88, 0xb5]);
    frame.extend_from_slice(&number.to_be_bytes());
    frame.resize(length.max(18), 0);
    frame
}

pub fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14..18].try_into().unwrap())
}

pub fn us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

/// Machines `m0`, `m1`, … on links of 100 Gb/s and 10 ns, and a switch of 300 ns.
pub fn world(seed: u64, stations: impl IntoIterator<Item = ScriptedMachine>) -> World<ScriptedMachine> {
    world_with(seed, SwitchConfig::default(), stations)
}

pub fn world_with(
    seed: u64,
    switch: SwitchConfig,
    stations: impl IntoIterator<Item = ScriptedMachine>,
) -> World<ScriptedMachine> {
    let mut world = World::new(seed, switch);
    for (index, station) in stations.into_iter().enumerate() {
        world.add_machine(PortConfig::new(format!("m{index}"), address(index as u8)), station);
    }
    world
}

pub fn id(index: usize) -> MachineId {
    MachineId::new(index)
}

/// Allows crashes of all machines except protected ones, and restarts them without frames to send.
#[derive(Debug, Default)]
pub struct Restarter {
    pub protected: Vec<MachineId>,
    pub remains: Vec<(MachineId, ScriptedMachine)>,
    pub restarts: Vec<(MachineId, u32, Instant)>,
}

impl Director<ScriptedMachine> for Restarter {
    fn may_crash(&mut self, machines: &Machines<ScriptedMachine>, machine: MachineId) -> bool {
        assert!(machines.get(machine).is_some());
        !self.protected.contains(&machine)
    }

    fn crashed(&mut self, machine: MachineId, remains: ScriptedMachine) {
        self.remains.push((machine, remains));
    }

    fn restart(&mut self, machine: MachineId, incarnation: u32, now: Instant) -> ScriptedMachine {
        self.restarts.push((machine, incarnation, now));
        ScriptedMachine::silent()
    }
}
