//! The state machine of the connection manager: it sends messages, handles answers, and sends messages again
//! that were not answered.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use weft_time::{Duration, Instant};

use crate::message::{Message, Reject, Rep, Req, Service, source};

/// Time after which a message that was not answered is sent again.
pub const RESEND: Duration = Duration::from_ms(500);

/// Total number of times that a message is sent.
pub const ATTEMPTS: u32 = 15;

/// After an MRA, the message is sent again only after this time.
const WAIT: Duration = Duration::from_secs(2);

/// How long the manager remembers a connection after its end, to answer late messages. A peer that was told to wait
/// sends its message once more within this time.
const LINGER: Duration = Duration::from_secs(4);

/// For this time after a service was closed, requests for it are neither refused nor answered. Programs that
/// meet more than once close their listener and then listen again, and a peer in user space may send its
/// request before they do. The requester sends its request again after [`RESEND`].
const REOPENING: Duration = Duration::from_secs(2);

/// A connection or connection attempt of a manager, identified by the manager's own number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId(u32);

impl ConnectionId {
    /// The identifier as a number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// Connection parameters that one side offers to the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of librdmacm")]
pub struct Parameters {
    pub queue_pair: u32,
    pub starting_psn: u32,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: bool,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub srq: bool,
    pub private: Vec<u8>,
}

/// The answer of a datagram service.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of librdmacm")]
pub struct Reply {
    pub queue_pair: u32,
    pub queue_key: u32,
    pub private: Vec<u8>,
}

/// An event for the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A peer requests a connection to a service on which the program listens.
    Requested {
        /// The attempt, which the program must accept or reject.
        id: ConnectionId,
        /// The requester's address.
        from: SocketAddr,
        /// The request.
        request: Req,
    },
    /// A peer asks for the queue pair of a datagram service.
    DatagramsRequested {
        /// The attempt, which the program must answer or reject.
        id: ConnectionId,
        /// The requester's address.
        from: SocketAddr,
        /// The service.
        service: Service,
        /// The private data of the request.
        private: Vec<u8>,
    },
    /// The peer has accepted. [`Manager::establish`] completes the connection.
    Accepted {
        /// The attempt.
        id: ConnectionId,
        /// The peer's answer.
        reply: Rep,
    },
    /// A datagram service has answered.
    DatagramsAccepted {
        /// The attempt, which has ended.
        id: ConnectionId,
        /// The answer.
        reply: Reply,
    },
    /// The peer has confirmed that it received this side's acceptance.
    Established(ConnectionId),
    /// The peer has refused.
    Rejected {
        /// The attempt, which has ended.
        id: ConnectionId,
        /// The reason.
        reason: Reject,
        /// The private data of the refusal.
        private: Vec<u8>,
    },
    /// The peer has not answered any attempt.
    Unreachable(ConnectionId),
    /// The connection has ended.
    Disconnected(ConnectionId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// This side has sent a request.
    Asking,
    /// A request was received, and the program has not answered it yet.
    Asked,
    /// This side has sent its answer.
    Answered,
    /// The peer has accepted, and the program has not called [`Manager::establish`] yet.
    Accepted,
    Connected,
    /// This side has sent a DREQ.
    Leaving,
    /// The connection has ended; only late messages are answered.
    Over,
}

#[derive(Debug)]
struct Connection {
    local: u32,
    remote: u32,
    peer: IpAddr,
    transaction: u64,
    datagrams: bool,
    queue_pair: u32,
    service: Service,
    state: State,
    /// The last message that was sent. `attempts` counts how often.
    message: Option<Message>,
    attempts: u32,
    due: Option<Instant>,
}

impl Connection {
    /// Whether the last message was a REJ.
    const fn is_refused(&self) -> bool {
        matches!(self.message, Some(Message::Rej { .. }))
    }
}

/// The connection manager of one port.
#[derive(Debug)]
pub struct Manager {
    address: IpAddr,
    guid: u64,
    connections: Vec<Connection>,
    listened: Vec<Service>,
    /// Services on which no program listens any more, each with the time from which requests for it are
    /// refused.
    closed: Vec<(Service, Instant)>,
    next: u32,
    out: VecDeque<(IpAddr, [u8; crate::MAD_BYTES])>,
    events: VecDeque<Event>,
    dropped: u64,
}

impl Manager {
    /// The manager of the port with this address. Connections get numbers from `seed` on. With different
    /// seeds, programs that run one after the other use different numbers.
    pub fn new(address: IpAddr, guid: u64, seed: u32) -> Self {
        Self {
            address,
            guid,
            connections: Vec::new(),
            listened: Vec::new(),
            closed: Vec::new(),
            next: seed,
            out: VecDeque::new(),
            events: VecDeque::new(),
            dropped: 0,
        }
    }

