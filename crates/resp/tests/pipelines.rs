//! A server before a store of one node: however messages are lost, duplicated and delayed, a pipeline gets the
//! same answers as its commands sent one by one.

use std::collections::VecDeque;

use proptest::prelude::*;
use weft_kv::{Kv, Parameters};
use weft_resp::{ConnectionId, Now, RespServer, RespServerParameters};
use weft_time::{Duration, Instant};
use weft_waist::{
    Caller, Configuration, Effect, Effects, Engine, Epoch, Event, Io, Memory, Message, NodeId, NodeSet, View,
};

const KEY_BYTES: usize = 9;
const GIVE_UP: Duration = Duration::from_secs(5);
/// Messages are lost for at most this long, so that no command reaches its time-out.
const LOSSES: Duration = Duration::from_secs(4);

struct Stage {
    server: RespServer,
    kv: Kv,
    memory: Memory,
    now: Instant,
    unix_ms: u64,
    /// Requests in flight to the node; below, its answers in flight.
    asked: VecDeque<(u8, Vec<u8>)>,
    told: VecDeque<(u8, Vec<u8>)>,
}

fn node() -> NodeId {
    NodeId::new(0).unwrap()
}

impl Stage {
    fn new(password: Option<&str>) -> Self {
        let parameters = Parameters {
            key_bytes: KEY_BYTES,
            value_bytes_max: 64,
            buckets: 256,
            ways: 8,
            ..Parameters::default()
        };
        let server = RespServer::new(RespServerParameters {
            own: node(),
            servers: vec![("127.0.0.1".to_owned(), 6379)],
            key_bytes: KEY_BYTES,
            value_bytes_max: 64,
            password: password.map(str::to_owned),
            durable_copies: 0,
            clock_skew: Duration::from_ms(50),
            give_up: GIVE_UP,
            first_client: u64::MAX - 1,
            sessions: 3,
        });
        let memory = Memory::new(parameters.memory_bytes());
        let kv = Kv::new(parameters);
        let (asked, told) = (VecDeque::new(), VecDeque::new());
        let mut stage = Self { server, kv, memory, now: Instant::ZERO, unix_ms: 1_000_000, asked, told };
        let view = View { epoch: Epoch(1), full: NodeSet::first(1), joining: NodeSet::EMPTY };
        stage.engine(Event::Configure(Configuration {
            node: node(),
            view,
            lease_until: Instant::FAR_FUTURE,
        }));
        stage
    }

    fn clocks(&self) -> Now {
        Now { instant: self.now, unix_ms: self.unix_ms }
    }

    fn engine(&mut self, event: Event<'_>) {
        let mut effects = Effects::default();
        self.kv.handle(self.now, event, &mut Io { effects: &mut effects, memory: &mut self.memory });
        for effect in effects.iter() {
            if let Effect::Reply { kind, payload, .. } = effect {
                self.told.push_back((*kind, effects.message(*kind, payload).payload.to_vec()));
            }
        }
    }

    /// Processes the connections, and collects the server's requests.
    fn drain(&mut self) {
        while self.server.poll_ready(self.clocks()).is_some() {}
        let mut payload = Vec::new();
        while let Some((_, kind)) = self.server.poll_transmit(&mut payload) {
            self.asked.push_back((kind, std::mem::take(&mut payload)));
        }
    }

    /// Delivers one message, if there is one; `dice` decides which one and with what fault.
    fn step(&mut self, dice: u8) -> bool {
        self.drain();
        let (queue, is_request) = if dice & 1 == 0 && !self.asked.is_empty() || self.told.is_empty() {
            (&mut self.asked, true)
        } else {
            (&mut self.told, false)
        };
        if queue.is_empty() {
            return false;
        }
        let at = usize::from(dice >> 4) % queue.len();
        let (kind, payload) = queue.remove(at).unwrap();
        match dice >> 1 & 7 {
            // The message is lost: its request is repeated after a time-out.
            0 if self.now < Instant::ZERO + LOSSES => self.pass(Duration::from_ms(60)),
            what => {
                if what == 1 {
                    self.asked.extend(is_request.then(|| (kind, payload.clone())));
                }
                if is_request {
                    let message = Message { kind, payload: &payload };
                    self.engine(Event::Call { caller: Caller::Host(1), message, last: true });
                } else {
                    self.server.message(self.clocks(), kind, &payload);
                }
            }
        }
        self.drain();
        true
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.unix_ms += time.as_ns() / 1_000_000;
        self.server.handle_deadline(self.clocks());
    }

