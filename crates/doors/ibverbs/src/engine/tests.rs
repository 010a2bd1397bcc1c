//! Two devices in this process, whose programs wait for events and never poll. Their packets pass through a third
//! socket, which loses some.

use std::collections::{HashSet, VecDeque};
use std::net::Ipv4Addr;

use weft_cm::{ConnectionId, Event, Parameters, Service, private};
use weft_verbs::{PathMtu, QueuePairNumber};

use super::*;
use crate::events::counting_descriptor;
use crate::rdmacm::{EventChannel, What};

const CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 91, 11);
const SERVER: Ipv4Addr = Ipv4Addr::new(127, 0, 91, 12);
const RELAY: Ipv4Addr = Ipv4Addr::new(127, 0, 91, 13);

const SERVICE: Service = Service::new(0x0106, 7_471);

/// A device with a program that waits for events of connections.
struct Program {
    engine: Arc<Engine>,
    fd: RawFd,
    channel: Arc<EventChannel>,
}

impl Program {
    fn new(address: Ipv4Addr) -> Self {
        let options = Options { address, name: "weft0".into(), mtu: PathMtu::Bytes4096 };
        let engine = Engine::start(&options).unwrap();
        let fd = counting_descriptor();
        Self { engine, fd, channel: Arc::new(EventChannel::new(fd)) }
    }

    /// Makes a call once the helper sleeps: it then does not see by itself what deadline the call has set.
    fn call<T>(&self, call: impl FnOnce(&mut Manager, Instant) -> T) -> T {
        let mut state = self.engine.lock();
        while state.alarm == Instant::ZERO {
            drop(state);
            thread::yield_now();
            state = self.engine.lock();
        }
        let now = state.now();
        let result = call(&mut state.manager, now);
        self.engine.progress(&mut state);
        result
    }

    /// Reports the events of a connection to the program.
    fn hear(&self, id: ConnectionId) {
        let told = EventTarget::of(ptr::null_mut(), &self.channel);
        self.engine.lock().connections.insert(id.number(), told);
    }

    /// Waits for the next event. A device that has forgotten a deadline would never report it.
    fn next(&self) -> Event {
        let mut fd = libc::pollfd { fd: self.fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        assert_eq!(unsafe { libc::poll(&raw mut fd, 1, 60_000) }, 1, "no event");
        match self.channel.next().expect("one is there").what {
            What::Manager(event) => event,
            What::Plain(kind) => panic!("event {kind} of a call that was not made"),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.engine.stop.store(true, Ordering::Release);
        self.engine.wake();
    }
}

/// Passes packets on between the two devices, except for the first management datagram of each kind.
#[derive(Default)]
struct Relay {
    /// The kinds of datagrams of which one was lost, by their attributes.
    lost: HashSet<[u8; 2]>,
    held: VecDeque<(IpAddr, Vec<u8>)>,
}

impl RoceEnd for Relay {
    fn receive_roce(&mut self, _now: Instant, from: IpAddr, packet: &[u8]) {
        // Behind the base header of 12 bytes and the datagram header of 8.
        let attribute = [packet[36], packet[37]];
        if !self.lost.insert(attribute) {
            let to = if from == CLIENT { SERVER } else { CLIENT };
            self.held.push_back((to.into(), packet.to_vec()));
        }
    }

    fn count_icrc_error(&mut self) {
        panic!("loopback damages no packet");
    }

    fn poll_roce(&mut self, _now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        let (destination, packet) = self.held.pop_front()?;
        out.extend(packet);
        Some(Transmit { destination, source_port: 0, queue_pair: QueuePairNumber(1), type_of_service: 0 })
    }
}

/// Runs the relay until `done`; returns the attributes of the messages that it has lost.
fn relay(done: &AtomicBool) -> HashSet<[u8; 2]> {
    let mut port = UdpPort::bind(SocketAddrV4::new(RELAY, roce::UDP_PORT), &PortOptions::default()).unwrap();
    let (mut path, mut relay, clock) = (RocePath::new(RELAY.into()), Relay::default(), Clock::starting_now());
    while !done.load(Ordering::Acquire) {
        let mut fd = libc::pollfd { fd: port.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        unsafe { libc::poll(&raw mut fd, 1, 10) };
        port.receive(|datagram| path.receive(clock.now(), datagram, &mut relay)).unwrap();
        path.transmit(clock.now(), &mut port, &mut relay);
        port.flush().unwrap();
    }
    relay.lost
}

/// Ends the relay, also when the test fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn parameters() -> Parameters {
    let private = private::header((CLIENT, 9).into(), RELAY.into()).to_vec();
    Parameters { queue_pair: 5, private, ..Parameters::default() }
}

/// The calls of a program set deadlines that its device's helper, asleep, does not know: it must be woken.
#[test]
fn each_message_of_a_connection_may_be_lost() {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let losses = scope.spawn(|| relay(&done));
        let over = Done(&done);
        let (client, server) = (Program::new(CLIENT), Program::new(SERVER));
        let told = EventTarget::of(ptr::null_mut(), &server.channel);
        server.engine.lock().listeners.insert(SERVICE.0, told);
        assert!(server.call(|manager, _| manager.listen(SERVICE)));

        let id =
            client.call(|manager, now| manager.connect(now, RELAY.into(), SERVICE, 5, true, parameters()));
        client.hear(id);
        let Event::Requested { id: request, .. } = server.next() else { panic!("no request") };
        server.hear(request);
        assert!(server.call(|manager, now| manager.accept(now, request, parameters())));
        assert!(matches!(client.next(), Event::Accepted { .. }));
        assert!(client.call(|manager, now| manager.establish(now, id)));
        assert_eq!(server.next(), Event::Established(request));
        assert!(client.call(|manager, now| manager.disconnect(now, id)));
        assert_eq!(server.next(), Event::Disconnected(request));
        assert_eq!(client.next(), Event::Disconnected(id));
        drop(over);
        let lost = losses.join().unwrap();
        // REQ, REP, RTU, DREQ and DREP.
        assert!([0x10, 0x13, 0x14, 0x15, 0x16].iter().all(|&attribute| lost.contains(&[0, attribute])));
    });
}
