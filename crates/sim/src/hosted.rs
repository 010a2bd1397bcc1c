//! Software on the host of a NIC that handles frames.

use std::collections::VecDeque;

use weft_nic::{HostCommand, HostEvent};
use weft_time::Instant;

use crate::host::{Commands, Host};
use crate::machine::Machine;

/// A machine whose port is the host port of a NIC.
///
/// It receives the frames that the NIC passes to its host, and the NIC transmits the frames that it sends.
/// Both cross the bus between them, at the NIC's cost. The machine itself models the costs of its own work:
/// for example, a [`crate::NicMachine`] with a soft NIC and the profile [`crate::CostProfile::HOST_SOFTWARE`]
/// models engines on the host's cores.
#[derive(Debug)]
pub struct HostedMachine<M> {
    machine: M,
    /// Frames that the machine has sent, and when they reach the NIC's driver.
    outbox: VecDeque<(Instant, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
}

impl<M: Machine> HostedMachine<M> {
    /// Attaches a machine to a NIC's host port.
    pub const fn new(machine: M) -> Self {
        Self { machine, outbox: VecDeque::new(), spare: Vec::new() }
    }

    /// The machine, for inspection.
    pub const fn machine(&self) -> &M {
        &self.machine
    }

    /// Collects the machine's frames, and passes those that are due to the NIC.
    fn transmit(&mut self, now: Instant, commands: &mut Commands) {
        loop {
            let mut frame = self.spare.pop().unwrap_or_default();
            frame.clear();
            let Some(at) = self.machine.poll_frame(&mut frame) else {
                self.spare.push(frame);
                break;
            };
            self.outbox.push_back((at, frame));
        }
        while self.outbox.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, frame)) = self.outbox.pop_front()
        {
            commands.submit(HostCommand::Transmit(&frame));
            self.spare.push(frame);
        }
    }
}

impl<M: Machine> Host for HostedMachine<M> {
    fn handle(&mut self, now: Instant, event: HostEvent, commands: &mut Commands) {
        // The machine handles only frames. It has posted no requests and made no calls.
        if let HostEvent::Frame(frame) = event {
            self.machine.receive(now, &frame);
            self.transmit(now, commands);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let sent = self.outbox.front().map(|(at, _)| *at);
        [self.machine.next_deadline(), sent].into_iter().flatten().min()
    }

    fn wake(&mut self, now: Instant, commands: &mut Commands) {
        if self.machine.next_deadline().is_some_and(|at| at <= now) {
            self.machine.wake(now);
        }
        self.transmit(now, commands);
    }
}

#[cfg(test)]
mod tests {
    use weft_nic::{Nic, Work};
    use weft_time::Duration;

    use super::*;
    use crate::{CostProfile, NicMachine};

    /// A NIC that forwards everything at once.
    #[derive(Debug, Default)]
    struct Wire {
        up: VecDeque<Vec<u8>>,
        down: VecDeque<Vec<u8>>,
    }

    impl Nic for Wire {
        fn receive_frame(&mut self, _: Instant, frame: &[u8]) {
            self.up.push_back(frame.to_vec());
        }

        fn submit(&mut self, _: Instant, command: HostCommand<'_>) {
            if let HostCommand::Transmit(frame) = command {
                self.down.push_back(frame.to_vec());
            }
        }

        fn next_deadline(&self) -> Option<Instant> {
            None
        }

        fn handle_deadline(&mut self, _: Instant) {}

        fn poll_frame(&mut self, _: Instant, frame: &mut Vec<u8>) -> bool {
            self.down.pop_front().is_some_and(|bytes| {
                frame.extend_from_slice(&bytes);
                true
            })
        }

        fn poll_host(&mut self) -> Option<HostEvent> {
            self.up.pop_front().map(HostEvent::Frame)
        }

        fn take_work(&mut self) -> Work {
            Work::default()
        }

        fn counters(&self) -> Vec<(&'static str, u64)> {
            Vec::new()
        }
    }

    const THINKING: Duration = Duration::from_ns(700);

    /// A machine that returns every frame after a fixed time.
    #[derive(Debug, Default)]
    struct Echo {
        received: Vec<Instant>,
        answers: VecDeque<(Instant, Vec<u8>)>,
    }

    impl Machine for Echo {
        fn receive(&mut self, now: Instant, frame: &[u8]) {
            self.received.push(now);
            self.answers.push_back((now + THINKING, frame.to_vec()));
        }

        fn next_deadline(&self) -> Option<Instant> {
            None
        }

        fn wake(&mut self, _: Instant) {}

        fn poll_frame(&mut self, frame: &mut Vec<u8>) -> Option<Instant> {
            let (at, mut bytes) = self.answers.pop_front()?;
            std::mem::swap(frame, &mut bytes);
            Some(at)
        }
    }

    #[test]
    fn a_frame_crosses_the_bus_twice_and_the_machine_takes_its_time() {
        let mut machine =
            NicMachine::new(Wire::default(), HostedMachine::new(Echo::default()), &CostProfile::GATEWARE);
        machine.receive(Instant::ZERO, &[7; 60]);
        let mut frame = Vec::new();
        let sent = loop {
            if let Some(at) = machine.poll_frame(&mut frame) {
                break at;
            }
            let next = machine.next_deadline().expect("something is on its way");
            machine.wake(next);
        };
        assert_eq!(frame, [7; 60]);
        let mut bus = crate::BusModel::new(&CostProfile::GATEWARE.host_bus.unwrap());
        // A descriptor adds 16 bytes.
        let received = bus.to_host(Instant::ZERO, 76);
        assert_eq!(machine.host().machine().received, [received]);
        assert_eq!(sent, bus.to_card(received + THINKING, 76));
    }

    #[test]
    fn software_behind_a_nic_has_neither_a_mac_nor_a_bus_of_its_own() {
        let profile = CostProfile::HOST_SOFTWARE;
        assert_eq!((profile.receive, profile.transmit, profile.wire_bus), (&[][..], &[][..], None));
        assert_eq!(profile.execution, CostProfile::HOST_CARD.execution);
        assert_eq!(profile.memory, CostProfile::HOST_CARD.memory);
    }
}
