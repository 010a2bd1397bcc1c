//! Answers to outstanding calls, for threads that block and for event loops.

use std::future::Future;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use weft_client as weft;

use crate::errors::exception;

type Value = Py<PyAny>;

/// Converts a result to a Python value.
type Convert<T> = fn(Python<'_>, T) -> PyResult<Value>;

/// A pending answer whose type is erased, so that Python objects of one class hold answers of all types.
trait Answer: Send {
    fn is_ready(&self) -> bool;
    /// Blocks until the answer is there. Other Python threads can run meanwhile.
    fn wait(self: Box<Self>, python: Python<'_>) -> PyResult<Value>;
    /// The answer, if it is there; otherwise `waker` is woken when it is.
    fn poll(&mut self, python: Python<'_>, waker: &Waker) -> Option<PyResult<Value>>;
}

struct Typed<T> {
    pending: weft::Pending<T>,
    convert: Convert<T>,
}

impl<T: Send> Typed<T> {
    fn value(python: Python<'_>, convert: Convert<T>, result: Result<T, weft::Error>) -> PyResult<Value> {
        convert(python, result.map_err(|error| exception(&error))?)
    }
}

impl<T: Send> Answer for Typed<T> {
    fn is_ready(&self) -> bool {
        self.pending.is_ready()
    }

    fn wait(self: Box<Self>, python: Python<'_>) -> PyResult<Value> {
        let Self { pending, convert } = *self;
        let result = if pending.is_ready() { pending.wait() } else { python.detach(|| pending.wait()) };
        Self::value(python, convert, result)
    }

    fn poll(&mut self, python: Python<'_>, waker: &Waker) -> Option<PyResult<Value>> {
        match Pin::new(&mut self.pending).poll(&mut Context::from_waker(waker)) {
            Poll::Ready(result) => Some(Self::value(python, self.convert, result)),
            Poll::Pending => None,
        }
    }
}

/// The answer to a call, which is made whether or not the program waits for it.
#[pyclass(frozen, module = "weft")]
pub(crate) struct Pending(Mutex<Option<Box<dyn Answer>>>);

impl Pending {
    pub fn new<T: Send + 'static>(pending: weft::Pending<T>, convert: Convert<T>) -> Self {
        Self(Mutex::new(Some(Box::new(Typed { pending, convert }))))
    }

    fn take(&self) -> PyResult<Box<dyn Answer>> {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken
            .ok_or_else(|| PyRuntimeError::new_err("the answer was taken already: keep what wait() returned"))
    }
}

#[pymethods]
impl Pending {
    /// Blocks this thread until the answer is there, and returns it.
    fn wait(&self, python: Python<'_>) -> PyResult<Value> {
        self.take()?.wait(python)
    }

    /// Whether the answer is there.
    fn is_ready(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_none_or(|answer| answer.is_ready())
    }

    /// A tuple with the answer if it is there, otherwise None; then `bridge` reports `token` when it is.
    fn poll(&self, python: Python<'_>, bridge: &Bridge, token: u64) -> PyResult<Option<(Value,)>> {
        let mut answer = self.take()?;
        let waker = Waker::from(Arc::new(Token { number: token, shared: Arc::clone(&bridge.shared) }));
        match answer.poll(python, &waker) {
            Some(value) => Ok(Some((value?,))),
            None => {
                *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
                Ok(None)
            }
        }
    }
}

struct Shared {
    /// Tokens of answers that are there and that the event loop has not fetched yet.
    ready: Mutex<Vec<u64>>,
    notifier: UnixStream,
}

struct Token {
    number: u64,
    shared: Arc<Shared>,
}

impl Wake for Token {
    /// Called by the client's thread, which never waits for Python. One byte wakes the event loop for all tokens
    /// that it has not fetched yet.
    fn wake(self: Arc<Self>) {
        let mut ready = self.shared.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.push(self.number);
        if ready.len() == 1 {
            // If the socket's buffer is full, the bytes in it will wake the loop.
            let _ = (&self.shared.notifier).write(&[0]);
        }
    }
}

/// Notifies one event loop of the answers that are there. The loop watches the bridge's file descriptor.
#[pyclass(frozen, module = "weft")]
pub(crate) struct Bridge {
    shared: Arc<Shared>,
    receiver: UnixStream,
}

#[pymethods]
impl Bridge {
    #[new]
    fn new() -> io::Result<Self> {
        let (notifier, receiver) = UnixStream::pair()?;
        notifier.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        Ok(Self { shared: Arc::new(Shared { ready: Mutex::default(), notifier }), receiver })
    }

    /// The file descriptor that is readable when an answer is there.
    fn fileno(&self) -> i32 {
        self.receiver.as_raw_fd()
    }

    /// The tokens of all answers that have arrived since the last call.
    fn fetch(&self) -> io::Result<Vec<u64>> {
        match (&self.receiver).read(&mut [0; 64]) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        Ok(std::mem::take(&mut *self.shared.ready.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Adds both classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Pending>()?;
    module.add_class::<Bridge>()
}
