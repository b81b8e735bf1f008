//! Parallel execution of one request's tasks on the threads of a pool, without waiting for a free thread.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};

use crate::{Pool, wait_for_others, yield_now};

/// Runs `task(0)` to `task(count - 1)`, on the calling thread and on threads of `pool` that become free meanwhile, and
/// returns the results in order. Numbers are claimed one by one, so the call never waits for a thread that has not
/// begun: it is safe on a thread of the same pool. The thread may yield between two numbers, so the caller must hold no
/// lock. A panic of a task is raised again here.
pub fn run_indexed<T: Send + 'static>(
    pool: &Pool,
    count: usize,
    task: impl Fn(usize) -> T + Send + Sync + 'static,
) -> Vec<T> {
    run_indexed_within(pool, usize::MAX, count, task)
}

/// As [`run_indexed`], on no more than `threads_max` threads.
pub fn run_indexed_within<T: Send + 'static>(
    pool: &Pool,
    threads_max: usize,
    count: usize,
    task: impl Fn(usize) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let threads = if count > 1 {
        pool.thread_count().min(threads_max)
    } else {
        1
    };
    if threads <= 1 {
        let yielding = |number| {
            yield_now();
            task(number)
        };
        return (0..count).map(yielding).collect();
    }
    let shared = Arc::new(Shared {
        count,
        task,
        next: AtomicUsize::new(0),
        state: Mutex::new(Gathered {
            results: (0..count).map(|_| None).collect(),
            finished: 0,
        }),
        wake: Condvar::new(),
    });
    for _ in 0..(count - 1).min(threads - 1) {
        let shared = Arc::clone(&shared);
        pool.spawn_part(move || shared.work());
    }
    shared.work();
    let results = match shared.take_finished() {
        Some(results) => results,
        None => wait_for_others(|| shared.wait()),
    };
    results
        .into_iter()
        .map(|result| match result.expect("every claimed number leaves a result") {
            Ok(value) => value,
            Err(panic) => resume_unwind(panic),
        })
        .collect()
}

struct Shared<T, F> {
    count: usize,
    task: F,
    next: AtomicUsize,
    state: Mutex<Gathered<T>>,
    wake: Condvar,
}

struct Gathered<T> {
    results: Vec<Option<std::thread::Result<T>>>,
    finished: usize,
}

impl<T, F: Fn(usize) -> T> Shared<T, F> {
    fn take_finished(&self) -> Option<Vec<Option<std::thread::Result<T>>>> {
        let mut state = self.state.lock();
        (state.finished == self.count).then(|| std::mem::take(&mut state.results))
    }

    fn wait(&self) -> Vec<Option<std::thread::Result<T>>> {
        let mut state = self.state.lock();
        while state.finished < self.count {
            self.wake.wait(&mut state);
        }
        std::mem::take(&mut state.results)
    }

    fn work(&self) {
        loop {
            yield_now();
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.count {
                return;
            }
            let result = catch_unwind(AssertUnwindSafe(|| (self.task)(number)));
            let mut state = self.state.lock();
            state.results[number] = Some(result);
            state.finished += 1;
            if state.finished == self.count {
                self.wake.notify_all();
            }
        }
    }
}

/// Calls a function once, after a number of parts is done.
pub struct Countdown {
    left: AtomicUsize,
    then: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Countdown {
    /// Creates a countdown that calls `then` after `parts` calls of [`Countdown::done`]; at least one.
    pub fn new(parts: usize, then: impl FnOnce() + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(parts.max(1)),
            then: Mutex::new(Some(Box::new(then))),
        })
    }

    /// Records that one part is done.
    pub fn done(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(then) = self.then.lock().take()
        {
            then();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flow;

    #[test]
    fn results_keep_their_order_even_inside_the_same_pool() {
        let pool = Arc::new(Pool::new("test", 2, 100));
        let (sender, receiver) = std::sync::mpsc::channel();
        for _ in 0..8 {
            let (pool_inside, sender) = (Arc::clone(&pool), sender.clone());
            pool.spawn(&Flow::node(), move || {
                let squares = run_indexed(&pool_inside, 50, |number| number * number);
                sender.send(squares).unwrap();
            })
            .unwrap();
        }
        let expect: Vec<usize> = (0..50).map(|number| number * number).collect();
        for _ in 0..8 {
            assert_eq!(receiver.recv().unwrap(), expect);
        }
    }

    #[test]
    fn a_panic_comes_back_to_the_caller() {
        let pool = Pool::new("test", 2, 100);
        let result = catch_unwind(AssertUnwindSafe(|| {
            run_indexed(&pool, 10, |number| assert_ne!(number, 7))
        }));
        assert!(result.is_err());
    }

    #[test]
    fn a_countdown_fires_once() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let countdown = Countdown::new(2, move || sender.send(()).unwrap());
        countdown.done();
        assert!(receiver.try_recv().is_err());
        countdown.done();
        receiver.try_recv().unwrap();
    }
}
