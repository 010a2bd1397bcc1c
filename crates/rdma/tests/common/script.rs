//! Scripts of conversations between two queue pairs. Lines that begin with `>` are commands, lines with `#`
//! are comments, and all other lines are the expected output of the commands.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use weft_rdma::Config;
use weft_time::{Duration, Instant};
use weft_verbs::{
    AccessFlags, LocalBuffer, Modify, Operation, PathMtu, ReceiveRequest, Region, RegionKeys, RemoteAddress,
    Target, WorkRequest,
};
use weft_wire::roce::Packet;

#[path = "language.rs"]
mod language;

use crate::common::{Connection, Node, connected};
use language::{Fate, NAMES, Words, access, describe, describe_completion, number, sequence_nak, target};

/// The most rounds of one `run`: far more than any script needs.
const ROUNDS_MAX: usize = 200;

/// Runs the commands of `script`, and returns the script with the actual output.
pub fn replay(script: &str) -> String {
    let mut pair = None;
    let mut out = String::new();
    for line in script.lines() {
        if let Some(command) = line.strip_prefix("> ") {
            writeln!(out, "{line}").unwrap();
            let words = Words::new(command);
            if words.verb == "connect" {
                pair = Some(Pair::connect(&words));
            } else {
                pair.as_mut().expect("a script begins with connect").execute(&words, &mut out);
            }
        } else if line.is_empty() || line.starts_with('#') {
            writeln!(out, "{line}").unwrap();
        }
    }
    out
}

struct Pair {
    nodes: [Node; 2],
    now: Instant,
    regions: BTreeMap<(usize, String), RegionKeys>,
    next_id: [u64; 2],
    /// For each side, what happens to its next packets; the key counts packets from now on.
    fates: [BTreeMap<u64, Fate>; 2],
    sent: [u64; 2],
}

impl Pair {
    fn connect(words: &Words<'_>) -> Self {
        let or = |key: &str, default: u8| words.number(key).map_or(default, |value| value as u8);
        let defaults = Connection::default();
        let mtu = words.number("mtu").unwrap_or(256);
        let with = Connection {
            path_mtu: PathMtu::ALL.into_iter().find(|path| u64::from(path.bytes()) == mtu).unwrap(),
            psn: [
                words.number("psn").map_or(100, |psn| psn as u32),
                words.number("peer_psn").map_or(500, |psn| psn as u32),
            ],
            timeout: or("timeout", defaults.timeout),
            retry_cnt: or("retry_cnt", defaults.retry_cnt),
            rnr_retry: or("rnr_retry", defaults.rnr_retry),
            min_rnr_timer: or("min_rnr_timer", defaults.min_rnr_timer),
            rd_atomic: or("rd_atomic", defaults.rd_atomic),
        };
        let config = Config {
            max_queue_pairs: 16,
            window_packets: words.number("window").unwrap_or(64) as u32,
            host_credit_bytes: words.number("credits"),
            reorder_packets: words.number("keep").unwrap_or(0) as usize,
            read_parts: words.number("parts") == Some(1),
            rate_control: words.number("rate_control") == Some(1),
            rpc_queue_depth: words.number("calls").unwrap_or(16) as usize,
            ..Config::default()
        };
        let mut nodes = connected(&config, &with);
        for (side, node) in nodes.iter_mut().enumerate() {
            // Recognizable content, which is different on each side.
            for (index, byte) in node.memory.image_mut(Target::Host).iter_mut().enumerate() {
                *byte = (index * 7 + index / 256 + 100 * side) as u8;
            }
        }
        Self {
            nodes,
            now: Instant::ZERO,
            regions: BTreeMap::new(),
            next_id: [1, 1],
            fates: Default::default(),
            sent: [0, 0],
        }
    }

