//! Runs batches on connected queue pairs, and checks every byte.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use weft_net::{ConnectionOptions, Introduction, connect};
use weft_time::Duration;
use weft_verbs::{
    AccessFlags, CompletionStatus, LocalBuffer, Operation, QueuePairAttributes, QueuePairNumber,
    ReceiveRequest, Region, RegionKeys, RemoteAddress, Target, WorkRequest,
};

use crate::batch::{Batch, End, Fill, Kind, MEMORY_BYTES, Message, QUEUE_PAIRS, Shadow};
use crate::random::{Random, fill, hash};
use crate::world::{Trouble, World};

/// Maximum duration of a batch.
const LIMIT: Duration = Duration::from_secs(60);
/// Set in the identifiers of receive requests.
const RECEIVE: u64 = 1 << 32;
/// 24 bits.
const PSN_MASK: u32 = 0xff_ffff;

/// Results of the messages of a trial.
#[derive(Debug, Default, serde::Serialize)]
pub struct Outcome {
    pub messages: u64,
    /// Messages that both ends completed with success, but with a wrong byte, immediate value or length.
    pub wrong: u64,
    /// Messages without a successful completion.
    pub lost: u64,
    /// Batches that changed bytes outside of all messages' buffers.
    pub strayed: u64,
    /// Counts of wrong and lost messages, by kind, initiator and cause.
    pub causes: BTreeMap<String, u64>,
}

/// The two ends, with their memories and queue pairs.
pub struct Trial {
    world: World,
    shadow: Shadow,
    keys: RegionKeys,
    linux_address: u64,
    linux_rkey: u32,
    timeout: u8,
    /// Addresses of Weft and of the guest.
    addresses: [IpAddr; 2],
    /// For each queue pair: Weft's number and the agent's index.
    queue_pairs: Vec<(QueuePairNumber, u32)>,
}

fn number<T: std::str::FromStr>(words: &[String], index: usize) -> Result<T, Trouble> {
    let parsed = words.get(index).and_then(|word| word.parse().ok());
    parsed.ok_or_else(|| Trouble(format!("the agent answers '{}'", words.join(" "))))
}

fn refused(error: impl std::fmt::Display) -> Trouble {
    Trouble(format!("Weft's NIC: {error}"))
}

impl Trial {
    /// Registers both memories. `timeout` is the code of both ends' acknowledgement time-outs.
    pub fn new(mut world: World, timeout: u8, addresses: [IpAddr; 2]) -> Result<Self, Trouble> {
        let keys = world
            .nic
            .driver()
            .register_region(Region::host(0, MEMORY_BYTES as u64, AccessFlags::ALL))
            .map_err(refused)?;
        let words = world.command(&format!("memory {MEMORY_BYTES}"))?;
        Ok(Self {
            linux_address: number(&words, 0)?,
            linux_rkey: number(&words, 2)?,
            world,
            shadow: Shadow::new(),
            keys,
            timeout,
            addresses,
            queue_pairs: Vec::new(),
        })
    }

    /// The version of the guest's kernel.
    pub fn kernel(&mut self) -> Result<String, Trouble> {
        let words = self.world.command("hello")?;
        number(&words, 2)
    }

    /// The network, to change its faults.
    pub fn world(&mut self) -> &mut World {
        &mut self.world
    }

