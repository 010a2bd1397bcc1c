//! Two soft NICs on a cable: frames that they answer themselves, messages that reach engines, and frames that
//! reach hosts.

use std::net::{Ipv4Addr, SocketAddrV4};

use weft_nic::{CardConfig, HostCommand, HostEvent, Nic, Peering, SoftNic, SoftNicConfig};
use weft_time::{Duration, Instant};
use weft_verbs::{
    AccessFlags, CompletionStatus, LocalBuffer, Modify, Operation, PathMtu, ProtectionDomain,
    QueuePairAttributes, QueuePairNumber, ReadyToReceive, ReadyToSend, ReceiveRequest, Region, RemoteAddress,
    Target, WorkRequest,
};
use weft_waist::{
    Capabilities, Configuration, Engine, EngineState, EngineStatus, Epoch, Event, Io, Memory, Message,
    NODES_MAX, NodeId, NodeSet, View,
};
use weft_wire::arp::{Arp, Operation as ArpOperation, Station};
use weft_wire::datagram::{self, Builder};
use weft_wire::ethernet::MacAddress;
use weft_wire::frame::{Endpoint, Flow, Frame, emit_arp_frame, emit_udp_frame};

const NOW: Instant = Instant::ZERO;

/// An engine that records events, answers calls with their own content, and sends its peer a message for each
/// call.
#[derive(Default)]
struct Parrot {
    told: Vec<String>,
    /// The request to post when the engine is called.
    post: Option<(QueuePairNumber, WorkRequest)>,
    status: Option<EngineStatus>,
    /// Whether it sets a timer to the time at which the timer expires.
    is_restless: bool,
}

const GREETING: u8 = 200;

impl Engine for Parrot {
    const NEEDS: Capabilities = Capabilities::VERBS;

    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        match event {
            Event::Call { caller, message, last } => {
                self.told.push(format!("call {} {} last={last}", message.kind, text(message)));
                if let Some((queue_pair, request)) = self.post {
                    io.effects.post(queue_pair, request);
                }
                io.effects.reply(caller, message.kind + 1, &[message.payload]);
                io.effects.send(NodeSet::EMPTY.with(NodeId::new(1).unwrap()), GREETING, &[b"hello"]);
                io.effects.set_timer(7, now + Duration::from_us(3));
                io.memory.write(0, message.payload);
            }
            Event::Deliver { from, message, last } => {
                self.told.push(format!("{from} says {} last={last}", text(message)));
            }
            Event::Timer { tag } if self.is_restless => io.effects.set_timer(tag, now),
            Event::Timer { tag } => self.told.push(format!("timer {tag}")),
            Event::Done { tag, status } => self.told.push(format!("done {tag} {}", status.name())),
            Event::Configure(configuration) => {
                self.told.push("configured".into());
                self.status =
                    Some(EngineStatus { epoch: configuration.view.epoch, state: EngineState::Full });
            }
            Event::Reset => *self = Self { told: vec!["reset".into()], ..Self::default() },
        }
    }

    fn status(&self) -> EngineStatus {
        self.status.unwrap_or(EngineStatus::STARTING)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("told", self.told.len() as u64)]
    }
}

fn text(message: Message<'_>) -> &str {
    std::str::from_utf8(message.payload).unwrap()
}

fn hardware(node: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, node])
}

fn address(node: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 1 + node)
}

fn nic(node: u8) -> SoftNic<Parrot> {
    nic_with(node, Parrot::default())
}

fn nic_with(node: u8, engine: Parrot) -> SoftNic<Parrot> {
    let mut peers = [None; NODES_MAX];
    for peer in 0..2 {
        peers[usize::from(peer)] = Some(SocketAddrV4::new(address(peer), datagram::UDP_PORT));
    }
    let card = CardConfig {
        peers,
        datagram_bytes: 1472,
        transport: weft_rdma::Config::default(),
        region_bytes: 1 << 16,
    };
    let config = SoftNicConfig { hardware: hardware(node), address: address(node), card };
    SoftNic::new(config, vec![(engine, Memory::new(64))])
}

