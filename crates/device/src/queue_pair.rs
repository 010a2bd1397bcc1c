//! States and attributes of queue pairs, for all services.

use std::net::IpAddr;

use weft_verbs::{AccessFlags, PathMtu};
use weft_wire::roce::Service;

use crate::DeviceError;
use crate::unreliable::Unreliable;

/// State of a queue pair: `ibv_qp_state`, with the same numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum State {
    #[default]
    Reset = 0,
    Init = 1,
    ReadyToReceive = 2,
    ReadyToSend = 3,
    SendQueueDrained = 4,
    SendQueueError = 5,
    Error = 6,
}

impl State {
    /// The state with this number in verbs.
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Reset,
            1 => Self::Init,
            2 => Self::ReadyToReceive,
            3 => Self::ReadyToSend,
            4 => Self::SendQueueDrained,
            5 => Self::SendQueueError,
            6 => Self::Error,
            _ => return None,
        })
    }
}

/// Attributes of a queue pair: `ibv_qp_attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of verbs")]
pub struct Attributes {
    pub state: State,
    pub access: AccessFlags,
    pub queue_key: u32,
    pub destination: Option<IpAddr>,
    pub destination_qp_num: u32,
    pub path_mtu: PathMtu,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub min_rnr_timer: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub drained_event: bool,
    /// Whether requests that were posted before draining of the send queue began have not all completed yet.
    pub draining: bool,
}

impl Default for Attributes {
    fn default() -> Self {
        Self {
            state: State::Reset,
            access: AccessFlags::NONE,
            queue_key: 0,
            destination: None,
            destination_qp_num: 0,
            path_mtu: PathMtu::Bytes1024,
            rq_psn: 0,
            sq_psn: 0,
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            min_rnr_timer: 0,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            drained_event: false,
            draining: false,
        }
    }
}

/// A change of attributes: `ibv_modify_qp` with its mask. Attributes that are `None` stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of verbs")]
pub struct Change {
    pub state: Option<State>,
    /// The state that the caller assumes the queue pair to be in.
    pub current: Option<State>,
    pub access: Option<AccessFlags>,
    pub queue_key: Option<u32>,
    pub destination: Option<IpAddr>,
    pub destination_qp_num: Option<u32>,
    pub path_mtu: Option<PathMtu>,
    pub rq_psn: Option<u32>,
    pub sq_psn: Option<u32>,
    pub timeout: Option<u8>,
    pub retry_cnt: Option<u8>,
    pub rnr_retry: Option<u8>,
    pub min_rnr_timer: Option<u8>,
    pub max_rd_atomic: Option<u8>,
    pub max_dest_rd_atomic: Option<u8>,
    pub drained_event: Option<bool>,
}

impl Change {
    /// A change of only the state.
    pub fn to(state: State) -> Self {
        Self { state: Some(state), ..Self::default() }
    }

    /// Copies the attributes that are set to `attributes`.
    pub(crate) fn merge(&self, attributes: &mut Attributes) {
        fn set<T>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        set(&mut attributes.access, self.access);
        set(&mut attributes.queue_key, self.queue_key);
        attributes.destination = self.destination.or(attributes.destination);
        set(&mut attributes.destination_qp_num, self.destination_qp_num);
        set(&mut attributes.path_mtu, self.path_mtu);
        set(&mut attributes.rq_psn, self.rq_psn);
        set(&mut attributes.sq_psn, self.sq_psn);
        set(&mut attributes.timeout, self.timeout);
        set(&mut attributes.retry_cnt, self.retry_cnt);
        set(&mut attributes.rnr_retry, self.rnr_retry);
        set(&mut attributes.min_rnr_timer, self.min_rnr_timer);
        set(&mut attributes.max_rd_atomic, self.max_rd_atomic);
        set(&mut attributes.max_dest_rd_atomic, self.max_dest_rd_atomic);
        set(&mut attributes.drained_event, self.drained_event);
    }

