//! The state of one socket.

use std::collections::VecDeque;
use std::net::SocketAddr;

use weft_time::{Duration, Instant};
use weft_wire::udp::Udp;

use crate::association::{self, Association};
use crate::counters::{Counters, Refusal};
use crate::handshake::{Handshake, HandshakeError, Kind, is_handshake, is_hello};
use crate::key::{ClusterKey, KeySchedule, NONCE_BYTES, Nonce};
use crate::peers::{Asked, Peers, peer_of, place_of, spi};
use crate::{AFTER_BYTES, BEFORE_BYTES, SEAL_BYTES};

/// Fills its argument with random bytes that nobody can predict.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]);

/// The bounds and times of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The most peers with an association. The one that has been silent the longest goes first.
    pub peers_max: usize,
    /// The most peers whose handshake is not complete. The oldest goes first.
    pub unconfirmed_max: usize,
    /// An association is renewed at half of this number of frames in one direction, and is not used for more.
    pub frames_per_key: u64,
    /// An association is renewed at half of this age, and is not used for sending after it.
    pub life: Duration,
    /// How long after that frames are still received.
    pub overlap: Duration,
    /// Time between two datagrams to a peer that are neither answers nor carry anything.
    pub repeat: Duration,
    /// Time between two answers to senders of which nothing is known.
    pub unasked: Duration,
    /// The most datagrams that wait for handshakes. The oldest goes first.
    pub held_max: usize,
    /// The most of them for one peer.
    pub held_per_peer: usize,
    /// How long a datagram waits.
    pub hold: Duration,
}

impl Default for Parameters {
    /// 4,096 peers and 256 handshakes; 2^32 frames or two hours for a key, so it is renewed each hour; a hello each
    /// 10 ms to one peer and each millisecond to unknown senders; 16 waiting datagrams for a peer and 256 in all, for a
    /// second.
    fn default() -> Self {
        Self {
            peers_max: 4_096,
            unconfirmed_max: 256,
            frames_per_key: 1 << 32,
            life: Duration::from_secs(2 * 60 * 60),
            overlap: Duration::from_secs(60),
            repeat: Duration::from_ms(10),
            unasked: Duration::from_ms(1),
            held_max: 256,
            held_per_peer: 16,
            hold: Duration::from_secs(1),
        }
    }
}

/// A known bug, planted to test that the checks find it.
#[cfg(feature = "planted-bugs")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// A forged frame changes the replay window.
    WindowBeforeTag,
    /// Datagrams are sent under an association that no frame has confirmed.
    UnconfirmedReplaces,
    /// After a restart, the random values are those of the process before.
    SameRandom,
    /// What comes in plaintext is accepted.
    PlaintextAccepted,
}

/// What a received datagram was.
#[derive(Debug, PartialEq, Eq)]
pub enum Opened<'a> {
    /// The payload of a peer's datagram.
    Payload(&'a [u8]),
    /// A datagram between endpoints, of no concern to the owner.
    Internal,
    /// It was refused, and is counted.
    Refused,
}

#[derive(Debug)]
struct Held {
    to: SocketAddr,
    since: Instant,
    payload: Vec<u8>,
}

/// The most datagrams that wait to be sent by the owner.
const OUTGOING_MAX: usize = 1_024;

/// The state of one socket: its peers, their associations, and datagrams on their way.
#[derive(Debug)]
pub struct Endpoint {
    keys: KeySchedule,
    local: SocketAddr,
    /// Tells its own datagrams from those of others, if they come back.
    process: [u8; 8],
    parameters: Parameters,
    peers: Peers,
    held: VecDeque<Held>,
    outgoing: VecDeque<(SocketAddr, Vec<u8>)>,
    next_unasked: Instant,
    counters: Counters,
    #[cfg(feature = "planted-bugs")]
    planted: Option<PlantedBug>,
    #[cfg(feature = "planted-bugs")]
    drawn: u64,
}

