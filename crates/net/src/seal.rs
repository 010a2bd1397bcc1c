//! The seal of a cluster's sockets: its key, from a file, and the endpoint of each socket.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use weft_cluster::{ClusterName, SecurityConfig};
use weft_seal::{ClusterKey, Counters, Endpoint, KEY_BYTES, KeyError, Opened, Parameters};
use weft_time::{Duration, Instant};

use crate::Clock;

const _: () =
    assert!(weft_seal::SEAL_BYTES == weft_cluster::SEAL_BYTES as usize, "the configuration knows it");

/// What a socket of the process sends to a port to wake its owner. It may be unsealed.
pub const WAKE: &[u8] = b"wake";

/// Least time between two lines in the log about refused datagrams.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The most bytes of a key file that are read.
const FILE_BYTES_MAX: u64 = 4_096;

/// Why a key file cannot be used, in one line with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It cannot be read.
    #[error("key file {}: cannot be read: {source}; copy it from another node of the cluster", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Others than its owner and group may read it, or others than its owner may write to it.
    #[error(
        "key file {}: others may use it (mode {mode:03o}): chmod 600 it, and make another key if they may have read it",
        path.display()
    )]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is not a key file.
    #[error("key file {}: {source}; copy it from another node of the cluster", path.display())]
    Malformed {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with its content.
        source: KeyError,
    },
}

/// What the sockets of a cluster are sealed with.
#[derive(Clone, Debug)]
pub struct Seal {
    key: ClusterKey,
    cluster: ClusterName,
}

impl Seal {
    /// Reads the cluster key. Without a `[security]` table datagrams are not sealed, and the result is `None`.
    ///
    /// # Errors
    /// The key file cannot be used.
    pub fn load(
        security: Option<&SecurityConfig>,
        cluster: ClusterName,
    ) -> Result<Option<Self>, KeyFileError> {
        let Some(SecurityConfig { key_file: path }) = security else { return Ok(None) };
        let unreadable = |source| KeyFileError::Unreadable { path: path.clone(), source };
        let file = File::open(path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.mode() & 0o777;
        if mode & 0o027 != 0 {
            return Err(KeyFileError::Open { path: path.clone(), mode });
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(unreadable)?;
        let key = ClusterKey::parse(&text)
            .map_err(|source| KeyFileError::Malformed { path: path.clone(), source })?;
        Ok(Some(Self { key, cluster }))
    }
}

/// Writes a file with a new key, which only its owner may read.
///
/// # Errors
/// The file is there already, or cannot be written.
pub fn write_new_key(path: &Path) -> io::Result<()> {
    let mut bytes = [0; KEY_BYTES];
    random(&mut bytes);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(ClusterKey::new(bytes).to_text().as_bytes())
}

/// Random bytes of the operating system.
pub(crate) fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system gives random bytes");
}

/// The seal of one socket.
#[derive(Debug)]
pub(crate) struct SocketSeal {
    endpoint: Endpoint,
    local: SocketAddr,
    clock: Clock,
    /// The time of the latest system call.
    now: Instant,
    /// Who wakes the owner without a seal.
    waker: Option<SocketAddr>,
    next_log: Instant,
    logged: Counters,
}

impl SocketSeal {
    pub fn new(seal: &Seal, local: SocketAddr) -> Self {
        let clock = Clock::starting_now();
        let (cluster, parameters) = (seal.cluster.as_str(), Parameters::default());
        let endpoint = Endpoint::new(&seal.key, cluster, local, parameters, &mut random);
        let (now, logged) = (clock.now(), Counters::default());
        Self { endpoint, local, clock, now, waker: None, next_log: now, logged }
    }

    pub fn set_waker(&mut self, waker: Option<SocketAddr>) {
        self.waker = waker;
    }

    pub fn counters(&self) -> &Counters {
        self.endpoint.counters()
    }

    /// Reads the clock, before datagrams are opened or sealed.
    pub fn advance(&mut self) {
        self.now = self.clock.now();
    }

