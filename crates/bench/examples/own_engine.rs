//! An engine of your own in one file: the protocol, a client, a check, a fault campaign, and a comparison
//! with Mu's log.
//!
//!     cargo run --release -p weft-bench --example own_engine -- own.json
//!     weft report own.json --svg figures
//!
//! The engine is a noticeboard: each client has a line on which it posts growing numbers, and reads the lines
//! of others. The lowest full member of a view is its leader. Whenever a line changes, the leader sends the
//! whole board, which is small, under the next version. It answers a call when every member has a version
//! that includes the read or the post. So any survivor has every answered post, and a lost message is
//! replaced by the next one.
//!
//! Change [`Board`] into your protocol, then [`Reader`] into its client half, [`Visits`] into the load, and
//! [`Contender::judge`] into its check.

use serde::Serialize;
use weft_bench::compare::{LogContender, Point};
use weft_check::{Action, History, Operation, Options, Outcome, Reply, Verdict};
use weft_harness::{
    Caller as Loads, Campaign, CampaignResult, Contender, ContenderCluster, Contest, Ended, Load,
    NodeFigures, OnNodes, OneEngine, UPDATE,
};
use weft_results::to_json;
use weft_session::{CallId, ClientHalf};
use weft_time::{Duration, Instant};
use weft_waist::{
    Caller, Configuration, Effects, Engine, EngineState, EngineStatus, Epoch, Event, Io, Memory, Message,
    NodeId, NodeSet, View,
};

/// Lines of the board, which is also the maximum number of clients.
const LINES: usize = 64;
/// Maximum number of calls that wait for members.
const WAITING: usize = 2 * LINES;
/// Time without an answer after which the leader sends the board again.
const RESEND: Duration = Duration::from_us(50);

// Messages, all of big-endian words of eight bytes. From the leader: epoch, version, all lines. To it: epoch, version.
const BOARD: u8 = 1;
const HAS: u8 = 2;
// Calls: client, number of the call, line; a post has the number to post, too. Answers: client, number of the call, the
// line's number; or the first two only, if another node leads.
const POST: u8 = 3;
const READ: u8 = 4;
const ANSWER: u8 = 5;
const ELSEWHERE: u8 = 6;