    /// Number of messages that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Accepts requests for a service from now on. Returns `false` if the service is already listened on.
    pub fn listen(&mut self, service: Service) -> bool {
        if self.listened.contains(&service) {
            return false;
        }
        self.listened.push(service);
        true
    }

    /// Stops accepting requests for a service. For the next two seconds, requests are ignored instead of
    /// refused, because the program may listen again.
    pub fn unlisten(&mut self, now: Instant, service: Service) {
        self.listened.retain(|&other| other != service);
        self.closed.retain(|&(other, until)| other != service && until > now);
        self.closed.push((service, now + REOPENING));
    }

    fn was_just_closed(&self, now: Instant, service: Service) -> bool {
        self.closed.iter().any(|&(other, until)| other == service && until > now)
    }

    fn add(&mut self, peer: IpAddr, service: Service, datagrams: bool, state: State) -> &mut Connection {
        self.next = self.next.wrapping_add(1).max(1);
        let local = self.next;
        self.connections.push(Connection {
            local,
            remote: 0,
            peer,
            transaction: u64::from(local),
            datagrams,
            queue_pair: 0,
            service,
            state,
            message: None,
            attempts: 0,
            due: None,
        });
        self.connections.last_mut().expect("just pushed")
    }

    fn find(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.local == id.0)
    }

    /// Sends a peer a request for a connection.
    pub fn connect(
        &mut self,
        now: Instant,
        peer: IpAddr,
        service: Service,
        mtu: u8,
        reliable: bool,
        parameters: Parameters,
    ) -> ConnectionId {
        let (source, guid) = (self.address, self.guid);
        let connection = self.add(peer, service, false, State::Asking);
        let local_id = connection.local;
        connection.queue_pair = parameters.queue_pair;
        connection.message = Some(Message::Req(Req {
            local_id,
            service,
            guid,
            queue_pair: parameters.queue_pair,
            responder_resources: parameters.responder_resources,
            initiator_depth: parameters.initiator_depth,
            starting_psn: parameters.starting_psn,
            ack_timeout: 14,
            retry_count: parameters.retry_count,
            rnr_retry_count: parameters.rnr_retry_count,
            mtu,
            srq: parameters.srq,
            flow_control: parameters.flow_control,
            reliable,
            source,
            destination: peer,
            private: parameters.private,
        }));
        self.send(now, ConnectionId(local_id));
        ConnectionId(local_id)
    }

    /// Asks a peer for the queue pair of a datagram service.
    pub fn resolve(
        &mut self,
        now: Instant,
        peer: IpAddr,
        service: Service,
        private: Vec<u8>,
    ) -> ConnectionId {
        let connection = self.add(peer, service, true, State::Asking);
        let id = ConnectionId(connection.local);
        connection.message = Some(Message::SidrReq { request: id.0, service, private });
        self.send(now, id);
        id
    }

    /// Accepts a request for a connection. Returns `false` if the request no longer waits for an answer.
    pub fn accept(&mut self, now: Instant, id: ConnectionId, parameters: Parameters) -> bool {
        let guid = self.guid;
        let Some(connection) = self.find(id).filter(|connection| connection.state == State::Asked) else {
            return false;
        };
        connection.state = State::Answered;
        connection.queue_pair = parameters.queue_pair;
        connection.message = Some(Message::Rep(Rep {
            local_id: connection.local,
            remote_id: connection.remote,
            queue_pair: parameters.queue_pair,
            starting_psn: parameters.starting_psn,
            responder_resources: parameters.responder_resources,
            initiator_depth: parameters.initiator_depth,
            flow_control: parameters.flow_control,
            rnr_retry_count: parameters.rnr_retry_count,
            srq: parameters.srq,
            guid,
            private: parameters.private,
        }));
        self.send(now, id);
        true
    }

