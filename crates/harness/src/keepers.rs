//! Keepers of the membership service, and the coordinators of their register, as machines of a simulated cluster.

use weft_cluster::{Keeper, KeeperParameters, MEMBERSHIP_PORT, Phase};
use weft_register::{Acceptor, Coordinator, is_register};
use weft_sim::Machine;
use weft_time::Instant;
use weft_wire::frame::{self, Endpoint, Flow, Frame};

use crate::ClusterHost;
use crate::membership::SharedDisk;
use crate::planted::Planted;
use crate::station::{COORDINATORS, incarnation, node_id};

/// Number of the cluster in messages of the register.
fn cluster() -> u64 {
    weft_cluster::ClusterName::default().id().0
}

/// A keeper on a machine of its own. After a crash it restarts empty, with a greater incarnation.
pub struct KeeperMachine {
    number: u8,
    keeper: Keeper<Endpoint>,
    disk: SharedDisk,
    /// The number of the machine in its world.
    machine: usize,
    now: Instant,
}

impl KeeperMachine {
    /// The keeper of this number on this machine, whose process starts for the time number `life`, from 0.
    pub fn new(
        number: u8,
        machine: usize,
        life: u32,
        parameters: KeeperParameters,
        disk: SharedDisk,
        planted: Planted,
    ) -> Self {
        let keeper = Keeper::new(node_id(number.into()), incarnation(life), parameters);
        Self { number, keeper: planted.keeper(keeper), disk, machine, now: Instant::ZERO }
    }

    /// Phase of the service, if this keeper holds it at `now` on its machine's clock.
    pub fn phase(&self, now: Instant) -> Option<Phase> {
        Some(self.keeper.held(now)?.service().phase())
    }

    /// Notes the view in the register for observers.
    fn note(&mut self, now: Instant) {
        self.now = now;
        if self.keeper.held(now).is_some() {
            self.disk.borrow_mut().publish(self.machine, now, self.keeper.view());
        }
    }
}

impl Machine for KeeperMachine {
    fn receive(&mut self, now: Instant, bytes: &[u8]) {
        if let Ok(Frame::Udp { ethernet, ipv4, udp, payload }) = Frame::parse(bytes)
            && udp.destination_port == MEMBERSHIP_PORT
        {
            // Malformed messages, and those to an earlier life of the keeper, are ignored.
            if is_register(payload) {
                let _ = self.keeper.receive_answer(now, payload);
            } else {
                let from =
                    Endpoint { hardware: ethernet.source, address: ipv4.source, port: udp.source_port };
                let _ = self.keeper.receive_from(now, from, payload, |_| weft_cluster::Origin::Own);
            }
            self.note(now);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        Some(self.keeper.next_deadline())
    }

    fn wake(&mut self, now: Instant) {
        self.keeper.tick(now);
        self.note(now);
    }

    fn poll_frame(&mut self, out: &mut Vec<u8>) -> Option<Instant> {
        let source = ClusterHost::Keeper(self.number).endpoint(MEMBERSHIP_PORT);
        let (destination, datagram) = match self.keeper.poll_request() {
            Some((to, datagram)) => {
                (ClusterHost::Coordinator(to).endpoint(MEMBERSHIP_PORT), datagram.to_vec())
            }
            None => {
                let (to, datagram) = self.keeper.poll_transmit(self.now)?;
                (to, datagram.to_vec())
            }
        };
        frame::emit_udp_frame(out, &Flow { source, destination, type_of_service: 0 }, &datagram);
        Some(Instant::ZERO)
    }
}

/// A coordinator on a machine of its own. After a crash it restarts with its stored state.
pub struct CoordinatorMachine {
    number: u8,
    coordinator: Coordinator<Endpoint>,
    disk: SharedDisk,
}

impl CoordinatorMachine {
    /// A process of the coordinator of this number, which starts with its stored state.
    pub fn new(number: u8, disk: SharedDisk) -> Self {
        assert!(usize::from(number) < COORDINATORS, "there are three coordinators");
        let acceptor = match &disk.borrow().coordinators[usize::from(number)] {
            Some(state) => {
                Acceptor::decode(cluster(), number, state).expect("the coordinator has written it")
            }
            None => Acceptor::default(),
        };
        Self { number, coordinator: Coordinator::new(cluster(), number, acceptor), disk }
    }
}

impl Machine for CoordinatorMachine {
    fn receive(&mut self, _: Instant, bytes: &[u8]) {
        if let Ok(Frame::Udp { ethernet, ipv4, udp, payload }) = Frame::parse(bytes)
            && udp.destination_port == MEMBERSHIP_PORT
        {
            let from = Endpoint { hardware: ethernet.source, address: ipv4.source, port: udp.source_port };
            // A malformed request is counted by the coordinator.
            let _ = self.coordinator.receive(from, payload);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn wake(&mut self, _: Instant) {}

    fn poll_frame(&mut self, out: &mut Vec<u8>) -> Option<Instant> {
        if let Some(state) = self.coordinator.take_unsaved() {
            self.disk.borrow_mut().coordinators[usize::from(self.number)] = Some(state);
        }
        let (destination, datagram) = self.coordinator.poll_transmit()?;
        let source = ClusterHost::Coordinator(self.number).endpoint(MEMBERSHIP_PORT);
        frame::emit_udp_frame(out, &Flow { source, destination, type_of_service: 0 }, &datagram);
        Some(Instant::ZERO)
    }
}