    fn settle(&mut self) {
        loop {
            while self.step(0x0e) {}
            if self.server.outstanding() == 0 {
                break;
            }
            let deadline = self.server.next_deadline().expect("a request is asked again");
            let time = deadline.saturating_since(self.now);
            self.pass(time);
        }
    }

    fn say(&mut self, id: ConnectionId, text: &[u8]) {
        self.server.receive(id, text);
    }

    fn heard(&mut self, id: ConnectionId) -> String {
        let output = self.server.output(id).unwrap();
        String::from_utf8_lossy(&std::mem::take(output)).into_owned()
    }

    /// The answer to one command.
    fn ask(&mut self, id: ConnectionId, line: &str) -> String {
        self.say(id, format!("{line}\r\n").as_bytes());
        self.settle();
        self.heard(id)
    }
}

fn command() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec!["a", "b", "c", ""]);
    let forms = prop::sample::select(vec![
        "GET K",
        "SET K 5",
        "SET K x NX",
        "SET K 7 XX GET",
        "SETNX K 1",
        "INCR K",
        "DECRBY K 3",
        "APPEND K 1",
        "DEL K",
        "GETDEL K",
        "GETSET K 9",
        "STRLEN K",
        "EXISTS K a b",
        "MGET a K b",
        "MSET K 1 c 2",
        "TTL K",
        "PERSIST K",
        "SET K 1 EX 100",
        "EXPIRE K 100",
        "TYPE K",
        "GETRANGE K 0 1",
        "SETRANGE K 3 z",
        "PING",
        "DBSIZE",
        "NONSENSE",
        "GET",
        "SET K 1 EX 0",
        "MULTI",
        "EXEC",
        "DISCARD",
        "WATCH K",
        "UNWATCH",
        "ECHO K",
        "KEYS K*",
        "DEL a b c",
        "SET K 1 KEEPTTL",
        "GETEX K PERSIST",
        "WAIT 1 0",
        "EXPIRETIME K",
    ]);
    (forms, key).prop_map(|(form, key)| form.replace('K', if key.is_empty() { "\"\"" } else { key }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_pipeline_is_answered_as_its_commands_one_by_one(
        commands in prop::collection::vec(command(), 1..40),
        dice in prop::collection::vec(any::<u8>(), 0..400),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut one_by_one = Stage::new(None);
        let id = one_by_one.server.open(one_by_one.clocks());
        let expected: String = commands.iter().map(|line| one_by_one.ask(id, line)).collect();

        let mut pipelined = Stage::new(None);
        let id = pipelined.server.open(pipelined.clocks());
        let text = commands.join("\r\n") + "\r\n";
        let (first, second) = text.as_bytes().split_at(cut.index(text.len()));
        pipelined.say(id, first);
        let half = dice.len() / 2;
        dice[..half].iter().for_each(|dice| _ = pipelined.step(*dice));
        pipelined.say(id, second);
        dice[half..].iter().for_each(|dice| _ = pipelined.step(*dice));
        pipelined.settle();
        // Losses take time, so remaining times to live of about 100 s, and expiry times, may differ by a few
        // seconds.
        let is_time = |line: &str| {
            let number = line.strip_prefix(':').and_then(|number| number.parse().ok());
            number.is_some_and(|seconds: u32| matches!(seconds, 95..=100 | 1_100..=1_105))
        };
        let without_times = |text: &str| {
            text.lines().map(|line| if is_time(line) { ":time" } else { line }).collect::<Vec<_>>().join("\n")
        };
        prop_assert_eq!(without_times(&pipelined.heard(id)), without_times(&expected), "{:?}", commands);
    }

    #[test]
    fn every_increment_counts_once(dice in prop::collection::vec(any::<u8>(), 0..300), clients in 1usize..5) {
        let mut stage = Stage::new(None);
        let ids: Vec<_> = (0..clients).map(|_| stage.server.open(stage.clocks())).collect();
        for id in &ids {
            stage.say(*id, "INCR n\r\nINCR n\r\nINCR n\r\n".repeat(3).as_bytes());
        }
        dice.iter().for_each(|dice| _ = stage.step(*dice));
        stage.settle();
        let mut told: Vec<u32> = Vec::new();
        for id in ids {
            let heard = stage.heard(id);
            let own: Vec<u32> = heard.lines().map(|line| line[1..].parse().unwrap()).collect();
            prop_assert!(own.windows(2).all(|pair| pair[0] < pair[1]), "{own:?}");
            told.extend(own);
        }
        told.sort_unstable();
        prop_assert_eq!(told, (1..=9 * clients as u32).collect::<Vec<_>>());
    }

    #[test]
    fn no_bytes_are_fatal(
        pieces in prop::collection::vec(prop::collection::vec(
            prop::sample::select(b"*$0123456789\r\n ABCDEGIKLMNPRSTUX\"'{}ax".to_vec()), 0..40), 0..20),
        dice in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut stage = Stage::new(None);
        let id = stage.server.open(stage.clocks());
        for piece in pieces {
            stage.say(id, &piece);
            stage.step(0x0e);
        }
        dice.iter().for_each(|dice| _ = stage.step(*dice));
        stage.server.message(stage.clocks(), 2, &[7; 40]);
        stage.settle();
    }
}

#[test]
fn keys_go_when_their_time_is_over_and_not_before() {
    let mut stage = Stage::new(None);
    let id = stage.server.open(stage.clocks());
    assert_eq!(stage.ask(id, "SET k v PX 1000"), "+OK\r\n");
    assert_eq!(stage.ask(id, "PTTL k"), ":1000\r\n");
    stage.pass(Duration::from_ms(999));
    assert_eq!(stage.ask(id, "SET k w NX"), "$-1\r\n", "a lock is held to the end");
    stage.pass(Duration::from_ms(1));
    assert_eq!(stage.ask(id, "GET k"), "$-1\r\n");
    // An overwritten key no longer expires.
    stage.ask(id, "SET k v PX 100");
    stage.ask(id, "SET k w");
    stage.pass(Duration::from_ms(200));
    assert_eq!(stage.ask(id, "GET k"), "$1\r\nw\r\n");
}

#[test]
fn a_key_whose_door_has_died_goes_when_it_is_met() {
    let mut stage = Stage::new(None);
    let id = stage.server.open(stage.clocks());
    stage.ask(id, "SET k v PX 1000");
    let Stage { kv, memory, now, unix_ms, .. } = stage;
    let mut stage = Stage { kv, memory, now, unix_ms, ..Stage::new(None) };
    let id = stage.server.open(stage.clocks());
    // A second server must allow for the difference between its clock and the first one's.
    stage.pass(Duration::from_ms(1_049));
    assert_eq!(stage.ask(id, "GET k"), "$1\r\nv\r\n");
    stage.pass(Duration::from_ms(1));
    assert_eq!(stage.ask(id, "SET k w NX"), "+OK\r\n");
}

#[test]
fn a_lock_recipe_and_a_watch() {
    let mut stage = Stage::new(None);
    let (one, other) = (stage.server.open(stage.clocks()), stage.server.open(stage.clocks()));
    assert_eq!(stage.ask(one, "SET lock me NX PX 5000"), "+OK\r\n");
    let release = "EVAL \"if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end\"";
    assert_eq!(stage.ask(other, &format!("{release} 1 lock you")), ":0\r\n");
    assert_eq!(stage.ask(one, &format!("{release} 1 lock me")), ":1\r\n");
    assert!(stage.ask(one, "EVAL \"return 1\" 0").contains("no Lua"));

    stage.ask(one, "SET n 1");
    stage.ask(one, "WATCH n");
    stage.ask(one, "MULTI");
    assert_eq!(stage.ask(one, "INCR n"), "+QUEUED\r\n");
    assert_eq!(stage.ask(one, "EXEC"), "*1\r\n:2\r\n");
    stage.ask(one, "WATCH n");
    stage.ask(other, "SET n 7");
    stage.ask(one, "MULTI");
    stage.ask(one, "INCR n");
    assert_eq!(stage.ask(one, "EXEC"), "*-1\r\n");
    stage.ask(one, "MULTI");
    assert!(stage.ask(one, "INCR n").contains("QUEUED") && stage.ask(one, "INCR m").contains("CROSSSLOT"));
    assert!(stage.ask(one, "EXEC").starts_with("-EXECABORT"));
}

#[test]
fn a_password_is_asked_for() {
    let mut stage = Stage::new(Some("secret"));
    let id = stage.server.open(stage.clocks());
    assert!(stage.ask(id, "GET a").starts_with("-NOAUTH"));
    for wrong in ["AUTH secre", "AUTH secretsecret", "AUTH other secret", "HELLO 3 AUTH default x"] {
        assert!(stage.ask(id, wrong).starts_with("-WRONGPASS"), "{wrong}");
    }
    assert!(stage.ask(id, "HELLO 3 AUTH default secret").starts_with("%7\r\n"));
    assert_eq!(stage.ask(id, "GET a"), "_\r\n");
}

#[test]
fn keys_are_listed_and_removed() {
    let mut stage = Stage::new(None);
    let id = stage.server.open(stage.clocks());
    for key in 0..100 {
        assert_eq!(stage.ask(id, &format!("SET key{key} v")), "+OK\r\n");
    }
    assert_eq!(stage.ask(id, "DBSIZE"), ":100\r\n");
    assert!(stage.ask(id, "KEYS key1*").starts_with("*11\r\n"));
    let (mut cursor, mut keys) = ("0".to_owned(), Vec::new());
    loop {
        let page = stage.ask(id, &format!("SCAN {cursor} COUNT 7"));
        let mut lines = page.lines().filter(|line| !line.starts_with(['*', '$']));
        cursor = lines.next().unwrap().to_owned();
        keys.extend(lines.map(str::to_owned));
        if cursor == "0" {
            break;
        }
    }
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 100);
    assert_eq!(stage.ask(id, "FLUSHDB"), "+OK\r\n");
    assert_eq!(stage.ask(id, "DBSIZE"), ":0\r\n");
}

#[test]
fn requests_on_several_keys_are_under_way_together() {
    let mut stage = Stage::new(None);
    let id = stage.server.open(stage.clocks());
    let keys = 0..16;
    keys.clone().for_each(|key| stage.say(id, format!("SET {key} v\r\nWAIT 0 0\r\n").as_bytes()));
    stage.drain();
    assert_eq!(stage.asked.len(), 16, "no request waits for the answer to one before it");
    // The node executes the first command's request last, so the other answers wait for that to it.
    let is_first = |(_, request): &(u8, Vec<u8>)| request[32..].starts_with(b"0\x80");
    let first = stage.asked.iter().position(is_first).unwrap();
    let first = stage.asked.remove(first).unwrap();
    stage.asked.push_back(first);
    for _ in 1..keys.len() {
        assert!(stage.step(0x0e) && stage.step(0x0f));
        assert_eq!(stage.heard(id), "");
    }
    stage.settle();
    assert_eq!(stage.heard(id), "+OK\r\n:0\r\n".repeat(16));
}