    /// Answers a request for the queue pair of a datagram service. Returns `false` if the request no longer
    /// waits for an answer.
    pub fn answer(&mut self, now: Instant, id: ConnectionId, status: u8, reply: Reply) -> bool {
        let Some(connection) =
            self.find(id).filter(|connection| connection.state == State::Asked && connection.datagrams)
        else {
            return false;
        };
        let Reply { queue_pair, queue_key, private } = reply;
        let (request, service) = (connection.remote, connection.service);
        connection.message =
            Some(Message::SidrRep { request, status, service, queue_pair, queue_key, private });
        self.send(now, id);
        self.end(now, id);
        true
    }

    /// Refuses a request. Returns `false` if the request no longer waits for an answer.
    pub fn reject(&mut self, now: Instant, id: ConnectionId, reason: Reject, private: Vec<u8>) -> bool {
        let Some(connection) = self.find(id).filter(|connection| connection.state == State::Asked) else {
            return false;
        };
        if connection.datagrams {
            let reply = Reply { queue_pair: 0, queue_key: 0, private };
            return self.answer(now, id, 2, reply);
        }
        let (local_id, remote_id) = (connection.local, connection.remote);
        connection.message = Some(Message::Rej { local_id, remote_id, reason, private });
        self.send(now, id);
        self.end(now, id);
        true
    }

    /// Completes a connection that the peer has accepted, once this side's queue pair is ready: notifies the
    /// peer. Returns `false` if there is no such connection.
    pub fn establish(&mut self, now: Instant, id: ConnectionId) -> bool {
        let Some(connection) = self.find(id).filter(|connection| connection.state == State::Accepted) else {
            return false;
        };
        connection.state = State::Connected;
        let (local_id, remote_id) = (connection.local, connection.remote);
        connection.message = Some(Message::Rtu { local_id, remote_id });
        self.send(now, id);
        true
    }

    /// Ends a connection. Returns `false` if there is no such connection.
    pub fn disconnect(&mut self, now: Instant, id: ConnectionId) -> bool {
        let Some(connection) =
            self.find(id).filter(|connection| matches!(connection.state, State::Connected | State::Answered))
        else {
            return false;
        };
        connection.state = State::Leaving;
        let (local_id, remote_id) = (connection.local, connection.remote);
        connection.message = Some(Message::Dreq { local_id, remote_id, queue_pair: connection.queue_pair });
        connection.attempts = 0;
        self.send(now, id);
        true
    }

    /// Ends, refuses or aborts a connection that the program no longer uses.
    pub fn forget(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.find(id) else { return };
        match connection.state {
            State::Asked => {
                self.reject(now, id, Reject::CONSUMER, Vec::new());
            }
            State::Asking | State::Accepted => self.give_up(now, id),
            State::Connected | State::Answered => {
                self.disconnect(now, id);
            }
            State::Leaving | State::Over => {}
        }
    }

    /// Ends an attempt, and tells the peer, which may have a connection by now.
    fn give_up(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.find(id) else { return };
        if !connection.datagrams {
            let (local_id, remote_id) = (connection.local, connection.remote);
            let (reason, private) = (Reject::TIMEOUT, Vec::new());
            connection.message = Some(Message::Rej { local_id, remote_id, reason, private });
            self.send(now, id);
        }
        self.end(now, id);
    }

    fn end(&mut self, now: Instant, id: ConnectionId) {
        if let Some(connection) = self.find(id) {
            connection.state = State::Over;
            connection.due = Some(now + LINGER);
        }
    }

    /// Sends the current message of a connection. If the message needs an answer, sets the time at which to
    /// send it again.
    fn send(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.find(id) else { return };
        let Some(message) = &connection.message else { return };
        let waits = matches!(
            message,
            Message::Req(_) | Message::Rep(_) | Message::Dreq { .. } | Message::SidrReq { .. }
        );
        connection.attempts += 1;
        connection.due = waits.then(|| now + RESEND);
        let datagram = (connection.peer, message.emit(connection.transaction));
        self.out.push_back(datagram);
    }

