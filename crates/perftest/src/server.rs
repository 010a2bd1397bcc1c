//! The server's program: keeps receive requests posted. It is the same in all worlds.

use weft_verbs::{Completion, CompletionStatus, QueuePairNumber, ReceiveRequest};

use super::connection::Connection;
use super::load::Load;
use super::payload::MessageId;

/// When the receive request of message *n* has completed, posts the one for message *n* + depth.
#[derive(Debug)]
pub(super) struct Server {
    load: Load,
    connection: Connection,
    /// For each queue pair, the message whose receive request must complete next.
    next: Vec<u64>,
    failure: Option<String>,
}

impl Server {
    pub(super) fn new(load: Load, connection: Connection) -> Self {
        Self { load, connection, next: vec![0; load.busy as usize], failure: None }
    }

    /// The queue pairs under load.
    pub(super) fn queue_pairs(&self) -> &[QueuePairNumber] {
        self.connection.queue_pairs()
    }

    /// The receive requests to post before the first message arrives.
    pub(super) fn first_requests(&self) -> impl Iterator<Item = (QueuePairNumber, ReceiveRequest)> + '_ {
        (0..self.load.busy).flat_map(move |flow| {
            (0..u64::from(self.load.receive_depth()))
                .map(move |number| self.request(MessageId { flow, number }))
        })
    }

    /// Handles the completion of a receive request. Returns the next one to post.
    pub(super) fn handle(&mut self, completion: &Completion) -> Option<(QueuePairNumber, ReceiveRequest)> {
        let message = MessageId::of_tag(completion.id);
        let next = &mut self.next[message.flow as usize];
        let in_turn = completion.status == CompletionStatus::Success && *next == message.number;
        if !in_turn {
            let status = completion.status.name();
            self.failure.get_or_insert_with(|| format!("receive request of {message:?} ended with {status}"));
            return None;
        }
        *next += 1;
        let depth = u64::from(self.load.receive_depth());
        Some(self.request(MessageId { number: message.number + depth, ..message }))
    }

    /// Called at the end of the run: the client has sent `sent` messages on each queue pair.
    ///
    /// # Errors
    /// If a message is missing. The error names it.
    pub(super) fn finish(self, sent: &[u64]) -> Result<(), String> {
        self.failure.map_or(Ok(()), Err)?;
        if self.load.operation.consumes_receive() && self.next != sent {
            return Err(format!("{:?} messages were received of {sent:?}", self.next));
        }
        Ok(())
    }

    fn request(&self, message: MessageId) -> (QueuePairNumber, ReceiveRequest) {
        let request = self.connection.receive_request(&self.load, message);
        (self.connection.queue_pair(message.flow), request)
    }
}
