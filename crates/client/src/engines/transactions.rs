//! Transactions.

use weft_time::Duration;
use weft_txn::client::{Ended as ClientEnded, Pool};
use weft_txn::{Accesses, INPUT_MAX, Key, Mode, Outcome, ProcedureId, Request, TransactionId};

use super::{Handle, refused};
use crate::requests::Requests;
use crate::{Error, Pending};

/// Outcome of a transaction, and its last attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its last attempt, if it is known.
    pub attempt: Option<TransactionId>,
    /// The outcome: never [`Outcome::Unknown`], which is returned as [`Error::Unknown`].
    pub outcome: Outcome,
}

pub(crate) enum TransactionRequests {}

impl TransactionRequests {
    /// The most outstanding calls.
    pub const CALLERS: usize = 8;
}

impl Requests for TransactionRequests {
    type Half = Pool;
    type Request = Request;
    type Reply = Ended;

    fn message_bytes(request: &Request) -> usize {
        // Three numbers, the procedure, the length of the input, the input, the number of keys, and for each key
        // 16 bytes with its access mode.
        24 + 2 + 2 + request.input.len() + 1 + 16 * request.accesses.as_slice().len()
    }

    fn task(request: &Request) -> &Request {
        request
    }

    fn reply(ended: ClientEnded, after: Duration) -> Result<Ended, Error> {
        match ended {
            ClientEnded::NotBegun => Err(Error::NotBegun { after }),
            ClientEnded::Outcome(_, Outcome::Unknown) => Err(Error::Unknown { after }),
            ClientEnded::Outcome(attempt, outcome) => Ok(Ended { attempt, outcome }),
        }
    }
}

/// A handle for a cluster's transactions. Up to 8 calls are outstanding at a time; further ones are queued.
#[derive(Clone, Debug)]
pub struct Transactions {
    pub(crate) handle: Handle<TransactionRequests>,
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