    fn execute(&mut self, words: &Words<'_>, out: &mut String) {
        let side = words.side;
        match words.verb {
            "run" => self.run(out),
            "region" => self.register(words),
            "access" => {
                let flags = access(words.operands[1]);
                match self.regions.get(&(side, words.operands[0].to_owned())) {
                    Some(&keys) => self.nodes[side].transport.modify_region(keys, flags).unwrap(),
                    None => {
                        assert_eq!(words.operands[0], "queue_pair");
                        let node = &mut self.nodes[side];
                        node.transport.modify_queue_pair(node.queue_pair, Modify::Access(flags)).unwrap();
                    }
                }
            }
            "deregister" => {
                let keys = self.regions[&(side, words.operands[0].to_owned())];
                self.nodes[side].transport.deregister_region(keys).unwrap();
            }
            "lose" => self.plan(words, Fate::Lose),
            "duplicate" => self.plan(words, Fate::Duplicate),
            "delay" => self.plan(words, Fate::Delay),
            "mark" => self.plan(words, Fate::Mark),
            "round" => {
                self.round(out);
            }
            "nak" => self.nak(words, out),
            "receive" => self.post_receive(words),
            "credits" => self.nodes[side].transport.return_host_credits(number(words.operands[0])),
            "state" => self.print_state(out),
            "counters" => {
                for (name, value) in
                    self.nodes[side].transport.counters().list().into_iter().filter(|&(_, value)| value > 0)
                {
                    writeln!(out, "  {name} {value}").unwrap();
                }
            }
            "memory" => {
                let (start, length) =
                    (number(words.operands[1]) as usize, number(words.operands[2]) as usize);
                let image = self.nodes[side].memory.image(target(words.operands[0]));
                writeln!(out, "  {:02x?}", &image[start..start + length]).unwrap();
            }
            "compare" => {
                let [own, other, length] = [0, 1, 2].map(|index| number(words.operands[index]) as usize);
                let place = target(words.keys.get("target").copied().unwrap_or("host"));
                let own = &self.nodes[side].memory.image(Target::Host)[own..own + length];
                let other = &self.nodes[1 - side].memory.image(place)[other..other + length];
                writeln!(out, "  {}", if own == other { "equal" } else { "different" }).unwrap();
            }
            _ => self.post_send(words, out),
        }
    }

    fn register(&mut self, words: &Words<'_>) {
        let key = |name: &str| words.keys.get(name).copied();
        let region = Region {
            access: if words.has("constant") {
                AccessFlags::NONE
            } else {
                access(key("access").unwrap_or("none"))
            },
            target: target(key("target").unwrap_or("host")),
            write_through: words.has("through"),
            rpc: words.number("rpc").map(|slot| slot as u8),
            ..Region::host(words.number("at").unwrap(), words.number("length").unwrap(), AccessFlags::NONE)
        };
        let keys = self.nodes[words.side].transport.register_region(region).unwrap();
        self.regions.insert((words.side, words.operands[0].to_owned()), keys);
    }

    fn plan(&mut self, words: &Words<'_>, fate: Fate) {
        for operand in &words.operands {
            self.fates[words.side].insert(self.sent[words.side] + number(operand), fate);
        }
    }

    /// Injects a NAK "PSN sequence error" that the side itself would not send.
    fn nak(&mut self, words: &Words<'_>, out: &mut String) {
        let side = words.side;
        let (own, peer) = (self.nodes[side].address, &mut self.nodes[1 - side]);
        let packet = sequence_nak(peer.queue_pair, number(words.operands[0]) as u32);
        writeln!(out, "  {} -> {}  {}", NAMES[side], NAMES[1 - side], describe(&packet)).unwrap();
        peer.transport.receive(self.now, own, &packet, &mut peer.memory);
    }

    fn post_receive(&mut self, words: &Words<'_>) {
        let side = words.side;
        let id = self.next_id(side);
        let local = self.local(words, 0x4000, number(words.operands[0]) as u32);
        let node = &mut self.nodes[side];
        node.transport.post_receive(node.queue_pair, ReceiveRequest { id, local }).unwrap();
    }

    fn post_send(&mut self, words: &Words<'_>, out: &mut String) {
        let side = words.side;
        let immediate = words.number("immediate").map(|value| value as u32);
        let rkey = match words.keys.get("region") {
            Some(&name) => self.regions[&(1 - side, name.to_owned())].rkey,
            None => words.number("rkey").map_or(self.nodes[1 - side].keys.rkey, |key| key as u32),
        };
        let remote = RemoteAddress { address: words.number("at").unwrap_or(0x2000), rkey };
        let operand = words.operands.first().map(|text| number(text)).unwrap_or(0);
        let (operation, length) = match words.verb {
            "send" => (Operation::Send { immediate }, operand as u32),
            "write" => (Operation::Write { remote, immediate }, operand as u32),
            "read" => (Operation::Read { remote }, operand as u32),
            "add" => (Operation::FetchAdd { remote, add: operand }, 8),
            "swap" => {
                let compare = words.number("if").unwrap();
                (Operation::CompareSwap { remote, compare, swap: operand }, 8)
            }
            verb => panic!("unknown command `{verb}`"),
        };
        let mut request = WorkRequest::new(self.next_id(side), operation, self.local(words, 0x1000, length));
        request.signaled = !words.has("unsignaled");
        request.fence = words.has("fence");
        request.solicited = words.has("solicited");
        let node = &mut self.nodes[side];
        if let Err(error) = node.transport.post_send(self.now, node.queue_pair, request) {
            writeln!(out, "  refused: {error}").unwrap();
        }
        self.report(side, out);
    }