    /// Opens a datagram in place; `None` if it is of no concern to the socket's owner.
    pub fn open<'a>(&mut self, from: SocketAddr, datagram: &'a mut [u8]) -> Option<&'a [u8]> {
        if datagram == WAKE && self.waker == Some(from) {
            return Some(datagram);
        }
        match self.endpoint.open(self.now, from, datagram, &mut random) {
            Opened::Payload(payload) => Some(payload),
            Opened::Internal => None,
            Opened::Refused => {
                self.log(from);
                None
            }
        }
    }

    /// Seals in place, as [`Endpoint::seal`] does, or keeps the payload until there is an association; returns whether
    /// `frame` is to be sent.
    pub fn seal(&mut self, to: SocketAddr, frame: &mut [u8]) -> bool {
        if self.endpoint.seal(self.now, to, frame, &mut random) {
            return true;
        }
        // What waits has to know when it came.
        self.advance();
        let payload = frame[weft_seal::BEFORE_BYTES..frame.len() - weft_seal::AFTER_BYTES].to_vec();
        self.endpoint.hold(self.now, to, payload, &mut random);
        false
    }

    /// As [`Endpoint::poll_transmit`].
    pub fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.endpoint.poll_transmit()
    }

    fn log(&mut self, from: SocketAddr) {
        if self.now < self.next_log {
            return;
        }
        self.next_log = self.now + LOG_INTERVAL;
        let counters = *self.endpoint.counters();
        let causes = counters.list().into_iter().zip(self.logged.list());
        let causes = causes.filter(|((name, now), (_, before))| is_refusal(name) && now > before);
        let causes: Vec<_> = causes
            .map(|((name, now), (_, before))| {
                let words = name.trim_start_matches("seal_").replace('_', " ");
                format!("{} {words}", now - before)
            })
            .collect();
        self.logged = counters;
        let (local, causes) = (self.local, causes.join(", "));
        tracing::warn!(%local, %from, causes, "UDP {local} refuses datagrams, the last from {from}: {causes}");
    }
}

