//! The requests to one engine: enqueued by any thread, with as many outstanding as the engine allows.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use weft_time::{Duration, Instant};

use crate::Error;

/// The interface to the client half of an engine's protocol, the same for all engines.
pub(crate) trait ClientHalf: Send {
    type Request: Send;
    type Reply;

    /// The length of the longest message for the request, in bytes.
    fn message_bytes(request: &Self::Request) -> usize;

    /// The result of a request that reached its time-out before it was started.
    fn not_begun(&self, after: Duration) -> Result<Self::Reply, Error> {
        Err(Error::NotBegun { after })
    }

    /// Starts the request and returns its number; `None` if too many are outstanding.
    fn start(&mut self, now: Instant, request: &Self::Request) -> Option<u64>;

    /// Processes a message from a node. Returns the request that it completes, with its result.
    fn receive(
        &mut self,
        now: Instant,
        node: usize,
        message: (u8, &[u8]),
    ) -> Option<(u64, Result<Self::Reply, Error>)>;

    fn next_deadline(&self) -> Option<Instant>;

    fn handle_deadline(&mut self, now: Instant) -> Option<(u64, Result<Self::Reply, Error>)>;

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)>;

    /// Ends the session: [`ClientHalf::poll_transmit`] returns the last messages, and no more requests follow.
    fn end_session(&mut self) {}
}

/// The callback that receives the result of a request.
pub(crate) type Deliver<R> = Box<dyn FnOnce(Result<R, Error>) + Send>;

type Queue<M> = VecDeque<(<M as ClientHalf>::Request, Deliver<<M as ClientHalf>::Reply>)>;

/// The queue in which other threads enqueue requests.
pub(crate) struct Inbox<M: ClientHalf> {
    /// `None` once the client's thread has ended.
    queue: Mutex<Option<Queue<M>>>,
    /// The longest message that fits into a datagram, in bytes.
    room: usize,
}

impl<M: ClientHalf> Inbox<M> {
    /// Enqueues a request, or reports at once that it is too long.
    pub fn enqueue(&self, request: M::Request, deliver: Deliver<M::Reply>) {
        let bytes = M::message_bytes(&request);
        if bytes > self.room {
            let room = self.room;
            deliver(Err(Error::Invalid(format!(
                "the request takes {bytes} bytes of a datagram, which has room for {room}: shorten it"
            ))));
            return;
        }
        match &mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(queue) => queue.push_back((request, deliver)),
            None => deliver(Err(Error::Closed)),
        }
    }
}

struct Waiting<M: ClientHalf> {
    request: M::Request,
    deliver: Deliver<M::Reply>,
    give_up_at: Instant,
}

/// The client half of an engine, with the requests of all threads.
pub(crate) struct RequestQueue<M: ClientHalf> {
    machine: M,
    inbox: Arc<Inbox<M>>,
    give_up: Duration,
    /// Requests that wait until fewer are outstanding, oldest first.
    backlog: VecDeque<Waiting<M>>,
    running: Vec<(u64, Deliver<M::Reply>)>,
}

impl<M: ClientHalf> RequestQueue<M> {
    /// A queue for messages of at most `room` bytes.
    pub fn new(machine: M, give_up: Duration, room: usize) -> Self {
        let inbox = Arc::new(Inbox { queue: Mutex::new(Some(Queue::<M>::new())), room });
        Self { machine, inbox, give_up, backlog: VecDeque::new(), running: Vec::new() }
    }

    pub fn inbox(&self) -> Arc<Inbox<M>> {
        Arc::clone(&self.inbox)
    }

    fn begin(&mut self, now: Instant) {
        while let Some(waiting) = self.backlog.front() {
            let Some(number) = self.machine.start(now, &waiting.request) else { break };
            let waiting = self.backlog.pop_front().expect("it was just there");
            self.running.push((number, waiting.deliver));
        }
    }

    fn end(&mut self, number: u64, reply: Result<M::Reply, Error>) {
        if let Some(place) = self.running.iter().position(|(known, _)| *known == number) {
            let (_, deliver) = self.running.swap_remove(place);
            deliver(reply);
        }
    }
}

impl<M: ClientHalf> Drop for RequestQueue<M> {
    fn drop(&mut self) {
        self.inbox.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// A request queue of any engine.
pub(crate) trait AnyQueue: Send {
    /// Takes the requests that other threads have enqueued.
    fn take(&mut self, now: Instant);
    fn receive(&mut self, now: Instant, node: usize, message: (u8, &[u8]));
    fn next_deadline(&self) -> Option<Instant>;
    fn handle_deadline(&mut self, now: Instant);
    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)>;
    fn end_session(&mut self);
}

impl<M: ClientHalf> AnyQueue for RequestQueue<M> {
    fn take(&mut self, now: Instant) {
        let queue =
            self.inbox.queue.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(std::mem::take);
        let mut queue = queue.unwrap_or_default();
        let give_up_at = now + self.give_up;
        self.backlog.extend(queue.drain(..).map(|(request, deliver)| Waiting {
            request,
            deliver,
            give_up_at,
        }));
        self.begin(now);
    }

    fn receive(&mut self, now: Instant, node: usize, message: (u8, &[u8])) {
        if let Some((number, reply)) = self.machine.receive(now, node, message) {
            self.end(number, reply);
            self.begin(now);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let waiting = self.backlog.front().map(|waiting| waiting.give_up_at);
        [self.machine.next_deadline(), waiting].into_iter().flatten().min()
    }

    fn handle_deadline(&mut self, now: Instant) {
        while let Some((number, reply)) = self.machine.handle_deadline(now) {
            self.end(number, reply);
        }
        while self.backlog.front().is_some_and(|waiting| waiting.give_up_at <= now) {
            let waiting = self.backlog.pop_front().expect("it was just there");
            (waiting.deliver)(self.machine.not_begun(self.give_up));
        }
        self.begin(now);
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.machine.poll_transmit(out)
    }

    fn end_session(&mut self) {
        self.machine.end_session();
    }
}
