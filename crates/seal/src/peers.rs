//! The peers of an endpoint and their associations.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weft_time::{Duration, Instant};

use crate::association::Association;
use crate::key::Nonce;

/// Number of places for associations that a peer has.
pub(crate) const PLACES: usize = 16;
/// The most associations of a peer that no frame has confirmed yet.
const UNCONFIRMED_MAX: usize = 6;
/// The most confirmed ones.
const CONFIRMED_MAX: usize = 6;

const _: () = assert!(UNCONFIRMED_MAX + CONFIRMED_MAX < PLACES, "and one for the hello that was sent");

/// A hello that was sent and has no welcome yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub nonce: Nonce,
    pub spi: u32,
    pub since: Instant,
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub address: SocketAddr,
    pub asked: Option<Asked>,
    /// When the next datagram may be sent that is no answer and carries nothing.
    pub next_handshake: Instant,
    pub associations: [Option<Box<Association>>; PLACES],
    /// The place of the association under which datagrams are sent.
    pub sending: Option<usize>,
    /// Whether it has ever had a confirmed association.
    pub confirmed: bool,
    /// When it was entered or, once it is confirmed, heard the last time.
    pub heard: Instant,
}

impl Peer {
    fn new(address: SocketAddr, now: Instant) -> Self {
        Self {
            address,
            asked: None,
            next_handshake: now,
            associations: Default::default(),
            sending: None,
            confirmed: false,
            heard: now,
        }
    }

    /// A place for one more association.
    pub fn free_place(&self) -> usize {
        let asked = self.asked.map(|asked| place_of(asked.spi));
        let mut places = 0..PLACES;
        let free = places.find(|place| self.associations[*place].is_none() && asked != Some(*place));
        free.expect("associations are dropped before others come")
    }

    /// Drops the oldest associations so that one more fits, confirmed or not.
    pub fn make_room(&mut self, confirmed: bool) {
        let most = if confirmed { CONFIRMED_MAX } else { UNCONFIRMED_MAX };
        loop {
            let places = (0..PLACES).filter_map(|place| Some((place, self.associations[place].as_ref()?)));
            let places = places.filter(|(_, association)| association.confirmed == confirmed);
            let places: Vec<_> = places.map(|(place, association)| (association.born, place)).collect();
            if places.len() < most {
                return;
            }
            let oldest = places.into_iter().filter(|(_, place)| self.sending != Some(*place)).min();
            let (_, place) = oldest.expect("only one is used for sending");
            self.associations[place] = None;
        }
    }

    /// Sends under the newest confirmed association that is younger than `life`, from now on.
    pub fn fall_back(&mut self, now: Instant, life: Duration) {
        let places = (0..PLACES).filter_map(|place| Some((place, self.associations[place].as_ref()?)));
        let usable = places.filter(|(_, it)| it.confirmed && now.saturating_since(it.born) < life);
        self.sending = usable.max_by_key(|(_, it)| it.born).map(|(place, _)| place);
    }
}

/// A SPI: random bits, the number of the peer, and the association's place at it.
pub(crate) const fn spi(random: u32, peer: usize, place: usize) -> u32 {
    random << 20 | (peer as u32) << 4 | place as u32
}

/// The peer's number in a SPI.
pub(crate) const fn peer_of(spi: u32) -> usize {
    (spi >> 4 & 0xffff) as usize
}

/// The association's place in a SPI.
pub(crate) const fn place_of(spi: u32) -> usize {
    (spi & 0xf) as usize
}

/// The table of peers. Those without a confirmed association have places of their own, so they displace only each
/// other.
#[derive(Debug)]
pub(crate) struct Peers {
    peers: Vec<Option<Box<Peer>>>,
    free: Vec<usize>,
    numbers: BTreeMap<SocketAddr, usize>,
    confirmed: usize,
    confirmed_max: usize,
    unconfirmed_max: usize,
}

impl Peers {
    pub fn new(confirmed_max: usize, unconfirmed_max: usize) -> Self {
        // While one becomes confirmed, it counts as either.
        assert!((1..=1 << 15).contains(&confirmed_max), "a SPI has 16 bits for the peer's number");
        assert!((1..=1 << 14).contains(&unconfirmed_max), "a SPI has 16 bits for the peer's number");
        Self {
            peers: Vec::new(),
            free: Vec::new(),
            numbers: BTreeMap::new(),
            confirmed: 0,
            confirmed_max,
            unconfirmed_max,
        }
    }

    /// The number of the peer at an address.
    pub fn find(&self, address: SocketAddr) -> Option<usize> {
        self.numbers.get(&address).copied()
    }

    pub fn get(&mut self, number: usize) -> Option<&mut Peer> {
        self.peers.get_mut(number)?.as_deref_mut()
    }

    /// The peer with a number that [`Peers::find`] or [`Peers::enter`] has returned.
    pub fn known(&mut self, number: usize) -> &mut Peer {
        self.get(number).expect("a number of the table")
    }

    /// Enters the peer at an address if it is not there. Returns its number, and whether another had to go.
    pub fn enter(&mut self, address: SocketAddr, now: Instant) -> (usize, bool) {
        if let Some(number) = self.find(address) {
            return (number, false);
        }
        let displaces = self.numbers.len() - self.confirmed >= self.unconfirmed_max;
        if displaces {
            self.remove_oldest(false, None);
        }
        let peer = Some(Box::new(Peer::new(address, now)));
        let number = self.free.pop().unwrap_or_else(|| {
            self.peers.push(None);
            self.peers.len() - 1
        });
        self.peers[number] = peer;
        self.numbers.insert(address, number);
        (number, displaces)
    }

    /// Notes that a peer has a confirmed association. Returns whether the one that has been silent the longest had to
    /// go.
    pub fn confirm(&mut self, number: usize) -> bool {
        if std::mem::replace(&mut self.known(number).confirmed, true) {
            return false;
        }
        self.confirmed += 1;
        let displaces = self.confirmed > self.confirmed_max;
        if displaces {
            self.remove_oldest(true, Some(number));
        }
        displaces
    }

    fn remove_oldest(&mut self, confirmed: bool, except: Option<usize>) {
        let peers = self.peers.iter().enumerate().filter_map(|(number, peer)| Some((number, peer.as_ref()?)));
        let candidates =
            peers.filter(|(number, peer)| peer.confirmed == confirmed && except != Some(*number));
        let oldest = candidates.min_by_key(|(_, peer)| peer.heard).map(|(number, _)| number);
        let number = oldest.expect("the table is full of them");
        let peer = self.peers[number].take().expect("it was found");
        self.numbers.remove(&peer.address);
        self.confirmed -= usize::from(confirmed);
        self.free.push(number);
    }

    /// Number of peers with and without a confirmed association.
    pub fn counts(&self) -> (usize, usize) {
        (self.confirmed, self.numbers.len() - self.confirmed)
    }
}
