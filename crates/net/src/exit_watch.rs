//! Notifies the membership service at once when a node's process has ended without leaving in order.
//!
//! A second process, the *watcher*, holds the reading end of a pipe whose writing end only the node's process has. The
//! kernel closes that end when the last thread of the node's process has ended, whatever has ended it: SIGKILL, a lack
//! of memory, a panic. Nothing but the end of the process closes it, so the end of the pipe proves that no thread of
//! the node can serve a request any more, and its lease need not be waited for. A machine or a network that fails
//! proves nothing; there the lease decides.
//!
//! The node writes the incarnation of its engines into the pipe whenever it changes, 8 bytes, big-endian, and 0 once it
//! has left in order.

use std::io::{self, ErrorKind, Read, Write};
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::process::ChildStdin;

use weft_cluster::{Agent, AgentParameters, Incarnation, Membership, NodeConfig};
use weft_time::{Duration, Instant};

use crate::resolve::own_address;
use crate::{
    BindError, Clock, Datagram, Directory, Endpoint, IdlePolicy, KeyFileError, PortOptions, Seal, Stop,
    UdpPort, run,
};

/// How long the watcher tries to reach the membership service: longer than another keeper takes to take over.
const TRIES: Duration = Duration::from_secs(2);
/// The number that a node writes when it has left.
const LEFT: u64 = 0;

/// The node's end of the pipe to its watcher.
#[derive(Debug)]
pub struct ExitWatch {
    /// It is never closed: the watcher takes its end for the end of the process.
    pipe: ManuallyDrop<ChildStdin>,
    told: u64,
}

impl ExitWatch {
    /// A watch whose watcher, a child process, reads from this pipe.
    pub fn new(pipe: ChildStdin) -> Self {
        Self { pipe: ManuallyDrop::new(pipe), told: LEFT }
    }

    /// Whether the watcher of this node has something to do. A node with its data on disk that starts again within its
    /// lease continues where it was, so its lease is not given up for it.
    pub fn is_for(config: &NodeConfig) -> bool {
        config.engines.data_dir.is_none()
    }

    /// The node's engines have this incarnation now.
    pub(crate) fn note(&mut self, incarnation: Incarnation) {
        self.tell(incarnation.get());
    }

    /// The node has left in order.
    pub(crate) fn note_left(&mut self) {
        self.tell(LEFT);
    }

    fn tell(&mut self, number: u64) {
        if std::mem::replace(&mut self.told, number) != number {
            // Without its watcher, which somebody may have killed, the node is what it would be without a watch.
            let _ = self.pipe.write_all(&number.to_be_bytes());
        }
    }
}

/// Why a watcher cannot do its work.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// Its port cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The cluster key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The pipe or the socket cannot be used.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// The watcher's process: reads from `pipe` until the process of the configured node has ended. If the node has not
/// left by then, it notifies the membership service, for two seconds or until the service confirms it.
///
/// # Errors
/// The pipe cannot be read, or no socket can be opened.
pub fn watch_exit(config: &NodeConfig, pipe: impl Read) -> Result<(), WatchError> {
    let Some(incarnation) = last_incarnation(pipe)? else { return Ok(()) };
    let done = Stop::new()?;
    let Some(own) = own_address(&config.own().address, config.family(), &done)? else { return Ok(()) };
    let seal = Seal::load(config.security.as_ref(), config.cluster)?;
    let port = UdpPort::bind(SocketAddr::new(own, 0), &PortOptions::default())?.sealed(seal.as_ref());
    let clock = Clock::starting_now();
    let now = clock.now();
    let parameters =
        AgentParameters { keepers: config.membership_places().len(), ..AgentParameters::default() };
    let mut agent =
        Agent::new(config.node, incarnation, parameters).of_cluster(config.cluster, config.profile());
    agent.leave(now);
    let mut notice = ExitNotice {
        agent,
        directory: Directory::of_cluster(config, own)?,
        nodes: config.peers.len(),
        until: now + TRIES,
        confirmed: false,
        done: &done,
    };
    run(&mut notice, &mut [port], clock, IdlePolicy::SLEEP, &done)?;
    Ok(())
}

/// The incarnation that a node had when its process ended; `None` if the node had left, or had not begun.
fn last_incarnation(mut pipe: impl Read) -> io::Result<Option<Incarnation>> {
    let mut last = LEFT;
    let mut number = [0; 8];
    loop {
        match pipe.read_exact(&mut number) {
            Ok(()) => last = u64::from_be_bytes(number),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Incarnation::new(last)),
            Err(error) => return Err(error),
        }
    }
}

/// Reports for a node whose process has ended that its engines are lost.
struct ExitNotice<'a> {
    agent: Agent,
    directory: Directory,
    nodes: usize,
    until: Instant,
    confirmed: bool,
    done: &'a Stop,
}

impl Endpoint<SocketAddr> for ExitNotice<'_> {
    fn receive(&mut self, now: Instant, _port: usize, datagram: Datagram<'_, SocketAddr>) {
        if self.directory.find(datagram.from).is_some_and(|sender| sender >= self.nodes) {
            // What does not answer the report has no effect.
            let _ = self.agent.receive(now, datagram.bytes);
            // The agent of a member whose engines are lost is told to restart them.
            self.confirmed |= self.agent.poll_action().is_some();
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let directory = self.directory.next_deadline();
        [self.agent.next_deadline(), self.until].into_iter().chain(directory).min()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.directory.check(now);
    }

    fn transmit(&mut self, now: Instant, ports: &mut [UdpPort<SocketAddr>]) {
        if self.confirmed || now >= self.until {
            self.done.request();
        } else if let Some(report) = self.agent.poll_transmit(now)
            && let Some(address) = self.directory.address(self.nodes + self.agent.keeper())
        {
            ports[0].push(address, &report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_incarnation_counts_unless_the_node_has_left() {
        let numbers = |numbers: &[u64]| {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
            last_incarnation(&*bytes).unwrap().map(Incarnation::get)
        };
        assert_eq!(numbers(&[]), None);
        assert_eq!(numbers(&[7, 9]), Some(9));
        assert_eq!(numbers(&[7, 9, LEFT]), None);
        assert_eq!(numbers(&[7, u64::MAX]), None, "no node has that incarnation");
        // A number that was not written as a whole does not count.
        assert_eq!(
            last_incarnation(&[&9u64.to_be_bytes()[..], &[0; 5]].concat()[..]).unwrap(),
            Incarnation::new(9)
        );
    }
}
