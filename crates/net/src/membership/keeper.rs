//! A keeper of the membership service behind a UDP port, and the coordinator at its node, if there is one.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use weft_cluster::{Incarnation, Keeper, KeeperParameters, ServiceConfig, ServiceParameters};
use weft_register::{Acceptor, Coordinator, Message};
use weft_time::Instant;
use weft_waist::NodeId;

use super::error::MembershipError;
use super::file;
use crate::{Clock, Datagram, Directory, UdpPort};

/// A keeper with its node's coordinator. Both use the same port.
#[derive(Debug)]
pub(super) struct KeeperHost {
    pub node: NodeId,
    pub keeper: Keeper<SocketAddr>,
    coordinator: Option<(Coordinator<SocketAddr>, PathBuf)>,
    /// The coordinators, as numbers of places in the directory: that has all nodes, and behind them all keepers.
    coordinators: Vec<usize>,
    nodes: usize,
    /// Datagrams of the register that come from no keeper or coordinator.
    strangers: u64,
}

impl KeeperHost {
    /// The keeper of `node`, whose process has this incarnation.
    pub fn open(
        config: &ServiceConfig,
        parameters: ServiceParameters,
        (node, incarnation): (NodeId, Incarnation),
    ) -> Result<Self, MembershipError> {
        let coordinators = config.coordinators.len();
        // With terms of half a lease, a successor takes over before the nodes' leases end.
        let parameters = KeeperParameters { service: parameters, coordinators, term: config.serve.lease / 2 };
        let number = config.coordinators.iter().position(|coordinator| *coordinator == node);
        let coordinator = number.map(|number| open_coordinator(config, node, number as u8)).transpose()?;
        let nodes = config.peers.len();
        Ok(Self {
            node,
            keeper: Keeper::new(node, incarnation, parameters).of_cluster(config.cluster),
            coordinator,
            coordinators: config.coordinators.iter().map(|node| nodes + node.index()).collect(),
            nodes,
            strangers: 0,
        })
    }

    /// Processes a datagram of the register. Only keepers ask, and only coordinators answer.
    pub fn receive_register(
        &mut self,
        now: Instant,
        datagram: Datagram<'_, SocketAddr>,
        directory: &mut Directory,
    ) {
        let Some(from) = directory.find(datagram.from).filter(|place| *place >= self.nodes) else {
            self.strangers += 1;
            return;
        };
        directory.note_heard(from);
        // Both count what they refuse, or ignore it like a lost datagram.
        match (Message::decode(datagram.bytes), &mut self.coordinator) {
            (Ok((_, number, Message::Answer(_))), _) => {
                if self.coordinators.get(usize::from(number)) == Some(&from) {
                    let _ = self.keeper.receive_answer(now, datagram.bytes);
                } else {
                    self.strangers += 1;
                }
            }
            (_, Some((coordinator, _))) => {
                let _ = coordinator.receive(datagram.from, datagram.bytes);
            }
            (_, None) => self.strangers += 1,
        }
    }

    /// Stores the coordinator's state, then queues all datagrams. If the port is full, they are lost like any others:
    /// who sends them repeats them.
    pub fn transmit(
        &mut self,
        clock: Clock,
        port: &mut UdpPort<SocketAddr>,
        directory: &mut Directory,
    ) -> Result<(), MembershipError> {
        if let Some((coordinator, path)) = &mut self.coordinator {
            if let Some(state) = coordinator.take_unsaved() {
                file::write(path, &state)?;
            }
            while let Some((to, answer)) = coordinator.poll_transmit() {
                port.push(to, &answer);
            }
        }
        // The clock is read for each datagram: the process may have stood still, and its term may have ended.
        while let Some((to, datagram)) = self.keeper.poll_transmit(clock.now()) {
            port.push(to, &datagram);
        }
        while let Some((to, request)) = self.keeper.poll_request() {
            let place = self.coordinators[usize::from(to)];
            if let Some(address) = directory.address(place) {
                directory.note_sent(clock.now(), place);
                port.push(address, &request);
            }
        }
        Ok(())
    }

    /// Counters of the register.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let coordinator = self.coordinator.iter().flat_map(|(coordinator, _)| coordinator.counters().list());
        coordinator.chain([("register_strangers", self.strangers)]).collect()
    }
}

/// The coordinator of this number at `node`, with the state in its file, and that file. A coordinator that has lost its
/// file does not start: it would forget its promises.
fn open_coordinator(
    config: &ServiceConfig,
    node: NodeId,
    number: u8,
) -> Result<(Coordinator<SocketAddr>, PathBuf), MembershipError> {
    let path = file_of(config, node)?;
    let state = file::read(&path)?.ok_or_else(|| MembershipError::Forgotten { path: path.clone() })?;
    let cluster = config.cluster.id().0;
    let acceptor = Acceptor::decode(cluster, number, &state)
        .map_err(|source| MembershipError::NoCoordinator { path: path.clone(), source })?;
    file::check_writable(&path)?;
    Ok((Coordinator::new(cluster, number, acceptor), path))
}

