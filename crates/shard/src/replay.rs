//! Parallel replay of a shard's WAL.
//!
//! The thread that opens the shard reads the records and cuts them into windows. Worker threads take
//! windows in order, map their documents in parallel, assign document ids window after
//! window, and index in parallel into several write buffers, as normal writes do. The opening
//! thread alone replays a WAL of one window.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Scope;

use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::wal::Wal;
use parking_lot::{Condvar, Mutex};

use super::apply::{bury, place};
use super::buffer::{Buffer, guarded};
use super::recovery::open_wal;
use super::wal_record::{self, BatchTag, Operation};
use super::{ReplayMapper, Shard};
use crate::mapper::MappedDocument;

/// Windows that wait for a thread. At this number another thread is started, or the reader processes a window.
const WINDOWS_WAITING_MAX: usize = 2;

/// Records that are mapped and placed together.
struct Window {
    /// Counts from 0 in the order of the log.
    number: u64,
    records: Vec<Bytes>,
}

/// Operation with its mapped document.
struct Mapped {
    seq_no: u64,
    version: u64,
    change: Change,
}

enum Change {
    Index {
        id: Option<String>,
        routing: Option<String>,
        document: Box<MappedDocument>,
    },
    Delete {
        id: String,
    },
}

/// State that the threads of one replay share.
struct Replay<'a> {
    shard: &'a Shard,
    map: &'a ReplayMapper<'a>,
    progress: Mutex<Progress>,
    /// Signalled when `progress` changes.
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    waiting: VecDeque<Window>,
    windows_cut: u64,
    /// Windows whose documents have document ids.
    windows_placed: u64,
    /// Threads besides the reader.
    helpers: usize,
    /// No further window follows.
    is_over: bool,
    failure: Option<Error>,
}

impl Shard {
    /// Opens the WAL from a generation on, applies its records again and turns the buffers into segments.
    pub(super) fn replay_wal(&self, from_generation: u64, map: &ReplayMapper<'_>) -> Result<Wal> {
        let replay = Replay {
            shard: self,
            map,
            progress: Mutex::default(),
            changed: Condvar::new(),
        };
        let wal = std::thread::scope(|scope| {
            let mut window = Vec::new();
            let mut window_bytes = 0;
            let opened = open_wal(&self.config, from_generation, &mut |payload, _| {
                window_bytes += payload.len();
                window.push(Bytes::copy_from_slice(payload));
                if window_bytes < self.config.replay_window_bytes {
                    return Ok(());
                }
                window_bytes = 0;
                replay.add(scope, std::mem::take(&mut window))
            });
            let ended = opened.and_then(|wal| {
                if !window.is_empty() {
                    replay.cut(window);
                }
                replay.end()?;
                Ok(wal)
            });
            ended.inspect_err(|error| replay.fail(error.clone()))
        })?;
        self.write_out_in_parallel()?;
        Ok(wal)
    }

    /// Turns every buffer into a segment, several in parallel.
    fn write_out_in_parallel(&self) -> Result<()> {
        let sealed = self.seal_buffers()?;
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(buffer) = sealed.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.finish(buffer)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let helpers: Vec<_> = (1..sealed.len())
                .map_while(|_| self.config.replay_threads.take())
                .map(|taken| {
                    scope.spawn(move || {
                        let _taken = taken;
                        guarded("writing a segment", work)
                    })
                })
                .collect();
            let own = work();
            helpers.into_iter().fold(own, |outcome, helper| {
                let helped = helper.join();
                outcome.and(helped.unwrap_or_else(|_| Err(Error::internal("a replay panicked"))))
            })
        })
    }
}

