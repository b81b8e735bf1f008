//! Threads that sync the WALs of a node, and the buffer pool that the WALs share.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use firn_model::Result;
use parking_lot::{Condvar, Mutex};

use super::DurableCallback;
use super::log::{Log, call};

/// Maximum number of pooled buffers: enough for the WALs that are written to at the same moment.
const POOLED_BUFFERS_MAX: usize = 32;
/// Largest buffer that the pool takes back; one large record may have grown it beyond this.
const POOLED_BUFFER_BYTES_MAX: usize = 1 << 20;

/// Handle on a small, fixed number of threads that sync WALs, so that thousands of shards do not need thousands of
/// threads. Clones share the threads. When the last handle is dropped, the threads finish their queue and end. WALs
/// that live longer sync in the threads that wait for them.
///
/// With 0 threads every sync runs in the calling thread, and intervals
/// ([`WalOptions::sync_interval`](super::WalOptions::sync_interval)) have no effect. Tests and tools use this.
#[derive(Clone)]
pub struct Syncer {
    pub(super) shared: Arc<Shared>,
    _threads: Arc<Threads>,
}

impl std::fmt::Debug for Syncer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Syncer").finish_non_exhaustive()
    }
}

struct Threads {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

pub(super) struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    buffers: Mutex<Vec<Vec<u8>>>,
}

struct Queue {
    /// Outcomes to report, from threads that may hold locks.
    answers: VecDeque<Answer>,
    ready: VecDeque<Arc<Log>>,
    /// By due time; the number distinguishes equal times.
    timed: BTreeMap<(Instant, u64), Arc<Log>>,
    next_number: u64,
    is_stopped: bool,
}

/// Callbacks and their outcome.
pub(super) type Answer = (Vec<DurableCallback>, Result<()>);

/// Next task of a syncer thread.
enum Task {
    Answer(Answer),
    Sync { log: Arc<Log>, is_timed: bool },
}

impl Syncer {
    /// Starts `threads` threads. One sync of the disk occupies a thread, so a few are enough: syncs of one device share
    /// its flushes. Starts fewer if the system refuses more.
    pub fn new(threads: usize) -> Self {
        let queue = Queue {
            answers: VecDeque::new(),
            ready: VecDeque::new(),
            timed: BTreeMap::new(),
            next_number: 0,
            is_stopped: threads == 0,
        };
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            wake: Condvar::new(),
            buffers: Mutex::new(Vec::new()),
        });
        let mut handles = Vec::new();
        for number in 0..threads {
            let for_thread = shared.clone();
            let builder = thread::Builder::new().name(format!("wal-sync-{number}"));
            match builder.spawn(move || for_thread.run()) {
                Ok(handle) => handles.push(handle),
                Err(error) => tracing::warn!(%error, "cannot start a thread that syncs write-ahead logs"),
            }
        }
        if handles.is_empty() {
            shared.queue.lock().is_stopped = true;
        }
        Self {
            shared: shared.clone(),
            _threads: Arc::new(Threads { shared, handles }),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.queue.lock().is_stopped = true;
        self.shared.wake.notify_all();
        for handle in self.handles.drain(..) {
            // A callback may hold the last handle; its thread cannot join itself.
            if handle.thread().id() != thread::current().id() {
                let _ = handle.join();
            }
        }
    }
}

impl Shared {
    /// Returns whether there are threads. If not, callers sync in their own thread.
    pub(super) fn has_threads(&self) -> bool {
        !self.queue.lock().is_stopped
    }

    /// Queues callbacks for a thread. Returns them if there is no thread.
    pub(super) fn answer(&self, answer: Answer) -> Option<Answer> {
        let mut queue = self.queue.lock();
        if queue.is_stopped {
            return Some(answer);
        }
        queue.answers.push_back(answer);
        drop(queue);
        self.wake.notify_one();
        None
    }

    /// Queues a sync of `log`. Returns false if there is no thread; the caller must sync then.
    pub(super) fn request(&self, log: Arc<Log>) -> bool {
        let mut queue = self.queue.lock();
        if queue.is_stopped {
            return false;
        }
        queue.ready.push_back(log);
        drop(queue);
        self.wake.notify_one();
        true
    }

    /// Schedules a sync of `log` at `due`. Returns false if there is no thread.
    pub(super) fn request_at(&self, log: Arc<Log>, due: Instant) -> bool {
        let mut queue = self.queue.lock();
        if queue.is_stopped {
            return false;
        }
        let number = queue.next_number;
        queue.next_number += 1;
        queue.timed.insert((due, number), log);
        drop(queue);
        // The sleeping thread may have a later due time.
        self.wake.notify_one();
        true
    }

    pub(super) fn take_buffer(&self, bytes: usize) -> Vec<u8> {
        let pooled = self.buffers.lock().pop();
        pooled.unwrap_or_else(|| Vec::with_capacity(bytes))
    }

    pub(super) fn give_buffer(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() > POOLED_BUFFER_BYTES_MAX {
            return;
        }
        buffer.clear();
        let mut buffers = self.buffers.lock();
        if buffers.len() < POOLED_BUFFERS_MAX {
            buffers.push(buffer);
        }
    }

    fn run(&self) {
        while let Some(task) = self.next() {
            // A panic must not end the thread, because other logs wait for it.
            let done = catch_unwind(AssertUnwindSafe(|| match task {
                Task::Answer((callbacks, outcome)) => call(callbacks, &outcome),
                Task::Sync { log, is_timed } => log.sync_requested(is_timed),
            }));
            if done.is_err() {
                tracing::error!("a write-ahead log sync thread panicked and continues");
            }
        }
    }

    fn next(&self) -> Option<Task> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(answer) = queue.answers.pop_front() {
                return Some(Task::Answer(answer));
            }
            if let Some(log) = queue.ready.pop_front() {
                return Some(Task::Sync { log, is_timed: false });
            }
            let next_due = queue.timed.first_key_value().map(|(key, _)| *key);
            match next_due {
                Some(key) if queue.is_stopped || key.0 <= Instant::now() => {
                    let log = queue.timed.remove(&key)?;
                    return Some(Task::Sync { log, is_timed: true });
                }
                _ if queue.is_stopped => return None,
                Some(key) => {
                    self.wake.wait_until(&mut queue, key.0);
                }
                None => self.wake.wait(&mut queue),
            }
        }
    }
}
