//! PSP in a simulated cluster: the distribution of keys, the keys of each machine, and an observer of sealed
//! frames.
//!
//! The membership service distributes keys, one for each direction between two machines in their current
//! incarnations. A node gets the keys of a view with the grant that announces the view; clients get those of
//! the newest view at once. The transport of keys is not modelled: no frame carries them.
//!
//! Keys have generations, which advance with the service's clock. A machine accepts the previous, the current and the
//! next generation and sends with the current one, so the clocks of two machines may be one generation apart.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::AddAssign;
use std::rc::Rc;

use serde::Serialize;
use weft_service::Seal;
use weft_service::psp::{
    ASSOCIATIONS, Change, Cipher, Key, Nonces, Psp, PspConfig, PspHeader, TAG_BYTES, UDP_PORT,
};
use weft_sim::{Direction, Machine, MachineId, Stream, Tap};
use weft_time::{Duration, Instant};
use weft_waist::{Epoch, NODES_MAX, NodeId, View};
use weft_wire::frame::Frame;
use weft_wire::{datagram, roce};

use crate::{ClusterHost, Planted, add_counts};

/// SPI slots for each sender. Three generations of keys are valid at a time.
const PLACES: usize = 4;

/// Largest number of nodes and machines of clients whose keys the table of a card in gates has room for.
pub const MACHINES_IN_GATES: usize = ASSOCIATIONS / PLACES;

/// A machine, as an index into [`Keys::stations`], and its incarnation.
type Life = (usize, u64);

/// Clients do not crash.
const CLIENTS_LIFE: u64 = 1;

/// A direction of traffic between two machines, in one generation of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Association {
    from: Life,
    to: Life,
    generation: u64,
}

/// The key distribution of the membership service.
pub struct Keys {
    random: Stream,
    rotation: Duration,
    /// Nodes, then clients.
    stations: Vec<ClusterHost>,
    generation: u64,
    /// The incarnations of the members of each view.
    lives: BTreeMap<Epoch, [Option<u64>; NODES_MAX]>,
    keys: BTreeMap<Association, Key>,
    /// All keys by sender, receiver and SPI, numbered for observers.
    by_spi: BTreeMap<(usize, usize, u32), Vec<(u64, Key)>>,
    planted: Planted,
}

/// The keys, which the service, machines and observers share.
pub type SharedKeys = Rc<RefCell<Keys>>;

impl Keys {
    /// Keys for these machines, without the membership service, with a new generation after each `rotation`.
    pub fn shared(
        seed: u64,
        stations: impl IntoIterator<Item = ClusterHost>,
        rotation: Duration,
        planted: Planted,
    ) -> SharedKeys {
        let stations = stations.into_iter().filter(|station| *station != ClusterHost::Membership).collect();
        Rc::new(RefCell::new(Self {
            random: Stream::new(seed, "psp keys", 0),
            rotation,
            stations,
            generation: 1,
            lives: BTreeMap::new(),
            keys: BTreeMap::new(),
            by_spi: BTreeMap::new(),
            planted,
        }))
    }

    /// The PSP parameters of every card of this cluster.
    pub fn config(&self) -> PspConfig {
        let associations = (PLACES * self.stations.len()).next_power_of_two();
        PspConfig { associations, ..PspConfig::default() }
    }

