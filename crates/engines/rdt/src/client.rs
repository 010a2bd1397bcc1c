//! The client half: calls of an object by the names of its definition, each update made at most once.
//!
//! Calls travel by [`weft_session`]: on a node, [`Sessions`] stands between the datagrams of clients and the replica,
//! and gives it each call from its host, with a token. So an update whose answer is lost is not made twice, and one
//! that a node had when it was restarted is [`Outcome::Unknown`].
//!
//! A node makes its half with [`sessions`]:
//!
//! | the node gets | it does |
//! |---|---|
//! | a message of the object's slot of kind [`FIRST_KIND`] or above | [`Sessions::receive`]; what that begins it gives the replica as a call of the host, with the token |
//! | a reply to a token with the bit [`TOKENS`] | [`Sessions::finish`] |
//! | after either | [`Sessions::poll_transmit`] until it says `None`: datagrams to clients |
//!
//! Any replica takes any call, but for one that introduces a fresh element: the element's number, divided by the
//! number of replicas, leaves the number of the replica that may introduce it as the remainder, and the call is sent
//! there.

use thiserror::Error;
use weft_session::{Body, ClientParameters, Completion, Ended, Malformed, Verdict};
use weft_time::Instant;

pub use weft_session::{Begin, Body as SessionBody, CallId, Sessions, TOKENS};

/// Messages between clients and nodes are of this kind or above; those of the engine are below.
pub const FIRST_KIND: u8 = weft_session::Kind::FIRST;

/// The kinds of calls that clients may make.
pub const CALLS: &[u8] = &[Call::Invoke as u8, Call::Query as u8, Call::Status as u8];

/// The node's half for one replica, for at most `most` clients, in this life of the node: a number that is higher
/// than that of any former process of it.
pub fn sessions<A: Copy>(life: u64, most: usize) -> Sessions<A> {
    Sessions::new(life, most, CALLS)
}

use crate::definition::{Definition, Parameter, ParameterKind};
use crate::object::{Arguments, NUMBER_MAX};
use crate::replica::{Answer, Ask, Call, Status};

/// A method or query with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The call is a query, and changes nothing.
    is_query: bool,
    number: u8,
    arguments: Arguments,
    /// A fresh element that it introduces.
    fresh: Option<u64>,
}

/// Reason for which an invocation is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvocationError {
    /// The type has neither a method nor a query of this name.
    #[error("{kind} has no method or query `{name}`; it has {known}")]
    Name {
        /// The type.
        kind: &'static str,
        /// Name that was given.
        name: String,
        /// Valid names, with parameters.
        known: String,
    },
    /// There are more or fewer arguments than the caller chooses.
    #[error("`{signature}` takes {need} arguments, not {have}")]
    Count {
        /// The method or query.
        signature: String,
        /// Number of arguments given.
        have: usize,
        /// Arguments that it takes.
        need: usize,
    },
    /// An argument is out of the range of its parameter.
    #[error("{parameter} must be {range}, not {value}")]
    Range {
        /// The parameter.
        parameter: &'static str,
        /// Valid range.
        range: String,
        /// Value that was given.
        value: i64,
    },
}

/// Whether a caller chooses the parameter; replicas fill in the others.
fn is_chosen(parameter: &Parameter) -> bool {
    matches!(parameter.kind, ParameterKind::Element(_) | ParameterKind::Amount | ParameterKind::Integer)
}

/// Signature of a method or query, with the parameters that a caller gives: `withdraw(amount)`.
pub fn signature(name: &str, parameters: &[Parameter]) -> String {
    let chosen: Vec<_> =
        parameters.iter().filter(|parameter| is_chosen(parameter)).map(|parameter| parameter.name).collect();
    format!("{name}({})", chosen.join(", "))
}

/// Signatures of all methods and queries of a type.
pub fn signatures(definition: &Definition) -> impl Iterator<Item = String> {
    let methods = definition.methods.iter().map(|method| signature(method.name, &method.parameters));
    methods.chain(definition.queries.iter().map(|query| signature(query.name, &query.parameters)))
}