    /// Tells a peer that repeats its message to wait for this side's program.
    fn postpone(&mut self, id: ConnectionId) {
        let Some(connection) = self.find(id) else { return };
        let wait = Message::Mra { local_id: connection.local, remote_id: connection.remote };
        let datagram = (connection.peer, wait.emit(connection.transaction));
        self.out.push_back(datagram);
    }

    /// Handles a management datagram.
    pub fn receive(&mut self, now: Instant, from: IpAddr, bytes: &[u8]) {
        if self.take(now, from, bytes).is_none() {
            self.dropped += 1;
        }
    }

    /// The connection that a message of the peer is about. `local` is this side's number of the connection,
    /// `remote` the peer's.
    fn named(&mut self, from: IpAddr, local: u32, remote: u32) -> Option<&mut Connection> {
        self.find(ConnectionId(local)).filter(|connection| {
            connection.peer == from && (connection.remote == remote || connection.remote == 0)
        })
    }

    fn take(&mut self, now: Instant, from: IpAddr, bytes: &[u8]) -> Option<()> {
        let (transaction, message) = Message::parse(bytes)?;
        match message {
            Message::Req(request) => self.take_request(now, from, transaction, request)?,
            Message::SidrReq { request, service, private } => {
                if self.repeat(now, from, request, true) {
                    return Some(());
                }
                let asks = source(&private)?;
                if !self.listened.contains(&service) {
                    if self.was_just_closed(now, service) {
                        return Some(());
                    }
                    let (status, private) = (1, Vec::new());
                    let refusal =
                        Message::SidrRep { request, status, service, queue_pair: 0, queue_key: 0, private };
                    self.out.push_back((from, refusal.emit(transaction)));
                    return Some(());
                }
                let connection = self.add(from, service, true, State::Asked);
                connection.remote = request;
                connection.transaction = transaction;
                let id = ConnectionId(connection.local);
                self.events.push_back(Event::DatagramsRequested { id, from: asks, service, private });
            }
            Message::SidrRep { request, status, queue_pair, queue_key, private, .. } => {
                let connection = self.named(from, request, 0)?;
                if connection.state != State::Asking {
                    return None;
                }
                let id = ConnectionId(request);
                self.end(now, id);
                self.events.push_back(if status == 0 {
                    Event::DatagramsAccepted { id, reply: Reply { queue_pair, queue_key, private } }
                } else {
                    Event::Rejected { id, reason: Reject(status.into()), private }
                });
            }
            Message::Rep(reply) => {
                let connection = self.named(from, reply.remote_id, reply.local_id)?;
                let id = ConnectionId(connection.local);
                match connection.state {
                    State::Asking => {
                        connection.state = State::Accepted;
                        connection.remote = reply.local_id;
                        connection.due = None;
                        self.events.push_back(Event::Accepted { id, reply });
                    }
                    // The peer has sent the REP again, so the RTU was lost.
                    State::Connected => self.send(now, id),
                    State::Accepted => self.postpone(id),
                    State::Over if connection.is_refused() => self.repeat_last(now, id),
                    _ => return None,
                }
            }
            Message::Rtu { local_id, remote_id } => {
                let connection = self.named(from, remote_id, local_id)?;
                let id = ConnectionId(remote_id);
                match connection.state {
                    State::Answered => {
                        connection.state = State::Connected;
                        connection.due = None;
                        self.events.push_back(Event::Established(id));
                    }
                    // The peer would keep a connection that has ended here.
                    State::Over if connection.is_refused() => self.repeat_last(now, id),
                    _ => return None,
                }
            }
            Message::Mra { local_id, remote_id } => {
                let connection = self.named(from, remote_id, local_id)?;
                if matches!(connection.state, State::Asking | State::Answered) {
                    connection.due = Some(now + WAIT);
                }
            }
            Message::Rej { local_id, remote_id, reason, private } => {
                // A requester that aborts its attempt may not know this side's number.
                let known = self.named(from, remote_id, local_id).is_some();
                let local = if known {
                    remote_id
                } else {
                    let theirs = |connection: &&Connection| {
                        remote_id == 0
                            && connection.peer == from
                            && connection.remote == local_id
                            && !connection.datagrams
                    };
                    self.connections.iter().find(theirs)?.local
                };
                let id = ConnectionId(local);
                let event = match self.find(id)?.state {
                    State::Over | State::Leaving => return None,
                    // The peer has given up before it received the RTU.
                    State::Connected => Event::Disconnected(id),
                    _ => Event::Rejected { id, reason, private },
                };
                self.end(now, id);
                self.events.push_back(event);
            }
            Message::Dreq { local_id, remote_id, .. } => {
                let answer = Message::Drep { local_id: remote_id, remote_id: local_id }.emit(transaction);
                self.out.push_back((from, answer));
                let connection = self.named(from, remote_id, local_id)?;
                if matches!(connection.state, State::Over) {
                    return Some(());
                }
                let id = ConnectionId(remote_id);
                // The RTU may have been lost.
                if connection.state == State::Answered {
                    self.events.push_back(Event::Established(id));
                }
                self.end(now, id);
                self.events.push_back(Event::Disconnected(id));
            }
            Message::Drep { local_id, remote_id } => {
                let connection = self.named(from, remote_id, local_id)?;
                if connection.state != State::Leaving {
                    return None;
                }
                let id = ConnectionId(remote_id);
                self.end(now, id);
                self.events.push_back(Event::Disconnected(id));
            }
        }
        Some(())
    }

