//! A fixed pool of threads with a bounded queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use firn_model::{Error, ErrorKind, Result};
use parking_lot::{Condvar, Mutex};

type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs in the order they come, on threads of its own. Dropping it runs what is queued and
/// joins the threads. A job that panics is reported in the log and takes no thread with it.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    thread_count: usize,
    queue_limit: usize,
}

struct Shared {
    name: &'static str,
    state: Mutex<State>,
    wake: Condvar,
    active: AtomicU64,
    completed: AtomicU64,
    rejected: AtomicU64,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    closing: bool,
}

/// What a pool is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStats {
    /// Jobs running.
    pub active: u64,
    /// Jobs waiting.
    pub queued: u64,
    /// Jobs refused since start.
    pub rejected: u64,
    /// Jobs done since start.
    pub completed: u64,
    /// Threads.
    pub threads: u64,
}

impl Pool {
    /// Starts `threads` threads named `name-N`; at most `queue_limit` jobs wait.
    pub fn new(name: &'static str, threads: usize, queue_limit: usize) -> Self {
        let shared = Arc::new(Shared {
            name,
            state: Mutex::new(State::default()),
            wake: Condvar::new(),
            active: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
        });
        let thread_count = threads.max(1);
        let threads = (0..thread_count)
            .map(|number| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("{name}-{number}"))
                    .spawn(move || shared.work())
                    .expect("the operating system starts a thread")
            })
            .collect();
        Self {
            shared,
            threads: Mutex::new(threads),
            thread_count,
            queue_limit,
        }
    }

    /// Queues a job; [`ErrorKind::Rejected`] when the queue is full.
    pub fn spawn(&self, job: impl FnOnce() + Send + 'static) -> Result<()> {
        let mut state = self.shared.state.lock();
        if state.closing {
            return Err(Error::new(
                ErrorKind::Rejected,
                format!("rejected execution: the {} pool is shut down", self.shared.name),
            ));
        }
        if state.queue.len() >= self.queue_limit {
            self.shared.rejected.fetch_add(1, Ordering::Relaxed);
            return Err(Error::new(
                ErrorKind::Rejected,
                format!(
                    "rejected execution: the {} queue holds its limit of {} requests",
                    self.shared.name, self.queue_limit
                ),
            ));
        }
        state.queue.push_back(Box::new(job));
        drop(state);
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Queues a job although the queue may be full: for work that belongs to a request already
    /// admitted (its per-segment tasks). Once the pool is closing it runs on the calling thread.
    pub fn spawn_admitted(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.state.lock();
        if state.closing {
            drop(state);
            return self.shared.run(Box::new(job));
        }
        state.queue.push_front(Box::new(job));
        drop(state);
        self.shared.wake.notify_one();
    }

    /// Takes one queued job and runs it on the calling thread; false if there is none. Lets a
    /// thread that waits for its own tasks help instead of blocking.
    pub fn help(&self) -> bool {
        let job = self.shared.state.lock().queue.pop_front();
        job.map(|job| self.shared.run(job)).is_some()
    }

    /// Threads of the pool.
    pub fn thread_count(&self) -> usize {
        self.thread_count
    }

    /// Takes no further job, runs what is queued and joins the threads. Idempotent.
    pub fn close(&self) {
        self.shared.state.lock().closing = true;
        self.shared.wake.notify_all();
        let current = std::thread::current().id();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // The last owner may be a job of this very pool.
            if thread.thread().id() != current {
                let _ = thread.join();
            }
        }
    }

    /// As [`Pool::close`], but leaves jobs behind that take longer than `patience`; false if it did.
    pub fn close_within(&self, patience: Duration) -> bool {
        self.shared.state.lock().closing = true;
        self.shared.wake.notify_all();
        let deadline = Instant::now() + patience;
        let mut threads = self.threads.lock();
        while !threads.iter().all(JoinHandle::is_finished) {
            if Instant::now() >= deadline {
                threads.clear();
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// What it is doing.
    pub fn stats(&self) -> PoolStats {
        PoolStats {
            active: self.shared.active.load(Ordering::Relaxed),
            queued: self.shared.state.lock().queue.len() as u64,
            rejected: self.shared.rejected.load(Ordering::Relaxed),
            completed: self.shared.completed.load(Ordering::Relaxed),
            threads: self.thread_count as u64,
        }
    }
}

impl Shared {
    fn work(&self) {
        loop {
            let mut state = self.state.lock();
            let job = loop {
                if let Some(job) = state.queue.pop_front() {
                    break job;
                }
                if state.closing {
                    return;
                }
                self.wake.wait(&mut state);
            };
            drop(state);
            self.run(job);
        }
    }

    fn run(&self, job: Job) {
        self.active.fetch_add(1, Ordering::Relaxed);
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
            tracing::error!(pool = self.name, "a job panicked");
        }
        self.active.fetch_sub(1, Ordering::Relaxed);
        self.completed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_refuses_and_closing_runs_what_waits() {
        let pool = Pool::new("test", 1, 1);
        let (start, started) = std::sync::mpsc::channel();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let done = Arc::new(AtomicU64::new(0));
        let count = |done: &Arc<AtomicU64>| {
            let done = Arc::clone(done);
            move || {
                done.fetch_add(1, Ordering::Relaxed);
            }
        };
        let first = count(&done);
        pool.spawn(move || {
            start.send(()).unwrap();
            gone.recv().unwrap();
            first();
        })
        .unwrap();
        started.recv().unwrap();
        pool.spawn(count(&done)).unwrap();
        let error = pool.spawn(count(&done)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert_eq!(pool.stats().queued, 1);
        go.send(()).unwrap();
        pool.close();
        assert_eq!(done.load(Ordering::Relaxed), 2);
        assert!(pool.spawn(|| ()).is_err());
    }

    #[test]
    fn closing_does_not_wait_for_ever() {
        let pool = Pool::new("test", 1, 1);
        let (go, gone) = std::sync::mpsc::channel::<()>();
        pool.spawn(move || gone.recv().unwrap()).unwrap();
        assert!(!pool.close_within(Duration::from_millis(20)));
        go.send(()).unwrap();
        pool.close();
        assert!(Pool::new("test", 2, 1).close_within(Duration::from_secs(10)));
    }

    #[test]
    fn a_panic_takes_no_thread_with_it() {
        let pool = Pool::new("test", 1, 10);
        pool.spawn(|| panic!("on purpose")).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        pool.spawn(move || sender.send(5).unwrap()).unwrap();
        assert_eq!(receiver.recv().unwrap(), 5);
    }
}
