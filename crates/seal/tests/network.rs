//! A network with loss, duplication, reordering and restarts, and an adversary on it who has seen every datagram.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
#[cfg(feature = "planted-bugs")]
use weft_seal::PlantedBug;
use weft_seal::{
    BEFORE_BYTES, ClusterKey, Direction, Endpoint, Handshake, KeySchedule, Kind, Nonce, Opened, Parameters,
    SEAL_BYTES,
};
use weft_service::psp::{Cipher, Key, Nonces, PspHeader};
use weft_time::{Duration, Instant};

pub const CLUSTER: &str = "test";

/// Three nodes and a client, whose socket is bound to all addresses.
pub const ADDRESSES: [&str; 4] = ["10.0.0.1:4793", "10.0.0.2:4793", "10.0.0.3:4793", "10.0.0.9:50000"];
const CLIENT: usize = 3;

/// The adversary remembers as many datagrams.
const ARCHIVE_MAX: usize = 4_000;

#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub parameters: Parameters,
    /// Of 100 datagrams, how many are lost, and how many come twice.
    pub lost: u64,
    pub doubled: u64,
    /// Of 1,000 steps, how many begin with the restart of a machine.
    pub restarts: u64,
    /// Of 100 steps, in how many the adversary sends something.
    pub attacks: u64,
    #[cfg(feature = "planted-bugs")]
    pub planted: Option<PlantedBug>,
}

impl Default for Setting {
    /// A network without faults, and nobody on it.
    fn default() -> Self {
        Self {
            parameters: Parameters::default(),
            lost: 0,
            doubled: 0,
            restarts: 0,
            attacks: 0,
            #[cfg(feature = "planted-bugs")]
            planted: None,
        }
    }
}

struct Sent {
    from: usize,
    to: usize,
    payload: Vec<u8>,
    arrived: bool,
}

struct Flight {
    at: Instant,
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// Opens every frame that leaves a machine, with keys derived from the handshakes, and records its nonce.
struct Observer {
    schedule: KeySchedule,
    hellos: BTreeMap<Nonce, Vec<u32>>,
    keys: Vec<Key>,
    by_spi: BTreeMap<u32, Vec<usize>>,
    nonces: Nonces,
}

impl Observer {
    fn learn(&mut self, spi: u32, key: Key) {
        let number = self.keys.iter().position(|known| *known == key).unwrap_or_else(|| {
            self.keys.push(key);
            self.keys.len() - 1
        });
        let numbers = self.by_spi.entry(spi).or_default();
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }

    fn observe(&mut self, bytes: &[u8]) -> Result<(), String> {
        if let Ok(handshake) = Handshake::decode(bytes, &self.schedule) {
            match handshake.kind {
                Kind::Hello => {
                    self.hellos.entry(handshake.initiator).or_default().push(handshake.spi);
                }
                Kind::Stranger => {}
                Kind::Welcome { responder } => {
                    let nonces = (&handshake.initiator, &responder);
                    let key = |direction| self.schedule.association(nonces.0, nonces.1, direction);
                    let (to, from) = (key(Direction::FromInitiator), key(Direction::FromResponder));
                    self.learn(handshake.spi, to);
                    for spi in self.hellos[&handshake.initiator].clone() {
                        self.learn(spi, from);
                    }
                }
            }
            return Ok(());
        }
        let header = bytes[..PspHeader::BYTES].try_into().expect("16 bytes");
        let header = PspHeader::parse(header).ok_or("a datagram that is neither frame nor handshake")?;
        let (text, tag) = bytes[PspHeader::BYTES..].split_at(bytes.len() - PspHeader::BYTES - 16);
        let opens = |number: &usize| {
            let (mut text, tag) = (text.to_vec(), tag.try_into().expect("16 bytes"));
            Cipher::new(&self.keys[*number]).open(&header.nonce(), &header.to_bytes(), &mut text, tag)
        };
        let numbers = self.by_spi.get(&header.spi).map_or(&[][..], |numbers| numbers);
        let number = numbers.iter().copied().find(opens).ok_or("a frame under a key of no handshake")?;
        self.nonces.observe(number as u64, header.spi, header.counter).map_err(|error| error.to_string())
    }
}

pub struct Network {
    pub now: Instant,
    pub random: Xoshiro256PlusPlus,
    setting: Setting,
    pub endpoints: Vec<Endpoint>,
    flights: Vec<Flight>,
    archive: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
    sent: Vec<Sent>,
    observer: Observer,
}

pub fn address(machine: usize) -> SocketAddr {
    ADDRESSES[machine].parse().expect("an address")
}

fn key() -> ClusterKey {
    ClusterKey::new([7; 32])
}

impl Network {
    pub fn new(seed: u64, setting: Setting) -> Self {
        let observer = Observer {
            schedule: KeySchedule::new(&key(), CLUSTER),
            hellos: BTreeMap::new(),
            keys: Vec::new(),
            by_spi: BTreeMap::new(),
            nonces: Nonces::default(),
        };
        let mut network = Self {
            now: Instant::ZERO,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            setting,
            endpoints: Vec::new(),
            flights: Vec::new(),
            archive: Vec::new(),
            sent: Vec::new(),
            observer,
        };
        for machine in 0..ADDRESSES.len() {
            let endpoint = network.start(machine);
            network.endpoints.push(endpoint);
        }
        network
    }