    /// If this request has arrived before, sends the same answer again and returns `true`.
    fn repeat(&mut self, now: Instant, from: IpAddr, remote: u32, datagrams: bool) -> bool {
        let same = |connection: &&Connection| {
            connection.peer == from && connection.remote == remote && connection.datagrams == datagrams
        };
        let Some(connection) = self.connections.iter().find(same) else { return false };
        let id = ConnectionId(connection.local);
        match connection.state {
            State::Asked if !datagrams => self.postpone(id),
            State::Answered => self.send(now, id),
            State::Over => self.repeat_last(now, id),
            _ => {}
        }
        true
    }

    /// Sends the last message of a connection that has ended again, and remembers it for longer.
    fn repeat_last(&mut self, now: Instant, id: ConnectionId) {
        self.send(now, id);
        self.end(now, id);
    }

    fn take_request(&mut self, now: Instant, from: IpAddr, transaction: u64, request: Req) -> Option<()> {
        if self.repeat(now, from, request.local_id, false) {
            return Some(());
        }
        let asks = source(&request.private).unwrap_or(SocketAddr::new(from, 0));
        if !self.listened.contains(&request.service) {
            if self.was_just_closed(now, request.service) {
                return Some(());
            }
            let (reason, private) = (Reject::INVALID_SERVICE, Vec::new());
            let refusal = Message::Rej { local_id: 0, remote_id: request.local_id, reason, private };
            self.out.push_back((from, refusal.emit(transaction)));
            return Some(());
        }
        let connection = self.add(from, request.service, false, State::Asked);
        connection.remote = request.local_id;
        connection.transaction = transaction;
        let id = ConnectionId(connection.local);
        self.events.push_back(Event::Requested { id, from: asks, request });
        Some(())
    }

