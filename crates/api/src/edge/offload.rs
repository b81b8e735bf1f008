//! Offload of requests with large bodies to blocking threads.
//!
//! Parsing some megabytes of JSON would block the few network threads that serve all connections. Every handler parses
//! its body before its first await. So a blocking thread polls the handler once, up to its first await, and the async
//! runtime polls the rest. Nothing is copied, and no blocking thread is held while the handler waits. This works for
//! every type of parsed body.

use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use firn_engine::Error;
use tokio::sync::Semaphore;

use crate::wire::error::ApiError;

/// Parsing a smaller body takes about as long as the offload.
pub(crate) const FROM_BYTES: usize = 64 << 10;

/// Limit of requests whose first poll is offloaded at the same time; further requests wait in order of arrival.
#[derive(Debug, Clone)]
pub(crate) struct Offload(Arc<Semaphore>);

impl Default for Offload {
    /// One permit per core: more would not finish earlier, and would hold more parsed trees.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::at_a_time(cores)
    }
}

impl Offload {
    fn at_a_time(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count)))
    }

    /// Runs a future whose first poll takes long. If the caller drops this future, the first poll still completes and
    /// holds its permit until then; the rest is dropped. Panics propagate.
    pub(crate) async fn run<T, F>(&self, mut work: Pin<Box<F>>) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ApiError>> + Send + ?Sized + 'static,
    {
        let stopped = || ApiError::from(Error::internal("the server stops"));
        let turn = Arc::clone(&self.0).acquire_owned().await.map_err(|_| stopped())?;
        let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        let begun = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
            (work, polled)
        });
        match begun.await {
            Ok((_, Poll::Ready(done))) => done,
            // The future is polled again at once, so a wake-up in between is not lost.
            Ok((work, Poll::Pending)) => work.await,
            Err(failed) => match failed.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => Err(stopped()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn the_beginning_is_elsewhere_and_the_rest_is_here() {
        let elsewhere = Offload::at_a_time(1);
        let (send, received) = oneshot::channel::<u32>();
        let (begun, has_begun) = oneshot::channel();
        let work = Box::pin(async move {
            let first = thread::current().id();
            begun.send(()).unwrap();
            tokio::task::yield_now().await;
            let number = received.await.unwrap();
            Ok((first, thread::current().id(), number))
        });
        let here = thread::current().id();
        let wakes = tokio::spawn(async move {
            has_begun.await.unwrap();
            send.send(7).unwrap();
        });
        let (first, last, number) = elsewhere.run(work).await.unwrap();
        wakes.await.unwrap();
        assert_ne!(first, here);
        assert_eq!((last, number), (here, 7));
    }

    #[tokio::test]
    async fn the_limit_of_concurrent_first_polls_holds_even_for_dropped_requests() {
        let elsewhere = Arc::new(Offload::at_a_time(2));
        let (at_once, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let wait = Arc::new(std::sync::Mutex::new(wait));
        let (entered, mut entries) = tokio::sync::mpsc::unbounded_channel();
        let mut running = Vec::new();
        for _ in 0..6 {
            let (elsewhere, at_once, most) = (Arc::clone(&elsewhere), Arc::clone(&at_once), Arc::clone(&most));
            let (wait, entered) = (Arc::clone(&wait), entered.clone());
            running.push(tokio::spawn(async move {
                let work = Box::pin(async move {
                    let now = at_once.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    entered.send(()).unwrap();
                    wait.lock().unwrap().recv().unwrap();
                    at_once.fetch_sub(1, Ordering::SeqCst);
                    Ok(())
                });
                elsewhere.run(work).await
            }));
        }
        entries.recv().await.unwrap();
        entries.recv().await.unwrap();
        // The client has left; the first poll runs all the same.
        running.remove(0).abort();
        (0..6).for_each(|_| go.send(()).unwrap());
        for one in running {
            one.await.unwrap().unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_panic_comes_back() {
        let work = Box::pin(async { panic!("a bug") });
        let outcome = tokio::spawn(async move { Offload::default().run::<(), _>(work).await }).await;
        assert!(outcome.unwrap_err().is_panic());
    }
}