impl Endpoint {
    /// The endpoint of a socket that is bound to `local`, in the cluster with this name and key. A new process needs a
    /// new endpoint: what it knows must not be stored.
    pub fn new(
        key: &ClusterKey,
        cluster: &str,
        local: SocketAddr,
        parameters: Parameters,
        random: Random<'_>,
    ) -> Self {
        let mut process = [0; 8];
        random(&mut process);
        Self {
            keys: KeySchedule::new(key, cluster),
            local,
            process,
            peers: Peers::new(parameters.peers_max, parameters.unconfirmed_max),
            held: VecDeque::with_capacity(parameters.held_max),
            outgoing: VecDeque::new(),
            next_unasked: Instant::ZERO,
            counters: Counters::default(),
            parameters,
            #[cfg(feature = "planted-bugs")]
            planted: None,
            #[cfg(feature = "planted-bugs")]
            drawn: 0,
        }
    }

    /// The same with a planted bug.
    #[cfg(feature = "planted-bugs")]
    #[must_use]
    pub fn with_planted_bug(self, bug: PlantedBug) -> Self {
        Self { planted: Some(bug), ..self }
    }

    /// Counters since the start.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Number of peers with an association, and of peers whose handshake is not complete.
    pub fn peers(&self) -> (usize, usize) {
        self.peers.counts()
    }

    /// Seals a datagram for `to` in place: its payload lies in `frame` behind [`BEFORE_BYTES`] bytes and before
    /// [`AFTER_BYTES`] bytes. Returns `false` if there is no association with the peer yet; then the owner gives the
    /// payload to [`Endpoint::hold`].
    ///
    /// # Panics
    /// If the frame is shorter than [`SEAL_BYTES`].
    pub fn seal(&mut self, now: Instant, to: SocketAddr, frame: &mut [u8], random: Random<'_>) -> bool {
        let Some(number) = self.peers.find(to) else { return false };
        let Parameters { frames_per_key, life, .. } = self.parameters;
        let peer = self.peers.known(number);
        let Some(place) = peer.sending else { return false };
        let association = peer.associations[place].as_mut().expect("it is used for sending");
        let (frames, age) = (association.frames(), now.saturating_since(association.born));
        if frames >= frames_per_key || age >= life {
            peer.associations[place] = None;
            peer.fall_back(now, life);
            return self.seal(now, to, frame, random);
        }
        let ports = Udp { source_port: self.local.port(), destination_port: to.port() };
        association.seal(ports, frame);
        self.counters.seal_sealed += 1;
        if frames >= frames_per_key / 2 || age >= life / 2 {
            self.greet(now, number, random);
        }
        true
    }

    /// Keeps the payload of a datagram until there is an association with its receiver, and asks for one. Payloads
    /// that wait too long, or are too many, are dropped.
    pub fn hold(&mut self, now: Instant, to: SocketAddr, payload: Vec<u8>, random: Random<'_>) {
        let number = self.enter(now, to);
        let Parameters { held_max, held_per_peer, .. } = self.parameters;
        let of_peer = self.held.iter().filter(|held| held.to == to).count();
        let crowded = if of_peer >= held_per_peer {
            self.held.iter().position(|held| held.to == to)
        } else {
            (self.held.len() >= held_max).then_some(0)
        };
        if let Some(oldest) = crowded {
            self.held.remove(oldest);
            self.counters.seal_no_room += 1;
        }
        self.held.push_back(Held { to, since: now, payload });
        self.greet(now, number, random);
    }

