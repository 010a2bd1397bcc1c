//! The program of a node, with a card that only records its commands, and a real membership service.

use std::cell::RefCell;
use std::rc::Rc;

use weft_cluster::{
    Agent, AgentParameters, Beacons, ClusterId, Incarnation, Membership, Reason, Server, Service,
    ServiceParameters,
};
use weft_nic::{HostCommand, HostEvent};
use weft_node::{CardPort, HostHalf, HostIo, Node, NodeParameters, Report};
use weft_time::{Duration, Instant};
use weft_waist::{Configuration, EngineState, EngineStatus, Epoch, NodeId, View};

const LEASE: Duration = Duration::from_ms(100);

/// A half with these properties that records the calls it gets.
#[derive(Clone, Debug)]
struct Fake {
    keeps_data_without_lease: bool,
    follows_views: bool,
    told: Rc<RefCell<Vec<&'static str>>>,
}

impl Fake {
    fn new(keeps_data_without_lease: bool, follows_views: bool) -> Self {
        Self { keeps_data_without_lease, follows_views, told: Rc::default() }
    }

    /// (`keeps_data_without_lease`, `follows_views`) of the key-value store, of a replicated log, and of rounds.
    const LEASED: (bool, bool) = (false, true);
    const MAJORITY: (bool, bool) = (true, true);
    const OWN_MEMBERS: (bool, bool) = (true, false);
}

impl HostHalf for Fake {
    fn keeps_data_without_lease(&self) -> bool {
        self.keeps_data_without_lease
    }

    fn follows_views(&self) -> bool {
        self.follows_views
    }

    fn replied(&mut self, _: Instant, _: u32, _: (u8, &[u8]), _: &mut HostIo<'_>) {
        self.told.borrow_mut().push("replied");
    }

    fn requested(
        &mut self,
        _: Instant,
        _: std::net::SocketAddrV4,
        _: (u8, &[u8]),
        serves: bool,
        _: &mut HostIo<'_>,
    ) {
        self.told.borrow_mut().push(if serves { "served" } else { "not served" });
    }

    fn rejoin(&mut self, _: Instant, _: Incarnation, _: &mut HostIo<'_>) {
        self.told.borrow_mut().push("starts over");
    }
}

/// A card that records commands.
#[derive(Debug, Default)]
struct Card {
    resets: Vec<u8>,
    configured: Vec<(u8, Configuration)>,
}

impl CardPort for Card {
    fn submit(&mut self, command: HostCommand<'_>) {
        match command {
            HostCommand::Reset { engine } => self.resets.push(engine),
            HostCommand::Configure { engine, configuration } => self.configured.push((engine, configuration)),
            other => panic!("a node has no reason for {other:?}"),
        }
    }

    fn host_memory(&mut self) -> &mut Vec<u8> {
        panic!("no half of these has data in the host's memory")
    }
}

/// A cluster of the tested node, another node that is always full, and the service, in simulated time.
struct World {
    node: Node<Fake>,
    other: Agent,
    /// The other node's beacons.
    beacons: Beacons,
    halves: Vec<Fake>,
    card: Card,
    service: Server<u8>,
    now: Instant,
}

impl World {
    fn new(kinds: &[(bool, bool)]) -> Self {
        let halves: Vec<Fake> =
            kinds.iter().map(|&(outlives, follows)| Fake::new(outlives, follows)).collect();
        let parameters = NodeParameters {
            node: NodeId::new(1).unwrap(),
            incarnation: Incarnation::FIRST,
            agent: AgentParameters::default(),
            identity: None,
        };
        let mut world = Self {
            node: Node::new(parameters, halves.clone()),
            other: Agent::new(NodeId::new(0).unwrap(), Incarnation::FIRST, AgentParameters::default()),
            beacons: Beacons::new(NodeId::new(0).unwrap(), ClusterId::default()),
            halves,
            card: Card::default(),
            service: Server::new(Service::new(ServiceParameters::new(2, LEASE))),
            now: Instant::ZERO,
        };
        world.node.begin(world.now, &mut world.card);
        world
    }

    /// Advances the time. If the node is cut off, no messages are delivered to it or from it.
    fn run_while(&mut self, time: Duration, is_cut_off: bool) {
        const OTHER: u8 = 0;
        const NODE: u8 = 1;
        let until = self.now + time;
        while self.now < until {
            self.now += Duration::from_ms(1);
            if let Some(configuration) = self.other.poll_configuration() {
                let status = EngineStatus { epoch: configuration.view.epoch, state: EngineState::Full };
                self.other.engine_status(self.now, status);
            }
            if let Some(heartbeat) = self.other.poll_transmit(self.now) {
                let _ = self.service.receive(self.now, OTHER, &heartbeat);
            }
            if let Some(beacon) = self.beacons.poll_transmit(self.now).filter(|_| !is_cut_off) {
                assert!(self.node.receive_beacon(self.now, NodeId::new(0).unwrap(), &beacon));
            }
            self.node.handle_deadline(self.now, &mut self.card);
            if let Some(heartbeat) = self.node.poll_membership(self.now).filter(|_| !is_cut_off) {
                let _ = self.service.receive(self.now, NODE, &heartbeat);
            }
            self.service.tick(self.now);
            if self.service.take_unsaved().is_some() {
                self.service.stored(self.now);
            }
            while let Some((to, datagram)) = self.service.poll_transmit() {
                match to {
                    OTHER => self.other.receive(self.now, &datagram).unwrap(),
                    _ if is_cut_off => {}
                    _ => self.node.receive_membership(self.now, &datagram, &mut self.card),
                }
            }
        }
    }