/// The words of a message, if it has exactly `N`.
fn words<const N: usize>(payload: &[u8]) -> Option<[u64; N]> {
    let (words, rest) = payload.as_chunks::<8>();
    let words: &[[u8; 8]; N] = words.try_into().ok()?;
    rest.is_empty().then(|| words.map(u64::from_be_bytes))
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A call that is answered when all members have this version.
struct Waiting {
    version: u64,
    to: Caller,
    answer: [u64; 3],
}

/// The engine of one node.
struct Board {
    node: Option<NodeId>,
    view: View,
    lease_until: Instant,
    /// Whether the lines are those of a full member.
    has_data: bool,
    /// Whether the member has the leader's board of this epoch.
    is_synced: bool,
    lines: [u64; LINES],
    version: u64,
    /// At the leader: the version that each member is known to have in this epoch.
    known: [u64; weft_waist::NODES_MAX],
    waiting: Vec<Waiting>,
    dropped: u64,
}

impl Board {
    fn new() -> Self {
        Self {
            node: None,
            view: View::default(),
            lease_until: Instant::ZERO,
            has_data: false,
            is_synced: false,
            lines: [0; LINES],
            version: 0,
            known: [0; weft_waist::NODES_MAX],
            waiting: Vec::new(),
            dropped: 0,
        }
    }

    fn leads(&self) -> bool {
        self.has_data && self.node.is_some() && self.view.full.nth(0) == self.node
    }

    /// The other members of the view.
    fn others(&self) -> NodeSet {
        self.node.map_or(NodeSet::EMPTY, |node| self.view.members().without(node))
    }

    /// The version that every member has. If it is not zero, all members have entered the epoch.
    fn committed(&self) -> u64 {
        self.others().iter().map(|node| self.known[node.index()]).min().unwrap_or(self.version)
    }

    /// Enters a new view. The leader's first version sends its board to all members.
    fn enter(&mut self, now: Instant, configuration: &Configuration, effects: &mut Effects) {
        for waiting in self.waiting.drain(..) {
            effects.reply(waiting.to, ELSEWHERE, &[&bytes(&waiting.answer[..2])]);
        }
        let Configuration { node, view, lease_until } = *configuration;
        (self.node, self.view, self.lease_until) = (Some(node), view, lease_until);
        // The first view founds the cluster. A joining node has no data.
        self.has_data = (self.has_data || view.epoch == Epoch(1)) && view.full.contains(node);
        (self.is_synced, self.version, self.known) = (false, 0, [0; weft_waist::NODES_MAX]);
        if self.leads() {
            self.version = 1;
            self.send(now, effects);
        }
    }

    /// Sends the board to members that lack the current version, and sets a timer that repeats this.
    fn send(&self, now: Instant, effects: &mut Effects) {
        let lacks = |node: &NodeId| self.known[node.index()] < self.version;
        let to: NodeSet = self.others().iter().filter(lacks).collect();
        if to != NodeSet::EMPTY {
            let head = bytes(&[self.view.epoch.0.into(), self.version]);
            effects.send(to, BOARD, &[&head, &bytes(&self.lines)]);
            effects.set_timer(0, now + RESEND);
        }
    }

    fn call(&mut self, now: Instant, to: Caller, message: Message<'_>, effects: &mut Effects) {
        let (client, call, line, post) = match message.kind {
            POST => words(message.payload).map(|[client, call, line, post]| (client, call, line, Some(post))),
            READ => words(message.payload).map(|[client, call, line]| (client, call, line, None)),
            _ => None,
        }
        .unwrap_or((0, 0, u64::MAX, None));
        if line >= LINES as u64 {
            self.dropped += 1;
            return;
        }
        if !self.leads() || now >= self.lease_until || self.waiting.len() == WAITING {
            return effects.reply(to, ELSEWHERE, &[&bytes(&[client, call])]);
        }
        let number = &mut self.lines[line as usize];
        // Numbers only grow, so a duplicated post takes effect once.
        if let Some(post) = post.filter(|post| *post > *number) {
            *number = post;
            self.version += 1;
        }
        let answer = [client, call, *number];
        self.waiting.push(Waiting { version: self.version, to, answer });
        self.send(now, effects);
        self.answer(now, effects);
    }

    /// Answers calls whose version all members have.
    fn answer(&mut self, now: Instant, effects: &mut Effects) {
        let (committed, has_lease) = (self.committed(), now < self.lease_until);
        self.waiting.retain(|waiting| {
            let is_due = has_lease && waiting.version <= committed;
            if is_due {
                effects.reply(waiting.to, ANSWER, &[&bytes(&waiting.answer)]);
            }
            !is_due
        });
    }

    fn deliver(&mut self, now: Instant, from: NodeId, message: Message<'_>, effects: &mut Effects) {
        let epoch = u64::from(self.view.epoch.0);
        match message.kind {
            BOARD if self.view.full.nth(0) == Some(from) => {
                let Some((head, lines)) = message.payload.split_first_chunk::<16>() else { return };
                let (Some([of, version]), Some(lines)) = (words(head), words::<LINES>(lines)) else { return };
                if of != epoch {
                    return;
                }
                if version > self.version {
                    (self.lines, self.version, self.is_synced, self.has_data) = (lines, version, true, true);
                }
                effects.send([from].into_iter().collect(), HAS, &[&bytes(&[epoch, self.version])]);
            }
            HAS if self.leads() => {
                if let Some([of, version]) = words(message.payload)
                    && of == epoch
                    && version <= self.version
                {
                    let known = &mut self.known[from.index()];
                    *known = version.max(*known);
                    self.answer(now, effects);
                }
            }
            _ => self.dropped += 1,
        }
    }
}

impl Engine for Board {
    fn handle(&mut self, now: Instant, event: Event<'_>, io: &mut Io<'_>) {
        match event {
            Event::Reset => *self = Self::new(),
            Event::Configure(configuration) if configuration.view.epoch > self.view.epoch => {
                self.enter(now, &configuration, io.effects);
            }
            Event::Configure(configuration) if configuration.view.epoch == self.view.epoch => {
                self.lease_until = self.lease_until.max(configuration.lease_until);
                self.answer(now, io.effects);
            }
            Event::Call { caller, message, .. } => self.call(now, caller, message, io.effects),
            Event::Deliver { from, message, .. } => self.deliver(now, from, message, io.effects),
            Event::Timer { .. } if self.leads() => self.send(now, io.effects),
            Event::Configure(_) | Event::Timer { .. } | Event::Done { .. } => {}
        }
    }

    fn status(&self) -> EngineStatus {
        let state = match self.node {
            Some(node) if self.view.full.contains(node) && self.has_data => EngineState::Full,
            Some(node) if self.view.full.contains(node) => EngineState::Lost,
            Some(node) if self.view.joining.contains(node) => EngineState::Joining { synced: self.is_synced },
            _ => EngineState::Starting,
        };
        EngineStatus { epoch: self.view.epoch, state }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("dropped", self.dropped)]
    }
}

