//! Two managers on a network that loses, repeats, delays and reorders their messages. Each run has an end: when no
//! message is in flight and no timer runs, each program knows whether it has a connection.

use std::net::{IpAddr, SocketAddr};

use weft_cm::{
    ATTEMPTS, ConnectionId, Event, Manager, Message, Parameters, RESEND, Reject, Reply, Service, private,
};
use weft_time::{Duration, Instant};

const CLIENT: usize = 0;
const SERVER: usize = 1;

const CONNECTIONS: Service = Service::new(0x0106, 7);
const DATAGRAMS: Service = Service::new(0x0111, 7);

/// Time for which a message is in flight.
const DELAY: Duration = Duration::from_ms(1);

/// The longest run: a request whose peer asks for time at each attempt, a disconnection without an answer, and the time
/// for which the ends remember it.
const LONGEST: Duration = Duration::from_secs(60);

/// What the two programs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// They connect, and this end disconnects as soon as it can.
    Disconnects(usize),
    /// They connect, and both ends disconnect as soon as they can.
    BothDisconnect,
    /// They connect and stay.
    Stay,
    /// The server rejects.
    Rejects,
    /// The server never answers.
    NeverAnswers,
    /// The server does not listen.
    NotListening,
    /// The client aborts its attempt when the server's program has seen the request.
    Aborts,
    /// The client aborts when it has been accepted.
    AbortsAccepted,
    /// The client asks for a datagram service.
    Resolves,
    /// The client asks for a datagram service, and is refused.
    ResolvesRefused,
}

impl Plan {
    const ALL: [Self; 11] = [
        Self::Disconnects(CLIENT),
        Self::Disconnects(SERVER),
        Self::BothDisconnect,
        Self::Stay,
        Self::Rejects,
        Self::NeverAnswers,
        Self::NotListening,
        Self::Aborts,
        Self::AbortsAccepted,
        Self::Resolves,
        Self::ResolvesRefused,
    ];

    /// The messages of a run without loss, in the order of their attributes.
    fn messages(self) -> &'static [&'static str] {
        match self {
            Self::Disconnects(_) | Self::BothDisconnect => &["REQ", "REP", "RTU", "DREQ", "DREP"],
            Self::Stay => &["REQ", "REP", "RTU"],
            Self::Rejects | Self::NotListening => &["REQ", "REJ"],
            Self::NeverAnswers => &["REQ", "MRA", "REJ"],
            Self::Aborts => &["REQ", "REJ"],
            Self::AbortsAccepted => &["REQ", "REP", "REJ"],
            Self::Resolves | Self::ResolvesRefused => &["SIDR_REQ", "SIDR_REP"],
        }
    }
}

/// What the program of one end was told, in this order.
type Told = Vec<&'static str>;

fn address(end: usize) -> IpAddr {
    [10, 0, 0, end as u8 + 1].into()
}

fn name(bytes: &[u8]) -> &'static str {
    match Message::parse(bytes).expect("a manager sends messages").1 {
        Message::Req(_) => "REQ",
        Message::Mra { .. } => "MRA",
        Message::Rej { .. } => "REJ",
        Message::Rep(_) => "REP",
        Message::Rtu { .. } => "RTU",
        Message::Dreq { .. } => "DREQ",
        Message::Drep { .. } => "DREP",
        Message::SidrReq { .. } => "SIDR_REQ",
        Message::SidrRep { .. } => "SIDR_REP",
    }
}

struct World<F> {
    plan: Plan,
    now: Instant,
    ends: [Manager; 2],
    /// Messages in flight: when they arrive, where, and their bytes.
    in_flight: Vec<(Instant, usize, Vec<u8>)>,
    /// Tells the delay of each copy of a message from its name and how often it was sent before.
    fate: F,
    sent: Vec<&'static str>,
    told: [Told; 2],
    attempt: ConnectionId,
}

