//! Replicated objects.

use std::sync::Arc;

use weft_rdt::Definition;
use weft_rdt::client::{Client, Invocation, Outcome, Task};
use weft_time::Duration;

use super::{Handle, refused};
use crate::requests::Requests;
use crate::{Error, Pending};

#[derive(Clone, Copy, Debug)]
pub(crate) enum ObjectReply {
    Done,
    Refused,
    Value(i64),
}

/// Outcome of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// The update took effect.
    Done,
    /// The update is not permitted: a guard of the method is false. Nothing changed.
    Refused,
}

pub(crate) enum ObjectRequests {}

impl Requests for ObjectRequests {
    type Half = Client;
    type Request = Task;
    type Reply = ObjectReply;

    fn message_bytes(_: &Task) -> usize {
        weft_session::Message::OVERHEAD + weft_rdt::replica::Ask::BYTES
    }

    fn task(task: &Task) -> Task {
        *task
    }

    fn reply(outcome: Outcome, after: Duration) -> Result<ObjectReply, Error> {
        match outcome {
            Outcome::Done => Ok(ObjectReply::Done),
            Outcome::Refused => Ok(ObjectReply::Refused),
            Outcome::Value(value) => Ok(ObjectReply::Value(value)),
            Outcome::BadRequest => {
                Err(Error::Refused("the object is of another type, or has no element of this number"))
            }
            Outcome::NotBegun => Err(Error::NotBegun { after }),
            Outcome::Unknown => Err(Error::Unknown { after }),
        }
    }
}

/// A handle of a replicated object. Up to 16 calls are outstanding at a time; further ones are queued. Outstanding
/// calls may take effect in any order: wait for the answer of an update before you send another that must come
/// after it.
#[derive(Clone, Debug)]
pub struct Object {
    pub(crate) handle: Handle<ObjectRequests>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) replica: Option<usize>,
    pub(crate) replicas: usize,
}

impl Object {
    /// Definition of its type.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// A handle of the same object that calls only this replica: its calls see the updates that were made there
    /// before.
    ///
    /// # Errors
    /// There is no such replica.
    pub fn at(&self, replica: usize) -> Result<Self, Error> {
        if replica >= self.replicas {
            let last = self.replicas - 1;
            return Err(Error::Invalid(format!("there is no replica {replica}; choose 0 to {last}")));
        }
        Ok(Self { replica: Some(replica), ..self.clone() })
    }

    fn invocation(&self, name: &str, arguments: &[i64], is_query: bool) -> Result<Task, Error> {
        let invocation = Invocation::new(&self.definition, name, arguments)
            .map_err(|error| Error::Invalid(error.to_string()))?;
        if invocation.is_query() != is_query {
            let what = if is_query { "an update, not a query" } else { "a query, not an update" };
            return Err(Error::Invalid(format!("`{name}` is {what}")));
        }
        Ok((self.replica, invocation))
    }

    /// Calls a method by its name, with the arguments that a caller chooses; elements are numbered from 0. The
    /// update takes effect at most once.
    pub fn update(&self, method: &str, arguments: &[i64]) -> Pending<Update> {
        match self.invocation(method, arguments, false) {
            Ok(request) => self.handle.ask(request, |reply| match reply {
                ObjectReply::Done => Ok(Update::Done),
                ObjectReply::Refused => Ok(Update::Refused),
                ObjectReply::Value(_) => Err(Error::Refused("an update was answered as a query")),
            }),
            Err(error) => refused(error),
        }
    }

    /// Makes a query by its name. The answer reflects the replica's own state, which may be older than that of
    /// others. A truth value is 0 or 1.
    pub fn query(&self, query: &str, arguments: &[i64]) -> Pending<i64> {
        match self.invocation(query, arguments, true) {
            Ok(request) => self.handle.ask(request, |reply| match reply {
                ObjectReply::Value(value) => Ok(value),
                _ => Err(Error::Refused("a query was answered as an update")),
            }),
            Err(error) => refused(error),
        }
    }
}