fn file_of(config: &ServiceConfig, node: NodeId) -> Result<PathBuf, MembershipError> {
    let missing = || io::Error::new(io::ErrorKind::InvalidInput, "the configuration names no file");
    config
        .coordinator_file(node)
        .ok_or_else(|| MembershipError::Unwritable { path: PathBuf::new(), source: missing() })
}

/// Writes the state files of the coordinators of a new cluster, each of which belongs to the node in its name. A
/// cluster without keepers has none.
///
/// # Errors
/// A file cannot be written, or is there already: then none is changed.
pub fn found_coordinators(config: &ServiceConfig) -> Result<(), MembershipError> {
    let paths = config.coordinators.iter().map(|node| file_of(config, *node));
    let paths = paths.collect::<Result<Vec<_>, _>>()?;
    if let Some(path) = paths.iter().find(|path| path.exists()) {
        let source = io::Error::new(io::ErrorKind::AlreadyExists, "it is there already");
        return Err(MembershipError::Unwritable { path: path.clone(), source });
    }
    for (number, path) in (0..).zip(&paths) {
        file::write(path, &Acceptor::default().encode(config.cluster.id().0, number))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::path::Path;

    use weft_cluster::{ClusterName, Family, PeerConfig, Peers, Place, ServeConfig};
    use weft_register::{Answer, Ballot, ProposerId, Request, Value};
    use weft_time::Duration;

    use super::*;
    use crate::PortOptions;

    fn host(node: usize) -> Ipv4Addr {
        Ipv4Addr::new(127, 0, 0, node as u8 + 1)
    }

    /// Three nodes, of which node 0 is the only coordinator.
    fn config(folder: &Path) -> ServiceConfig {
        let serve = ServeConfig { lease: Duration::from_ms(100), state_file: Some(folder.join("state")) };
        ServiceConfig {
            cluster: ClusterName::default(),
            peers: Peers::new((0..3).map(|node| PeerConfig::new(host(node))).collect()).unwrap(),
            replicas: 3,
            durable_copies: 0,
            address: Place::new(host(0), 4794),
            coordinators: vec![NodeId::new(0).unwrap()],
            serve,
            security: None,
        }
    }

    fn open(config: &ServiceConfig) -> Result<KeeperHost, MembershipError> {
        let parameters = ServiceParameters::new(3, config.serve.lease);
        KeeperHost::open(config, parameters, (NodeId::new(0).unwrap(), Incarnation::FIRST))
    }

    fn directory() -> Directory {
        let places =
            [4793, 4794].into_iter().flat_map(|port| (0..3).map(move |node| Place::new(host(node), port)));
        Directory::new(places.collect(), Family::V4).unwrap()
    }

    /// Gives the host a message from a node's port, and sends what it sends. Returns how many datagrams those are.
    fn exchange(
        host: &mut KeeperHost,
        from: (usize, u16),
        message: &Message,
    ) -> Result<usize, MembershipError> {
        let bytes = message.encode(ClusterName::default().id().0, 0);
        let from = SocketAddr::from((self::host(from.0), from.1));
        let mut directory = directory();
        host.receive_register(
            Instant::ZERO,
            Datagram { from, bytes: &bytes, identification: 0 },
            &mut directory,
        );
        let own = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut port = UdpPort::bind(own, &PortOptions::default()).unwrap();
        host.transmit(Clock::starting_now(), &mut port, &mut directory)?;
        Ok(port.queued())
    }

    fn prepare(round: u64) -> Message {
        let proposer = ProposerId { number: 1, incarnation: 5 };
        Message::Request(Request::Prepare { ballot: Ballot { round, proposer } })
    }

    #[test]
    fn a_promise_is_stored_before_it_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        found_coordinators(&config).unwrap();
        let mut host = open(&config).unwrap();
        assert!(exchange(&mut host, (1, 4794), &prepare(1)).unwrap() > 0);
        let stored = std::fs::read(folder.path().join("state.node0")).unwrap();
        let acceptor = Acceptor::decode(config.cluster.id().0, 0, &stored).unwrap();
        assert_eq!(acceptor.promised().round, 1);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing half-written is left");
        // What cannot be stored is not said.
        drop(folder);
        let refused = exchange(&mut host, (1, 4794), &prepare(2)).unwrap_err();
        assert!(matches!(refused, MembershipError::Unwritable { .. }), "{refused}");
    }

    #[test]
    fn only_keepers_ask_and_only_coordinators_answer() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        found_coordinators(&config).unwrap();
        let mut host = open(&config).unwrap();
        let asked = |host: &KeeperHost| host.coordinator.as_ref().unwrap().0.counters().requests;
        let report = Message::Answer(Answer::Report { accepted: Ballot::ZERO, value: Value::NONE });
        // A node's other port, a host that is no node, and a keeper that is no coordinator.
        for (from, message) in [((1, 4793), &prepare(1)), ((7, 4794), &prepare(1)), ((1, 4794), &report)] {
            exchange(&mut host, from, message).unwrap();
        }
        assert_eq!((host.strangers, asked(&host)), (3, 0));
        exchange(&mut host, (2, 4794), &prepare(1)).unwrap();
        exchange(&mut host, (0, 4794), &report).unwrap();
        assert_eq!((host.strangers, asked(&host)), (3, 1));
    }
}
