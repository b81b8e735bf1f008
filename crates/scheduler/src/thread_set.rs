//! Threads of a pool: how many exist, and which one takes the next job.
//!
//! The thread that became idle last takes the next job: its stack and its part of the allocator's memory are warm, and
//! it frees mostly memory that it allocated. As many threads as jobs may run concurrently exist from the start. Spare
//! threads take over while other threads hold interrupted jobs. They are started on demand and end after an idle time,
//! so that their allocator memory is returned.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::queue::AWAY_OF_FLOW_MAX;

/// Idle time of a spare thread before it ends. Starting a thread takes some 50 µs, which is negligible once in seconds.
pub(super) const SPARE_IDLE: Duration = Duration::from_secs(5);

/// Additional threads, which replace threads that wait for a remote store: enough for the waits of four flows. A
/// waiting thread takes little more memory than the pages that its stack has touched.
pub(super) const AWAY_MAX: usize = 4 * AWAY_OF_FLOW_MAX;

/// The threads of some pools.
pub(super) struct ThreadSet<T> {
    name: &'static str,
    size: ThreadSetSize,
    /// Threads without a job; the last entry became idle last.
    idle: Vec<Arc<ParkedThread<T>>>,
    /// Handles of the threads that a shutdown joins, by number.
    handles: BTreeMap<usize, JoinHandle<()>>,
    alive: usize,
    /// Threads that only wait for a remote store.
    pub(super) away: usize,
}

/// Number of threads of a crew.
#[derive(Debug, Clone, Copy)]
pub(super) struct ThreadSetSize {
    /// Threads that exist whether there is work or not.
    pub(super) lasting: usize,
    /// Maximum of threads.
    pub(super) max: usize,
    /// How long a spare thread stays idle before it ends.
    pub(super) spare_idle: Duration,
}

/// Place where a thread waits for its next order.
pub(super) struct ParkedThread<T> {
    number: usize,
    order: Mutex<Option<Order<T>>>,
    ordered: Condvar,
}

/// Next action of a thread.
pub(super) enum Order<T> {
    Run(T),
    End,
}

impl<T> ParkedThread<T> {
    /// Waits for an order, at most for `patience`; `None`: without a limit.
    pub(super) fn wait(&self, patience: Option<Duration>) -> Option<Order<T>> {
        let mut order = self.order.lock();
        while order.is_none() {
            match patience {
                None => self.ordered.wait(&mut order),
                Some(patience) if self.ordered.wait_for(&mut order, patience).timed_out() => break,
                Some(_) => {}
            }
        }
        order.take()
    }

    fn give(&self, order: Order<T>) {
        *self.order.lock() = Some(order);
        self.ordered.notify_one();
    }
}

impl<T> ThreadSet<T> {
    /// Creates a crew without threads. The maximum is at least the number of lasting threads.
    pub(super) fn new(name: &'static str, size: ThreadSetSize) -> Self {
        Self {
            name,
            size: ThreadSetSize {
                max: size.max.max(size.lasting),
                ..size
            },
            idle: Vec::new(),
            handles: BTreeMap::new(),
            alive: 0,
            away: 0,
        }
    }

    /// Returns how many threads could take a job, including those that are not started yet.
    pub(super) fn free(&self) -> usize {
        self.idle.len() + (self.size.max + self.away.min(AWAY_MAX)).saturating_sub(self.alive)
    }

    /// Returns the threads that were started and have not ended.
    #[cfg(test)]
    pub(super) fn alive(&self) -> usize {
        self.alive
    }

    /// Starts the lasting threads; each runs `main` until it gets the order to end.
    pub(super) fn start_lasting<F>(&mut self, main: impl Fn() -> F) -> io::Result<()>
    where
        F: FnOnce(Arc<ParkedThread<T>>) + Send + 'static,
        T: Send + 'static,
    {
        while self.alive < self.size.lasting {
            self.start(main())?;
        }
        Ok(())
    }

    /// Gives a job to the thread that became idle last, or to a new one if all are busy; there must be a
    /// [free](Self::free) one. If the operating system cannot start a thread, the job is returned.
    pub(super) fn run<F>(&mut self, job: T, main: impl FnOnce() -> F) -> Result<(), (io::Error, T)>
    where
        F: FnOnce(Arc<ParkedThread<T>>) + Send + 'static,
        T: Send + 'static,
    {
        if self.idle.is_empty()
            && let Err(error) = self.start(main())
        {
            return Err((error, job));
        }
        if let Some(seat) = self.idle.pop() {
            seat.give(Order::Run(job));
        }
        Ok(())
    }

    fn start<F>(&mut self, main: F) -> io::Result<()>
    where
        F: FnOnce(Arc<ParkedThread<T>>) + Send + 'static,
        T: Send + 'static,
    {
        let is_free = |number: &usize| !self.handles.contains_key(number);
        let number = (0..).find(is_free).unwrap_or_default();
        let seat = Arc::new(ParkedThread {
            number,
            order: Mutex::new(None),
            ordered: Condvar::new(),
        });
        let own = Arc::clone(&seat);
        let thread = std::thread::Builder::new().name(format!("{}-{number}", self.name));
        let handle = thread.spawn(move || main(own))?;
        self.handles.insert(number, handle);
        self.alive += 1;
        self.idle.push(seat);
        Ok(())
    }

    /// Marks a thread as idle. Returns how long it waits for an order before it calls [leave](Self::leave).
    pub(super) fn rest(&mut self, seat: &Arc<ParkedThread<T>>) -> Option<Duration> {
        self.idle.push(Arc::clone(seat));
        (self.alive > self.size.lasting).then_some(self.size.spare_idle)
    }

    /// Ends an idle thread if there are more threads than lasting ones. If this returns true, the thread must end.
    pub(super) fn leave(&mut self, seat: &Arc<ParkedThread<T>>) -> bool {
        self.alive > self.size.lasting && self.end(seat)
    }

    /// Removes a thread if it is idle. If this returns true, the thread must end.
    pub(super) fn end(&mut self, seat: &Arc<ParkedThread<T>>) -> bool {
        let Some(at) = self.idle.iter().position(|idle| Arc::ptr_eq(idle, seat)) else {
            return false;
        };
        self.idle.remove(at);
        self.alive -= 1;
        self.handles.remove(&seat.number);
        true
    }

    /// Ends all idle threads. Returns the handles to join, including those of busy threads.
    pub(super) fn dismiss(&mut self) -> Vec<JoinHandle<()>> {
        for seat in self.idle.drain(..) {
            self.alive -= 1;
            seat.give(Order::End);
        }
        self.take_handles()
    }

    /// Takes the handles of all current threads, so that nothing joins them.
    pub(super) fn take_handles(&mut self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut self.handles).into_values().collect()
    }
}
