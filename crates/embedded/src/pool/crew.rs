//! How many threads there are, and which of them takes the next job.
//!
//! The thread that became idle last goes first: its stack and its part of the allocator's memory are warm,
//! and it frees mostly what it allocated itself. As many threads as jobs run at once are there from the
//! start; spare ones, which take over while others hold interrupted jobs, are started when they are needed and end
//! once nobody has needed them for a while, so that what they keep of the memory is given back.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::queue::AWAY_OF_FLOW_MAX;

/// How long a spare thread stays without work: starting one takes some 50 µs, so once in seconds is nothing.
pub(super) const SPARE_IDLE: Duration = Duration::from_secs(5);

/// Threads beyond the others, which take the places of those that wait for something far away: of four flows as many as may.
/// Waiting they take little more than the pages that their stacks have touched.
pub(super) const AWAY_MAX: usize = 4 * AWAY_OF_FLOW_MAX;

/// The threads of some pools.
pub(super) struct Crew<T> {
    name: &'static str,
    size: CrewSize,
    /// Threads without a job; the one that became idle last is the last.
    idle: Vec<Arc<Seat<T>>>,
    /// Of threads that somebody waits for in the end, by number.
    handles: BTreeMap<usize, JoinHandle<()>>,
    alive: usize,
    /// Threads that only wait for something far away.
    pub(super) away: usize,
}

/// How many threads a crew has.
#[derive(Debug, Clone, Copy)]
pub(super) struct CrewSize {
    /// Threads that stay whether there is work or not.
    pub(super) lasting: usize,
    /// Threads at most.
    pub(super) max: usize,
    /// How long a thread beyond the lasting ones stays idle before it ends.
    pub(super) spare_idle: Duration,
}

/// Where a thread waits for what to do next.
pub(super) struct Seat<T> {
    number: usize,
    order: Mutex<Option<Order<T>>>,
    ordered: Condvar,
}

/// What a thread is to do next.
pub(super) enum Order<T> {
    Run(T),
    End,
}

impl<T> Seat<T> {
    /// Waits for an order, for `patience` at most; without one for ever.
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

impl<T> Crew<T> {
    /// No threads yet. At least as many as stay may be started.
    pub(super) fn new(name: &'static str, size: CrewSize) -> Self {
        Self {
            name,
            size: CrewSize {
                max: size.max.max(size.lasting),
                ..size
            },
            idle: Vec::new(),
            handles: BTreeMap::new(),
            alive: 0,
            away: 0,
        }
    }

    /// Threads that could take a job, whether they were started or not.
    pub(super) fn free(&self) -> usize {
        self.idle.len() + (self.size.max + self.away.min(AWAY_MAX)).saturating_sub(self.alive)
    }

    /// Threads that were started and have not ended.
    #[cfg(test)]
    pub(super) fn alive(&self) -> usize {
        self.alive
    }

    /// Starts the threads that stay; `main` is what each runs, until it is told to end.
    pub(super) fn start_lasting<F>(&mut self, main: impl Fn() -> F) -> io::Result<()>
    where
        F: FnOnce(Arc<Seat<T>>) + Send + 'static,
        T: Send + 'static,
    {
        while self.alive < self.size.lasting {
            self.start(main())?;
        }
        Ok(())
    }

    /// Gives a job to the thread that became idle last, or to a new one if all are busy; there must be a
    /// [free](Self::free) one. The job comes back if the operating system starts no thread.
    pub(super) fn run<F>(&mut self, job: T, main: impl FnOnce() -> F) -> Result<(), (io::Error, T)>
    where
        F: FnOnce(Arc<Seat<T>>) + Send + 'static,
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
        F: FnOnce(Arc<Seat<T>>) + Send + 'static,
        T: Send + 'static,
    {
        let is_free = |number: &usize| !self.handles.contains_key(number);
        let number = (0..).find(is_free).unwrap_or_default();
        let seat = Arc::new(Seat {
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

    /// A thread has nothing to do. Returns how long it should wait for an order before it asks
    /// whether it may [leave](Self::leave).
    pub(super) fn rest(&mut self, seat: &Arc<Seat<T>>) -> Option<Duration> {
        self.idle.push(Arc::clone(seat));
        (self.alive > self.size.lasting).then_some(self.size.spare_idle)
    }

    /// Whether an idle thread is one too many; it has to end then.
    pub(super) fn leave(&mut self, seat: &Arc<Seat<T>>) -> bool {
        self.alive > self.size.lasting && self.end(seat)
    }

    /// Whether a thread is idle; it has to end then.
    pub(super) fn end(&mut self, seat: &Arc<Seat<T>>) -> bool {
        let Some(at) = self.idle.iter().position(|idle| Arc::ptr_eq(idle, seat)) else {
            return false;
        };
        self.idle.remove(at);
        self.alive -= 1;
        self.handles.remove(&seat.number);
        true
    }

    /// Lets all idle threads end; returns what to join, the busy ones among it.
    pub(super) fn dismiss(&mut self) -> Vec<JoinHandle<()>> {
        for seat in self.idle.drain(..) {
            self.alive -= 1;
            seat.give(Order::End);
        }
        self.take_handles()
    }

    /// Lets nobody wait for the threads that there are now.
    pub(super) fn take_handles(&mut self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut self.handles).into_values().collect()
    }
}