    fn run(&mut self, time: Duration) {
        self.run_while(time, false);
    }

    fn view(&self) -> View {
        self.service.service().view()
    }

    fn status(&mut self, engine: u8, epoch: u32, state: EngineState) {
        let status = EngineStatus { epoch: Epoch(epoch), state };
        self.node.host_event(self.now, HostEvent::Status { engine, status }, &mut self.card);
    }

    fn request(&mut self, engine: u8) -> Vec<&'static str> {
        let from = "127.0.0.1:9".parse().unwrap();
        let event = HostEvent::Request { engine, from, kind: 96, payload: Vec::new() };
        self.node.host_event(self.now, event, &mut self.card);
        std::mem::take(&mut self.halves[usize::from(engine)].told.borrow_mut())
    }

    fn reports(&mut self) -> Vec<Report> {
        std::iter::from_fn(|| self.node.poll_report()).collect()
    }
}

#[test]
fn engines_are_told_each_view_but_those_with_members_of_their_own() {
    let mut world = World::new(&[Fake::LEASED, Fake::MAJORITY, Fake::OWN_MEMBERS]);
    assert_eq!(world.node.slots(), 3);
    world.run(Duration::from_ms(200));
    assert_eq!(world.node.view().epoch, Epoch(1));
    let told: Vec<u8> = world.card.configured.iter().map(|(engine, _)| *engine).collect();
    assert!(told.contains(&0) && told.contains(&1) && !told.contains(&2), "{told:?}");
    assert!(world.node.lease_until() > world.now);
}

#[test]
fn a_request_is_served_while_the_engine_is_full_and_the_lease_holds() {
    let mut world = World::new(&[Fake::LEASED, Fake::MAJORITY]);
    world.run(Duration::from_ms(200));
    assert_eq!(world.request(0), ["not served"]);
    world.status(0, 1, EngineState::Full);
    world.status(1, 1, EngineState::Full);
    assert_eq!((world.request(0), world.request(1)), (vec!["served"], vec!["served"]));
    // Engines that decide by majorities serve without a lease.
    world.now = world.node.lease_until();
    assert_eq!((world.request(0), world.request(1)), (vec!["not served"], vec!["served"]));
    // No engine is in this slot.
    let from = "127.0.0.1:9".parse().unwrap();
    let event = HostEvent::Request { engine: 9, from, kind: 0, payload: vec![1] };
    world.node.host_event(world.now, event, &mut world.card);
}

#[test]
fn a_node_that_rejoins_empties_the_engines_that_rest_on_leases() {
    let mut world = World::new(&[Fake::LEASED, Fake::MAJORITY]);
    world.run(Duration::from_ms(200));
    world.status(0, 1, EngineState::Full);
    world.status(1, 1, EngineState::Full);
    world.run(Duration::from_ms(50));
    world.reports();
    // The engine has lost its data: the service is notified, and the engine is reset.
    world.status(0, 1, EngineState::Lost);
    world.run(Duration::from_ms(60));
    assert_eq!(world.card.resets, [0]);
    assert_eq!(*world.halves[0].told.borrow(), ["starts over"]);
    assert!(world.halves[1].told.borrow().is_empty());
    assert!(matches!(world.reports()[..], [Report::Rejoins(_, Reason::Rejoin), ..]));
    // Events of the card from before the reset belong to the former incarnation.
    let reply = HostEvent::Reply { engine: 0, token: 0, kind: 0, payload: Vec::new() };
    world.node.host_event(world.now, reply.clone(), &mut world.card);
    assert_eq!(*world.halves[0].told.borrow(), ["starts over"]);
    world.node.host_event(
        world.now,
        HostEvent::Status { engine: 0, status: EngineStatus::STARTING },
        &mut world.card,
    );
    world.node.host_event(world.now, reply, &mut world.card);
    assert_eq!(*world.halves[0].told.borrow(), ["starts over", "replied"]);
}

/// A node whose engines follow no view, or have lost data that a reset would not bring back, is a member like any
/// other: it comes back into the view.
#[test]
fn a_node_without_an_engine_to_wait_for_becomes_full() {
    for (kinds, lost) in [(&[Fake::OWN_MEMBERS][..], None), (&[Fake::MAJORITY][..], Some(0))] {
        let mut world = World::new(kinds);
        world.run(Duration::from_ms(200));
        if let Some(engine) = lost {
            world.status(engine, 1, EngineState::Lost);
        }
        world.run_while(LEASE * 5, true);
        assert!(!world.view().members().contains(world.node.id()), "it was left out: {:?}", world.view());
        world.run(Duration::from_secs(2));
        assert!(world.view().full.contains(world.node.id()), "{:?}", world.view());
        assert!(world.card.resets.is_empty());
    }
}

#[test]
fn a_node_that_leaves_begins_no_next_life() {
    let mut world = World::new(&[Fake::LEASED]);
    world.run(Duration::from_ms(200));
    world.status(0, 1, EngineState::Full);
    world.node.leave(world.now);
    assert!(!world.node.has_left());
    world.run(Duration::from_ms(200));
    assert!(world.node.has_left());
    assert!(world.card.resets.is_empty() && world.halves[0].told.borrow().is_empty());
}
