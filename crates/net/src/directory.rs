//! Where the machines of a cluster are now.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weft_cluster::{Family, Host, NodeConfig, Place};
use weft_time::{Duration, Instant};

use crate::resolve::{Lookup, RETRY, Resolver, choose, system_lookup};

/// How long a host may be silent before its name is looked up again.
const SILENCE: Duration = Duration::from_secs(1);
/// How often to look for answers, and for silent hosts.
const CHECK_INTERVAL: Duration = Duration::from_ms(100);

/// Why a client has no directory.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// No host has an address.
    #[error(
        "no host has an address: {0}; correct the names in the configuration, or try again when the hosts exist"
    )]
    Unresolved(String),
    /// The system grants no thread.
    #[error("names cannot be looked up: {0}")]
    System(#[from] io::Error),
}

impl From<DirectoryError> for io::Error {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::Unresolved(_) => Self::new(io::ErrorKind::NotFound, error),
            DirectoryError::System(error) => error,
        }
    }
}

/// The addresses of the places of a cluster, by number: fixed ones, and those to which names resolve now.
///
/// A thread looks up the names. It looks up a name again when the host has been silent for a second, and each second as
/// long as that lasts or the name does not resolve. Meanwhile the host keeps the address that it had. Its owner calls
/// [`Directory::check`] when [`Directory::next_deadline`] has come; nothing blocks.
#[derive(Debug)]
pub struct Directory {
    family: Family,
    entries: Vec<Entry>,
    /// Looks up names, if there are any.
    resolver: Option<Resolver>,
    next_check: Instant,
}

#[derive(Debug)]
struct Entry {
    place: Place,
    address: Option<SocketAddr>,
    /// Since when the host has been silent although datagrams were sent to it.
    silent_since: Option<Instant>,
    /// When the name may be looked up next; `None` while that goes on.
    next_lookup: Option<Instant>,
    /// Why the last lookup has failed.
    failure: Option<String>,
}

impl Entry {
    fn wants_lookup(&self, now: Instant) -> bool {
        let is_silent = || self.silent_since.is_some_and(|since| now.saturating_since(since) >= SILENCE);
        self.next_lookup.is_some_and(|at| at <= now) && (self.address.is_none() || is_silent())
    }

    /// Takes the result of a lookup, and logs what is new.
    fn settle(&mut self, now: Instant, found: io::Result<Vec<IpAddr>>, family: Family) {
        let Host::Name(name) = &self.place.host else { unreachable!("only names are looked up") };
        let current = self.address.map(|address| address.ip());
        match choose(name, found, Some(family), current) {
            Ok(address) => {
                self.failure = None;
                match current {
                    Some(former) if former == address => {}
                    Some(former) => {
                        tracing::info!(%name, %address, "{name} is at {address}, no longer at {former}")
                    }
                    None => tracing::info!(%name, %address, "{name} is at {address}"),
                }
                self.address = Some(SocketAddr::new(address, self.place.port));
            }
            Err(reason) if self.failure.as_ref() != Some(&reason) => {
                tracing::warn!(%name, "{reason}; trying again each second");
                self.failure = Some(reason);
            }
            Err(_) => {}
        }
        self.silent_since = None;
        self.next_lookup = Some(now + RETRY);
    }
}

impl Directory {
    /// The directory of these places, whose addresses are of `family`. Names have no address at first.
    ///
    /// # Errors
    /// The system's error, if it grants no thread.
    pub fn new(places: Vec<Place>, family: Family) -> io::Result<Self> {
        Self::with_lookup(places, family, system_lookup)
    }

    /// Where the nodes of a cluster receive Weft's datagrams, by number, and behind them, where the membership service
    /// does: at one place, or at each keeper's. The own host is at `own`: the ports are bound to it.
    pub(crate) fn of_cluster(config: &NodeConfig, own: IpAddr) -> io::Result<Self> {
        let nodes = config.peers.iter().map(|(_, peer)| peer.datagram_place());
        let own_host = &config.own().address;
        let known = |place: Place| if place.host == *own_host { Place::new(own, place.port) } else { place };
        let places = nodes.chain(config.membership_places()).map(known).collect();
        Self::new(places, Family::of(own))
    }

    fn with_lookup(places: Vec<Place>, family: Family, lookup: impl Lookup) -> io::Result<Self> {
        let has_names = places.iter().any(|place| place.address().is_none());
        let entry = |place: Place| Entry {
            // A port refuses destinations of the other family.
            address: place.address().filter(|address| Family::of(address.ip()) == family),
            next_lookup: place.address().is_none().then_some(Instant::ZERO),
            place,
            silent_since: None,
            failure: None,
        };
        Ok(Self {
            family,
            entries: places.into_iter().map(entry).collect(),
            resolver: has_names.then(|| Resolver::start(lookup)).transpose()?,
            next_check: Instant::ZERO,
        })
    }