impl<F: FnMut(&'static str, usize) -> Vec<Duration>> World<F> {
    /// Runs until nothing is in flight and no timer runs. Returns what both programs were told.
    fn run(plan: Plan, fate: F) -> [Told; 2] {
        let mut ends = [0, 1].map(|end| Manager::new(address(end), end as u64, 100 * end as u32));
        if plan != Plan::NotListening {
            ends[SERVER].listen(CONNECTIONS);
            ends[SERVER].listen(DATAGRAMS);
        }
        let (now, client) = (Instant::ZERO, &mut ends[CLIENT]);
        let attempt = match plan {
            Plan::Resolves | Plan::ResolvesRefused => {
                client.resolve(now, address(SERVER), DATAGRAMS, parameters(5).private)
            }
            _ => client.connect(now, address(SERVER), CONNECTIONS, 3, true, parameters(5)),
        };
        let (in_flight, sent, told) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
        let mut world = Self { plan, now, ends, in_flight, fate, sent, told, attempt };
        world.carry();
        while let Some(next) = world.next() {
            world.now = next;
            assert!(world.now < Instant::ZERO + LONGEST, "{plan:?} does not end: {:?}", world.told);
            world.ends.iter_mut().for_each(|end| end.handle_deadline(next));
            world.in_flight.sort_by_key(|message| message.0);
            while world.in_flight.first().is_some_and(|message| message.0 <= next) {
                let (_, to, bytes) = world.in_flight.remove(0);
                world.ends[to].receive(next, address(1 - to), &bytes);
                world.act();
            }
            world.act();
            world.carry();
        }
        world.told
    }

    fn next(&self) -> Option<Instant> {
        let arrivals = self.in_flight.iter().map(|message| message.0);
        arrivals.chain(self.ends.iter().filter_map(Manager::next_deadline)).min()
    }

    /// Hands the managers' messages to the network.
    fn carry(&mut self) {
        for end in [CLIENT, SERVER] {
            while let Some((to, bytes)) = self.ends[end].poll_transmit() {
                assert_eq!(to, address(1 - end));
                let name = name(&bytes);
                let before = self.sent.iter().filter(|&&other| other == name).count();
                self.sent.push(name);
                for delay in (self.fate)(name, before) {
                    self.in_flight.push((self.now + delay, 1 - end, bytes.to_vec()));
                }
            }
        }
    }

    /// Lets both programs act on their events.
    fn act(&mut self) {
        for end in [CLIENT, SERVER] {
            while let Some(event) = self.ends[end].poll_event() {
                let told = self.answer(end, event);
                self.told[end].push(told);
            }
        }
    }

    fn answer(&mut self, end: usize, event: Event) -> &'static str {
        let (plan, now, manager) = (self.plan, self.now, &mut self.ends[end]);
        let disconnects = plan == Plan::Disconnects(end) || plan == Plan::BothDisconnect;
        match event {
            Event::Requested { id, .. } => {
                match plan {
                    Plan::NeverAnswers => {}
                    Plan::Rejects => assert!(manager.reject(now, id, Reject::CONSUMER, Vec::new())),
                    Plan::Aborts => self.ends[CLIENT].forget(now, self.attempt),
                    _ => assert!(manager.accept(now, id, parameters(6))),
                }
                "requested"
            }
            Event::Accepted { id, .. } => {
                if plan == Plan::AbortsAccepted {
                    manager.forget(now, id);
                } else if manager.establish(now, id) && disconnects {
                    manager.disconnect(now, id);
                }
                "accepted"
            }
            Event::Established(id) => {
                if disconnects {
                    manager.disconnect(now, id);
                }
                "established"
            }
            Event::DatagramsRequested { id, .. } => {
                let reply = Reply { queue_pair: 6, queue_key: 1, private: Vec::new() };
                if plan == Plan::ResolvesRefused {
                    assert!(manager.reject(now, id, Reject::CONSUMER, Vec::new()));
                } else {
                    assert!(manager.answer(now, id, 0, reply));
                }
                "requested"
            }
            Event::DatagramsAccepted { .. } => "accepted",
            Event::Rejected { .. } => "rejected",
            Event::Unreachable(_) => "unreachable",
            Event::Disconnected(_) => "disconnected",
        }
    }
}