    /// The counters of Weft's NIC that are not zero.
    pub fn counters(&self) -> BTreeMap<&'static str, u64> {
        self.world.nic.counters().into_iter().filter(|(_, count)| *count != 0).collect()
    }

    /// Replaces all queue pairs by new ones, and fills both memories again.
    pub fn connect(&mut self, random: &mut Random) -> Result<(), Trouble> {
        for (number, index) in std::mem::take(&mut self.queue_pairs) {
            self.world.command(&format!("destroy {index}"))?;
            self.world.nic.driver().destroy_queue_pair(number).map_err(refused)?;
        }
        // Discards completions of the old queue pairs.
        self.world.command("wait 1024 0")?;
        self.world.completions(usize::MAX, Duration::from_ms(10))?;
        let [weft, linux] = self.addresses;
        for _ in 0..QUEUE_PAIRS {
            let words = self.world.command("create")?;
            let (index, qpn): (u32, u32) = (number(&words, 0)?, number(&words, 1)?);
            let ours =
                self.world.nic.driver().create_queue_pair(QueuePairAttributes::default()).map_err(refused)?;
            // Half of the PSNs start close to the maximum, so they wrap soon.
            let [weft_psn, linux_psn] = [(); 2].map(|()| match random.below(2) {
                0 => PSN_MASK - random.below(16) as u32,
                _ => random.next() as u32 & PSN_MASK,
            });
            let own = Introduction { gid: weft.into(), number: ours, psn: weft_psn, memory: None };
            let number = QueuePairNumber(qpn);
            let peer = Introduction { gid: linux.into(), number, psn: linux_psn, memory: None };
            let options = ConnectionOptions { timeout: self.timeout, ..ConnectionOptions::default() };
            connect(self.world.nic.driver(), &own, &peer, &options).map_err(refused)?;
            let ConnectionOptions { path_mtu, timeout, min_rnr_timer, rd_atomic, .. } = options;
            self.world.command(&format!(
                "connect {index} {weft} {} {weft_psn} {linux_psn} {} {timeout} {min_rnr_timer} {rd_atomic}",
                ours.0, path_mtu as u8
            ))?;
            self.queue_pairs.push((ours, index));
        }
        let fills = End::BOTH.map(|end| Fill { end, offset: 0, length: MEMORY_BYTES, seed: random.next() });
        self.fill(&fills)
    }

    fn fill(&mut self, fills: &[Fill]) -> Result<(), Trouble> {
        let mut commands = Vec::new();
        for part in fills {
            self.shadow.fill(*part);
            match part.end {
                End::Linux => commands.push(format!("fill {} {} {}", part.offset, part.length, part.seed)),
                End::Weft => {
                    let mut bytes = vec![0; part.length];
                    fill(&mut bytes, part.seed);
                    let stored =
                        self.world.nic.driver().memory().write(Target::Host, part.offset as u64, &bytes);
                    stored.map_err(|_| Trouble("Weft's memory is too small".into()))?;
                }
            }
        }
        self.world.commands(&commands)?;
        Ok(())
    }

    /// Executes a batch and checks it. After a failure, both ends get new queue pairs and memory contents.
    pub fn run(&mut self, batch: &Batch, random: &mut Random, outcome: &mut Outcome) -> Result<(), Trouble> {
        self.fill(&batch.fills)?;
        let failed = self.exchange(&batch.messages)?;
        for message in &batch.messages {
            self.shadow.apply(message);
        }
        let mut wrong = BTreeSet::new();
        let differs = !self.equal(End::Weft, 0, MEMORY_BYTES)? || !self.equal(End::Linux, 0, MEMORY_BYTES)?;
        if differs {
            for message in &batch.messages {
                let Message { from, local, remote, length, .. } = *message;
                let equal = self.equal(from, local, length)? && self.equal(from.other(), remote, length)?;
                if !equal && !failed.contains_key(&message.id) {
                    wrong.insert(message.id);
                }
            }
            outcome.strayed += u64::from(wrong.is_empty() && failed.is_empty());
        }
        outcome.messages += batch.messages.len() as u64;
        for message in &batch.messages {
            let cause = match failed.get(&message.id) {
                Some(Failure::Lost(why)) => {
                    outcome.lost += 1;
                    why.as_str()
                }
                Some(Failure::Wrong(why)) => {
                    outcome.wrong += 1;
                    why
                }
                None if wrong.contains(&message.id) => {
                    outcome.wrong += 1;
                    "wrong bytes"
                }
                None => continue,
            };
            let from = if message.from == End::Weft { "Weft" } else { "Linux" };
            *outcome.causes.entry(format!("{} by {from}: {cause}", message.kind.name())).or_default() += 1;
        }
        if differs || !failed.is_empty() {
            self.connect(random)?;
        }
        Ok(())
    }

    /// Whether a range of a memory has the expected contents.
    fn equal(&mut self, end: End, offset: usize, length: usize) -> Result<bool, Trouble> {
        let expected = &self.shadow.image(end)[offset..offset + length];
        match end {
            End::Weft => {
                Ok(self.world.nic.driver().memory().read(Target::Host, offset as u64, length) == Ok(expected))
            }
            End::Linux => {
                let expected = hash(expected);
                let words = self.world.command(&format!("hash {offset} {length}"))?;
                Ok(number::<u64>(&words, 0)? == expected)
            }
        }
    }

    /// Posts all messages and waits for all completions. Returns the failed messages.
    fn exchange(&mut self, messages: &[Message]) -> Result<BTreeMap<u64, Failure>, Trouble> {
        let mut receives = Vec::new();
        for message in messages.iter().filter(|message| message.kind.is_received()) {
            let (number, index) = self.queue_pairs[message.queue_pair];
            let id = message.id | RECEIVE;
            match message.from {
                End::Weft => {
                    receives.push(format!("receive {index} {id} {} {}", message.remote, message.length))
                }
                End::Linux => {
                    let local = self.local(message.remote, message.length);
                    self.world.post_receive(number, ReceiveRequest { id, local });
                }
            }
        }
        self.world.commands(&receives)?;
        let mut posts = Vec::new();
        for message in messages {
            let (number, index) = self.queue_pairs[message.queue_pair];
            match message.from {
                End::Weft => {
                    let request = WorkRequest::new(
                        message.id,
                        self.operation(message),
                        self.local(message.local, message.length),
                    );
                    self.world.post_send(number, request);
                }
                End::Linux => posts.push(format!(
                    "post {index} {} {} {} {} {} {} {} {}",
                    message.id,
                    message.kind.name(),
                    message.local,
                    message.length,
                    message.remote,
                    self.keys.rkey,
                    message.a,
                    message.b
                )),
            }
        }
        self.world.commands(&posts)?;

        // A message has a completion at its initiator and, if it is received, at its target.
        let at =
            |end| messages.iter().filter(|message| message.from == end || message.kind.is_received()).count();
        let limit = LIMIT.as_ps() / 1_000_000_000;
        let words = self.world.command(&format!("wait {} {limit}", at(End::Linux)))?;
        let mut told = BTreeMap::new();
        for word in &words[1..] {
            let mut parts = word.split(':').map(|part| part.parse::<u64>().unwrap_or(u64::MAX));
            let mut next = || parts.next().unwrap_or(u64::MAX);
            let (id, status, _opcode, bytes, immediate) = (next(), next(), next(), next(), next());
            told.insert(
                (End::Linux as u8, id),
                Completed { status: status as u8, bytes, immediate: Some(immediate) },
            );
        }
        for completion in self.world.completions(at(End::Weft), LIMIT)? {
            let immediate = completion.immediate.map(u64::from);
            let told_now = Completed {
                status: completion.status.number(),
                bytes: u64::from(completion.bytes),
                immediate,
            };
            told.insert((End::Weft as u8, completion.id), told_now);
        }
        Ok(messages.iter().filter_map(|message| Some((message.id, failure(message, &told)?))).collect())
    }

    fn local(&self, offset: usize, length: usize) -> LocalBuffer {
        LocalBuffer { address: offset as u64, length: length as u32, lkey: self.keys.lkey }
    }

    fn operation(&self, message: &Message) -> Operation {
        let address = self.linux_address + message.remote as u64;
        let remote = RemoteAddress { address, rkey: self.linux_rkey };
        let immediate = message.kind.has_immediate().then_some(message.a as u32);
        match message.kind {
            Kind::Write | Kind::WriteWithImmediate => Operation::Write { remote, immediate },
            Kind::Send | Kind::SendWithImmediate => Operation::Send { immediate },
            Kind::Read => Operation::Read { remote },
            Kind::FetchAdd => Operation::FetchAdd { remote, add: message.a },
            Kind::CompareSwap => Operation::CompareSwap { remote, compare: message.a, swap: message.b },
        }
    }
}

/// A completion.
struct Completed {
    status: u8,
    bytes: u64,
    immediate: Option<u64>,
}

/// The reason why a message has failed.
enum Failure {
    Lost(String),
    Wrong(&'static str),
}

fn failure(message: &Message, told: &BTreeMap<(u8, u64), Completed>) -> Option<Failure> {
    let success = CompletionStatus::Success.number();
    let status = |told: Option<&Completed>| match told {
        Some(told) if told.status == success => None,
        Some(told) => Some(Failure::Lost(format!("completion status {}", told.status))),
        None => Some(Failure::Lost("no completion".into())),
    };
    let sent = status(told.get(&(message.from as u8, message.id)));
    if sent.is_some() || !message.kind.is_received() {
        return sent;
    }
    let received = told.get(&(message.from.other() as u8, message.id | RECEIVE));
    let lost = status(received);
    let received = match received {
        Some(received) if lost.is_none() => received,
        _ => return lost,
    };
    if message.kind.has_immediate() && received.immediate != Some(message.a) {
        return Some(Failure::Wrong("wrong immediate value"));
    }
    (received.bytes != message.length as u64).then_some(Failure::Wrong("wrong length"))
}
