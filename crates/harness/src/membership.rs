//! The membership service as a machine of a simulated cluster.

use std::cell::RefCell;
use std::rc::Rc;

use weft_cluster::{Durable, MEMBERSHIP_PORT, Phase, Server, Service, ServiceParameters};
use weft_sim::Machine;
use weft_time::{Duration, Instant};
use weft_waist::View;
use weft_wire::frame::{self, Endpoint, Flow, Frame};

use crate::station::COORDINATORS;
use crate::{ClusterHost, Planted, SharedKeys};

/// How long the service's disk takes to store a state while it is slow, for each time by which it is slower: a state is
/// a file and its name. Otherwise it takes no time.
const STORE_TIME: Duration = Duration::from_us(200);

/// State that survives a crash of the membership service, and a log of its views for observers.
#[derive(Debug, Default)]
pub struct Disk {
    /// Content of the state file.
    state: Option<String>,
    /// How many times as long as usual the disk takes.
    slower: u32,
    /// All views, for an observer: the machine that published each, and when, on that machine's clock.
    published: Vec<(usize, Instant, View)>,
    /// A view that was published after a newer one, or beside one of the same epoch.
    contradicted: Option<View>,
    /// The stored states of the coordinators.
    pub(crate) coordinators: [Option<Vec<u8>>; COORDINATORS],
}

/// The disk, which the service and its observers share.
pub type SharedDisk = Rc<RefCell<Disk>>;

impl Disk {
    /// All views, with the number of the machine that published each, and the time on that machine's clock.
    pub fn published(&self) -> &[(usize, Instant, View)] {
        &self.published
    }

    /// The newest view.
    pub fn view(&self) -> View {
        self.published.last().map_or_else(View::default, |(_, _, view)| *view)
    }

    /// The disk of the service takes this many times as long as usual.
    pub(crate) fn slow_down(&mut self, slower: u32) {
        self.slower = slower;
    }

    /// Notes the view of the process that holds the service.
    pub(crate) fn publish(&mut self, machine: usize, now: Instant, view: View) {
        let newest = self.view();
        if view.epoch > newest.epoch {
            self.published.push((machine, now, view));
        } else if view != newest {
            self.contradicted.get_or_insert(view);
        }
    }

    /// What is wrong with the published views, if anything is.
    pub(crate) fn contradiction(&self) -> Option<String> {
        let View { epoch, full, .. } = self.contradicted?;
        Some(format!("a keeper holds the service in {epoch}, full {full:?}, after another view"))
    }
}

/// A state on its way to the disk. A crash in the middle loses it; one near the end does not, although nobody was told.
struct Storing {
    /// What has yet to be written, and when it will have been.
    rest: Option<(Instant, String)>,
    /// When the disk says that it has been.
    until: Instant,
}

/// The membership service on a machine of its own. After a crash it restarts with its stored state.
pub struct MembershipMachine {
    server: Server<Endpoint>,
    /// The number of the machine in its world.
    machine: usize,
    disk: SharedDisk,
    /// The state that is being stored.
    storing: Option<Storing>,
    /// The keys that the service distributes, if frames are sealed.
    keys: Option<SharedKeys>,
}

impl MembershipMachine {
    /// A process of the service that starts with the stored state at `now` on the machine's clock.
    pub fn new(
        parameters: ServiceParameters,
        machine: usize,
        disk: SharedDisk,
        now: Instant,
        planted: Planted,
    ) -> Self {
        let service = match &disk.borrow().state {
            Some(state) => {
                let durable = Durable::from_toml(state).expect("the service has written it");
                Service::restore(parameters, &durable, now).expect("it is this cluster's")
            }
            None => Service::new(parameters),
        };
        Self { server: planted.server(Server::new(service)), machine, disk, storing: None, keys: None }
    }

    /// The same service, which also distributes keys.
    #[must_use]
    pub fn with_keys(self, keys: Option<SharedKeys>) -> Self {
        Self { keys, ..self }
    }

    /// Phase of the service.
    pub fn phase(&self) -> Phase {
        self.server.service().phase()
    }

    /// Stores what has changed, as fast as the disk is, and notes for observers what is stored.
    fn store(&mut self, now: Instant) {
        if let Some(durable) = self.server.take_unsaved() {
            let slower = u64::from(self.disk.borrow().slower);
            let takes = if slower > 1 { STORE_TIME * slower } else { Duration::ZERO };
            let rest = Some((now + takes / 2, durable.to_toml()));
            self.storing = Some(Storing { rest, until: now + takes });
        }
        if let Some(storing) = &mut self.storing {
            if let Some((_, state)) = storing.rest.take_if(|(at, _)| *at <= now) {
                self.disk.borrow_mut().state = Some(state);
            }
            if storing.until <= now {
                self.storing = None;
                self.server.stored(now);
            }
        }
        self.note(now);
    }

    fn note(&mut self, now: Instant) {
        let view = self.server.service().view();
        if let Some(keys) = &self.keys {
            let life = |node| Some(self.server.service().incarnation(node)?.get());
            keys.borrow_mut().publish(now, view, life);
        }
        let mut disk = self.disk.borrow_mut();
        if view.epoch != disk.view().epoch {
            disk.published.push((self.machine, now, view));
        }
    }
}

impl Machine for MembershipMachine {
    fn receive(&mut self, now: Instant, bytes: &[u8]) {
        if let Ok(Frame::Udp { ethernet, ipv4, udp, payload }) = Frame::parse(bytes)
            && udp.destination_port == MEMBERSHIP_PORT
        {
            let from = Endpoint { hardware: ethernet.source, address: ipv4.source, port: udp.source_port };
            // A malformed heartbeat is counted by the server.
            let _ = self.server.receive(now, from, payload);
            self.store(now);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let storing = self.storing.as_ref();
        let disk = storing.map(|storing| storing.rest.as_ref().map_or(storing.until, |(at, _)| *at));
        disk.into_iter().chain([self.server.next_deadline()]).min()
    }

    fn wake(&mut self, now: Instant) {
        self.server.tick(now);
        self.store(now);
    }

    fn poll_frame(&mut self, out: &mut Vec<u8>) -> Option<Instant> {
        let (to, datagram) = self.server.poll_transmit()?;
        let source = ClusterHost::Membership.endpoint(MEMBERSHIP_PORT);
        frame::emit_udp_frame(out, &Flow { source, destination: to, type_of_service: 0 }, &datagram);
        Some(Instant::ZERO)
    }
}