    /// Opens a datagram that has come from `from`, in place.
    pub fn open<'a>(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &'a mut [u8],
        random: Random<'_>,
    ) -> Opened<'a> {
        let opened = if association::is_frame(datagram) {
            self.open_frame(now, from, datagram, random)
        } else if is_handshake(datagram) {
            let shaken = self.shake(now, from, datagram, random);
            if shaken == Err(Refusal::BadTag) && is_hello(datagram) {
                self.answer_stranger(now, from);
            }
            shaken.map(|()| false)
        } else {
            #[cfg(feature = "planted-bugs")]
            if self.planted == Some(PlantedBug::PlaintextAccepted) {
                return Opened::Payload(datagram);
            }
            self.answer_stranger(now, from);
            Err(Refusal::Plaintext)
        };
        match opened {
            Ok(true) => Opened::Payload(&datagram[BEFORE_BYTES..datagram.len() - AFTER_BYTES]),
            Ok(false) => Opened::Internal,
            Err(refusal) => {
                self.counters.count(refusal);
                Opened::Refused
            }
        }
    }

    /// The next datagram that the socket must send as it is.
    pub fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.outgoing.pop_front()
    }

    /// Opens a frame; returns whether it has a payload for the owner.
    fn open_frame(
        &mut self,
        now: Instant,
        from: SocketAddr,
        frame: &mut [u8],
        random: Random<'_>,
    ) -> Result<bool, Refusal> {
        let header = association::header(frame).ok_or(Refusal::Malformed)?;
        let (number, place) = (peer_of(header.spi), place_of(header.spi));
        let window_first = self.window_first();
        let life = self.parameters.life;
        let ends = life + self.parameters.overlap;
        let peer = self.peers.get(number).filter(|peer| peer.address == from);
        let association = peer.and_then(|peer| peer.associations[place].as_mut());
        let association = association.filter(|it| it.own_spi == header.spi);
        let association = association.filter(|it| now.saturating_since(it.born) < ends);
        let opened = match association {
            None => Err(Refusal::UnknownSpi),
            Some(association) => {
                association.open(header, frame, window_first).map(|()| association.confirmed)
            }
        };
        let confirmed = match opened {
            Ok(confirmed) => confirmed,
            Err(refusal) => {
                // A wrong tag may be that of an earlier process' association with the same SPI.
                if matches!(refusal, Refusal::UnknownSpi | Refusal::BadTag) {
                    self.answer_unknown(now, from, random);
                }
                return Err(refusal);
            }
        };
        self.counters.seal_opened += 1;
        let is_empty = frame.len() == SEAL_BYTES;
        self.peers.known(number).heard = now;
        if !confirmed {
            self.confirm(now, number, place);
        } else if is_empty {
            self.peers.known(number).sending = Some(place);
        }
        Ok(!is_empty)
    }

    /// A frame under this association, or a welcome, has shown that the peer has it, too. Returns how many datagrams
    /// had waited for that.
    fn confirm(&mut self, now: Instant, number: usize, place: usize) -> usize {
        let peer = self.peers.known(number);
        peer.make_room(true);
        peer.associations[place].as_mut().expect("it was found").confirmed = true;
        peer.sending = Some(place);
        peer.heard = now;
        self.counters.seal_handshakes += 1;
        self.counters.seal_no_room += u64::from(self.peers.confirm(number));
        self.release(now, number)
    }

    /// Sends the datagrams that have waited for an association with a peer. Returns how many there were.
    fn release(&mut self, now: Instant, number: usize) -> usize {
        let peer = self.peers.known(number);
        let (to, mut released) = (peer.address, 0);
        let hold = self.parameters.hold;
        for held in std::mem::take(&mut self.held) {
            if held.to != to {
                self.held.push_back(held);
            } else if now.saturating_since(held.since) >= hold {
                self.counters.seal_no_room += 1;
            } else {
                self.send_sealed(number, &held.payload);
                released += 1;
            }
        }
        released
    }

    /// Seals a datagram of the endpoint's own, for the owner to send.
    fn send_sealed(&mut self, number: usize, payload: &[u8]) {
        let peer = self.peers.known(number);
        let Some(place) = peer.sending else { return };
        let association = peer.associations[place].as_mut().expect("it is used for sending");
        let to = peer.address;
        let mut frame = vec![0; payload.len() + SEAL_BYTES];
        frame[BEFORE_BYTES..BEFORE_BYTES + payload.len()].copy_from_slice(payload);
        let ports = Udp { source_port: self.local.port(), destination_port: to.port() };
        if association.frames() < self.parameters.frames_per_key {
            association.seal(ports, &mut frame);
            self.counters.seal_sealed += 1;
            self.send(to, frame);
        }
    }

    fn send(&mut self, to: SocketAddr, datagram: Vec<u8>) {
        if self.outgoing.len() < OUTGOING_MAX {
            self.outgoing.push_back((to, datagram));
        } else {
            self.counters.seal_no_room += 1;
        }
    }

    /// Answers a frame that cannot be opened: either side may have been started again.
    fn answer_unknown(&mut self, now: Instant, from: SocketAddr, random: Random<'_>) {
        let life = self.parameters.life;
        let Some(number) = self.peers.find(from) else {
            if now >= self.next_unasked {
                self.next_unasked = now + self.parameters.unasked;
                let number = self.enter(now, from);
                self.greet(now, number, random);
            }
            return;
        };
        let peer = self.peers.known(number);
        let sending = peer.sending.and_then(|place| peer.associations[place].as_ref());
        let usable = sending.is_some_and(|it| now.saturating_since(it.born) < life);
        if !usable {
            self.greet(now, number, random);
        } else if now >= peer.next_handshake {
            // The peer has this association, too, or will ask for one.
            peer.next_handshake = now + self.parameters.repeat;
            self.send_sealed(number, &[]);
        }
    }

    /// Answers who has no key, or another one. Nobody answers such an answer.
    fn answer_stranger(&mut self, now: Instant, from: SocketAddr) {
        if now >= self.next_unasked {
            self.next_unasked = now + self.parameters.unasked;
            self.send_handshake(Kind::Stranger, 0, [0; NONCE_BYTES], from);
        }
    }

    fn enter(&mut self, now: Instant, address: SocketAddr) -> usize {
        let (number, displaces) = self.peers.enter(address, now);
        self.counters.seal_no_room += u64::from(displaces);
        number
    }

    /// Sends a hello to a peer, if it is time for one.
    fn greet(&mut self, now: Instant, number: usize, random: Random<'_>) {
        let (repeat, hold) = (self.parameters.repeat, self.parameters.hold);
        let peer = self.peers.known(number);
        if now < peer.next_handshake {
            return;
        }
        peer.next_handshake = now + repeat;
        // A hello that was lost is repeated; one that is old is given up.
        let asked = peer.asked.filter(|asked| now.saturating_since(asked.since) < hold);
        let asked = asked.unwrap_or_else(|| {
            let (nonce, bits) = self.draw(random);
            let peer = self.peers.known(number);
            peer.asked = None;
            let asked = Asked { nonce, spi: spi(bits, number, peer.free_place()), since: now };
            peer.asked = Some(asked);
            asked
        });
        let to = self.peers.known(number).address;
        self.send_handshake(Kind::Hello, asked.spi, asked.nonce, to);
    }

    fn send_handshake(&mut self, kind: Kind, spi: u32, initiator: Nonce, to: SocketAddr) {
        let (from, process) = (self.local, self.process);
        let handshake = Handshake { kind, spi, initiator, to, from, process };
        let bytes = handshake.encode(&self.keys).to_vec();
        self.send(to, bytes);
    }

    /// Processes a datagram of a handshake.
    fn shake(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        random: Random<'_>,
    ) -> Result<(), Refusal> {
        let handshake = Handshake::decode(datagram, &self.keys).map_err(|error| match error {
            HandshakeError::Malformed => Refusal::Malformed,
            HandshakeError::BadTag => Refusal::BadTag,
        })?;
        // A socket may send to itself. What it has sent to others and comes back was not meant for it; if it is bound
        // to all addresses, only the random value tells.
        let comes_back = handshake.process == self.process && from != self.local;
        if comes_back || !handshake.went_from_to(from, self.local) {
            return Err(Refusal::Misdirected);
        }
        match handshake.kind {
            Kind::Hello => {
                self.welcome(now, from, &handshake, random);
                Ok(())
            }
            Kind::Welcome { responder } => self.conclude(now, from, &handshake, responder),
            Kind::Stranger => Ok(()),
        }
    }

    /// Answers a hello.
    fn welcome(&mut self, now: Instant, from: SocketAddr, hello: &Handshake, random: Random<'_>) {
        let number = self.enter(now, from);
        let mut associations = self.peers.known(number).associations.iter().flatten();
        // The welcome may have been lost.
        let known = associations.find(|it| !it.initiated && it.initiator == hello.initiator);
        let known = known.map(|it| (it.own_spi, it.responder));
        let (own_spi, responder) = known.unwrap_or_else(|| {
            let (responder, bits) = self.draw(random);
            let nonces = (hello.initiator, responder);
            let peer = self.peers.known(number);
            peer.make_room(false);
            let place = peer.free_place();
            let own_spi = spi(bits, number, place);
            let association = Association::new(&self.keys, nonces, false, (own_spi, hello.spi), now);
            peer.associations[place] = Some(Box::new(association));
            #[cfg(feature = "planted-bugs")]
            if self.planted == Some(PlantedBug::UnconfirmedReplaces) {
                peer.sending = Some(place);
            }
            (own_spi, responder)
        });
        self.send_handshake(Kind::Welcome { responder }, own_spi, hello.initiator, from);
    }

    /// Concludes a handshake that a welcome answers.
    fn conclude(
        &mut self,
        now: Instant,
        from: SocketAddr,
        welcome: &Handshake,
        responder: Nonce,
    ) -> Result<(), Refusal> {
        let number = self.peers.find(from).ok_or(Refusal::Replayed)?;
        let peer = self.peers.known(number);
        let Some(asked) = peer.asked.filter(|asked| asked.nonce == welcome.initiator) else {
            // Each repetition of a hello has an answer.
            let mut known = peer.associations.iter().flatten();
            let is_repeated = known.any(|it| it.initiated && it.initiator == welcome.initiator);
            return if is_repeated { Ok(()) } else { Err(Refusal::Replayed) };
        };
        let nonces = (asked.nonce, responder);
        let association = Association::new(&self.keys, nonces, true, (asked.spi, welcome.spi), now);
        let place = place_of(asked.spi);
        peer.asked = None;
        peer.make_room(false);
        peer.associations[place] = Some(Box::new(association));
        if self.confirm(now, number, place) == 0 {
            // The peer uses the association once a frame has come.
            self.send_sealed(number, &[]);
        }
        Ok(())
    }

    /// A random value, and random bits for a SPI.
    fn draw(&mut self, random: Random<'_>) -> (Nonce, u32) {
        let mut bytes = [0; NONCE_BYTES + 4];
        random(&mut bytes);
        #[cfg(feature = "planted-bugs")]
        if self.planted == Some(PlantedBug::SameRandom) {
            self.drawn += 1;
            bytes[..NONCE_BYTES].fill(self.drawn as u8);
            bytes[..2].copy_from_slice(&self.local.port().to_be_bytes());
            if let std::net::IpAddr::V4(ip) = self.local.ip() {
                bytes[2..6].copy_from_slice(&ip.octets());
            }
        }
        let (nonce, bits) = bytes.split_at(NONCE_BYTES);
        (nonce.try_into().expect("16 bytes"), u32::from_be_bytes(bits.try_into().expect("4 bytes")))
    }

    /// Whether the planted bug is there that changes the replay window before the tag is verified.
    const fn window_first(&self) -> bool {
        #[cfg(feature = "planted-bugs")]
        return matches!(self.planted, Some(PlantedBug::WindowBeforeTag));
        #[cfg(not(feature = "planted-bugs"))]
        return false;
    }
}
