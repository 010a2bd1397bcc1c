//! Conversations between two NICs as text: the scripts of the transport's tests, and some of this suite.
//!
//! A script is run command by command, and the consequences are recorded in order. The transport's own tests
//! deliver all packets of one side before the other answers. Here every packet is answered before the next
//! one arrives.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use weft_rdma::source_port;
use weft_time::Duration;
use weft_verbs::{
    AccessFlags, LocalBuffer, Modify, Operation, PathMtu, ReceiveRequest, Region, RegionKeys, RemoteAddress,
    Target, WorkRequest,
};
use weft_wire::ethernet::Ethernet;
use weft_wire::frame::{Endpoint, Flow, Frame, emit_roce_frame};
use weft_wire::icrc;
use weft_wire::ipv4::{CONGESTION_CAPABLE, mark_congestion};
use weft_wire::roce::{self, Packet};

use crate::counters::COUNTERS;
use crate::language::{
    Fate, NAMES, Words, access, describe, describe_completion, number, sequence_nak, target,
};
use crate::stage::{Connection, Stage};
use crate::twin::{Kind, Options, address, hardware};

/// Maximum number of rounds of one `run`; no script needs as many.
const ROUNDS_MAX: usize = 200;

/// The result of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    /// What happened, line by line.
    pub lines: Vec<String>,
    /// All frames that were sent, with the sending side.
    pub frames: Vec<(usize, Vec<u8>)>,
    /// The times for which both sides waited for timers.
    pub waits: Vec<Duration>,
    /// Number of conversations left out, because they need sizes that the gateware does not have.
    pub left_out: usize,
}

/// Options of `connect` that are fixed in the gateware.
const FIXED: [&str; 4] = ["window", "credits", "calls", "rate_control"];

/// Whether a conversation needs something that the gateware does not have: another size, or a memory fault, which
/// a region called `void` has.
fn is_left_out<'a>(mut conversation: impl Iterator<Item = &'a str>) -> bool {
    conversation.any(|line| {
        let words = line.strip_prefix("> ").map(Words::new);
        words.is_some_and(|words| match words.verb {
            "connect" => FIXED.iter().any(|key| words.keys.contains_key(key)),
            "region" => words.has("void"),
            _ => false,
        })
    })
}

/// Runs a script between two NICs.
///
/// # Panics
/// If the script is invalid, or a conversation does not end.
pub fn replay(script: &str, kinds: [Kind; 2], options: Options) -> Transcript {
    let mut transcript = Transcript::default();
    let mut pair: Option<Pair> = None;
    let mut left_out = false;
    let lines: Vec<&str> = script.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let Some(command) = line.strip_prefix("> ") else { continue };
        let words = Words::new(command);
        if words.verb == "connect" {
            let rest = lines[index + 1..].iter().take_while(|line| !line.starts_with("> connect"));
            left_out = is_left_out(std::iter::once(*line).chain(rest.copied()));
            transcript.left_out += usize::from(left_out);
            pair = (!left_out).then(|| Pair::connect(&words, kinds, options));
        }
        if left_out {
            continue;
        }
        transcript.lines.push((*line).to_owned());
        let pair = pair.as_mut().expect("a script begins with connect");
        pair.execute(&words, &mut transcript);
    }
    transcript
}

/// The scripts of the transport's tests, and those of this suite, by name.
///
/// # Panics
/// If the files cannot be read.
pub fn all() -> BTreeMap<String, PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut scripts = BTreeMap::new();
    for folder in [own.join("../rdma/tests/scripts"), own.join("scripts")] {
        for entry in std::fs::read_dir(&folder).expect("the folder of scripts") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            assert!(scripts.insert(name, path).is_none(), "a name for each script");
        }
    }
    scripts
}

struct Pair {
    stage: Stage,
    regions: BTreeMap<(usize, String), RegionKeys>,
    next_id: [u64; 2],
    /// Faults for the packets that each side sends next, by number of packets until then.
    fates: [BTreeMap<u64, Fate>; 2],
    sent: [u64; 2],
    /// A region calls an engine.
    has_engine: bool,
    calls: [u64; 2],
}

