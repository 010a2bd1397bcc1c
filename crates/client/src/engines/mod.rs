//! The engines: for each, its requests as [`crate::requests::Requests`], and the handle that programs use.

mod backup;
mod kv;
mod lock;
mod log;
mod object;
mod rounds;
mod transactions;

pub use backup::{Backup, BackupPart};
pub use kv::{CompareAndSet, KeyValue, Versioned};
pub use lock::{Acquired, Holder, Lease, Locks};
pub use log::{Entry, Log, Read, Tail};
pub use object::{Object, Update};
pub use rounds::{Decision, DecisionList, Proposal, Rounds};
pub use transactions::{Ended, Transactions};

pub(crate) use kv::KvRequests;
pub(crate) use lock::LockRequests;
pub(crate) use log::LogRequests;
pub(crate) use object::ObjectRequests;
pub(crate) use rounds::RoundsRequests;
pub(crate) use transactions::TransactionRequests;

use std::sync::Arc;

use crate::driver::Driver;
use crate::pending::pending;
use crate::requests::{Inbox, Requests};
use crate::{Error, Pending};

/// A handle to the request queue of one engine.
pub(crate) struct Handle<R: Requests> {
    inbox: Arc<Inbox<R>>,
    driver: Arc<Driver>,
}

impl<R: Requests> Clone for Handle<R> {
    fn clone(&self) -> Self {
        Self { inbox: Arc::clone(&self.inbox), driver: Arc::clone(&self.driver) }
    }
}

impl<R: Requests> std::fmt::Debug for Handle<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl<R: Requests> Handle<R> {
    pub fn new(inbox: &Arc<Inbox<R>>, driver: &Arc<Driver>) -> Self {
        Self { inbox: Arc::clone(inbox), driver: Arc::clone(driver) }
    }

    /// Sends a request; `read` converts its reply to the call's result.
    pub fn ask<T: Send + 'static>(
        &self,
        request: R::Request,
        read: impl FnOnce(R::Reply) -> Result<T, Error> + Send + 'static,
    ) -> Pending<T> {
        let (promise, answer) = pending();
        let mismatch = Arc::clone(&self.driver.mismatch);
        let deliver = move |reply: Result<R::Reply, Error>| {
            promise.complete(reply.map_err(|error| mismatch.explain(error)).and_then(read));
        };
        self.inbox.enqueue(request, Box::new(deliver));
        self.driver.notifier.notify();
        answer
    }
}

/// A result that is ready at once: an error.
pub(crate) fn refused<T>(error: Error) -> Pending<T> {
    let (promise, answer) = pending();
    promise.complete(Err(error));
    answer
}

/// The answer does not match the request.
pub(crate) const UNEXPECTED_ANSWER: Error =
    Error::Refused("the answer does not fit the request: the cluster is of another version");