/// Time without an answer after which a client sends its call to the next node.
const PATIENCE: Duration = Duration::from_us(250);
/// Pause of a client after a node has redirected its call.
const PAUSE: Duration = Duration::from_us(20);

/// A request of a client: the line, and the number to post; `None` reads the line.
type Request = (u64, Option<u64>);

/// The client half: it sends a request until a node answers it with the number on the line, or 0.
struct Reader {
    client: u64,
    nodes: usize,
    target: usize,
    /// Number of requests begun.
    number: u64,
    request: Option<Request>,
    is_due: bool,
    next: Instant,
}

impl ClientHalf for Reader {
    type Task<'a> = Request;
    type Outcome<'a> = u64;

    fn start(&mut self, now: Instant, request: Request) -> Option<CallId> {
        self.number += 1;
        self.request = Some(request);
        (self.is_due, self.next) = (true, now + PATIENCE);
        Some(CallId(self.number))
    }

    fn receive(&mut self, now: Instant, node: usize, (kind, payload): (u8, &[u8])) -> Option<(CallId, u64)> {
        if kind == ELSEWHERE {
            if words(payload) == Some([self.client, self.number])
                && self.request.is_some()
                && node == self.target
            {
                self.next = now + PAUSE;
            }
            return None;
        }
        let [client, number, value] = words(payload)?;
        if (client, number) != (self.client, self.number) {
            return None;
        }
        self.request.take()?;
        Some((CallId(number), value))
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.request.map(|_| self.next)
    }

    fn handle_deadline(&mut self, now: Instant) -> Option<(CallId, u64)> {
        if self.request.is_some() && self.next <= now {
            self.target = (self.target + 1) % self.nodes;
            (self.is_due, self.next) = (true, now + PATIENCE);
        }
        None
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)> {
        let (line, post) = self.request.filter(|_| std::mem::take(&mut self.is_due))?;
        out.extend(bytes(&[self.client, self.number, line]));
        out.extend(post.iter().flat_map(|post| post.to_be_bytes()));
        Some((self.target, if post.is_some() { POST } else { READ }))
    }
}

/// The load of one client, which posts on its line or reads all lines in turn, and what it is told.
struct Visits {
    client: u64,
    /// Number of calls begun.
    number: u64,
    /// The call under way, and its begin.
    call: Option<(Request, Instant)>,
    told: Vec<(Request, Instant, Reply)>,
}

impl Loads for Visits {
    type Half = Reader;

    fn begin(&mut self, now: Instant, kind: usize) -> Request {
        self.number += 1;
        let request = match kind {
            UPDATE => (self.client, Some(self.number)),
            _ => (self.number % LINES as u64, None),
        };
        self.call = Some((request, now));
        request
    }

    fn end(&mut self, now: Instant, value: u64) -> Ended {
        let (request, begun) = self.call.take().expect("what ends was begun");
        let outcome = match (request, value) {
            ((_, Some(version)), _) => Outcome::Written { version },
            (_, 0) => Outcome::NotFound,
            (_, version) => Outcome::Found { version, value: version },
        };
        self.told.push((request, begun, Reply { returned_ns: now.as_ns(), outcome }));
        Ended::Done
    }
}

/// The engine as a contender, with its clients and its check.
#[derive(Clone, Copy)]
struct Noticeboard;

impl Contender for Noticeboard {
    type Assembly = OneEngine<fn() -> (Board, Memory)>;
    type Caller = Visits;

    const HOLDS: &'static str = "linearizable";

    fn assembly(&self, _: usize, clients: u32) -> Self::Assembly {
        assert!(clients as usize <= LINES, "each client has a line of its own");
        OneEngine(|| (Board::new(), Memory::new(0)))
    }

    fn client(&self, number: u32, nodes: usize) -> (Reader, Visits) {
        let client = number.into();
        let (request, next) = (None, Instant::ZERO);
        let half = Reader { client, nodes, target: 0, number: 0, request, is_due: false, next };
        (half, Visits { client, number: 0, call: None, told: Vec::new() })
    }