fn frames(nic: &mut SoftNic<Parrot>) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut frame = Vec::new();
    while nic.poll_frame(NOW, &mut frame) {
        all.push(std::mem::take(&mut frame));
    }
    all
}

/// Delivers frames between the two NICs until neither sends any. Returns frames for a third host.
fn settle(nics: &mut [SoftNic<Parrot>; 2]) -> Vec<Vec<u8>> {
    let mut others = Vec::new();
    loop {
        let mut moved = false;
        for from in 0..2 {
            for frame in frames(&mut nics[from]) {
                moved = true;
                nics[1 - from].receive_frame(NOW, &frame);
                if frame[..6] != hardware(1 - from as u8).0 && frame[..6] != [0xff; 6] {
                    others.push(frame);
                }
            }
        }
        if !moved {
            return others;
        }
    }
}

/// A client on a third host.
const CLIENT: u8 = 8;

fn from_client(port: u16, payload: &[u8]) -> Vec<u8> {
    let flow = Flow {
        source: Endpoint { hardware: hardware(CLIENT), address: address(CLIENT), port: 5_000 },
        destination: Endpoint { hardware: hardware(0), address: address(0), port },
        type_of_service: 0,
    };
    let mut frame = Vec::new();
    emit_udp_frame(&mut frame, &flow, payload);
    frame
}

fn calls(texts: &[&str]) -> Vec<u8> {
    let mut builder = Builder::new(1472);
    for text in texts {
        assert!(builder.try_push(0, 4, text.as_bytes()));
    }
    builder.finish().to_vec()
}

fn told(nic: &SoftNic<Parrot>) -> &[String] {
    &nic.card().engine(0).0.told
}

fn counter(nic: &SoftNic<Parrot>, name: &str) -> u64 {
    nic.counters()
        .iter()
        .find(|(counter, _)| *counter == name)
        .unwrap_or_else(|| panic!("no counter {name}"))
        .1
}

#[test]
fn calls_of_one_datagram_are_answered_in_one() {
    let mut nics = [nic(0), nic(1)];
    nics[0].add_neighbour(address(CLIENT), hardware(CLIENT));
    nics[0].add_neighbour(address(1), hardware(1));
    nics[0].receive_frame(NOW, &from_client(datagram::UDP_PORT, &calls(&["put", "get"])));
    let answers = settle(&mut nics);

    assert_eq!(told(&nics[0]), ["call 4 put last=false", "call 4 get last=true"]);
    assert_eq!(told(&nics[1]), ["node0 says hello last=false", "node0 says hello last=true"]);
    assert_eq!(answers.len(), 1);
    let Ok(Frame::Udp { udp, payload, .. }) = Frame::parse(&answers[0]) else { panic!("an answer by UDP") };
    assert_eq!((udp.source_port, udp.destination_port), (datagram::UDP_PORT, 5_000));
    let answers: Vec<_> = datagram::Datagram::parse(payload)
        .unwrap()
        .messages()
        .map(|one| (one.kind, one.payload.to_vec()))
        .collect();
    assert_eq!(answers, [(5, b"put".to_vec()), (5, b"get".to_vec())]);
}

#[test]
fn packets_wait_in_order_while_their_neighbour_is_asked_for() {
    let mut nics = [nic(0), nic(1)];
    nics[0].add_neighbour(address(CLIENT), hardware(CLIENT));
    for text in ["one", "two"] {
        nics[0].receive_frame(NOW, &from_client(datagram::UDP_PORT, &calls(&[text])));
        // The first packet causes an ARP request; the second packet waits for the same reply.
        for frame in frames(&mut nics[0]).iter().filter(|frame| frame[..6] == [0xff; 6]) {
            nics[1].receive_frame(NOW, frame);
        }
    }
    assert_eq!(told(&nics[1]), [""; 0]);
    settle(&mut nics);
    assert_eq!(told(&nics[1]), ["node0 says hello last=true"; 2]);
    assert_eq!(counter(&nics[0], "neighbour_unresolved"), 0);
}

