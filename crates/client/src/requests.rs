//! The requests to one engine: enqueued by any thread, with as many outstanding as the engine allows.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use weft_session::{CallId, ClientHalf, OutcomeOf, TaskOf};
use weft_time::{Duration, Instant};

use crate::Error;

/// The requests of programs to one engine, as calls of its client half.
pub(crate) trait Requests {
    type Half: ClientHalf + Send;
    type Request: Send;
    type Reply;

    /// The length of the longest message for the request, in bytes.
    fn message_bytes(request: &Self::Request) -> usize;

    fn task(request: &Self::Request) -> TaskOf<'_, Self::Half>;

    /// The result of a request whose call has ended, `give_up` after its start at the latest.
    fn reply(outcome: OutcomeOf<'_, Self::Half>, give_up: Duration) -> Result<Self::Reply, Error>;
}

/// The callback that receives the result of a request.
pub(crate) type Deliver<R> = Box<dyn FnOnce(Result<R, Error>) + Send>;

type Queue<R> = VecDeque<(<R as Requests>::Request, Deliver<<R as Requests>::Reply>)>;

/// The queue in which other threads enqueue requests.
pub(crate) struct Inbox<R: Requests> {
    /// `None` once the client's thread has ended.
    queue: Mutex<Option<Queue<R>>>,
    /// The longest message that fits into a datagram, in bytes.
    room: usize,
}

impl<R: Requests> Inbox<R> {
    /// Enqueues a request, or reports at once that it is too long.
    pub fn enqueue(&self, request: R::Request, deliver: Deliver<R::Reply>) {
        let bytes = R::message_bytes(&request);
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

struct Waiting<R: Requests> {
    request: R::Request,
    deliver: Deliver<R::Reply>,
    give_up_at: Instant,
}

/// The client half of an engine, with the requests of all threads.
pub(crate) struct RequestQueue<R: Requests> {
    half: R::Half,
    inbox: Arc<Inbox<R>>,
    give_up: Duration,
    /// Requests that wait until fewer are outstanding, oldest first.
    backlog: VecDeque<Waiting<R>>,
    running: Vec<(CallId, Deliver<R::Reply>)>,
}

impl<R: Requests> RequestQueue<R> {
    /// A queue for messages of at most `room` bytes.
    pub fn new(half: R::Half, give_up: Duration, room: usize) -> Self {
        let inbox = Arc::new(Inbox { queue: Mutex::new(Some(Queue::<R>::new())), room });
        Self { half, inbox, give_up, backlog: VecDeque::new(), running: Vec::new() }
    }

    pub fn inbox(&self) -> Arc<Inbox<R>> {
        Arc::clone(&self.inbox)
    }

    fn begin(&mut self, now: Instant) {
        while let Some(waiting) = self.backlog.front() {
            let Some(call) = self.half.start(now, R::task(&waiting.request)) else { break };
            let waiting = self.backlog.pop_front().expect("it was just there");
            self.running.push((call, waiting.deliver));
        }
    }

    fn end(&mut self, call: CallId, outcome: OutcomeOf<'_, R::Half>) {
        if let Some(place) = self.running.iter().position(|(known, _)| *known == call) {
            let (_, deliver) = self.running.swap_remove(place);
            deliver(R::reply(outcome, self.give_up));
        }
    }
}

impl<R: Requests> Drop for RequestQueue<R> {
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

impl<R: Requests> AnyQueue for RequestQueue<R> {
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
        if let Some((call, outcome)) = self.half.receive(now, node, message) {
            self.end(call, outcome);
            self.begin(now);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let waiting = self.backlog.front().map(|waiting| waiting.give_up_at);
        [self.half.next_deadline(), waiting].into_iter().flatten().min()
    }

    fn handle_deadline(&mut self, now: Instant) {
        while let Some((call, outcome)) = self.half.handle_deadline(now) {
            self.end(call, outcome);
        }
        while self.backlog.front().is_some_and(|waiting| waiting.give_up_at <= now) {
            let waiting = self.backlog.pop_front().expect("it was just there");
            (waiting.deliver)(Err(Error::NotBegun { after: self.give_up }));
        }
        self.begin(now);
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.half.poll_transmit(out)
    }

    fn end_session(&mut self) {
        self.half.leave();
    }
}