    fn local(&self, words: &Words<'_>, default: u64, length: u32) -> LocalBuffer {
        let lkey = match words.keys.get("own") {
            Some(&name) => self.regions[&(words.side, name.to_owned())].lkey,
            None => words.number("lkey").map_or(self.nodes[words.side].keys.lkey, |key| key as u32),
        };
        LocalBuffer { address: words.number("local").unwrap_or(default), length, lkey }
    }

    fn next_id(&mut self, side: usize) -> u64 {
        let id = self.next_id[side];
        self.next_id[side] += 1;
        id
    }

    /// Runs until neither side has packets to send or timers to wait for.
    fn run(&mut self, out: &mut String) {
        for _ in 0..ROUNDS_MAX {
            if self.round(out) {
                continue;
            }
            let deadlines = self.nodes.iter().filter_map(|node| node.transport.next_deadline());
            let Some(next) = deadlines.min() else { return };
            // Events that became due during a round are handled at its end.
            let next = next.max(self.now);
            writeln!(out, "  .. {} pass", next - self.now).unwrap();
            self.now = next;
            for side in 0..2 {
                self.nodes[side].transport.handle_deadline(self.now);
                self.report(side, out);
            }
        }
        panic!("the conversation does not end:\n{out}");
    }

    /// Each side sends all of its packets, which take a microsecond to arrive.
    fn round(&mut self, out: &mut String) -> bool {
        let mut any = false;
        for side in 0..2 {
            let mut arriving: Vec<(Vec<u8>, bool)> = Vec::new();
            let mut late = Vec::new();
            loop {
                let mut bytes = Vec::new();
                let node = &mut self.nodes[side];
                if node.transport.poll_transmit(self.now, &mut node.memory, &mut bytes).is_none() {
                    assert!(bytes.is_empty());
                    break;
                }
                any = true;
                self.sent[side] += 1;
                let fate = self.fates[side].remove(&self.sent[side]);
                let packet = Packet::parse(&bytes).expect("a transport makes packets that parse");
                let remark = match fate {
                    None => "",
                    Some(Fate::Lose) => "  (lost)",
                    Some(Fate::Duplicate) => "  (duplicated)",
                    Some(Fate::Delay) => "  (delayed)",
                    Some(Fate::Mark) => "  (marked)",
                };
                writeln!(out, "  {} -> {}  {}{remark}", NAMES[side], NAMES[1 - side], describe(&packet))
                    .unwrap();
                match fate {
                    None => arriving.push((bytes, false)),
                    Some(Fate::Lose) => {}
                    Some(Fate::Duplicate) => arriving.extend([(bytes.clone(), false), (bytes, false)]),
                    Some(Fate::Delay) => late.push((bytes, false)),
                    Some(Fate::Mark) => arriving.push((bytes, true)),
                }
            }
            self.now += Duration::from_us(1);
            let source = self.nodes[side].address;
            let peer = &mut self.nodes[1 - side];
            for (bytes, marked) in arriving.iter().chain(&late) {
                let packet = Packet::parse(bytes).unwrap();
                peer.transport.receive_marked(self.now, source, &packet, *marked, &mut peer.memory);
            }
            self.report(0, out);
            self.report(1, out);
        }
        any
    }

    /// Prints completions and calls of engines.
    fn report(&mut self, side: usize, out: &mut String) {
        let (name, node) = (NAMES[side], &mut self.nodes[side]);
        while let Some(call) = node.transport.poll_rpc() {
            write!(out, "  {name} calls engine {} with {} bytes", call.engine, call.length).unwrap();
            write!(out, " at {:#x} of {:?}", call.address, call.target).unwrap();
            match call.immediate {
                Some(value) => writeln!(out, ", immediate {value:#x}").unwrap(),
                None => writeln!(out).unwrap(),
            }
        }
        while let Some(completion) = node.transport.poll_completion() {
            writeln!(out, "  {name} completes {}", describe_completion(&completion)).unwrap();
        }
    }

    fn print_state(&self, out: &mut String) {
        for (name, node) in NAMES.iter().zip(&self.nodes) {
            let information = node.transport.query_queue_pair(node.queue_pair).unwrap();
            writeln!(
                out,
                "  {name} is in {}, sends psn {} next, expects psn {}, {} work and {} receive requests queued",
                information.state,
                information.sq_psn,
                information.rq_psn,
                information.send_queued,
                information.receive_queued
            )
            .unwrap();
        }
    }
}