    /// Number of keys that were distributed.
    pub fn handed_out(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Called when the service has published this view, whose members have these incarnations, or when its
    /// clock has advanced.
    pub(crate) fn publish(&mut self, now: Instant, view: View, life: impl Fn(NodeId) -> Option<u64>) {
        let passed = now.as_ps() / self.rotation.as_ps();
        self.generation = self.generation.max(1 + passed);
        let lives = std::array::from_fn(|node| {
            let node = NodeId::new(node).expect("a cluster has at most 16 nodes");
            view.members().contains(node).then(|| life(node)).flatten()
        });
        self.lives.entry(view.epoch).or_insert(lives);
    }

    /// The incarnation of a machine in a view; `None` if the machine is not a member.
    fn life(&self, epoch: Epoch, machine: usize) -> Option<u64> {
        match self.stations[machine] {
            ClusterHost::Node(node) => self.lives.get(&epoch)?[node.index()],
            ClusterHost::Clients(_) => Some(CLIENTS_LIFE),
            ClusterHost::Membership | ClusterHost::Keeper(_) | ClusterHost::Coordinator(_) => None,
        }
    }

    /// The SPI of an association. Its low bits are the index in the receiver's table.
    fn spi(&self, association: &Association) -> u32 {
        let (turn, place) = (association.generation / PLACES as u64, association.generation % PLACES as u64);
        let places = self.config().associations as u64;
        ((1 + turn) * places + (association.from.0 * PLACES) as u64 + place) as u32
    }

    fn key(&mut self, association: Association) -> (u32, Key) {
        let association = self.planted.association(association);
        let spi = self.spi(&association);
        if let Some(key) = self.keys.get(&association) {
            return (spi, *key);
        }
        let mut bytes = [0; 32];
        bytes.chunks_mut(8).for_each(|word| word.copy_from_slice(&self.random.next_u64().to_le_bytes()));
        let (number, key) = (self.handed_out(), Key::Aes256(bytes));
        self.keys.insert(association, key);
        let (from, to) = (association.from.0, association.to.0);
        self.by_spi.entry((from, to, spi)).or_default().push((number, key));
        (spi, key)
    }

    fn machine_at(&self, address: Ipv4Addr) -> Option<usize> {
        self.stations.iter().position(|station| station.address() == address)
    }
}

impl Planted {
    /// The association whose key is used for `association`: the same one, except with a planted bug.
    fn association(self, association: Association) -> Association {
        #[cfg(feature = "planted-bugs")]
        if self.bug == Some(crate::NodeBug::KeysOfFormerLife) {
            let first = |(machine, _)| (machine, 1);
            return Association { from: first(association.from), to: first(association.to), ..association };
        }
        association
    }
}

/// The current associations of a machine with one peer, in both directions.
#[derive(Clone, Copy, Debug)]
struct Held {
    own: u64,
    peer: u64,
    generation: u64,
    /// Whether the association is installed. A removed association is never installed again, because its
    /// nonce counter and replay window would restart from 0.
    installed: bool,
}

/// The keys of one machine, which its host installs in its card.
pub struct KeyHolder {
    keys: SharedKeys,
    machine: usize,
    held: BTreeMap<usize, Held>,
}

impl KeyHolder {
    /// The holder of the machine at `station`, without keys yet.
    ///
    /// # Panics
    /// If the machine gets no keys.
    pub fn new(keys: &SharedKeys, station: ClusterHost) -> Self {
        let machine = keys.borrow().stations.iter().position(|known| *known == station);
        let machine = machine.expect("keys are for all machines");
        Self { keys: Rc::clone(keys), machine, held: BTreeMap::new() }
    }

    /// The PSP parameters of the card.
    pub fn config(&self) -> PspConfig {
        self.keys.borrow().config()
    }

    /// The PSP of a card in software.
    pub fn psp(&self) -> Psp {
        Psp::new(self.config())
    }

    /// Called when the machine is a member of this view with the incarnation `own`. Calls `submit` with each
    /// change to the machine's card.
    pub(crate) fn update(&mut self, own: u64, epoch: Epoch, mut submit: impl FnMut(Change)) {
        let mut keys = self.keys.borrow_mut();
        let generation = keys.generation;
        for machine in (0..keys.stations.len()).filter(|machine| *machine != self.machine) {
            let peer = keys.stations[machine].address();
            let former = self.held.get(&machine).copied();
            let Some(life) = keys.life(epoch, machine) else {
                if let Some(held) = self.held.get_mut(&machine).filter(|held| held.installed) {
                    held.installed = false;
                    submit(Change::RemovePeer { peer });
                }
                continue;
            };
            let (mine, theirs) = ((self.machine, own), (machine, life));
            let inward = |generation| Association { from: theirs, to: mine, generation };
            let former = former.filter(|held| (held.own, held.peer) == (own, life));
            match former {
                Some(held) if !held.installed || held.generation == generation => continue,
                Some(held) => {
                    let (old, new) = (window(held.generation), window(generation));
                    for gone in old.clone().filter(|old| !new.contains(old)) {
                        submit(Change::RemoveReceiver { spi: keys.spi(&inward(gone)) });
                    }
                    for next in new.filter(|new| !old.contains(new)) {
                        let (spi, key) = keys.key(inward(next));
                        submit(Change::InstallReceiver { peer, spi, key });
                    }
                }
                None => {
                    submit(Change::RemovePeer { peer });
                    for next in window(generation) {
                        let (spi, key) = keys.key(inward(next));
                        submit(Change::InstallReceiver { peer, spi, key });
                    }
                }
            }
            let (spi, key) = keys.key(Association { from: mine, to: theirs, generation });
            submit(Change::InstallSender { peer, spi, key });
            self.held.insert(machine, Held { own, peer: life, generation, installed: true });
        }
    }

    /// Like [`KeyHolder::update`], for clients, which have the keys of the newest view.
    fn update_clients(&mut self, submit: impl FnMut(Change)) {
        let newest = self.keys.borrow().lives.keys().next_back().copied();
        if let Some(epoch) = newest {
            self.update(CLIENTS_LIFE, epoch, submit);
        }
    }
}

/// The generations of keys that are valid when `generation` is the current one.
fn window(generation: u64) -> std::ops::RangeInclusive<u64> {
    generation - 1..=generation + 1
}

/// A machine of clients, whose frames are sealed if its cluster has keys.
pub struct SealedClients<C> {
    /// The machine.
    pub machine: C,
    psp: Option<(Psp, KeyHolder)>,
    opened: Vec<u8>,
}

impl<C> SealedClients<C> {
    pub(crate) fn new(machine: C, keys: Option<KeyHolder>) -> Self {
        let psp = keys.map(|holder| (holder.psp(), holder));
        Self { machine, psp, opened: Vec::new() }
    }