    /// The directory of these places for a client: looks up all names first, which may block for seconds. The first
    /// address of the list decides on the version of IP.
    ///
    /// # Errors
    /// No host has an address, or the system grants no thread.
    pub fn open(places: Vec<Place>) -> Result<Self, DirectoryError> {
        let mut family = places.iter().find_map(|place| place.host.family());
        let mut failure = None;
        let mut addresses = Vec::with_capacity(places.len());
        for place in &places {
            addresses.push(match &place.host {
                Host::Address(_) => place.address(),
                Host::Name(name) => match choose(name, system_lookup(name), family, None) {
                    Ok(address) => {
                        family = Some(Family::of(address));
                        Some(SocketAddr::new(address, place.port))
                    }
                    Err(reason) => {
                        failure.get_or_insert(reason);
                        None
                    }
                },
            });
        }
        let Some(family) = family.filter(|_| addresses.iter().any(Option::is_some)) else {
            let reason = failure.unwrap_or_else(|| "there are none".to_owned());
            return Err(DirectoryError::Unresolved(reason));
        };
        let mut directory = Self::new(places, family)?;
        for (entry, address) in directory.entries.iter_mut().zip(addresses) {
            entry.address = entry.address.or(address);
        }
        Ok(directory)
    }

    /// Where a socket is bound that sends to all places: any address of this machine, and a port that the system
    /// chooses.
    pub const fn any_address(&self) -> SocketAddr {
        match self.family {
            Family::V4 => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            Family::V6 => SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0),
        }
    }

    /// The place of this number, as it is configured.
    pub fn place(&self, number: usize) -> &Place {
        &self.entries[number].place
    }

    /// The address of the place of this number, if it has one.
    #[inline]
    pub fn address(&self, number: usize) -> Option<SocketAddr> {
        self.entries[number].address
    }

    /// The number of the place that has this address.
    #[inline]
    pub fn find(&self, address: SocketAddr) -> Option<usize> {
        self.entries.iter().position(|entry| entry.address == Some(address))
    }

    /// The number of the first place at a host with this address.
    #[inline]
    pub fn find_host(&self, host: IpAddr) -> Option<usize> {
        self.entries.iter().position(|entry| entry.address.is_some_and(|address| address.ip() == host))
    }

    /// Notes that a datagram is sent to the place, to which the host should answer.
    #[inline]
    pub fn note_sent(&mut self, now: Instant, number: usize) {
        self.entries[number].silent_since.get_or_insert(now);
    }

    /// Notes that a datagram has come from the place.
    #[inline]
    pub fn note_heard(&mut self, number: usize) {
        self.entries[number].silent_since = None;
    }

    /// Notes that the host seems to be at another address: its name is looked up soon.
    pub fn doubt(&mut self, number: usize) {
        self.entries[number].silent_since = Some(Instant::ZERO);
    }

    /// When to call [`Directory::check`]; never, if there are no names.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.resolver.as_ref().map(|_| self.next_check)
    }

    /// Takes the addresses that were looked up, and has those names looked up for which it is time.
    pub fn check(&mut self, now: Instant) {
        let Some(resolver) = self.resolver.as_ref().filter(|_| now >= self.next_check) else { return };
        self.next_check = now + CHECK_INTERVAL;
        while let Some((number, found)) = resolver.answer() {
            self.entries[number].settle(now, found, self.family);
        }
        for (number, entry) in self.entries.iter_mut().enumerate() {
            if let Host::Name(name) = &entry.place.host
                && entry.wants_lookup(now)
            {
                entry.next_lookup = None;
                resolver.ask(number, name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver, Sender};

    use weft_cluster::HostName;

    use super::*;
    use crate::log::tests::logged;
    use crate::log::{LogFormat, LogLevel};

    /// A domain name system that answers when the test says so.
    struct Names {
        asked: Receiver<HostName>,
        answers: Sender<io::Result<Vec<IpAddr>>>,
        now: Instant,
    }

    fn directory(places: &[&str]) -> (Directory, Names) {
        let (to, asked) = mpsc::channel();
        let (answers, given) = mpsc::channel();
        let lookup = move |name: &HostName| {
            let _ = to.send(name.clone());
            given.recv().unwrap_or_else(|_| Err(io::Error::other("the test has ended")))
        };
        let places = places.iter().map(|place| place.parse().unwrap()).collect();
        let directory = Directory::with_lookup(places, Family::V4, lookup).unwrap();
        (directory, Names { asked, answers, now: Instant::ZERO })
    }

    impl Names {
        fn pass(&mut self, directory: &mut Directory, ms: u64) {
            self.now += Duration::from_ms(ms);
            directory.check(self.now);
        }

        /// Answers the question that has been asked, and waits until the directory has the answer.
        fn answer(&mut self, directory: &mut Directory, name: &str, answer: &[&str]) {
            assert_eq!(self.asked.recv().unwrap().as_str(), name);
            let addresses: Vec<IpAddr> = answer.iter().map(|text| text.parse().unwrap()).collect();
            let not_found = || Err(io::Error::other("not found"));
            self.answers.send(if addresses.is_empty() { not_found() } else { Ok(addresses) }).unwrap();
            while directory
                .entries
                .iter()
                .any(|entry| entry.place.address().is_none() && entry.next_lookup.is_none())
            {
                self.pass(directory, 100);
                std::thread::yield_now();
            }
        }
    }

    fn at(text: &str) -> Option<SocketAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn addresses_need_no_thread() {
        let (directory, _) = directory(&["10.0.0.1:4793", "10.0.0.2:4793", "[::1]:4793"]);
        assert!(directory.resolver.is_none() && directory.next_deadline().is_none());
        assert_eq!((directory.address(1), directory.address(2)), (at("10.0.0.2:4793"), None));
        assert_eq!(directory.find("10.0.0.2:4793".parse().unwrap()), Some(1));
        assert_eq!(directory.find("10.0.0.2:4794".parse().unwrap()), None);
        assert_eq!(directory.find_host([10, 0, 0, 1].into()), Some(0));
    }

    #[test]
    fn a_name_is_looked_up_until_it_resolves() {
        let (mut directory, mut names) = directory(&["10.0.0.1:4793", "node1:4793"]);
        names.pass(&mut directory, 0);
        names.answer(&mut directory, "node1", &[]);
        assert_eq!(directory.address(1), None);
        names.pass(&mut directory, 900);
        assert!(names.asked.try_recv().is_err(), "it is asked once a second");
        names.pass(&mut directory, 1_000);
        names.answer(&mut directory, "node1", &["fd00::2", "10.0.0.2"]);
        assert_eq!(directory.address(1), at("10.0.0.2:4793"));
        for _ in 0..100 {
            names.pass(&mut directory, 1_000);
        }
        assert!(names.asked.try_recv().is_err(), "nobody misses it");
    }

    #[test]
    fn the_name_of_a_silent_host_is_looked_up_again() {
        let (mut directory, mut names) = directory(&["node0:4793"]);
        let said = logged(LogFormat::Text, LogLevel::INFO, || {
            names.pass(&mut directory, 0);
            names.answer(&mut directory, "node0", &["10.0.0.1"]);
            // A host that answers is not looked up.
            for _ in 0..50 {
                directory.note_sent(names.now, 0);
                names.pass(&mut directory, 900);
                directory.note_heard(0);
            }
            assert!(names.asked.try_recv().is_err());
            directory.note_sent(names.now, 0);
            names.pass(&mut directory, 1_000);
            // It is gone; until it is found again, it keeps its address.
            names.answer(&mut directory, "node0", &[]);
            assert_eq!(directory.address(0), at("10.0.0.1:4793"));
            directory.note_sent(names.now, 0);
            names.pass(&mut directory, 1_000);
            names.answer(&mut directory, "node0", &["10.0.0.9"]);
            assert_eq!(directory.address(0), at("10.0.0.9:4793"));
            assert_eq!(directory.find("10.0.0.1:4793".parse().unwrap()), None);
            // A host that reports from another address is looked up although it is not silent.
            names.pass(&mut directory, 2_000);
            directory.doubt(0);
            names.pass(&mut directory, 1_000);
            names.answer(&mut directory, "node0", &["10.0.0.7"]);
        });
        let lines = [
            "node0 is at 10.0.0.1",
            "node0 does not resolve (not found); trying",
            "at 10.0.0.9, no longer at 10.0.0.1",
        ];
        assert!(lines.iter().all(|line| said.matches(line).count() == 1), "{said}");
    }

    #[test]
    fn a_client_needs_one_host() {
        let open =
            |places: &[&str]| Directory::open(places.iter().map(|place| place.parse().unwrap()).collect());
        let directory = open(&["nowhere.invalid:1", "localhost:2"]).unwrap();
        assert_eq!((directory.address(0), directory.address(1)), (None, at("127.0.0.1:2")));
        let error = open(&["nowhere.invalid:1"]).unwrap_err().to_string();
        assert!(error.starts_with("no host has an address: nowhere.invalid does not resolve"), "{error}");
    }
}
