//! Clients on a network that loses, duplicates and delays messages, of logs whose leaders crash: each answered
//! append is in the log once, at the index that its client received.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::network::cluster::{Cluster, Mischief, content, small};
use weft_session::{CallId, ClientHalf};
use weft_smr::client::{Client, ClientParameters, Outcome, Task};
use weft_smr::log::{Answer, Append, Call, Status, Subject};
use weft_smr::{Delivery, Group};
use weft_time::{Duration, Instant};
use weft_waist::{Caller, Event, Memory, Message};

const NODES: usize = 3;
const CLIENTS: usize = 3;
/// Origin of the first of these clients; the cluster's own clients have lower ones.
const ORIGIN: u64 = 10;

struct Letter {
    at: Instant,
    node: usize,
    client: usize,
    to_node: bool,
    kind: u8,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    Append(u64),
    Read(u64),
}

struct World {
    cluster: Cluster,
    clients: Vec<Client>,
    appended: Vec<u64>,
    asked: BTreeMap<(usize, CallId), Asked>,
    letters: Vec<Letter>,
    /// Per mille of messages that are lost, and as many that are duplicated.
    loss: u64,
    /// By origin and sequence number: the index that the client received.
    answered: BTreeMap<(u64, u64), u64>,
    reads: BTreeMap<&'static str, u32>,
    unknown: u32,
}

impl World {
    fn new(seed: u64) -> Self {
        let delivery = if seed.is_multiple_of(2) { Delivery::WriteThrough } else { Delivery::Polling };
        let mut cluster = Cluster::new(seed, small(NODES, delivery));
        cluster.asking = false;
        let client = |index: usize| {
            Client::new(ClientParameters {
                first: index % NODES,
                timeout: Duration::from_us(60),
                timeout_max: Duration::from_us(300),
                pause: Duration::from_us(8),
                give_up: Duration::from_ms(3),
                ..ClientParameters::new(ORIGIN + index as u64, NODES)
            })
        };
        Self {
            cluster,
            clients: (0..CLIENTS).map(client).collect(),
            appended: vec![0; CLIENTS],
            asked: BTreeMap::new(),
            letters: Vec::new(),
            loss: 150,
            answered: BTreeMap::new(),
            reads: BTreeMap::new(),
            unknown: 0,
        }
    }

    fn post(&mut self, client: usize, node: usize, to_node: bool, kind: u8, bytes: &[u8]) {
        let network = &mut self.cluster.network;
        for _ in 0..=u32::from(network.chance(self.loss)) {
            if !network.chance(self.loss) {
                let at = network.now + Duration::from_us(1 + network.random(25));
                self.letters.push(Letter { at, node, client, to_node, kind, bytes: bytes.to_vec() });
            }
        }
    }

    fn end(&mut self, client: usize, call: CallId, outcome: Outcome<'_>) {
        let origin = ORIGIN + client as u64;
        match (self.asked.remove(&(client, call)).expect("it ends once"), outcome) {
            (Asked::Append(sequence), Outcome::Appended { index }) => {
                let bytes = content(origin, sequence);
                let append = Append { origin, sequence, content: &bytes };
                let entry = [&append.header()[..], &bytes].concat();
                assert_eq!(self.cluster.log.get(&index), Some(&entry), "append {sequence} of {origin}");
                self.answered.insert((origin, sequence), index);
            }
            (Asked::Read(wanted), Outcome::Entry { index, append }) => {
                assert_eq!(index, wanted);
                assert_eq!(append.content, content(append.origin, append.sequence));
                *self.reads.entry("entry").or_default() += 1;
            }
            (Asked::Read(wanted), Outcome::Void) => {
                assert!(!self.cluster.log.contains_key(&wanted), "there is an entry {wanted}");
                *self.reads.entry("void").or_default() += 1;
            }
            (Asked::Read(_), Outcome::NotYet { .. }) => *self.reads.entry("not yet").or_default() += 1,
            (Asked::Read(wanted), Outcome::Forgotten { .. }) => {
                let any = |about: fn(&Group, &Memory, u64) -> bool| {
                    let mut groups = (0..NODES).filter_map(|node| self.cluster.group(node));
                    groups.any(|(group, memory)| about(group, memory, wanted))
                };
                assert!(any(Group::has_recycled) || !any(Group::holds), "a replica has entry {wanted}");
                *self.reads.entry("forgotten").or_default() += 1;
            }
            (_, Outcome::Unknown) => self.unknown += 1,
            (asked, outcome) => panic!("{asked:?} ends as {outcome:?}"),
        }
    }