    fn start(&mut self, machine: usize) -> Endpoint {
        let everywhere = SocketAddr::from(([0, 0, 0, 0], address(machine).port()));
        let local = if machine == CLIENT { everywhere } else { address(machine) };
        let random = &mut |bytes: &mut [u8]| self.random.fill_bytes(bytes);
        let endpoint = Endpoint::new(&key(), CLUSTER, local, self.setting.parameters, random);
        #[cfg(feature = "planted-bugs")]
        if let Some(bug) = self.setting.planted {
            return endpoint.with_planted_bug(bug);
        }
        endpoint
    }

    pub fn restart(&mut self, machine: usize) {
        self.endpoints[machine] = self.start(machine);
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.random.next_u64() % end
    }

    fn chance(&mut self, of: u64, all: u64) -> bool {
        self.below(all) < of
    }

    /// A program sends a datagram.
    pub fn send(&mut self, from: usize, to: usize) -> Result<usize, String> {
        let id = self.sent.len();
        let mut payload = (id as u64).to_be_bytes().to_vec();
        payload.resize(8 + self.below(200) as usize, from as u8);
        self.sent.push(Sent { from, to, payload: payload.clone(), arrived: false });
        let mut frame = vec![0; payload.len() + SEAL_BYTES];
        frame[BEFORE_BYTES..BEFORE_BYTES + payload.len()].copy_from_slice(&payload);
        let random = &mut |bytes: &mut [u8]| self.random.fill_bytes(bytes);
        let endpoint = &mut self.endpoints[from];
        if endpoint.seal(self.now, address(to), &mut frame, random) {
            self.transmit(from, address(to), frame)?;
        } else {
            endpoint.hold(self.now, address(to), payload, random);
        }
        self.drain(from)?;
        Ok(id)
    }

    fn drain(&mut self, machine: usize) -> Result<(), String> {
        while let Some((to, bytes)) = self.endpoints[machine].poll_transmit() {
            self.transmit(machine, to, bytes)?;
        }
        Ok(())
    }

    fn transmit(&mut self, from: usize, to: SocketAddr, bytes: Vec<u8>) -> Result<(), String> {
        self.observer.observe(&bytes)?;
        let from = address(from);
        self.remember(from, to, &bytes);
        if self.chance(self.setting.lost, 100) {
            return Ok(());
        }
        if self.chance(self.setting.doubled, 100) {
            self.fly(from, to, bytes.clone());
        }
        self.fly(from, to, bytes);
        Ok(())
    }

    fn remember(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        let entry = (from, to, bytes.to_vec());
        if self.archive.len() < ARCHIVE_MAX {
            self.archive.push(entry);
        } else {
            let place = self.below(ARCHIVE_MAX as u64) as usize;
            self.archive[place] = entry;
        }
    }

    fn fly(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        let at = self.now + Duration::from_us(50 + self.below(250));
        self.flights.push(Flight { at, from, to, bytes });
    }