impl Invocation {
    /// The method or query of that name, with the arguments that a caller chooses, in the order of the definition:
    /// elements by number, from 0.
    ///
    /// # Errors
    /// What is wrong with the name or the arguments. How many elements a sort has only the replicas know; they refuse
    /// as [`Outcome::BadRequest`] what is beyond.
    pub fn new(definition: &Definition, name: &str, chosen: &[i64]) -> Result<Self, InvocationError> {
        let (is_query, number, parameters, unique) = match (definition.method(name), definition.query(name)) {
            (Some(number), _) => {
                let method = &definition.methods[number];
                (false, number, &method.parameters, method.unique.last())
            }
            (None, Some(number)) => (true, number, &definition.queries[number].parameters, None),
            (None, None) => {
                let known = signatures(definition).collect::<Vec<_>>().join(", ");
                return Err(InvocationError::Name { kind: definition.name, name: name.to_owned(), known });
            }
        };
        let places: Vec<_> = (0..parameters.len()).filter(|&place| is_chosen(&parameters[place])).collect();
        if places.len() != chosen.len() {
            let signature = signature(name, parameters);
            return Err(InvocationError::Count { signature, have: chosen.len(), need: places.len() });
        }
        let mut arguments = Arguments::default();
        for (place, &value) in places.into_iter().zip(chosen) {
            let parameter = &parameters[place];
            let (least, range) = match &parameter.kind {
                ParameterKind::Integer => (-NUMBER_MAX, format!("from {} to {NUMBER_MAX}", -NUMBER_MAX)),
                ParameterKind::Element(sort) => (0, format!("the number of a {sort}, from 0")),
                _ => (0, format!("from 0 to {NUMBER_MAX}")),
            };
            if !(least..=NUMBER_MAX).contains(&value) {
                return Err(InvocationError::Range { parameter: parameter.name, range, value });
            }
            arguments[place] = value;
        }
        let fresh = unique.copied().filter(|&place| is_chosen(&parameters[place]));
        let fresh = fresh.map(|place| arguments[place] as u64);
        Ok(Self { is_query, number: number as u8, arguments, fresh })
    }

    /// Whether it changes nothing.
    pub const fn is_query(&self) -> bool {
        self.is_query
    }
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The update took effect, as the commit rule of the replicas says.
    Done,
    /// Answer of a query from the state of the asked replica; a truth value is 0 or 1.
    Value(i64),
    /// The update is not permissible: a guard of its method does not hold. Nothing has happened.
    Refused,
    /// The object's type or sizes are others than the client believes. Nothing has happened.
    BadRequest,
    /// No replica took the call in time. Nothing has happened.
    NotBegun,
    /// The replica that was called does not answer any more: the update took effect once or never, or may still do
    /// so. A query changes nothing.
    Unknown,
}

/// A client of one object, at all of its replicas. Pure, as [`weft_session::Client`] is, and used like that.
#[derive(Clone, Debug)]
pub struct Client {
    session: weft_session::Client,
    replicas: usize,
    /// The outstanding calls that are queries.
    queries: Vec<CallId>,
}

impl Client {
    /// A client that has called nothing.
    ///
    /// # Panics
    /// As [`weft_session::Client::new`].
    pub fn new(parameters: ClientParameters) -> Self {
        let replicas = parameters.nodes;
        Self { session: weft_session::Client::new(parameters), replicas, queries: Vec::new() }
    }

    /// Calls under way.
    pub fn outstanding(&self) -> usize {
        self.session.outstanding()
    }

    /// Whether [`Client::start`] takes another call.
    pub fn can_start(&self) -> bool {
        self.session.can_start()
    }

    /// Begins a call, at `replica` only if one is named. `None` if as many are under way as may be.
    ///
    /// # Panics
    /// If there is no such replica.
    pub fn start(&mut self, now: Instant, replica: Option<usize>, invocation: &Invocation) -> Option<CallId> {
        let Invocation { is_query, number, arguments, fresh } = *invocation;
        let bytes = Ask { sequence: 0, method: number, arguments }.encode();
        let replica = replica.or(fresh.map(|element| (element % self.replicas as u64) as usize));
        if is_query {
            let body = Body { kind: Call::Query as u8, bytes: &bytes };
            let call = self.session.start_repeatable(now, replica, body)?;
            self.queries.push(call);
            Some(call)
        } else {
            self.session.start(now, replica, Body { kind: Call::Invoke as u8, bytes: &bytes })
        }
    }