#[test]
fn questions_to_a_neighbour_that_is_not_there_are_bounded() {
    let mut nic = nic(0);
    nic.add_neighbour(address(CLIENT), hardware(CLIENT));
    let call = from_client(datagram::UDP_PORT, &calls(&["one"]));
    let questions =
        |nic: &mut SoftNic<Parrot>| frames(nic).iter().filter(|frame| frame[..6] == [0xff; 6]).count();
    let mut asked = 0;
    for _ in 0..100 {
        nic.receive_frame(NOW, &call);
        asked += questions(&mut nic);
    }
    assert_eq!((asked, counter(&nic, "neighbour_unresolved")), (1, 36), "64 of 100 packets wait");
    while let Some(due) = nic.next_deadline() {
        nic.handle_deadline(due);
        asked += questions(&mut nic);
    }
    assert_eq!((asked, counter(&nic, "neighbour_unresolved")), (8, 100));
    nic.receive_frame(NOW, &call);
    assert_eq!(questions(&mut nic), 1, "the next packet asks anew");
}

#[test]
fn unsolicited_claims_redirect_nobody() {
    let mut nics = [nic(0), nic(1)];
    let claim = Arp {
        operation: ArpOperation::Reply,
        sender: Station { hardware: hardware(66), address: address(1) },
        target: Station { hardware: hardware(0), address: address(0) },
    };
    let mut frame = Vec::new();
    emit_arp_frame(&mut frame, hardware(0), &claim);
    nics[0].receive_frame(NOW, &frame);
    nics[0].add_neighbour(address(CLIENT), hardware(CLIENT));
    for _ in 0..2 {
        nics[0].receive_frame(NOW, &from_client(datagram::UDP_PORT, &calls(&["x"])));
        settle(&mut nics);
    }
    assert_eq!(told(&nics[1]), ["node0 says hello last=true"; 2], "node 1 answered the question itself");
}

#[test]
fn other_traffic_reaches_the_host_untouched() {
    let mut nic = nic(0);
    let mut ipv6 = vec![0; 80];
    ipv6[..6].copy_from_slice(&hardware(0).0);
    ipv6[12..14].copy_from_slice(&[0x86, 0xdd]);
    let dns = from_client(53, b"a question");
    for frame in [&ipv6, &dns] {
        nic.receive_frame(NOW, frame);
        assert_eq!(nic.poll_host(), Some(HostEvent::Frame(frame.clone())));
    }
    nic.submit(NOW, HostCommand::Transmit(&dns));
    assert_eq!(frames(&mut nic), [dns]);
}

#[test]
fn what_is_malformed_or_for_others_is_counted_and_dropped() {
    let mut nic = nic(0);
    let good = from_client(datagram::UDP_PORT, &calls(&["put"]));
    let mut wrong_crc = calls(&["put"]);
    wrong_crc[26] ^= 1;
    let mut for_another = good.clone();
    for_another[5] = 77;
    let mut no_engine = Builder::new(1472);
    assert!(no_engine.try_push(9, 1, b"nobody"));

    nic.receive_frame(NOW, &good[..20]);
    nic.receive_frame(NOW, &from_client(datagram::UDP_PORT, &wrong_crc));
    nic.receive_frame(NOW, &for_another);
    nic.receive_frame(NOW, &from_client(datagram::UDP_PORT, no_engine.finish()));
    nic.receive_frame(NOW, &from_client(weft_wire::roce::UDP_PORT, &[0; 40]));

    let dropped = ["frames_malformed", "datagrams_malformed", "frames_for_others", "messages_without_engine"];
    for cause in dropped.into_iter().chain(["icrc_errors"]) {
        assert_eq!(counter(&nic, cause), 1, "{cause}");
    }
    assert!(told(&nic).is_empty());
    assert_eq!(nic.poll_host(), None);
}