impl Pair {
    fn connect(words: &Words<'_>, kinds: [Kind; 2], options: Options) -> Self {
        let options = Options {
            read_parts: words.number("parts") == Some(1),
            reorder_packets: words.number("keep").unwrap_or(0) as usize,
            ..options
        };
        let or = |key: &str, default: u8| words.number(key).map_or(default, |value| value as u8);
        let defaults = Connection::default();
        let mtu = words.number("mtu").unwrap_or(256);
        let connection = Connection {
            path_mtu: PathMtu::ALL.into_iter().find(|path| u64::from(path.bytes()) == mtu).expect("an MTU"),
            psn: [
                words.number("psn").map_or(defaults.psn[0], |psn| psn as u32),
                words.number("peer_psn").map_or(defaults.psn[1], |psn| psn as u32),
            ],
            timeout: or("timeout", defaults.timeout),
            retry_cnt: or("retry_cnt", defaults.retry_cnt),
            rnr_retry: or("rnr_retry", defaults.rnr_retry),
            min_rnr_timer: or("min_rnr_timer", defaults.min_rnr_timer),
            rd_atomic: or("rd_atomic", defaults.rd_atomic),
        };
        Self {
            stage: Stage::new(kinds, &connection, options),
            regions: BTreeMap::new(),
            next_id: [1, 1],
            fates: Default::default(),
            sent: [0, 0],
            has_engine: false,
            calls: [0, 0],
        }
    }

    fn execute(&mut self, words: &Words<'_>, out: &mut Transcript) {
        let side = words.side;
        match words.verb {
            "connect" => {}
            "run" => self.run(out),
            "round" => {
                self.round(out);
            }
            "deliver" => {
                self.carry(side, number(words.operands[0]) as usize, out);
            }
            "region" => self.register(words),
            "access" => self.change_access(words),
            "deregister" => {
                let keys = self.regions[&(side, words.operands[0].to_owned())];
                self.stage.twins[side].driver().deregister_region(keys).expect("registered");
                self.stage.settle(side);
            }
            "error" => self.stage.modify(side, Modify::Error).expect("legal"),
            "lose" => self.plan(words, Fate::Lose),
            "duplicate" => self.plan(words, Fate::Duplicate),
            "delay" => self.plan(words, Fate::Delay),
            "mark" => self.plan(words, Fate::Mark),
            "nak" => self.nak(words, out),
            "receive" => self.post_receive(words),
            "state" => self.print_state(out),
            "counters" => self.print_counters(side, out),
            "memory" => {
                let (start, length) =
                    (number(words.operands[1]) as usize, number(words.operands[2]) as usize);
                let image = self.stage.twins[side].image(target(words.operands[0]), start + length);
                out.lines.push(format!("  {:02x?}", &image[start..]));
            }
            "compare" => {
                let [own, other, length] = [0, 1, 2].map(|index| number(words.operands[index]) as usize);
                let place = target(words.keys.get("target").copied().unwrap_or("host"));
                let own = self.stage.twins[side].image(Target::Host, own + length).split_off(own);
                let other = self.stage.twins[1 - side].image(place, other + length).split_off(other);
                out.lines.push(format!("  {}", if own == other { "equal" } else { "different" }));
            }
            _ => self.post_send(words),
        }
        for side in 0..2 {
            self.report(side, out);
        }
    }

    fn change_access(&mut self, words: &Words<'_>) {
        let (side, flags) = (words.side, access(words.operands[1]));
        match self.regions.get(&(side, words.operands[0].to_owned())) {
            Some(&keys) => {
                self.stage.twins[side].driver().modify_region(keys, flags).expect("registered");
                self.stage.settle(side);
            }
            None => {
                assert_eq!(words.operands[0], "queue_pair");
                self.stage.modify(side, Modify::Access(flags)).expect("legal");
            }
        }
    }

    fn register(&mut self, words: &Words<'_>) {
        let key = |name: &str| words.keys.get(name).copied();
        self.has_engine |= words.keys.contains_key("rpc");
        let region = Region {
            access: if words.has("constant") {
                AccessFlags::NONE
            } else {
                access(key("access").unwrap_or("none"))
            },
            target: target(key("target").unwrap_or("host")),
            write_through: words.has("through"),
            rpc: words.number("rpc").map(|slot| slot as u8),
            ..Region::host(
                words.number("at").expect("a region is somewhere"),
                words.number("length").expect("a region has a length"),
                AccessFlags::NONE,
            )
        };
        let keys = self.stage.twins[words.side].driver().register_region(region).expect("room");
        self.regions.insert((words.side, words.operands[0].to_owned()), keys);
    }

    fn plan(&mut self, words: &Words<'_>, fate: Fate) {
        for operand in &words.operands {
            self.fates[words.side].insert(self.sent[words.side] + number(operand), fate);
        }
    }

