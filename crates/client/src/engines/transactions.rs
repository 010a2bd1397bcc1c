//! Transactions.

use weft_time::{Duration, Instant};
use weft_txn::client::{Client, ClientParameters, Ended as ClientEnded};
use weft_txn::{Accesses, INPUT_MAX, Key, Mode, Outcome, ProcedureId, Request, TransactionId};

use super::{Handle, refused};
use crate::requests::ClientHalf;
use crate::{Error, Pending};

/// Outcome of a transaction, and its last attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its last attempt, if it is known.
    pub attempt: Option<TransactionId>,
    /// The outcome: never [`Outcome::Unknown`], which is returned as [`Error::Unknown`].
    pub outcome: Outcome,
}

pub(crate) struct TransactionMachine {
    clients: Vec<(Client, u64)>,
    last: u64,
    give_up: Duration,
}

impl TransactionMachine {
    /// The most outstanding calls. To the nodes, each of them is a separate client.
    pub const CALLERS: usize = 8;

    pub fn new(clients: impl Iterator<Item = ClientParameters>) -> Self {
        let mut give_up = Duration::ZERO;
        let clients = clients
            .map(|parameters| {
                give_up = parameters.give_up;
                (Client::new(parameters), 0)
            })
            .collect();
        Self { clients, last: 0, give_up }
    }

    fn end(ended: ClientEnded, after: Duration) -> Result<Ended, Error> {
        match ended {
            ClientEnded::NotBegun => Err(Error::NotBegun { after }),
            ClientEnded::Outcome(_, Outcome::Unknown) => Err(Error::Unknown { after }),
            ClientEnded::Outcome(attempt, outcome) => Ok(Ended { attempt, outcome }),
        }
    }
}

impl ClientHalf for TransactionMachine {
    type Request = Request;
    type Reply = Ended;

    fn message_bytes(request: &Request) -> usize {
        // Three numbers, the procedure, the length of the input, the input, the number of keys, and for each key
        // 16 bytes with its access mode.
        24 + 2 + 2 + request.input.len() + 1 + 16 * request.accesses.as_slice().len()
    }

    fn start(&mut self, now: Instant, request: &Request) -> Option<u64> {
        let (client, number) = self.clients.iter_mut().find(|(client, _)| !client.is_busy())?;
        self.last += 1;
        *number = self.last;
        client.start(now, request.clone());
        Some(self.last)
    }

    fn receive(
        &mut self,
        now: Instant,
        node: usize,
        (kind, payload): (u8, &[u8]),
    ) -> Option<(u64, Result<Ended, Error>)> {
        let after = self.give_up;
        self.clients.iter_mut().find_map(|(client, number)| {
            let ended = client.receive(now, node, kind, payload)?;
            Some((*number, Self::end(ended, after)))
        })
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.clients.iter().filter_map(|(client, _)| client.next_deadline()).min()
    }

    fn handle_deadline(&mut self, now: Instant) -> Option<(u64, Result<Ended, Error>)> {
        let after = self.give_up;
        self.clients.iter_mut().find_map(|(client, number)| {
            let ended = client.handle_deadline(now)?;
            Some((*number, Self::end(ended, after)))
        })
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.clients.iter_mut().find_map(|(client, _)| client.poll_transmit(out))
    }
}

/// A handle for a cluster's transactions. Up to 8 calls are outstanding at a time; further ones are queued.
#[derive(Clone, Debug)]
pub struct Transactions {
    pub(crate) handle: Handle<TransactionMachine>,
}

impl Transactions {
    /// Calls a registered procedure with its keys, in the order that it expects, and an input of at most
    /// [`INPUT_MAX`] bytes. It takes effect at most once.
    pub fn call(&self, procedure: ProcedureId, keys: &[(Key, Mode)], input: &[u8]) -> Pending<Ended> {
        let mut accesses = Accesses::default();
        for &(key, mode) in keys {
            if let Err(error) = accesses.add(key, mode) {
                return refused(Error::Invalid(error.to_string()));
            }
        }
        self.request(Request { procedure, input: input.to_vec(), accesses })
    }

    /// As [`Transactions::call`], with a complete request.
    pub fn request(&self, request: Request) -> Pending<Ended> {
        let bytes = request.input.len();
        if bytes > INPUT_MAX {
            let error = format!("the input has {bytes} bytes; a procedure takes at most {INPUT_MAX}");
            return refused(Error::Invalid(error));
        }
        self.handle.ask(request, Ok)
    }
}