    fn judge(&self, cluster: &ContenderCluster<Self>) -> Vec<String> {
        let mut history = History::new();
        for client in cluster.drivers().flat_map(|(_, clients)| clients.callers()) {
            let open = client.call.map(|(request, begun)| (request, begun, None));
            let ended = client.told.iter().map(|&(request, begun, reply)| (request, begun, Some(reply)));
            for ((line, post), begun, reply) in ended.chain(open) {
                let operation = Operation {
                    client: client.client as u32,
                    key: &line.to_be_bytes(),
                    invoked_ns: begun.as_ns(),
                    action: post.map_or(Action::Get, |value| Action::Put { value }),
                    reply,
                };
                history.record(operation).expect("time runs forward");
            }
        }
        let history = History::merge([history]).expect("it fits");
        let report = weft_check::check(&history, &Options::default());
        let mut wrong: Vec<_> = report.violations.iter().map(ToString::to_string).collect();
        if wrong.is_empty() && report.verdict != Verdict::Linearizable {
            wrong.push(format!("the check ended with {:?}", report.verdict));
        }
        wrong
    }
}

/// A campaign with all kinds of faults, one run per seed.
fn campaign(seeds: std::ops::RangeInclusive<u64>) -> CampaignResult<NodeFigures> {
    let replay = |seed| format!("seed {seed}");
    Campaign::new(3, seeds).run(&OnNodes::new(&Noticeboard), replay, |_| {}).expect("random plans fit")
}

/// Measurements of both engines at these numbers of clients, under the same conditions.
fn curves(clients: &[u32], length: Duration) -> Vec<Point> {
    let contest = Contest { warm_up: Duration::from_us(200), ..Contest::new(3, length, 7) };
    let mut points = Vec::new();
    for &clients in clients {
        let load = Load { clients, updates: 100 };
        let own = contest.run(&Noticeboard, load).expect("no faults fit any cluster");
        let mu = contest.run(&LogContender { value_bytes: 8 }, load).expect("no faults fit any cluster");
        for (name, standing) in [("noticeboard", own), ("mu", mu)] {
            assert_eq!(standing.violations, [] as [&str; 0], "{name}");
            points.push(Point::new(name, &standing));
        }
    }
    points
}

/// The result file, which `weft report` draws.
#[derive(Serialize)]
struct Results {
    format: &'static str,
    kind: &'static str,
    machine: Machine,
    replay: &'static str,
    checked: &'static str,
    violated: bool,
    points: Vec<Point>,
}

#[derive(Serialize)]
struct Machine {
    kind: &'static str,
    network: &'static str,
    profile: &'static str,
}

fn main() -> std::io::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (seed, file) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => (None, None),
        ["--seed", seed] if seed.parse::<u64>().is_ok() => (seed.parse().ok(), None),
        [file] if !file.starts_with('-') => (None, Some(file)),
        _ => {
            eprintln!("usage: own_engine [FILE.json | --seed N]");
            std::process::exit(2);
        }
    };
    let found = campaign(seed.map_or(1..=20, |seed| seed..=seed));
    for violation in &found.findings.violations {
        println!("seed {}: {}", violation.seed, violation.what);
    }
    // A run that an assertion of the engine ends counts nothing.
    let crashes = found.faults.get("crash").copied().unwrap_or(0);
    let operations = found.figures.counts.get("operations").copied().unwrap_or(0);
    println!("{} runs, {crashes} crashes, {operations} operations: {}", found.seeds_run, found.checked);
    if seed.is_some() {
        return Ok(());
    }
    let points = curves(&[1, 2, 4, 8, 16, 32, 64], Duration::from_ms(2));
    for Point { engine, clients, throughput_ops_per_s, p50_ns, p99_ns, .. } in &points {
        println!(
            "{engine:>12} {clients:>4} clients  {throughput_ops_per_s:>12.0} ops/s  p50 {p50_ns} ns  p99 {p99_ns} ns"
        );
    }
    let results = Results {
        format: "weft-bench-compare-1",
        kind: "bench compare",
        machine: Machine { kind: "simulated", network: "switch", profile: "fpga" },
        replay: "cargo run --release -p weft-bench --example own_engine -- own.json",
        checked: found.checked,
        violated: found.findings.violations_found > 0,
        points,
    };
    // Write the result file for `weft report`, if the command line names one.
    file.map_or(Ok(()), |file| std::fs::write(file, to_json(&results)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_board_is_linearizable_whatever_fails() {
        let found = campaign(1..=3);
        assert_eq!(found.findings.violations, []);
        assert!(found.faults["crash"] > 0 && found.figures.counts["operations"] > 1_000, "{found:?}");
    }

    #[test]
    fn both_engines_have_a_curve() {
        let points = curves(&[1, 8], Duration::from_us(500));
        assert!(points.iter().all(|point| point.operations > 50), "{points:?}");
    }
}