    /// The latest time at which [`Manager::handle_deadline`] must be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.connections.iter().filter_map(|connection| connection.due).min()
    }

    /// Sends messages again that were not answered, ends connections after the last attempt, and removes
    /// connections that ended long enough ago.
    pub fn handle_deadline(&mut self, now: Instant) {
        let due: Vec<ConnectionId> = self
            .connections
            .iter()
            .filter(|connection| connection.due.is_some_and(|due| due <= now))
            .map(|connection| ConnectionId(connection.local))
            .collect();
        for id in due {
            let Some(connection) = self.find(id) else { continue };
            match connection.state {
                State::Over => self.connections.retain(|connection| connection.local != id.0),
                _ if connection.attempts < ATTEMPTS => self.send(now, id),
                State::Leaving => {
                    self.end(now, id);
                    self.events.push_back(Event::Disconnected(id));
                }
                _ => {
                    self.give_up(now, id);
                    self.events.push_back(Event::Unreachable(id));
                }
            }
        }
    }

    /// Takes the oldest datagram to send, with its destination.
    pub fn poll_transmit(&mut self) -> Option<(IpAddr, [u8; crate::MAD_BYTES])> {
        self.out.pop_front()
    }

    /// Takes the oldest event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::private;

    const SERVICE: Service = Service::new(0x0106, 7);

    fn address(end: usize) -> IpAddr {
        [10, 0, 0, end as u8 + 1].into()
    }

    fn pair() -> [Manager; 2] {
        [0, 1].map(|end| Manager::new(address(end), end as u64, 100 * end as u32))
    }

    fn parameters(queue_pair: u32) -> Parameters {
        let from = SocketAddr::new(address(0), 9);
        Parameters {
            queue_pair,
            starting_psn: 1,
            responder_resources: 1,
            initiator_depth: 1,
            flow_control: true,
            retry_count: 7,
            rnr_retry_count: 7,
            srq: false,
            private: private::header(from, address(1)).to_vec(),
        }
    }

    /// Delivers datagrams until there are none. Counts them, and drops those for whose count `lose` returns
    /// `true`.
    fn carry(now: Instant, ends: &mut [Manager; 2], count: &mut u32, lose: impl Fn(u32) -> bool) {
        loop {
            let mut moved = false;
            for end in 0..2 {
                while let Some((to, bytes)) = ends[end].poll_transmit() {
                    assert_eq!(to, address(1 - end));
                    *count += 1;
                    moved = true;
                    if !lose(*count) {
                        ends[1 - end].receive(now, address(end), &bytes);
                    }
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// Opening and ending a connection succeeds, whichever single datagram is lost.
    #[test]
    fn any_datagram_may_be_lost_once() {
        for lost in 0..8 {
            let mut ends = pair();
            let mut count = 0;
            ends[1].listen(SERVICE);
            let mut now = Instant::ZERO;
            let id = ends[0].connect(now, address(1), SERVICE, 3, true, parameters(5));
            let mut seen = [Vec::new(), Vec::new()];
            let mut ended = false;
            for _ in 0..20 {
                carry(now, &mut ends, &mut count, |datagram| datagram == lost);
                for end in 0..2 {
                    while let Some(event) = ends[end].poll_event() {
                        seen[end].push(match &event {
                            Event::Requested { id, from, request } => {
                                assert_eq!((request.queue_pair, from.port()), (5, 9));
                                assert!(ends[end].accept(now, *id, parameters(6)));
                                "requested"
                            }
                            Event::Accepted { id, reply } => {
                                assert_eq!(reply.queue_pair, 6);
                                assert!(ends[end].establish(now, *id));
                                "accepted"
                            }
                            Event::Established(_) => "established",
                            Event::Disconnected(_) => "disconnected",
                            other => panic!("{other:?}"),
                        });
                    }
                }
                if seen[1].contains(&"established") && !ended {
                    ended = ends[0].disconnect(now, id);
                }
                now += RESEND;
                ends.iter_mut().for_each(|end| end.handle_deadline(now));
            }
            assert_eq!(seen[0], ["accepted", "disconnected"], "datagram {lost} is lost");
            assert_eq!(seen[1], ["requested", "established", "disconnected"], "datagram {lost} is lost");
            assert!(ends.iter().all(|end| end.connections.is_empty()), "nothing is left");
        }
    }

    #[test]
    fn nobody_listens_or_answers() {
        let mut ends = pair();
        let mut now = Instant::ZERO;
        let id = ends[0].connect(now, address(1), SERVICE, 3, true, parameters(5));
        let mut count = 0;
        carry(now, &mut ends, &mut count, |_| false);
        let (reason, private) = (Reject::INVALID_SERVICE, vec![0; 148]);
        assert_eq!(ends[0].poll_event(), Some(Event::Rejected { id, reason, private }));
        let id = ends[0].connect(now, address(1), SERVICE, 3, true, parameters(5));
        while let Some(deadline) = ends[0].next_deadline() {
            now = deadline;
            ends[0].handle_deadline(now);
            carry(now, &mut ends, &mut count, |_| true);
        }
        assert_eq!(ends[0].poll_event(), Some(Event::Unreachable(id)));
        // The attempts, and a REJ at the end.
        assert_eq!(count, 2 + ATTEMPTS + 1);
    }

    #[test]
    fn a_program_may_refuse_and_datagram_services_answer() {
        let mut ends = pair();
        let (now, mut count) = (Instant::ZERO, 0);
        ends[1].listen(SERVICE);
        ends[0].connect(now, address(1), SERVICE, 3, true, parameters(5));
        carry(now, &mut ends, &mut count, |_| false);
        let Some(Event::Requested { id, .. }) = ends[1].poll_event() else { panic!("no request") };
        assert!(ends[1].reject(now, id, Reject::CONSUMER, b"no".to_vec()));
        carry(now, &mut ends, &mut count, |_| false);
        let Some(Event::Rejected { reason, private, .. }) = ends[0].poll_event() else { panic!("no answer") };
        assert_eq!((reason, &private[..3]), (Reject::CONSUMER, &b"no\0"[..]));

        let service = Service::new(0x0111, 7);
        ends[1].listen(service);
        let asked = ends[0].resolve(now, address(1), service, parameters(0).private);
        carry(now, &mut ends, &mut count, |_| false);
        let Some(Event::DatagramsRequested { id, .. }) = ends[1].poll_event() else { panic!("no request") };
        let reply = Reply { queue_pair: 9, queue_key: 8, private: Vec::new() };
        assert!(ends[1].answer(now, id, 0, reply));
        carry(now, &mut ends, &mut count, |_| false);
        let Some(Event::DatagramsAccepted { id, reply }) = ends[0].poll_event() else { panic!("no answer") };
        assert_eq!((id, reply.queue_pair, reply.queue_key), (asked, 9, 8));
    }

    #[test]
    fn a_service_that_listens_again_is_found() {
        let mut ends = pair();
        let (now, mut count) = (Instant::ZERO, 0);
        ends[1].listen(SERVICE);
        ends[1].unlisten(now, SERVICE);
        ends[0].connect(now, address(1), SERVICE, 3, true, parameters(5));
        carry(now, &mut ends, &mut count, |_| false);
        assert_eq!((ends[0].poll_event(), ends[1].poll_event()), (None, None));

        assert!(ends[1].listen(SERVICE));
        let later = now + RESEND;
        ends[0].handle_deadline(later);
        carry(later, &mut ends, &mut count, |_| false);
        assert!(matches!(ends[1].poll_event(), Some(Event::Requested { .. })));
    }

    #[test]
    fn a_service_that_stays_closed_refuses() {
        let mut ends = pair();
        let mut count = 0;
        ends[1].listen(SERVICE);
        ends[1].unlisten(Instant::ZERO, SERVICE);
        let later = Instant::ZERO + REOPENING;
        ends[0].connect(later, address(1), SERVICE, 3, true, parameters(5));
        carry(later, &mut ends, &mut count, |_| false);
        let Some(Event::Rejected { reason, .. }) = ends[0].poll_event() else { panic!("no answer") };
        assert_eq!(reason, Reject::INVALID_SERVICE);
    }

    #[test]
    fn a_late_refusal_ends_no_other_attempt() {
        let mut ends = pair();
        let (now, mut count) = (Instant::ZERO, 0);
        let first = ends[0].connect(now, address(1), SERVICE, 3, true, parameters(5));
        carry(now, &mut ends, &mut count, |_| false);
        assert!(matches!(ends[0].poll_event(), Some(Event::Rejected { id, .. }) if id == first));
        let later = now + LINGER;
        ends[0].handle_deadline(later);
        ends[0].connect(later, address(1), SERVICE, 3, true, parameters(5));
        let (reason, private) = (Reject::INVALID_SERVICE, Vec::new());
        let late = Message::Rej { local_id: 0, remote_id: first.0, reason, private }.emit(1);
        ends[0].receive(later, address(1), &late);
        assert_eq!((ends[0].poll_event(), ends[0].dropped()), (None, 1));
    }

    #[test]
    fn strangers_end_nothing() {
        let mut ends = pair();
        let (now, mut count) = (Instant::ZERO, 0);
        ends[1].listen(SERVICE);
        let id = ends[0].connect(now, address(1), SERVICE, 3, true, parameters(5));
        carry(now, &mut ends, &mut count, |_| false);
        let forged = Message::Dreq { local_id: 1, remote_id: id.0, queue_pair: 5 }.emit(1);
        ends[0].receive(now, [10, 0, 0, 9].into(), &forged);
        assert_eq!((ends[0].poll_event(), ends[0].dropped()), (None, 1));
    }
}