    /// Puts a NAK "PSN sequence error" on the wire that the side would not send by itself.
    fn nak(&mut self, words: &Words<'_>, out: &mut Transcript) {
        let side = words.side;
        let end = |side, port| Endpoint { hardware: hardware(side), address: address(side), port };
        let [own, peer] = [side, 1 - side].map(|side| self.stage.queue_pairs[side]);
        let flow = Flow {
            source: end(side, source_port(own, peer)),
            destination: end(1 - side, roce::UDP_PORT),
            type_of_service: 0,
        };
        let mut frame = Vec::new();
        emit_roce_frame(&mut frame, &flow, &sequence_nak(peer, number(words.operands[0]) as u32));
        let line = describe_frame(&frame);
        out.lines.push(format!("  {} -> {}  {line}", NAMES[side], NAMES[1 - side]));
        self.deliver(1 - side, &frame, out);
    }

    fn post_receive(&mut self, words: &Words<'_>) {
        let side = words.side;
        let id = self.next_id(side);
        let local = self.local(words, 0x4000, number(words.operands[0]) as u32);
        self.stage.post_receive(side, ReceiveRequest { id, local }).expect("room");
    }

    fn post_send(&mut self, words: &Words<'_>) {
        let side = words.side;
        let immediate = words.number("immediate").map(|value| value as u32);
        let rkey = match words.keys.get("region") {
            Some(&name) => self.regions[&(1 - side, name.to_owned())].rkey,
            None => words.number("rkey").map_or(self.stage.keys[1 - side].rkey, |key| key as u32),
        };
        let remote = RemoteAddress { address: words.number("at").unwrap_or(0x2000), rkey };
        let operand = words.operands.first().map(|text| number(text)).unwrap_or(0);
        let (operation, length) = match words.verb {
            "send" => (Operation::Send { immediate }, operand as u32),
            "write" => (Operation::Write { remote, immediate }, operand as u32),
            "read" => (Operation::Read { remote }, operand as u32),
            "add" => (Operation::FetchAdd { remote, add: operand }, 8),
            "swap" => {
                let compare = words.number("if").expect("a swap compares");
                (Operation::CompareSwap { remote, compare, swap: operand }, 8)
            }
            verb => panic!("unknown command `{verb}`"),
        };
        let mut request = WorkRequest::new(self.next_id(side), operation, self.local(words, 0x1000, length));
        request.signaled = !words.has("unsignaled");
        request.fence = words.has("fence");
        request.solicited = words.has("solicited");
        self.stage.post(side, request);
    }

    fn local(&self, words: &Words<'_>, default: u64, length: u32) -> LocalBuffer {
        let lkey = match words.keys.get("own") {
            Some(&name) => self.regions[&(words.side, name.to_owned())].lkey,
            None => words.number("lkey").map_or(self.stage.keys[words.side].lkey, |key| key as u32),
        };
        LocalBuffer { address: words.number("local").unwrap_or(default), length, lkey }
    }

    fn next_id(&mut self, side: usize) -> u64 {
        let id = self.next_id[side];
        self.next_id[side] += 1;
        id
    }

    /// Exchanges packets until neither side has a packet to send or a timer to wait for.
    fn run(&mut self, out: &mut Transcript) {
        let mut waiting_since = None;
        for _ in 0..ROUNDS_MAX {
            if self.round(out) {
                continue;
            }
            let Some(next) = self.stage.next_deadline() else { return };
            // The gateware may examine its timers several times before one has expired.
            let since = *waiting_since.get_or_insert(self.stage.now());
            self.stage.advance(next);
            let mark = out.lines.len();
            for side in 0..2 {
                self.stage.settle(side);
                self.report(side, out);
            }
            if out.lines.len() > mark || self.stage.outbox.iter().any(|outbox| !outbox.is_empty()) {
                out.lines.insert(mark, "  .. time passes".into());
                out.waits.push(next.saturating_since(since));
                waiting_since = None;
            }
        }
        panic!("the conversation does not end:\n{}", out.lines.join("\n"));
    }

    /// Each side in turn sends all packets that it had when its turn began; they take a microsecond to
    /// arrive.
    fn round(&mut self, out: &mut Transcript) -> bool {
        let mut any = false;
        for side in 0..2 {
            let frames = self.stage.outbox[side].len();
            any |= frames > 0;
            self.carry(side, frames, out);
        }
        any
    }