#[test]
fn only_configured_addresses_speak_as_peers() {
    let mut nic = nic(0);
    nic.receive_frame(NOW, &from_client(datagram::UDP_PORT, &calls(&["hello"])));
    assert_eq!(told(&nic), ["call 4 hello last=true"], "a stranger's message is a call, whatever its kind");
}

#[test]
fn timers_fire_once_and_at_their_time() {
    let mut nic = nic(0);
    nic.receive_frame(NOW, &from_client(datagram::UDP_PORT, &calls(&["x"])));
    let due = nic.next_deadline().unwrap();
    assert_eq!(due, NOW + Duration::from_us(3));
    nic.handle_deadline(NOW + Duration::from_us(2));
    nic.handle_deadline(due);
    nic.handle_deadline(due);
    assert_eq!(told(&nic)[1..], ["timer 7"]);
    assert_eq!(nic.next_deadline(), None);
}

#[test]
#[should_panic(expected = "the engine in slot 0 sets timer 7 to")]
fn an_engine_whose_timer_never_ends_is_stopped() {
    let mut nic = nic_with(0, Parrot { is_restless: true, ..Parrot::default() });
    nic.receive_frame(NOW, &from_client(datagram::UDP_PORT, &calls(&["x"])));
    let due = nic.next_deadline().unwrap();
    nic.handle_deadline(due);
}

#[test]
fn the_host_calls_its_engine() {
    let mut nic = nic(0);
    nic.submit(NOW, HostCommand::Call { engine: 0, token: 42, kind: 4, payload: b"direct" });
    let answer = HostEvent::Reply { engine: 0, token: 42, kind: 5, payload: b"direct".to_vec() };
    assert_eq!(nic.poll_host(), Some(answer));
}

#[test]
fn a_host_serves_the_clients_of_its_engine() {
    let mut nic = nic(0);
    nic.add_neighbour(address(CLIENT), hardware(CLIENT));
    nic.add_neighbour(address(1), hardware(1));
    nic.card_mut().serve_clients_on_host(0);
    nic.receive_frame(NOW, &from_client(datagram::UDP_PORT, &calls(&["hello"])));
    assert_eq!(told(&nic), [""; 0], "the engine is told nothing");
    let client = SocketAddrV4::new(address(CLIENT), 5_000);
    let request = HostEvent::Request { engine: 0, from: client, kind: 4, payload: b"hello".to_vec() };
    assert_eq!(nic.poll_host(), Some(request));

    nic.submit(NOW, HostCommand::Respond { engine: 0, to: client, kind: 9, payload: b"answer" });
    let answers = frames(&mut nic);
    assert_eq!(answers.len(), 1);
    let Ok(Frame::Udp { udp, payload, .. }) = Frame::parse(&answers[0]) else { panic!("an answer by UDP") };
    assert_eq!(udp.destination_port, 5_000);
    let answer = datagram::Datagram::parse(payload).unwrap();
    let answer: Vec<_> = answer.messages().map(|one| (one.engine, one.kind, one.payload)).collect();
    assert_eq!(answer, [(0, 9, &b"answer"[..])]);

    let too_long = [0; 2_000];
    nic.submit(NOW, HostCommand::Respond { engine: 0, to: client, kind: 9, payload: &too_long });
    assert!(frames(&mut nic).is_empty());
    assert_eq!(counter(&nic, "responses_too_large"), 1);
}