fn is_refusal(counter: &str) -> bool {
    !["seal_sealed", "seal_opened", "seal_handshakes", "seal_no_room"].contains(&counter)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;
    use crate::{Composed, IdlePolicy, Poller, PortOptions, Stop, UdpPort};

    fn load(path: &Path) -> Result<Option<Seal>, KeyFileError> {
        Seal::load(Some(&SecurityConfig { key_file: path.to_owned() }), ClusterName::default())
    }

    #[test]
    fn a_key_file_is_written_once_and_read_by_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weft.key");
        write_new_key(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(load(&path).unwrap().is_some());
        assert_eq!(write_new_key(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(Seal::load(None, ClusterName::default()).unwrap().is_none());
    }

    #[test]
    fn a_key_file_that_cannot_be_used_is_told_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weft.key");
        let error = load(&path).unwrap_err().to_string();
        assert!(error.contains("cannot be read") && error.contains("copy it"), "{error}");
        fs::write(&path, "secret\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = load(&path).unwrap_err().to_string();
        assert!(error.contains("does not begin with `weft-key-1:`; copy it"), "{error}");
        for mode in [0o644, 0o660, 0o601] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = load(&path).unwrap_err().to_string();
            assert!(error.contains(&format!("mode {mode:03o}): chmod 600")), "{error}");
        }
    }
    fn seal(key: u8) -> Seal {
        Seal { key: ClusterKey::new([key; KEY_BYTES]), cluster: ClusterName::default() }
    }

    fn port(seal: Option<&Seal>, segmentation: bool) -> UdpPort<SocketAddr> {
        let options = PortOptions { segmentation, ..PortOptions::default() };
        UdpPort::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &options).unwrap().sealed(seal)
    }

    /// Lets two ports receive and send until the second has passed on `count` datagrams.
    fn exchange(ports: &mut [UdpPort<SocketAddr>; 2], count: usize) -> Vec<(Vec<u8>, u16)> {
        let (stop, clock) = (Stop::new().unwrap(), Clock::starting_now());
        let mut poller = Poller::new(ports, &stop, IdlePolicy::SLEEP).unwrap();
        let give_up = clock.now() + Duration::from_secs(60);
        let mut received = Vec::new();
        loop {
            let [first, second] = ports;
            first.receive(|datagram| panic!("{datagram:?}")).unwrap();
            let from = first.local_address();
            second
                .receive(|datagram| {
                    assert_eq!(datagram.from, from);
                    received.push((datagram.bytes.to_vec(), datagram.identification));
                })
                .unwrap();
            for port in ports.iter_mut() {
                port.flush().unwrap();
            }
            if received.len() >= count {
                return received;
            }
            assert!(clock.now() < give_up, "{} of {count} datagrams have arrived", received.len());
            poller.idle(clock, Some(give_up), false).unwrap();
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Sealed ports pass on what was queued, in order, and with the identification that its writer was given.
        #[test]
        fn what_is_queued_arrives_opened(
            datagrams in prop::collection::vec(
                (prop_oneof![Just(1), Just(256), Just(1_500), 1..9_000_usize], 0..4_u8), 1..60),
            segmentation: bool,
        ) {
            let seal = seal(1);
            let mut ports = [port(Some(&seal), segmentation), port(Some(&seal), segmentation)];
            let to = ports[1].local_address();
            // The first one waits for the handshake.
            prop_assert!(ports[0].push(to, b"first"));
            ports[0].flush().unwrap();
            prop_assert_eq!(exchange(&mut ports, 1), [(b"first".to_vec(), 0)]);
            let mut expected = Vec::new();
            for (number, (length, way)) in datagrams.into_iter().enumerate() {
                let mut bytes = vec![number as u8; length];
                let mut told = None;
                match way {
                    0 => prop_assert!(ports[0].push(to, &bytes)),
                    1 => prop_assert!(ports[0].push_exchanged(to, &mut bytes.clone())),
                    2 => {
                        let write = |identification, buffer: &mut [u8]| {
                            buffer.copy_from_slice(&bytes);
                            told = Some(identification);
                        };
                        prop_assert!(ports[0].push_with(to, length, write));
                    }
                    _ => {
                        let compose = |buffer: &mut Vec<u8>| {
                            buffer.extend_from_slice(&bytes);
                            Some(to)
                        };
                        let composed = ports[0].push_composed(9_000, compose, |_, identification, datagram| {
                            datagram[0] = !number as u8;
                            told = Some(identification);
                        });
                        prop_assert_eq!(composed, Composed::Queued);
                        bytes[0] = !number as u8;
                    }
                }
                expected.push((bytes, told));
            }
            let count = expected.len();
            for ((bytes, told), (found, identification)) in expected.into_iter().zip(exchange(&mut ports, count)) {
                prop_assert!(found == bytes && told.is_none_or(|told| told == identification));
            }
            let counters = ports[1].seal_counters().unwrap();
            prop_assert_eq!((counters.refused(), counters.seal_handshakes), (0, 1));
        }
    }

    #[test]
    fn trains_of_sealed_datagrams_are_sent_and_received_as_one() {
        let seal = seal(1);
        let mut ports = [port(Some(&seal), true), port(Some(&seal), true)];
        let to = ports[1].local_address();
        ports[0].push(to, b"first");
        ports[0].flush().unwrap();
        exchange(&mut ports, 1);
        let before = [ports[0].counters().send_calls, ports[1].counters().receive_calls];
        (0..64).for_each(|number| assert!(ports[0].push(to, &[number; 100])));
        ports[0].flush().unwrap();
        let received = exchange(&mut ports, 64);
        assert!(received.iter().enumerate().all(|(number, (bytes, _))| *bytes == [number as u8; 100]));
        if ports[0].segmentation() {
            let calls = [ports[0].counters().send_calls, ports[1].counters().receive_calls];
            assert_eq!([calls[0] - before[0], calls[1] - before[1]], [1, 1]);
            assert_eq!(received[63].1, 63);
        }
    }

    #[test]
    fn strangers_are_refused_and_a_waker_is_not() {
        let theirs = seal(2);
        let own = seal(1);
        let mut node = port(Some(&own), true);
        let to = node.local_address();
        for stranger in [None, Some(&theirs)] {
            let mut stranger = port(stranger, true);
            stranger.push(to, b"let me in");
            stranger.flush().unwrap();
            assert_eq!(node.receive(|datagram| panic!("{datagram:?}")).unwrap(), 1);
            node.flush().unwrap();
        }
        let counters = node.seal_counters().unwrap();
        assert_eq!((counters.seal_plaintext, counters.seal_bad_tag), (1, 1));
        let waker = std::net::UdpSocket::bind((to.ip(), 0)).unwrap();
        node.set_waker(waker.local_addr().ok());
        for message in [WAKE, b"let me in"] {
            waker.send_to(message, to).unwrap();
            let mut woken = 0;
            node.receive(|datagram| woken += usize::from(datagram.bytes == WAKE)).unwrap();
            assert_eq!(woken, usize::from(message == WAKE));
        }
        assert_eq!(node.seal_counters().unwrap().refused(), 3);
    }
}