    fn update(&mut self) {
        if let Some((psp, holder)) = &mut self.psp {
            holder.update_clients(|change| psp.change(&change).expect("there is room for all machines"));
        }
    }
}

impl<C: Machine> Machine for SealedClients<C> {
    fn receive(&mut self, now: Instant, frame: &[u8]) {
        self.update();
        let Some((psp, _)) = &mut self.psp else { return self.machine.receive(now, frame) };
        self.opened.clear();
        self.opened.extend_from_slice(frame);
        if psp.open(&mut self.opened).is_ok() {
            self.machine.receive(now, &self.opened);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.machine.next_deadline()
    }

    fn wake(&mut self, now: Instant) {
        self.update();
        self.machine.wake(now);
    }

    fn poll_frame(&mut self, frame: &mut Vec<u8>) -> Option<Instant> {
        loop {
            let at = self.machine.poll_frame(frame)?;
            if self.psp.as_mut().is_none_or(|(psp, _)| psp.seal(frame).is_ok()) {
                return Some(at);
            }
            frame.clear();
        }
    }
}

/// Counts of sealed frames in the runs of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sealed {
    /// Sealed frames that machines have sent; an observer has opened each with the expected key.
    pub frames: u64,
    /// Keys that were distributed.
    pub keys: u64,
    /// Frames sealed, opened and refused, by cause, on the cards of nodes that run at the end.
    pub counters: BTreeMap<String, u64>,
}

impl Sealed {
    /// The counts of a run; `counters` are those of its nodes, by name.
    pub(crate) fn of(watch: &Watch, counters: impl IntoIterator<Item = (String, u64)>) -> Self {
        let counters = counters.into_iter().filter(|(name, _)| name.contains("psp_")).collect();
        Self { frames: watch.nonces.frames(), keys: watch.keys.borrow().handed_out(), counters }
    }
}

impl AddAssign for Sealed {
    fn add_assign(&mut self, Self { frames, keys, counters }: Self) {
        self.frames += frames;
        self.keys += keys;
        add_counts(&mut self.counters, counters);
    }
}

/// Checks every sent frame: a frame that must be sealed is sealed with a key that was distributed for it, and
/// no nonce is used twice with a key. The check decrypts each frame itself, because the frame does not
/// identify the key.
pub struct Watch {
    keys: SharedKeys,
    ciphers: BTreeMap<u64, Cipher>,
    nonces: Nonces,
    opened: Vec<u8>,
    wrong: Option<String>,
}

impl Watch {
    /// The observer of a cluster with these keys, to be added to the world as a tap.
    pub fn new(keys: &SharedKeys) -> Self {
        Self {
            keys: Rc::clone(keys),
            ciphers: BTreeMap::new(),
            nonces: Nonces::default(),
            opened: Vec::new(),
            wrong: None,
        }
    }

    /// The first violation, if any.
    pub fn wrong(&self) -> Option<String> {
        self.wrong.clone()
    }

    fn look(&mut self, at: Instant, frame: &[u8]) -> Result<(), String> {
        let Ok(Frame::Udp { ipv4, udp, payload, .. }) = Frame::parse(frame) else { return Ok(()) };
        let between = format!("at {at} a frame from {} to {}", ipv4.source, ipv4.destination);
        let is_plain = udp.destination_port == roce::UDP_PORT
            || [udp.source_port, udp.destination_port].contains(&datagram::UDP_PORT);
        if udp.destination_port != UDP_PORT {
            return if is_plain { Err(format!("{between} leaves in plaintext")) } else { Ok(()) };
        }
        let keys = self.keys.borrow();
        let machines = keys.machine_at(ipv4.source).zip(keys.machine_at(ipv4.destination));
        let (head, rest) = payload.split_first_chunk().ok_or("a sealed frame is cut short")?;
        let header = PspHeader::parse(head).ok_or_else(|| format!("{between} has no PSP header"))?;
        let (text, tag) = rest.split_last_chunk::<TAG_BYTES>().ok_or("a sealed frame is cut short")?;
        let candidates = machines.and_then(|(from, to)| keys.by_spi.get(&(from, to, header.spi)));
        // The newest key is the most likely one.
        for (number, key) in candidates.into_iter().flatten().rev() {
            let cipher = self.ciphers.entry(*number).or_insert_with(|| Cipher::new(key));
            self.opened.clear();
            self.opened.extend_from_slice(text);
            if cipher.open(&header.nonce(), head, &mut self.opened, tag) {
                let observed = self.nonces.observe(*number, header.spi, header.counter);
                return observed.map_err(|repeated| format!("{between}: {repeated}"));
            }
        }
        Err(format!("{between} is sealed with a key that was not handed out"))
    }
}

impl Tap for Watch {
    fn frame(&mut self, at: Instant, _: MachineId, direction: Direction, frame: &[u8]) {
        if direction == Direction::Out
            && let Err(wrong) = self.look(at, frame)
        {
            self.wrong.get_or_insert(wrong);
        }
    }
}