    /// Takes a message from a node; says which call has ended, if one has.
    ///
    /// # Errors
    /// The bytes are no message.
    pub fn receive(
        &mut self,
        now: Instant,
        node: usize,
        message: (u8, &[u8]),
    ) -> Result<Option<(CallId, Outcome)>, Malformed> {
        let completion = self.session.receive(now, node, message, |body| {
            match Answer::parse(body.bytes).map(|answer| answer.status) {
                Ok(Status::Busy) => Verdict::Later,
                Ok(Status::NotServing) => Verdict::Elsewhere,
                _ => Verdict::Final,
            }
        })?;
        Ok(completion.map(|completion| self.end(&completion)))
    }

    fn end(&mut self, completion: &Completion<'_>) -> (CallId, Outcome) {
        let place = self.queries.iter().position(|query| *query == completion.call);
        place.map(|place| self.queries.swap_remove(place));
        let answer = match completion.ended {
            Ended::Answer(body) if body.kind == Call::Answer as u8 => Answer::parse(body.bytes).ok(),
            Ended::Answer(_) | Ended::Unknown => None,
            Ended::NotBegun => return (completion.call, Outcome::NotBegun),
        };
        let outcome = match answer.map(|answer| (answer.status, answer.value)) {
            Some((Status::Done, value)) if place.is_some() => Outcome::Value(value),
            Some((Status::Done, _)) => Outcome::Done,
            Some((Status::Refused, _)) => Outcome::Refused,
            Some((Status::BadRequest, _)) => Outcome::BadRequest,
            // A malformed message may have been an answer.
            Some((Status::Busy | Status::NotServing, _)) | None => Outcome::Unknown,
        };
        (completion.call, outcome)
    }

    /// When [`Client::handle_deadline`] must be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.session.next_deadline()
    }

    /// Handles what is due. Ends one call at a time, so call it until it returns `None`.
    pub fn handle_deadline(&mut self, now: Instant) -> Option<(CallId, Outcome)> {
        let completion = self.session.handle_deadline(now)?;
        Some(self.end(&completion))
    }

    /// The next message to send: appends its content to `out`, and returns the node and the kind.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<(usize, u8)> {
        self.session.poll_transmit(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types;

    #[test]
    fn invocations_are_what_the_definition_says() {
        let account = types::by_name("account").unwrap();
        let invocation = Invocation::new(&account, "withdraw", &[5]).unwrap();
        assert!(!invocation.is_query() && invocation.arguments == [5, 0, 0, 0]);
        let says = |error: Result<Invocation, InvocationError>| error.unwrap_err().to_string();
        let text = says(Invocation::new(&account, "steal", &[]));
        assert!(text.contains("no method or query `steal`") && text.contains("withdraw(amount)"), "{text}");
        assert_eq!(
            says(Invocation::new(&account, "withdraw", &[])),
            "`withdraw(amount)` takes 1 arguments, not 0"
        );
        assert_eq!(
            says(Invocation::new(&account, "withdraw", &[-1])),
            "amount must be from 0 to 4294967295, not -1"
        );
    }

    #[test]
    fn what_replicas_fill_in_is_not_asked_for_and_fresh_elements_name_their_replica() {
        let names: Vec<_> = types::NAMES.iter().filter_map(|name| types::by_name(name)).collect();
        let mut fresh = 0;
        for definition in &names {
            for method in &definition.methods {
                let chosen: Vec<_> = method.parameters.iter().filter(|p| is_chosen(p)).map(|_| 5).collect();
                let invocation = Invocation::new(definition, method.name, &chosen).unwrap();
                // A stamp carries its maker's number, whatever the element's is.
                let is_fresh =
                    method.unique.last().is_some_and(|place| is_chosen(&method.parameters[*place]));
                assert_eq!(invocation.fresh, is_fresh.then_some(5), "{} {}", definition.name, method.name);
                fresh += u32::from(is_fresh);
            }
            assert!(definition.queries.iter().all(|query| query.parameters.iter().all(is_chosen)));
        }
        assert!(fresh > 0);
        let register = types::by_name("lww-register").unwrap();
        let all: Vec<_> = signatures(&register).collect();
        assert!(all.iter().all(|signature| !signature.contains("stamp")), "{all:?}");
    }
}