    /// The adversary sends something.
    fn attack(&mut self) {
        if self.archive.is_empty() {
            return;
        }
        let any = |network: &mut Self| {
            let place = network.below(network.archive.len() as u64) as usize;
            network.archive[place].clone()
        };
        let machine = address(self.below(ADDRESSES.len() as u64) as usize);
        let (mut from, mut to, mut bytes) = any(self);
        match self.below(10) {
            0 => {}
            1 => from = machine,
            2 => to = machine,
            3 => (from, to) = (to, from),
            4 => {
                let bit = self.below(bytes.len() as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            5 => bytes.truncate(self.below(bytes.len() as u64) as usize),
            6 => {
                let (_, _, other) = any(self);
                let at = self.below(bytes.len().min(other.len()) as u64) as usize;
                bytes.truncate(at);
                bytes.extend_from_slice(&other[at..]);
            }
            7 => {
                // A counter far ahead, in a frame that would be new.
                let ahead = self.random.next_u64() >> self.below(64);
                bytes[8..16].copy_from_slice(&ahead.to_be_bytes());
            }
            8 => {
                let spi = self.random.next_u64() as u32;
                let header = PspHeader { version: 1, spi, counter: 0 };
                bytes.resize(bytes.len().max(SEAL_BYTES), 0);
                bytes[..PspHeader::BYTES].copy_from_slice(&header.to_bytes());
            }
            _ => bytes = (self.sent.len() as u64).to_be_bytes().to_vec(),
        }
        self.fly(from, to, bytes);
    }

    /// Lets time pass, and what is due arrive.
    pub fn run_until(&mut self, end: Instant) -> Result<(), String> {
        loop {
            let due = self.flights.iter().enumerate().filter(|(_, flight)| flight.at <= end);
            let Some((place, _)) = due.min_by_key(|(_, flight)| flight.at) else { break };
            let flight = self.flights.swap_remove(place);
            self.now = flight.at;
            if let Some(machine) = (0..ADDRESSES.len()).find(|machine| address(*machine) == flight.to) {
                self.arrive(machine, flight)?;
            }
        }
        self.now = end;
        Ok(())
    }

    fn arrive(&mut self, machine: usize, mut flight: Flight) -> Result<(), String> {
        let random = &mut |bytes: &mut [u8]| self.random.fill_bytes(bytes);
        let opened = self.endpoints[machine].open(self.now, flight.from, &mut flight.bytes, random);
        if let Opened::Payload(payload) = opened {
            let id = payload.get(..8).map(|id| u64::from_be_bytes(id.try_into().expect("8 bytes")) as usize);
            let sent = id.and_then(|id| self.sent.get_mut(id)).ok_or("a payload that nobody has sent")?;
            if sent.payload != payload || sent.to != machine || address(sent.from) != flight.from {
                return Err("a payload that its sender has not sent here".to_owned());
            }
            if std::mem::replace(&mut sent.arrived, true) {
                return Err("a payload that has arrived before".to_owned());
            }
        }
        self.drain(machine)
    }

    pub fn pass(&mut self, time: Duration) -> Result<(), String> {
        self.run_until(self.now + time)
    }

    pub fn has_arrived(&self, id: usize) -> bool {
        self.sent[id].arrived
    }

    /// Number of payloads that were sent, and that have arrived.
    pub fn counts(&self) -> (usize, usize) {
        (self.sent.len(), self.sent.iter().filter(|sent| sent.arrived).count())
    }

    /// Number of frames and of keys that were used.
    pub fn observed(&self) -> (u64, usize) {
        (self.observer.nonces.frames(), self.observer.keys.len())
    }

    /// Every machine sends to every machine, nodes also to themselves; returns the numbers of the payloads.
    pub fn all_send(&mut self) -> Result<Vec<usize>, String> {
        let machines = 0..ADDRESSES.len();
        let pairs = machines.clone().flat_map(|from| machines.clone().map(move |to| (from, to)));
        pairs
            .filter(|(from, to)| *from != CLIENT || to != from)
            .map(|(from, to)| self.send(from, to))
            .collect()
    }

    /// Random traffic under faults and attacks.
    pub fn trouble(&mut self, steps: usize) -> Result<(), String> {
        for _ in 0..steps {
            if self.chance(self.setting.restarts, 1_000) {
                let machine = self.below(ADDRESSES.len() as u64) as usize;
                self.restart(machine);
            }
            let from = self.below(4) as usize;
            let others = if from == CLIENT { 3 } else { 4 };
            let other = self.below(others) as usize;
            self.send(from, (from + 1 + other) % ADDRESSES.len())?;
            if self.chance(self.setting.attacks, 100) {
                self.attack();
            }
            let step = Duration::from_us(self.below(200));
            self.pass(step)?;
        }
        Ok(())
    }

    /// The network loses nothing from here on, and everybody reaches everybody again.
    pub fn recover(&mut self) -> Result<(), String> {
        (self.setting.lost, self.setting.doubled) = (0, 0);
        for _ in 0..5 {
            self.all_send()?;
            self.pass(Duration::from_ms(20))?;
        }
        let last = self.all_send()?;
        self.pass(Duration::from_ms(20))?;
        match last.iter().find(|id| !self.sent[**id].arrived) {
            Some(id) => {
                let Sent { from, to, .. } = &self.sent[*id];
                Err(format!("machine {to} does not hear {from} any more"))
            }
            None => Ok(()),
        }
    }
}