    /// Delivers the first waiting frames of one side.
    fn carry(&mut self, side: usize, frames: usize, out: &mut Transcript) {
        self.stage.advance(self.stage.now() + Duration::from_us(1));
        let mut late = Vec::new();
        for _ in 0..frames {
            let frame = self.stage.outbox[side].pop_front().expect("so many frames");
            self.sent[side] += 1;
            let fate = self.fates[side].remove(&self.sent[side]);
            let remark = match fate {
                None => "",
                Some(Fate::Lose) => "  (lost)",
                Some(Fate::Duplicate) => "  (duplicated)",
                Some(Fate::Delay) => "  (delayed)",
                Some(Fate::Mark) => "  (marked)",
            };
            let line = describe_frame(&frame);
            out.lines.push(format!("  {} -> {}  {line}{remark}", NAMES[side], NAMES[1 - side]));
            out.frames.push((side, frame.clone()));
            match fate {
                None => self.deliver(1 - side, &frame, out),
                Some(Fate::Lose) => {}
                Some(Fate::Duplicate) => {
                    self.deliver(1 - side, &frame, out);
                    self.deliver(1 - side, &frame, out);
                }
                Some(Fate::Delay) => late.push(frame),
                Some(Fate::Mark) => {
                    let mut frame = frame;
                    set_congestion_experienced(&mut frame);
                    self.deliver(1 - side, &frame, out);
                }
            }
        }
        for frame in late {
            self.deliver(1 - side, &frame, out);
        }
    }

    fn deliver(&mut self, side: usize, frame: &[u8], out: &mut Transcript) {
        self.stage.deliver(side, frame);
        self.report(side, out);
    }

    /// Prints completions and engine calls.
    fn report(&mut self, side: usize, out: &mut Transcript) {
        let (name, twin) = (NAMES[side], &mut self.stage.twins[side]);
        if self.has_engine {
            let calls = twin.calls();
            for _ in self.calls[side]..calls {
                out.lines.push(format!("  {name} calls an engine"));
            }
            self.calls[side] = calls;
            // Reading the counter takes clock cycles.
            twin.settle(twin.now());
        }
        for completion in twin.take_completions() {
            out.lines.push(format!("  {name} completes {}", describe_completion(&completion)));
        }
        for frame in std::mem::take(&mut twin.host_frames) {
            out.lines.push(format!("  {name} passes a frame of {} bytes to its host", frame.len()));
        }
    }

    fn print_state(&mut self, out: &mut Transcript) {
        for (side, name) in NAMES.iter().enumerate() {
            let number = self.stage.queue_pairs[side];
            let information = self.stage.twins[side].driver().query_queue_pair(number).expect("created");
            out.lines.push(format!(
                "  {} is in {}, sends psn {} next, expects psn {}, {} work and {} receive requests queued",
                name,
                information.state,
                information.sq_psn,
                information.rq_psn,
                information.send_queued,
                information.receive_queued
            ));
            self.stage.settle(side);
        }
    }

    /// Prints the counters that both kinds have, with the same meaning.
    fn print_counters(&mut self, side: usize, out: &mut Transcript) {
        let twin = &self.stage.twins[side];
        let counters: BTreeMap<_, _> = twin.counters().into_iter().collect();
        for name in COUNTERS {
            if let Some(value) = counters.get(name).filter(|value| **value > 0) {
                out.lines.push(format!("  {name} {value}"));
            }
        }
    }
}

/// Marks a frame as a congested switch does; here also a frame that is not ECN-capable.
fn set_congestion_experienced(frame: &mut [u8]) {
    let packet = &mut frame[Ethernet::BYTES..];
    // The frame is made ECN-capable first. The checksum is recomputed with the mark.
    packet[1] |= CONGESTION_CAPABLE;
    assert!(mark_congestion(packet), "an IPv4 packet");
}

/// A frame as one line of text.
pub fn describe_frame(frame: &[u8]) -> String {
    match Frame::parse(frame) {
        Ok(Frame::Udp { ipv4, udp, payload, .. }) => {
            let packet = icrc::Path::new(&ipv4, &udp).verify(payload).and_then(Packet::parse);
            packet.map_or_else(|error| format!("a bad packet: {error}"), |packet| describe(&packet))
        }
        Ok(_) => format!("a frame of {} bytes", frame.len()),
        Err(error) => format!("a bad frame: {error}"),
    }
}

/// How much longer the gateware may wait for a timer, because it scans its timers in turn.
pub const TIMER_SLACK: Duration = Duration::from_us(20);

/// Whether two lists of waits agree: the same number, each of the second within an eighth and [`TIMER_SLACK`]
/// of the first.
pub fn waits_agree(reference: &[Duration], other: &[Duration]) -> bool {
    reference.len() == other.len()
        && reference.iter().zip(other).all(|(reference, other)| {
            let slack = Duration::from_ps(reference.as_ps() / 8) + TIMER_SLACK;
            other.as_ps().abs_diff(reference.as_ps()) <= slack.as_ps()
        })
}