fn parameters(queue_pair: u32) -> Parameters {
    let private = private::header(SocketAddr::new(address(CLIENT), 9), address(SERVER)).to_vec();
    Parameters { queue_pair, private, ..Parameters::default() }
}

fn without_loss(plan: Plan) -> [Told; 2] {
    World::run(plan, |_, _| vec![DELAY])
}

#[test]
fn without_loss_both_programs_are_told() {
    for (plan, client, server) in [
        (
            Plan::Disconnects(CLIENT),
            &["accepted", "disconnected"][..],
            &["requested", "established", "disconnected"][..],
        ),
        (Plan::Stay, &["accepted"], &["requested", "established"]),
        (Plan::Rejects, &["rejected"], &["requested"]),
        (Plan::NeverAnswers, &["unreachable"], &["requested", "rejected"]),
        (Plan::NotListening, &["rejected"], &[]),
        (Plan::Aborts, &[], &["requested", "rejected"]),
        (Plan::AbortsAccepted, &["accepted"], &["requested", "rejected"]),
        (Plan::Resolves, &["accepted"], &["requested"]),
        (Plan::ResolvesRefused, &["rejected"], &["requested"]),
    ] {
        assert_eq!(without_loss(plan), [client.to_vec(), server.to_vec()], "{plan:?}");
    }
}

/// A lost message changes nothing but the time: what is not answered is sent again.
#[test]
fn each_message_may_be_lost_again_and_again() {
    for plan in Plan::ALL {
        for &lost in plan.messages() {
            for times in [1, 2, 5] {
                // The REJ of a client that gives up is not answered, so the server learns of it only while it asks.
                if lost == "REJ" && matches!(plan, Plan::Aborts | Plan::NeverAnswers) {
                    continue;
                }
                let told =
                    World::run(
                        plan,
                        |name, before| {
                            if name == lost && before < times { Vec::new() } else { vec![DELAY] }
                        },
                    );
                assert_eq!(told, without_loss(plan), "{plan:?}, {lost} was lost {times} times");
            }
        }
    }
}

#[test]
fn each_message_may_arrive_again() {
    for plan in Plan::ALL {
        for &repeated in plan.messages() {
            for later in [Duration::ZERO, RESEND, RESEND * 3] {
                let told =
                    World::run(
                        plan,
                        |name, _| {
                            if name == repeated { vec![DELAY, DELAY + later] } else { vec![DELAY] }
                        },
                    );
                assert_eq!(told, without_loss(plan), "{plan:?}, {repeated} arrives again {later:?} later");
            }
        }
    }
}

/// If one message never arrives, both ends are told that there is no connection.
#[test]
fn both_ends_notice_a_message_that_never_arrives() {
    for (plan, lost, client, server) in [
        (Plan::Stay, "REQ", &["unreachable"][..], &[][..]),
        (Plan::Stay, "REP", &["rejected"], &["requested", "unreachable"]),
        (Plan::Stay, "RTU", &["accepted", "disconnected"], &["requested", "unreachable"]),
        (Plan::Rejects, "REJ", &["unreachable"], &["requested"]),
        (
            Plan::Disconnects(CLIENT),
            "DREP",
            &["accepted", "disconnected"],
            &["requested", "established", "disconnected"],
        ),
        (Plan::Resolves, "SIDR_REQ", &["unreachable"], &[]),
        (Plan::Resolves, "SIDR_REP", &["unreachable"], &["requested"]),
    ] {
        let told = World::run(plan, |name, _| if name == lost { Vec::new() } else { vec![DELAY] });
        assert_eq!(told, [client.to_vec(), server.to_vec()], "{plan:?} without {lost}");
    }
    // Nothing arrives after the connection was made.
    let told = World::run(Plan::BothDisconnect, |name, _| {
        if matches!(name, "DREQ" | "DREP") { Vec::new() } else { vec![DELAY] }
    });
    let client = vec!["accepted", "disconnected"];
    assert_eq!(told, [client, vec!["requested", "established", "disconnected"]]);
}

/// Numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ word >> 31) % limit
    }
}

/// Up to a third of the messages are lost, each may be repeated, and all are delayed by up to 700 ms, so that they
/// overtake each other and arrive after the next attempt.
#[test]
fn every_attempt_ends_under_loss_and_reordering() {
    let mut connected = 0;
    for seed in 0..2_000 {
        for plan in Plan::ALL {
            let mut random = Random(seed);
            let loss = random.below(34);
            let [client, server] = World::run(plan, |_, _| {
                let copies = if random.below(100) < loss { 0 } else { 1 + random.below(4) / 3 };
                (0..copies).map(|_| DELAY + Duration::from_us(random.below(700_000))).collect()
            });
            let context = format!("seed {seed}, {plan:?}: {client:?}, {server:?}");
            let asked = !matches!(plan, Plan::NotListening);
            assert_eq!(
                server.iter().filter(|&&told| told == "requested").count(),
                usize::from(asked),
                "{context}"
            );
            let end = |told: &[&'static str]| told.last().copied().unwrap_or("nothing");
            match plan {
                Plan::Stay => {
                    assert_eq!((end(&client), end(&server)), ("accepted", "established"), "{context}");
                    connected += 1;
                }
                Plan::Disconnects(_) | Plan::BothDisconnect => {
                    assert_eq!((end(&client), end(&server)), ("disconnected", "disconnected"), "{context}");
                    connected += usize::from(client.contains(&"accepted"));
                }
                Plan::Resolves => assert_eq!(client, ["accepted"], "{context}"),
                Plan::Rejects | Plan::NotListening | Plan::ResolvesRefused => {
                    assert_eq!(client, ["rejected"], "{context}")
                }
                Plan::NeverAnswers => assert_eq!(client, ["unreachable"], "{context}"),
                Plan::Aborts => assert!(client.is_empty(), "{context}"),
                Plan::AbortsAccepted => {
                    assert!(matches!(end(&server), "rejected" | "unreachable"), "{context}");
                }
            }
        }
    }
    assert!(connected > 7_900, "nearly all attempts succeed: {connected}");
}

/// A program may take longer than all attempts together.
#[test]
fn a_slow_program_is_waited_for() {
    let mut ends = [0, 1].map(|end| Manager::new(address(end), end as u64, 100 * end as u32));
    ends[SERVER].listen(CONNECTIONS);
    let slow = RESEND * u64::from(2 * ATTEMPTS);
    let (mut now, mut asked, mut accepted) = (Instant::ZERO, None, None);
    ends[CLIENT].connect(now, address(SERVER), CONNECTIONS, 3, true, parameters(5));
    let mut told = [Vec::new(), Vec::new()];
    while now < Instant::ZERO + slow * 3 {
        for end in [CLIENT, SERVER] {
            ends[end].handle_deadline(now);
            while let Some((_, bytes)) = ends[end].poll_transmit() {
                ends[1 - end].receive(now, address(end), &bytes);
            }
            while let Some(event) = ends[end].poll_event() {
                match event {
                    Event::Requested { id, .. } => asked = Some((now + slow, id)),
                    Event::Accepted { id, .. } => accepted = Some((now + slow, id)),
                    other => told[end].push(other),
                }
            }
        }
        if let Some((_, id)) = asked.take_if(|(due, _)| *due <= now) {
            assert!(ends[SERVER].accept(now, id, parameters(6)));
        }
        if let Some((_, id)) = accepted.take_if(|(due, _)| *due <= now) {
            assert!(ends[CLIENT].establish(now, id));
        }
        now += RESEND;
    }
    assert!(
        matches!(told, [client, server] if client.is_empty() && matches!(server[..], [Event::Established(_)]))
    );
}