    fn step(&mut self, mischief: Mischief, begins: bool) {
        self.cluster.run_with(mischief, Duration::from_us(20));
        let now = self.cluster.network.now;
        while let Some((node, port, kind, bytes)) = self.cluster.to_endpoints.pop_front() {
            self.post(port.into(), node, false, kind, &bytes);
        }
        for client in 0..CLIENTS {
            while begins && self.clients[client].outstanding() < 3 && self.cluster.network.chance(500) {
                let read = self.cluster.network.chance(300);
                let highest = self.cluster.log.keys().next_back().copied().unwrap_or(0);
                let index = (highest + 2).saturating_sub(self.cluster.network.random(20));
                let bytes = content(ORIGIN + client as u64, self.appended[client] + 1);
                let task = if read { Task::Read(index) } else { Task::Append(&bytes) };
                let Some(call) = self.clients[client].start(now, task) else { break };
                self.appended[client] += u64::from(!read);
                let asked = if read { Asked::Read(index) } else { Asked::Append(self.appended[client]) };
                self.asked.insert((client, call), asked);
            }
            while let Some((call, outcome)) = self.clients[client].handle_deadline(now) {
                self.end(client, call, outcome);
            }
            let mut bytes = Vec::new();
            while let Some((node, kind)) = self.clients[client].poll_transmit(&mut bytes) {
                self.post(client, node, true, kind, &bytes);
                bytes.clear();
            }
        }
        let (due, rest) = std::mem::take(&mut self.letters).into_iter().partition(|letter| letter.at <= now);
        self.letters = rest;
        let due: Vec<Letter> = due;
        for Letter { node, client, to_node, kind, bytes, .. } in due {
            if !to_node {
                if let Some((call, outcome)) = self.clients[client].receive(now, node, (kind, &bytes)) {
                    self.end(client, call, outcome);
                }
            } else if self.cluster.state(node).is_some() {
                let caller = Caller::Endpoint { address: Ipv4Addr::LOCALHOST, port: client as u16 };
                let message = Message { kind, payload: &bytes };
                self.cluster.network.handle(node, Event::Call { caller, message, last: true });
            }
        }
    }
}

/// The cluster checks the log: an append that takes effect twice, or an entry that differs between nodes, fails
/// the test.
#[test]
fn appends_stand_once_where_their_clients_are_told() {
    let (mut answered, mut unknown, mut crashes) = (0, 0, 0);
    let mut reads: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 0..16 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        let crash = if seed % 4 == 0 { 0 } else { 15 };
        for _ in 0..400 {
            world.step(Mischief { crash, cut: crash, stick: crash }, true);
        }
        for _ in 0..200 {
            world.step(Mischief { crash: 0, cut: 0, stick: 0 }, false);
        }
        assert!(world.asked.is_empty(), "every call ends");
        answered += world.answered.len();
        (unknown, crashes) = (unknown + world.unknown, crashes + world.cluster.crashes);
        for (how, count) in world.reads {
            *reads.entry(how).or_default() += count;
        }
    }
    assert!(
        answered > 2_000 && crashes > 20 && (unknown as usize) < answered / 20,
        "{answered} {unknown} {crashes}"
    );
    assert!(["entry", "not yet", "forgotten"].iter().all(|how| reads.contains_key(how)), "{reads:?}");
}

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_ms(ms)
}

fn sent(client: &mut Client) -> Vec<(usize, Vec<u8>)> {
    let mut all = Vec::new();
    let mut bytes = Vec::new();
    while let Some((node, _)) = client.poll_transmit(&mut bytes) {
        all.push((node, std::mem::take(&mut bytes)));
    }
    all
}

fn answer(status: Status, leader: Option<usize>, sequence: u64) -> Vec<u8> {
    answer_about(Subject::Append { origin: 9, sequence }, status, leader)
}

fn answer_about(subject: Subject, status: Status, leader: Option<usize>) -> Vec<u8> {
    let answer = Answer {
        status,
        role: 0,
        leader,
        member: true,
        halted: false,
        incarnation: 1,
        index: 70,
        decided: 80,
    };
    [&answer.encode()[..], &subject.encode()].concat()
}