impl<'a> Replay<'a> {
    /// Queues a window, and processes one if enough are waiting.
    fn add<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, records: Vec<Bytes>) -> Result<()> {
        let waiting = self.cut(records);
        if waiting < WINDOWS_WAITING_MAX {
            return self.check();
        }
        if self.start_helper(scope) {
            return self.check();
        }
        match self.next(false) {
            Some(window) => self.work_on(window),
            None => self.check(),
        }
    }

    /// Queues a window and returns the number of waiting ones.
    fn cut(&self, records: Vec<Bytes>) -> usize {
        let mut progress = self.progress.lock();
        let number = progress.windows_cut;
        progress.windows_cut += 1;
        progress.waiting.push_back(Window { number, records });
        self.changed.notify_all();
        progress.waiting.len()
    }

    /// Starts a worker thread; false if the limit is reached.
    fn start_helper<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> bool {
        let config = &self.shard.config;
        {
            let mut progress = self.progress.lock();
            // Each thread indexes into a separate buffer.
            if progress.helpers + 1 >= config.buffers_max {
                return false;
            }
            progress.helpers += 1;
        }
        let Some(taken) = config.replay_threads.take() else {
            self.progress.lock().helpers -= 1;
            return false;
        };
        scope.spawn(move || {
            let _taken = taken;
            while let Some(window) = self.next(true) {
                if self.work_on(window).is_err() {
                    return;
                }
            }
        });
        true
    }

    /// Returns the next window; `None`: there is none, or the replay failed. `waits`: blocks until a window comes or
    /// none will.
    fn next(&self, waits: bool) -> Option<Window> {
        let mut progress = self.progress.lock();
        loop {
            if progress.failure.is_some() {
                return None;
            }
            let window = progress.waiting.pop_front();
            if window.is_some() || progress.is_over || !waits {
                return window;
            }
            self.changed.wait(&mut progress);
        }
    }

    /// Processes the remaining windows, and returns once every document has a document id and is indexed or is
    /// being indexed by a thread that the scope waits for.
    fn end(&self) -> Result<()> {
        {
            let mut progress = self.progress.lock();
            progress.is_over = true;
            self.changed.notify_all();
        }
        while let Some(window) = self.next(false) {
            self.work_on(window)?;
        }
        let mut progress = self.progress.lock();
        while progress.windows_placed < progress.windows_cut && progress.failure.is_none() {
            self.changed.wait(&mut progress);
        }
        drop(progress);
        self.check()
    }

    fn check(&self) -> Result<()> {
        match &self.progress.lock().failure {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Ends every thread; the first error stays.
    fn fail(&self, error: Error) {
        let mut progress = self.progress.lock();
        progress.failure.get_or_insert(error);
        progress.waiting.clear();
        self.changed.notify_all();
    }

    fn work_on(&self, window: Window) -> Result<()> {
        let done = guarded("replaying a write-ahead log", || {
            let mapped = self.mapped(&window)?;
            self.place(window.number, mapped.0, mapped.1)
        });
        done.inspect_err(|error| self.fail(error.clone()))
    }

    fn mapped(&self, window: &Window) -> Result<(Vec<Mapped>, Vec<BatchTag>)> {
        let mut mapped = Vec::new();
        let mut tags = Vec::new();
        for payload in &window.records {
            let tag = wal_record::read(payload, &mut |seq_no, version, operation| {
                let change = match operation {
                    Operation::Delete { id } => Change::Delete { id: id.to_owned() },
                    Operation::Index { id, routing, source } => Change::Index {
                        id: id.map(str::to_owned),
                        routing: routing.map(str::to_owned),
                        document: Box::new(self.map_one(source)?),
                    },
                };
                mapped.push(Mapped {
                    seq_no,
                    version,
                    change,
                });
                Ok(())
            })?;
            tags.extend(tag);
        }
        Ok((mapped, tags))
    }

    /// Maps one event. The event was acknowledged, so it is stored even if it no longer fits the mapping. A failure of
    /// the node ends the replay: an event must not lose its fields because of that.
    fn map_one(&self, source: Bytes) -> Result<MappedDocument> {
        (self.map)(&source).or_else(|error| match error.kind() {
            ErrorKind::DiskFull
            | ErrorKind::Internal
            | ErrorKind::Rejected
            | ErrorKind::Unavailable
            | ErrorKind::IndexClosed
            | ErrorKind::IndexNotFound => Err(error),
            _ => {
                tracing::warn!(index = %self.shard.config.index, %error, "a replayed event does not fit its mapping");
                Ok(MappedDocument::source_only(source))
            }
        })
    }

    /// Assigns document ids to a window after the previous windows have theirs, and
    /// indexes the documents. The operations were already accepted, so nothing is checked.
    fn place(&self, number: u64, mapped: Vec<Mapped>, tags: Vec<BatchTag>) -> Result<()> {
        {
            let mut progress = self.progress.lock();
            while progress.windows_placed < number && progress.failure.is_none() {
                self.changed.wait(&mut progress);
            }
        }
        self.check()?;
        let shard = self.shard;
        let mut documents = Vec::with_capacity(mapped.len());
        let mut state = shard.state.lock();
        state.check_running()?;
        let target = state.pick_buffer(&shard.config)?;
        for Mapped {
            seq_no,
            version,
            change,
        } in mapped
        {
            state.next_seq_no = state.next_seq_no.max(seq_no + 1);
            state.flags.uncommitted_ops.fetch_add(1, Ordering::AcqRel);
            match change {
                Change::Delete { id } => {
                    let found = state.find(&shard.config, &id)?;
                    bury(&mut state, found, &id, seq_no, version);
                }
                Change::Index {
                    id,
                    routing,
                    mut document,
                } => {
                    let found = match &id {
                        Some(id) => state.find(&shard.config, id)?,
                        None => None,
                    };
                    place(&mut state, target, found, id, routing, seq_no, version, &mut document);
                    documents.push(*document);
                }
            }
        }
        for tag in tags {
            state.mark_source(tag);
        }
        let buffer: Arc<Buffer> = Arc::clone(&state.buffers[target].buffer);
        self.progress.lock().windows_placed = number + 1;
        self.changed.notify_all();
        shard.hand_over(state, &buffer, documents)
    }
}
