//! A thread that stores the state of a service, which never waits for its disk.

use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};

use super::error::MembershipError;
use crate::WAKE;

/// Replaces the state that was stored before, and returns when the new one is on stable storage.
pub type StoreState = Box<dyn FnMut(&[u8]) -> Result<(), MembershipError> + Send>;

/// Stores one state at a time.
#[derive(Debug)]
pub(super) struct Store {
    states: Option<Sender<Vec<u8>>>,
    ended: Receiver<Result<(), MembershipError>>,
    /// Whether a state is being stored.
    pub is_storing: bool,
    /// The address from which [`WAKE`] comes.
    pub waker: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Store {
    /// A store that sends [`WAKE`] to the service's own port whenever a state has been stored.
    pub fn start(mut store: StoreState, own: SocketAddr) -> Result<Self, MembershipError> {
        let socket = UdpSocket::bind((own.ip(), 0))?;
        let waker = socket.local_addr()?;
        let (states, wanted) = mpsc::channel::<Vec<u8>>();
        let (outcomes, ended) = mpsc::channel();
        let work = move || {
            for state in wanted {
                let is_over = outcomes.send(store(&state)).is_err();
                // If this is lost, the service looks at its next deadline.
                let _ = socket.send_to(WAKE, own);
                if is_over {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("state".into()).spawn(work)?;
        Ok(Self { states: Some(states), ended, is_storing: false, waker, thread: Some(thread) })
    }

    /// Begins to store a state.
    pub fn begin(&mut self, state: Vec<u8>) {
        assert!(!self.is_storing, "one state at a time");
        self.is_storing = true;
        let states = self.states.as_ref().expect("there until the end");
        states.send(state).expect("the thread runs until the end");
    }

    /// Whether the state has been stored since the last call.
    ///
    /// # Errors
    /// It cannot be stored.
    pub fn poll(&mut self) -> Result<bool, MembershipError> {
        match self.ended.try_recv() {
            Ok(ended) => {
                self.is_storing = false;
                ended.map(|()| true)
            }
            Err(TryRecvError::Empty) => Ok(false),
            Err(TryRecvError::Disconnected) => panic!("the thread that stores the state has panicked"),
        }
    }
}

impl Drop for Store {
    /// Waits until the last state has been stored.
    fn drop(&mut self) {
        self.states = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