    /// Checks that the transition is allowed (figure 124) and has all attributes that it needs (table 94).
    /// Returns the new state.
    pub(crate) fn check(&self, service: Service, from: State) -> Result<State, DeviceError> {
        use State::{Error, Init, ReadyToReceive, ReadyToSend, Reset, SendQueueDrained, SendQueueError};
        let to = self.state.unwrap_or(from);
        if self.current.is_some_and(|current| current != from) {
            return Err(DeviceError::Invalid("the queue pair is in another state than the caller says"));
        }
        let connected = service != Service::UnreliableDatagram;
        let reliable = service == Service::ReliableConnection;
        let complete = match (from, to) {
            (_, Reset | Error) => true,
            (Reset, Init) => {
                if connected {
                    self.access.is_some()
                } else {
                    self.queue_key.is_some()
                }
            }
            (Init, Init) => true,
            (Init, ReadyToReceive) => {
                let path = self.destination.is_some()
                    && self.path_mtu.is_some()
                    && self.destination_qp_num.is_some()
                    && self.rq_psn.is_some();
                let responder = self.max_dest_rd_atomic.is_some() && self.min_rnr_timer.is_some();
                (!connected || path) && (!reliable || responder)
            }
            (ReadyToReceive, ReadyToSend) => {
                let requester = self.timeout.is_some()
                    && self.retry_cnt.is_some()
                    && self.rnr_retry.is_some()
                    && self.max_rd_atomic.is_some();
                self.sq_psn.is_some() && (!reliable || requester)
            }
            (ReadyToSend | SendQueueDrained, ReadyToSend) | (ReadyToSend, SendQueueDrained) => true,
            (SendQueueDrained, SendQueueDrained) => true,
            (SendQueueError, ReadyToSend) => !reliable,
            (ReadyToReceive, ReadyToReceive) => self.state.is_none(),
            _ => return Err(DeviceError::Invalid("no such transition of the state")),
        };
        if complete { Ok(to) } else { Err(DeviceError::Invalid("the transition needs more attributes")) }
    }
}

/// Where a queue pair takes its receive requests from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receives {
    /// Its own receive queue.
    Own(usize),
    /// The shared receive queue with this number.
    Shared(usize),
}

#[derive(Debug)]
pub(crate) struct QueuePair {
    pub(crate) number: u32,
    pub(crate) service: Service,
    pub(crate) send_completions: usize,
    pub(crate) receive_completions: usize,
    pub(crate) send_queue: usize,
    pub(crate) receives: Receives,
    pub(crate) all_signaled: bool,
    pub(crate) attributes: Attributes,
    /// Requests that were posted while the send queue was being drained.
    pub(crate) held: Vec<weft_verbs::WorkRequest>,
    /// State of a queue pair of an unreliable service.
    pub(crate) unreliable: Option<Box<Unreliable>>,
    /// Whether the arrival of the first message has been reported.
    pub(crate) established: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transitions_need_their_attributes() {
        let rc = Service::ReliableConnection;
        assert!(Change::to(State::Init).check(rc, State::Reset).is_err(), "no access flags");
        let init = Change { access: Some(AccessFlags::NONE), ..Change::to(State::Init) };
        assert_eq!(init.check(rc, State::Reset), Ok(State::Init));
        assert!(init.check(Service::UnreliableDatagram, State::Reset).is_err(), "no Q_Key");
        assert!(Change::to(State::ReadyToSend).check(rc, State::Init).is_err());
        assert!(Change::to(State::ReadyToReceive).check(rc, State::Init).is_err());
        assert_eq!(
            Change::to(State::ReadyToReceive).check(Service::UnreliableDatagram, State::Init),
            Ok(State::ReadyToReceive)
        );
        for state in 0..7 {
            let state = State::from_number(state).unwrap();
            assert_eq!(Change::to(State::Error).check(rc, state), Ok(State::Error));
        }
        let wrong = Change { current: Some(State::Init), ..Change::to(State::Error) };
        assert!(wrong.check(rc, State::Reset).is_err());
    }
}