/// Connects a queue pair of each NIC to that of the other.
fn connect(nics: &mut [SoftNic<Parrot>; 2]) -> [QueuePairNumber; 2] {
    let numbers = [0, 1].map(|node: usize| {
        nics[node].add_neighbour(address(1 - node as u8), hardware(1 - node as u8));
        nics[node].card_mut().transport().create_queue_pair(QueuePairAttributes::default()).unwrap()
    });
    for node in 0..2 {
        let steps = [
            Modify::Init { access: AccessFlags::ALL },
            Modify::ReadyToReceive(ReadyToReceive {
                destination: address(1 - node as u8).into(),
                destination_qp_num: numbers[1 - node],
                rq_psn: 100,
                path_mtu: PathMtu::Bytes1024,
                max_dest_rd_atomic: 4,
                min_rnr_timer: 12,
            }),
            Modify::ReadyToSend(ReadyToSend {
                sq_psn: 100,
                timeout: 14,
                retry_cnt: 7,
                rnr_retry: 7,
                max_rd_atomic: 4,
            }),
        ];
        for step in steps {
            nics[node].card_mut().transport().modify_queue_pair(numbers[node], step).unwrap();
        }
    }
    numbers
}

#[test]
fn a_write_into_an_rpc_region_calls_the_engine_which_answers_by_send() {
    let mut nics = [nic(0), nic(1)];
    let numbers = connect(&mut nics);
    let host = |access| Region::host(0, 4096, access);
    let local = nics[0].card_mut().transport().register_region(host(AccessFlags::LOCAL_WRITE)).unwrap();
    let region = Region {
        domain: ProtectionDomain(0),
        address: 0x400,
        length: 64,
        access: AccessFlags::REMOTE_WRITE,
        target: Target::OnChip,
        write_through: false,
        rpc: Some(0),
    };
    let remote = nics[1].card_mut().transport().register_region(region).unwrap();

    nics[0].card_mut().region_memory().image_mut(Target::Host)[..12]
        .copy_from_slice(b"\0\0\0\0\0\0\0\x04call");
    let receive =
        ReceiveRequest { id: 1, local: LocalBuffer { address: 1024, length: 64, lkey: local.lkey } };
    nics[0].submit(NOW, HostCommand::PostReceive(numbers[0], receive));
    let write =
        Operation::Write { remote: RemoteAddress { address: 0x400, rkey: remote.rkey }, immediate: None };
    let buffer = LocalBuffer { address: 0, length: 12, lkey: local.lkey };
    nics[0].submit(NOW, HostCommand::PostSend(numbers[0], WorkRequest::new(2, write, buffer)));
    settle(&mut nics);

    assert_eq!(told(&nics[1])[0], "call 4 call last=true");
    let mut completed = Vec::new();
    while let Some(HostEvent::Completion(completion)) = nics[0].poll_host() {
        assert_eq!(completion.status, CompletionStatus::Success);
        completed.push((completion.id, completion.bytes));
    }
    completed.sort_unstable();
    assert_eq!(completed, [(1, 12), (2, 0)]);
    let answer = &nics[0].card_mut().region_memory().image(Target::Host)[1024..1036];
    assert_eq!(answer, b"\0\0\0\0\0\0\0\x05call");
}

#[test]
fn a_post_that_is_refused_completes_in_error() {
    let mut nic = nic(0);
    let nowhere = LocalBuffer { address: 0, length: 8, lkey: 0 };
    let send = WorkRequest::new(3, Operation::Send { immediate: None }, nowhere);
    nic.submit(NOW, HostCommand::PostSend(QueuePairNumber(0x77), send));
    let Some(HostEvent::Completion(completion)) = nic.poll_host() else { panic!("a completion") };
    assert_eq!((completion.id, completion.status), (3, CompletionStatus::LocalQueuePairOperationError));
}

/// The number of a new NIC's first queue pair.
fn first_queue_pair() -> QueuePairNumber {
    nic(0).card_mut().transport().create_queue_pair(QueuePairAttributes::default()).unwrap()
}

