//! The answer to an outstanding call.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::Error;

#[derive(Debug)]
struct State<T> {
    result: Option<Result<T, Error>>,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer to a call, which is made whether or not the program waits for it. Wait with [`Pending::wait`] in a
/// thread, or with `.await` in a task of any runtime. Dropping this value does not cancel the call.
#[derive(Debug)]
#[must_use = "a call may fail: wait for its answer"]
pub struct Pending<T>(Arc<Shared<T>>);

impl<T> Pending<T> {
    /// Blocks this thread until the answer is there.
    ///
    /// # Errors
    /// The call failed; the error tells whether it may have taken effect.
    pub fn wait(self) -> Result<T, Error> {
        let mut state = self.0.lock();
        loop {
            match state.result.take() {
                Some(result) => return result,
                None => state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Whether the answer is there.
    pub fn is_ready(&self) -> bool {
        self.0.lock().result.is_some()
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock();
        match state.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// The producer's end: its owner either sends the answer or drops it, and then the call ends with an error.
#[derive(Debug)]
pub(crate) struct Promise<T>(Option<Arc<Shared<T>>>);

impl<T> Promise<T> {
    pub fn complete(mut self, result: Result<T, Error>) {
        self.settle(result);
    }

    fn settle(&mut self, result: Result<T, Error>) {
        let Some(shared) = self.0.take() else { return };
        let mut state = shared.lock();
        state.result = Some(result);
        let waker = state.waker.take();
        drop(state);
        shared.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.settle(Err(Error::Closed));
    }
}

/// Both ends of a new answer.
pub(crate) fn pending<T>() -> (Promise<T>, Pending<T>) {
    let state = Mutex::new(State { result: None, waker: None });
    let shared = Arc::new(Shared { state, changed: Condvar::new() });
    (Promise(Some(Arc::clone(&shared))), Pending(shared))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_waits_for_an_answer() {
        let (promise, pending) = pending();
        assert!(!pending.is_ready());
        let waits = thread::spawn(|| pending.wait());
        promise.complete(Ok(7));
        assert_eq!(waits.join().unwrap(), Ok(7));
    }

    #[test]
    fn a_task_is_woken_once_there_is_an_answer() {
        #[derive(Default)]
        struct Count(AtomicU32);
        impl Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let (promise, mut pending) = pending();
        let mut poll = || Pin::new(&mut pending).poll(&mut Context::from_waker(&waker));
        assert_eq!(poll(), Poll::Pending);
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
        promise.complete(Ok("answer"));
        assert_eq!((poll(), count.0.load(Ordering::SeqCst)), (Poll::Ready(Ok("answer")), 1));
    }

    #[test]
    fn a_forgotten_caller_is_told() {
        let (promise, pending) = pending::<u8>();
        drop(promise);
        assert_eq!(pending.wait(), Err(Error::Closed));
    }
}