#[test]
fn an_append_goes_to_who_leads_under_one_number() {
    let mut client = Client::new(ClientParameters::new(9, 3));
    let call = client.start(ms(0), Task::Append(b"entry")).unwrap();
    let first = sent(&mut client);
    assert_eq!(first[0].0, 0);
    let receive = |client: &mut Client, at: u64, from: usize, bytes: &[u8]| {
        let (ended, outcome) = client.receive(ms(at), from, (Call::Answer as u8, bytes))?;
        assert_eq!(ended, call);
        Some(format!("{outcome:?}"))
    };
    assert_eq!(receive(&mut client, 1, 0, &answer(Status::NotLeader, Some(2), 1)), None);
    assert_eq!(sent(&mut client), [(2, first[0].1.clone())]);
    // The call was redirected already. A second redirection, or one that names a replica that does not exist,
    // changes nothing.
    assert_eq!(receive(&mut client, 1, 0, &answer(Status::NotLeader, Some(1), 1)), None);
    assert_eq!(receive(&mut client, 1, 2, &answer(Status::Busy, Some(200), 1)), None);
    assert!(sent(&mut client).is_empty());
    let due = client.next_deadline().unwrap();
    assert_eq!(due, ms(1) + Duration::from_us(500));
    assert!(client.handle_deadline(due).is_none());
    assert_eq!(sent(&mut client), [(2, first[0].1.clone())], "the leader is busy: it is asked again");
    assert_eq!(receive(&mut client, 2, 2, &answer(Status::Abandoned, None, 1)), None);
    assert_eq!(receive(&mut client, 2, 2, &answer(Status::Ok, Some(2), 2)), None, "another append's");
    let appended = receive(&mut client, 2, 2, &answer(Status::Ok, Some(2), 1));
    assert_eq!(appended.as_deref(), Some("Appended { index: 70 }"));
    assert_eq!(receive(&mut client, 2, 2, &answer(Status::Ok, Some(2), 1)), None);
    client.start(ms(3), Task::Append(b"next")).unwrap();
    assert_eq!(sent(&mut client)[0].0, 2, "who led leads");
}

#[test]
fn an_entry_that_a_replica_skipped_is_read_from_another() {
    let mut client = Client::new(ClientParameters::new(9, 3));
    let call = client.start(ms(0), Task::Read(70)).unwrap();
    let without = |status| answer_about(Subject::Read(70), status, None);
    let receive = |client: &mut Client, from, status| {
        client.receive(ms(1), from, (Call::Answer as u8, &without(status))).map(|(ended, outcome)| {
            assert_eq!(ended, call);
            format!("{outcome:?}")
        })
    };
    assert_eq!(sent(&mut client)[0].0, 0);
    assert_eq!(receive(&mut client, 0, Status::Skipped), None);
    assert_eq!(sent(&mut client)[0].0, 1, "another replica is asked at once");
    assert_eq!(receive(&mut client, 0, Status::Skipped), None);
    assert!(sent(&mut client).is_empty(), "a repeated answer sends nothing");
    let mut other = client.clone();
    let mut silent = client.clone();
    let mut entry = 70_u64.to_be_bytes().to_vec();
    entry.extend(Append { origin: 4, sequence: 1, content: b"" }.header());
    let (_, outcome) = client.receive(ms(1), 1, (Call::Entry as u8, &entry)).unwrap();
    assert!(matches!(outcome, Outcome::Entry { index: 70, .. }));

    assert_eq!(receive(&mut other, 1, Status::Skipped), None);
    assert_eq!(sent(&mut other)[0].0, 2);
    let forgotten = Some("Forgotten { index: 70 }".to_owned());
    let mut recycled = other.clone();
    assert_eq!(receive(&mut other, 2, Status::Skipped), forgotten, "all have skipped it");
    assert_eq!(receive(&mut recycled, 2, Status::Forgotten), forgotten, "one knows that it is recycled");

    let due = silent.next_deadline().unwrap();
    assert!(silent.handle_deadline(due).is_none());
    assert_eq!(sent(&mut silent)[0].0, 2, "the second replica was silent");
}

#[test]
fn a_window_of_appends_and_no_more_is_under_way() {
    let mut client = Client::new(ClientParameters::new(9, 3));
    for _ in 0..16 {
        client.start(ms(0), Task::Append(b"")).unwrap();
    }
    assert_eq!(client.start(ms(0), Task::Append(b"")), None);
    assert!(client.receive(ms(1), 0, (Call::Answer as u8, &answer(Status::Ok, None, 2))).is_some());
    assert!(!client.can_start(), "number 17 has the place of number 1");
    assert!(client.receive(ms(1), 0, (Call::Answer as u8, &answer(Status::Ok, None, 1))).is_some());
    assert!(client.can_start());
    let mut given_up = 0;
    while let Some(due) = client.next_deadline() {
        while let Some((_, outcome)) = client.handle_deadline(due) {
            assert_eq!((outcome, due), (Outcome::Unknown, ms(5_000)));
            given_up += 1;
        }
    }
    assert_eq!(given_up, 14);
}

#[test]
fn strange_bytes_change_nothing() {
    let mut client = Client::new(ClientParameters::new(9, 3));
    client.start(ms(0), Task::Append(b"entry")).unwrap();
    client.start(ms(0), Task::Read(5)).unwrap();
    for length in 0..60 {
        for fill in [0, 1, 255] {
            for kind in 0..40 {
                let bytes = vec![fill; length];
                let ended = client.receive(ms(0), 1, (kind, &bytes));
                assert_eq!(ended, None, "kind {kind}, {length} bytes of {fill}");
            }
        }
    }
    assert_eq!(client.outstanding(), 2);
}