#[test]
fn what_an_engine_posts_comes_back_to_it_as_done() {
    let nothing = LocalBuffer { address: 0, length: 0, lkey: 0 };
    let send = WorkRequest::new(77, Operation::Send { immediate: Some(1) }, nothing);
    let engine = Parrot { post: Some((first_queue_pair(), send)), ..Parrot::default() };
    let mut nics = [nic_with(0, engine), nic(1)];
    let numbers = connect(&mut nics);
    let peering = Peering {
        destination: address(1),
        destination_qp_num: numbers[1],
        path_mtu: PathMtu::Bytes1024,
        timeout: 14,
        retry_cnt: 7,
        max_rd_atomic: 4,
    };
    nics[0].card_mut().assign(numbers[0], 0, peering);
    nics[1].submit(NOW, HostCommand::PostReceive(numbers[1], ReceiveRequest { id: 5, local: nothing }));
    nics[0].submit(NOW, HostCommand::Call { engine: 0, token: 1, kind: 4, payload: b"go" });
    settle(&mut nics);
    assert_eq!(told(&nics[0])[1..], ["done 77 IBV_WC_SUCCESS"]);
    let Some(HostEvent::Completion(received)) = nics[1].poll_host() else { panic!("a completion") };
    assert_eq!((received.id, received.immediate), (5, Some(1)));
}

#[test]
fn an_engine_hears_of_a_post_that_is_refused() {
    let nothing = LocalBuffer { address: 0, length: 0, lkey: 0 };
    let send = WorkRequest::new(78, Operation::Send { immediate: None }, nothing);
    let engine = Parrot { post: Some((QueuePairNumber(0x77), send)), ..Parrot::default() };
    let mut nic = nic_with(0, engine);
    nic.submit(NOW, HostCommand::Call { engine: 0, token: 1, kind: 4, payload: b"go" });
    assert_eq!(told(&nic)[1..], ["done 78 IBV_WC_LOC_QP_OP_ERR"]);
}

#[test]
fn nobody_posts_with_the_tags_of_the_cards_own_answers() {
    let mut nics = [nic(0), nic(1)];
    let numbers = connect(&mut nics);
    let nothing = LocalBuffer { address: 0, length: 0, lkey: 0 };
    let send = WorkRequest::new(1 << 63 | 3, Operation::Send { immediate: None }, nothing);
    nics[1].submit(NOW, HostCommand::PostReceive(numbers[1], ReceiveRequest { id: 5, local: nothing }));
    nics[0].submit(NOW, HostCommand::PostSend(numbers[0], send));
    settle(&mut nics);
    let Some(HostEvent::Completion(completion)) = nics[0].poll_host() else { panic!("a completion") };
    assert_eq!((completion.id, completion.status), (send.id, CompletionStatus::LocalQueuePairOperationError));
    assert_eq!(nics[1].poll_host(), None, "nothing was sent");
}

#[test]
fn a_reset_engine_is_as_at_power_on() {
    let mut nic = nic(0);
    let node = NodeId::new(0).unwrap();
    let view = View { epoch: Epoch(4), full: NodeSet::first(2), joining: NodeSet::EMPTY };
    nic.submit(
        NOW,
        HostCommand::Configure { engine: 0, configuration: Configuration { node, view, lease_until: NOW } },
    );
    let status = EngineStatus { epoch: Epoch(4), state: EngineState::Full };
    assert_eq!(nic.poll_host(), Some(HostEvent::Status { engine: 0, status }));
    nic.submit(NOW, HostCommand::Call { engine: 0, token: 1, kind: 4, payload: b"go" });
    assert!(nic.next_deadline().is_some() && nic.card().engine(0).1.image() != [0; 64]);
    assert!(matches!(nic.poll_host(), Some(HostEvent::Reply { .. })));

    nic.submit(NOW, HostCommand::Reset { engine: 0 });
    assert_eq!(told(&nic), ["reset"]);
    assert_eq!(nic.next_deadline(), None);
    assert_eq!(nic.card().engine(0).1.image(), [0; 64]);
    assert_eq!(nic.poll_host(), Some(HostEvent::Status { engine: 0, status: EngineStatus::STARTING }));
}
