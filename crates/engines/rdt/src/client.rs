//! The client half: calls of an object, by the names of its definition. Each update takes effect at most
//! once.
//!
//! Calls travel by [`weft_session`]. On a node, [`Sessions`] receives the datagrams of clients and passes
//! each call to the replica as a call of the host, with a token. So an update whose answer was lost is not
//! made twice. An update that was in progress when its node restarted ends as [`Outcome::Unknown`].
//!
//! A node creates its half with [`sessions`]:
//!
//! | the node receives | it calls |
//! |---|---|
//! | a message of the object's slot of kind [`FIRST_KIND`] or above | [`Sessions::receive`]; it passes a new call to the replica as a call of the host |
//! | a reply to a token with the bit [`TOKENS`] | [`Sessions::finish`] |
//! | after either | [`Sessions::poll_transmit`] until it returns `None`: datagrams to clients |
//!
//! Any replica takes any call, except calls that introduce a fresh element. Only one replica may introduce an
//! element: the one whose number is the element's number modulo the number of replicas. The client sends the
//! call there.

use thiserror::Error;
use weft_session::{Body, Calls, Ended, NewCall, SessionClient, Verdict};
use weft_time::Instant;

pub use weft_session::{Begin, Body as SessionBody, CallId, Sessions, TOKENS};

/// The lowest kind of messages between clients and nodes. Messages of the engine have lower kinds.
pub const FIRST_KIND: u8 = weft_session::Kind::FIRST;

/// The kinds of calls that clients may make.
pub const CALLS: &[u8] = &[Call::Invoke as u8, Call::Query as u8, Call::Status as u8];

/// The node's half for one replica, for at most `most` clients. `first` is the number of the first
/// session, and must be higher than those of any former process of the node.
pub fn sessions<A: Copy>(first: u64, most: usize) -> Sessions<A> {
    Sessions::new(first, most, CALLS)
}

use crate::definition::{Definition, Parameter, ParameterKind};
use crate::object::{Arguments, NUMBER_MAX};
use crate::replica::{Answer, Ask, Call, Status};

/// A method or query with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Whether the call is a query, which changes nothing.
    is_query: bool,
    number: u8,
    arguments: Arguments,
    /// A fresh element that the call introduces.
    fresh: Option<u64>,
}

/// The reason why an invocation is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvocationError {
    /// The type has neither a method nor a query of this name.
    #[error("{kind} has no method or query `{name}`; it has {known}")]
    Name {
        /// The type.
        kind: &'static str,
        /// The name that was given.
        name: String,
        /// Valid names, with parameters.
        known: String,
    },
    /// The number of arguments is not that of the parameters which the caller chooses.
    #[error("`{signature}` takes {need} arguments, not {have}")]
    Count {
        /// The method or query.
        signature: String,
        /// Number of arguments given.
        have: usize,
        /// Arguments that it takes.
        need: usize,
    },
    /// An argument is outside its parameter's range.
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

/// Whether the caller chooses the value of the parameter; replicas fill in the others.
fn is_chosen(parameter: &Parameter) -> bool {
    matches!(parameter.kind, ParameterKind::Element(_) | ParameterKind::Amount | ParameterKind::Integer)
}

/// The signature of a method or query, with the parameters that the caller chooses: `withdraw(amount)`.
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
    /// The method or query `name`, with the arguments that the caller chooses, in the order of the
    /// definition. Elements are given by their numbers, from 0.
    ///
    /// # Errors
    /// If the name or the arguments are invalid. Only replicas know how many elements a sort has; they answer
    /// [`Outcome::BadRequest`] if an element does not exist.
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

    /// Whether the invocation is a query.
    pub const fn is_query(&self) -> bool {
        self.is_query
    }
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The update took effect, and is as durable as the replicas' commit rule demands.
    Done,
    /// Answer of a query, from the state of the replica that answered; a truth value is 0 or 1.
    Value(i64),
    /// The update is not permissible, because a guard of its method does not hold. Nothing has happened.
    Refused,
    /// The object's type or sizes are not those that the client expects. Nothing has happened.
    BadRequest,
    /// No replica took the call in time. Nothing has happened.
    NotBegun,
    /// The replica that was called does not answer any more. The update may have taken effect once, may still
    /// do so, or never will. A query changes nothing.
    Unknown,
}

/// A client of one object, at all of its replicas.
pub type Client = SessionClient<ObjectCalls>;

/// A call, and the replica that must take it; `None` for one of the session's choice.
pub type Task = (Option<usize>, Invocation);

/// The calls of an object.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjectCalls;

impl Calls for ObjectCalls {
    type Task<'a> = Task;
    type Outcome<'a> = Outcome;
    /// Whether the call is a query.
    type Note = bool;

    fn begin(
        &self,
        _: Instant,
        nodes: usize,
        (replica, invocation): Task,
        bytes: &mut Vec<u8>,
    ) -> NewCall<bool> {
        let Invocation { is_query, number, arguments, fresh } = invocation;
        bytes.extend_from_slice(&Ask { sequence: 0, method: number, arguments }.encode());
        let kind = if is_query { Call::Query } else { Call::Invoke } as u8;
        let node = replica.or(fresh.map(|element| (element % nodes as u64) as usize));
        NewCall { kind, node, is_repeatable: is_query, note: is_query }
    }

    fn judge(body: Body<'_>) -> Verdict {
        match Answer::parse(body.bytes).map(|answer| answer.status) {
            Ok(Status::Busy) => Verdict::Later,
            Ok(Status::NotServing) => Verdict::Elsewhere,
            _ => Verdict::Final,
        }
    }

    fn end(&self, _: Instant, is_query: bool, ended: Ended<'_>) -> Outcome {
        let answer = match ended {
            Ended::Answer(body) if body.kind == Call::Answer as u8 => Answer::parse(body.bytes).ok(),
            Ended::Answer(_) | Ended::Unknown => None,
            Ended::NotBegun => return Outcome::NotBegun,
        };
        match answer.map(|answer| (answer.status, answer.value)) {
            Some((Status::Done, value)) if is_query => Outcome::Value(value),
            Some((Status::Done, _)) => Outcome::Done,
            Some((Status::Refused, _)) => Outcome::Refused,
            Some((Status::BadRequest, _)) => Outcome::BadRequest,
            // A malformed message may have been the answer.
            Some((Status::Busy | Status::NotServing, _)) | None => Outcome::Unknown,
        }
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
                // A stamp holds the number of the replica that made it, so it does not restrict which replica
                // may take the call.
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
