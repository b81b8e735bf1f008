//! State of an open WAL: buffered, written and durable positions, and waiters.

use std::collections::VecDeque;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firn_model::{Error, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::durable_notes;
use super::format::{FRAME_HEADER_BYTES, HEADER_BYTES, Header, file_path, frame_header, mark_frame};
use super::syncer::Shared;
use super::{DurableCallback, Position, RECORD_BYTES_MAX};
use crate::disk::{AppendFile, Disk};

/// Maximum number of healed failures whose durable end is retained for late waiters. Waiters of older epochs get an
/// error, which is the safe outcome.
const ENDED_EPOCHS_MAX: usize = 4096;

pub(super) struct Log {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) identity: u64,
    pub(super) buffer_bytes: usize,
    pub(super) syncer: Arc<Shared>,
    pub(super) state: Mutex<State>,
    /// Notified when a sync ends.
    pub(super) synced: Condvar,
    /// Whether this process has synced the removals of earlier processes.
    pub(super) has_trimmed: AtomicBool,
}

pub(super) struct State {
    pub(super) file: Arc<dyn AppendFile>,
    pub(super) salt: u32,
    pub(super) generation: u64,
    /// Frames that are not yet written to the file.
    pub(super) buffer: Vec<u8>,
    /// Length of the file in bytes.
    pub(super) written: u64,
    /// End of the last record, in the file or in the buffer. Sync marks do not count: no caller waits for them.
    pub(super) records_end: u64,
    /// Durable bytes of the file.
    pub(super) durable: u64,
    /// Records in the current generation, and the durable ones of them.
    pub(super) operations: u64,
    pub(super) durable_operations: u64,
    /// Earlier files, oldest first.
    pub(super) older: VecDeque<OlderFile>,
    /// Number of healed failures.
    pub(super) epoch: u64,
    /// Durable ends of earlier epochs; the last entry is the newest.
    pub(super) ended_epochs: VecDeque<(u64, u64)>,
    pub(super) failure: Option<Error>,
    /// The files may be open in another log.
    pub(super) is_closed: bool,
    pub(super) waiting: Vec<(Position, DurableCallback)>,
    pub(super) is_syncing: bool,
    /// Whether the syncer has the log in its queue.
    pub(super) is_requested: bool,
    /// Whether the syncer has the log in its timed queue.
    pub(super) is_timed: bool,
    pub(super) sync_interval: Option<Duration>,
}

pub(super) struct OlderFile {
    pub(super) generation: u64,
    pub(super) bytes: u64,
    pub(super) operations: u64,
}

/// Callbacks to run once the lock is released.
type Calls = Vec<DurableCallback>;

/// Runs callbacks. If one panics, the remaining ones still run.
pub(super) fn call(callbacks: Calls, outcome: &Result<()>) {
    for callback in callbacks {
        if catch_unwind(AssertUnwindSafe(|| callback(outcome.clone()))).is_err() {
            tracing::error!("a durability callback of a write-ahead log panicked");
        }
    }
}

/// Kind of thread that syncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// Thread of the syncer: it holds no lock and runs the callbacks directly.
    Syncer,
    /// Any other thread: it may hold locks that a callback needs.
    Other,
}

impl State {
    fn end(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn position(&self, offset: u64) -> Position {
        Position {
            generation: self.generation,
            offset,
            epoch: self.epoch,
        }
    }

    /// Returns the outcome for a position; `None` if it is not known yet.
    fn outcome(&self, position: Position) -> Option<Result<()>> {
        let place = (position.generation, position.offset);
        if position.epoch == self.epoch {
            if place <= (self.generation, self.durable) {
                return Some(Ok(()));
            }
            if place > (self.generation, self.records_end) && self.failure.is_none() {
                return Some(Err(Error::internal(
                    "cannot wait for a position beyond the end of the write-ahead log",
                )));
            }
            return self.failure.clone().map(Err);
        }
        let back = self.epoch.checked_sub(position.epoch);
        let ended = back.and_then(|back| self.ended_epochs.len().checked_sub(back as usize));
        match ended.and_then(|index| self.ended_epochs.get(index)) {
            Some(durable_end) if place <= *durable_end => Some(Ok(())),
            _ => Some(Err(Error::internal(format!(
                "the record at byte {} of generation {} was lost when the write-ahead log failed",
                position.offset, position.generation
            )))),
        }
    }

    fn is_dirty(&self) -> bool {
        self.records_end > self.durable
    }

    /// Marks the log as failed: it accepts no more records. Returns the callbacks to notify.
    fn fail(&mut self, error: Error) -> Calls {
        self.failure = Some(error);
        self.buffer = Vec::new();
        self.waiting.drain(..).map(|(_, callback)| callback).collect()
    }

    /// Removes and returns the callbacks whose position is durable.
    fn take_durable(&mut self) -> Calls {
        let reached = (self.generation, self.durable);
        let mut calls = Vec::new();
        for (position, callback) in mem::take(&mut self.waiting) {
            match (position.generation, position.offset) <= reached {
                true => calls.push(callback),
                false => self.waiting.push((position, callback)),
            }
        }
        calls
    }
}

impl Log {
    /// Has the callbacks run by a thread of the syncer, unless this is one: a thread that appends or rotates may hold
    /// locks that they need.
    fn answer(&self, calls: Calls, outcome: Result<()>, by: By) {
        if calls.is_empty() {
            return;
        }
        let left = match by {
            By::Syncer => Some((calls, outcome)),
            By::Other => self.syncer.answer((calls, outcome)),
        };
        // Without threads, only callbacks that arrived during the last sync wait here.
        if let Some((calls, outcome)) = left {
            call(calls, &outcome);
        }
    }

    fn naming(&self, attempt: &str, generation: u64, error: std::io::Error) -> Error {
        let path = file_path(&self.dir, generation);
        let cause = Error::from(error);
        Error::new(
            cause.kind(),
            format!("cannot {attempt} the write-ahead log [{}]", path.display()),
        )
        .caused_by(cause)
    }

    pub(super) fn append(self: &Arc<Self>, parts: &[&[u8]]) -> Result<Position> {
        let payload_bytes: usize = parts.iter().map(|part| part.len()).sum();
        if payload_bytes == 0 || payload_bytes > RECORD_BYTES_MAX {
            return Err(Error::illegal_argument(format!(
                "a record of the write-ahead log has 1 to {RECORD_BYTES_MAX} bytes, not {payload_bytes}"
            )));
        }
        let mut state = self.state.lock();
        if let Some(error) = &state.failure {
            return Err(error.clone());
        }
        let header = frame_header(state.salt, payload_bytes as u32, parts);
        let frame_bytes = payload_bytes + FRAME_HEADER_BYTES as usize;
        if state.buffer.capacity() == 0 {
            state.buffer = self.syncer.take_buffer(self.buffer_bytes.max(frame_bytes));
        }
        state.buffer.reserve(frame_bytes);
        state.buffer.extend_from_slice(&header);
        for part in parts {
            state.buffer.extend_from_slice(part);
        }
        state.operations += 1;
        state.records_end = state.end();
        let position = state.position(state.records_end);
        if state.buffer.len() >= self.buffer_bytes
            && let Err(error) = self.write_out(&mut state)
        {
            let calls = state.fail(error.clone());
            drop(state);
            self.answer(calls, Err(error.clone()), By::Other);
            return Err(error);
        }
        self.arrange_sync(&mut state);
        Ok(position)
    }

    /// Writes the buffer to the file.
    fn write_out(&self, state: &mut State) -> Result<()> {
        if state.buffer.is_empty() {
            return Ok(());
        }
        let buffer = mem::take(&mut state.buffer);
        let written = state.file.append(&buffer);
        self.syncer.give_buffer(buffer);
        written.map_err(|error| self.naming("write to", state.generation, error))?;
        state.written = state.file.len();
        Ok(())
    }

    /// Schedules a sync if waiters or the sync interval need one.
    fn arrange_sync(self: &Arc<Self>, state: &mut State) {
        if state.failure.is_some() {
            return;
        }
        if !state.waiting.is_empty() && !state.is_requested && !state.is_syncing {
            state.is_requested = self.syncer.request(self.clone());
        }
        if let Some(interval) = state.sync_interval
            && state.is_dirty()
            && !state.is_timed
        {
            state.is_timed = self.syncer.request_at(self.clone(), Instant::now() + interval);
        }
    }

    pub(super) fn wait_durable(self: &Arc<Self>, position: Position, callback: DurableCallback) {
        let mut state = self.state.lock();
        if let Some(outcome) = state.outcome(position) {
            drop(state);
            return callback(outcome);
        }
        if !self.syncer.has_threads() {
            // No syncer thread will sync or run the callback, so this thread does both.
            drop(state);
            return callback(self.sync_blocking(position));
        }
        state.waiting.push((position, callback));
        self.arrange_sync(&mut state);
        if !state.is_requested && !state.is_syncing {
            // The syncer threads have just ended.
            self.sync_now(state, By::Other);
        }
    }

    pub(super) fn sync_blocking(self: &Arc<Self>, position: Position) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            if let Some(outcome) = state.outcome(position) {
                return outcome;
            }
            if state.is_syncing {
                self.synced.wait(&mut state);
            } else {
                self.sync_now(state, By::Other);
                state = self.state.lock();
            }
        }
    }

    /// Entry point of the syncer's threads.
    pub(super) fn sync_requested(self: &Arc<Self>, is_timed: bool) {
        let mut state = self.state.lock();
        match is_timed {
            true => state.is_timed = false,
            false => state.is_requested = false,
        }
        // A sync that already runs schedules the next one.
        if state.failure.is_none() && !state.is_syncing && state.is_dirty() {
            self.sync_now(state, By::Syncer);
        }
    }

    /// Writes and syncs all buffered records, and notifies waiters. Only one sync runs at a time: `is_syncing` must be
    /// false. Appends continue concurrently.
    fn sync_now(self: &Arc<Self>, mut state: MutexGuard<'_, State>, by: By) {
        debug_assert!(!state.is_syncing);
        if let Err(error) = self.write_out(&mut state) {
            let calls = state.fail(error.clone());
            drop(state);
            return self.answer(calls, Err(error), by);
        }
        state.is_syncing = true;
        let (file, target, target_operations) = (state.file.clone(), state.written, state.operations);
        let generation = state.generation;
        let synced = MutexGuard::unlocked(&mut state, || file.sync());
        state.is_syncing = false;
        self.synced.notify_all();
        let (calls, outcome) = match synced {
            // A write failed during the sync and all waiters got its error; the result of this sync is not reported.
            Ok(()) if state.failure.is_some() => return,
            Ok(()) => {
                state.durable = target;
                state.durable_operations = target_operations;
                let calls = state.take_durable();
                if let Err(error) = self.mark(&mut state) {
                    // Waiters whose position is durable still succeed; only later ones get the failure.
                    let failed = state.fail(error.clone());
                    drop(state);
                    self.answer(calls, Ok(()), by);
                    return self.answer(failed, Err(error), by);
                }
                self.arrange_sync(&mut state);
                (calls, Ok(()))
            }
            Err(error) => {
                let error = self.naming("sync", generation, error);
                (state.fail(error.clone()), Err(error))
            }
        };
        // Without threads, only this thread can serve waiters that arrived during the sync.
        let must_go_on = !state.waiting.is_empty() && !state.is_requested && state.failure.is_none();
        drop(state);
        self.answer(calls, outcome, by);
        if must_go_on {
            let state = self.state.lock();
            if !state.waiting.is_empty() && !state.is_syncing && state.failure.is_none() {
                self.sync_now(state, by);
            }
        }
    }

    /// Appends a sync mark that states how much of the file is durable, so that a reader can tell damage from a torn
    /// tail. The mark needs no sync: it is true whenever it is found.
    pub(super) fn mark(&self, state: &mut State) -> Result<()> {
        if state.durable > HEADER_BYTES {
            let noted = durable_notes::write(
                self.disk.as_ref(),
                &self.dir,
                self.identity,
                state.generation,
                state.durable,
            );
            if let Err(error) = noted {
                // The log continues: a note is a second proof. If it is missing, the marks decide.
                tracing::debug!(dir = %self.dir.display(), %error, "cannot note the durable length of the write-ahead log");
            }
        }
        let frame = mark_frame(state.salt, state.end(), state.durable);
        let is_idle = state.buffer.is_empty();
        if is_idle && state.buffer.capacity() == 0 {
            state.buffer = self.syncer.take_buffer(self.buffer_bytes);
        }
        state.buffer.extend_from_slice(&frame);
        // With records in the buffer, the mark is written with them.
        if is_idle { self.write_out(state) } else { Ok(()) }
    }

    pub(super) fn end_position(&self) -> Position {
        let state = self.state.lock();
        state.position(state.records_end)
    }

    pub(super) fn set_sync_interval(self: &Arc<Self>, interval: Option<Duration>) {
        let mut state = self.state.lock();
        state.sync_interval = interval;
        self.arrange_sync(&mut state);
    }

    /// Locks the state when no sync runs; waits for a running sync.
    fn lock_idle(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        while state.is_syncing {
            self.synced.wait(&mut state);
        }
        state
    }

    pub(super) fn rotate(self: &Arc<Self>) -> Result<u64> {
        loop {
            let mut state = self.lock_idle();
            if let Some(error) = &state.failure {
                return Err(error.clone());
            }
            if state.is_dirty() {
                self.sync_now(state, By::Other);
                continue;
            }
            if state.operations == 0 {
                // The current file is empty, so later records already go to a separate file.
                return Ok(state.generation);
            }
            let opened = self.next_file(&mut state).and_then(|()| self.mark(&mut state));
            return match opened {
                Ok(()) => Ok(state.generation),
                Err(error) => {
                    // The new file may exist and state the end of the current one: the current file must not
                    // acknowledge another byte.
                    let calls = state.fail(error.clone());
                    drop(state);
                    self.answer(calls, Err(error.clone()), By::Other);
                    Err(error)
                }
            };
        }
    }

    pub(super) fn close(self: &Arc<Self>, reason: Error) {
        let mut state = self.lock_idle();
        if state.failure.is_none() && state.is_dirty() {
            self.sync_now(state, By::Other);
            state = self.lock_idle();
        }
        self.release(state, reason);
    }

    pub(super) fn abandon(&self, reason: Error) {
        self.release(self.lock_idle(), reason);
    }

    /// Permanently stops writing to the files. No sync may be running.
    fn release(&self, mut state: MutexGuard<'_, State>, reason: Error) {
        state.is_closed = true;
        let error = state.failure.clone().unwrap_or(reason);
        let calls = state.fail(error.clone());
        drop(state);
        self.answer(calls, Err(error), By::Other);
    }

    pub(super) fn try_heal(self: &Arc<Self>) -> Result<u64> {
        let mut state = self.lock_idle();
        if let (true, Some(error)) = (state.is_closed, &state.failure) {
            return Err(error.clone());
        }
        if state.failure.is_none() {
            return Ok(state.generation);
        }
        // Only frees space: the next file states where this one ends.
        let path = file_path(&self.dir, state.generation);
        if let Err(error) = self.disk.set_len(&path, state.durable) {
            tracing::warn!(path = %path.display(), %error, "cannot truncate the failed write-ahead log");
        }
        let ended = (state.generation, state.durable);
        state.operations = state.durable_operations;
        match self.next_file(&mut state) {
            Ok(()) => {
                state.ended_epochs.push_back(ended);
                if state.ended_epochs.len() > ENDED_EPOCHS_MAX {
                    state.ended_epochs.pop_front();
                }
                state.epoch += 1;
                state.failure = None;
                let generation = state.generation;
                if let Err(error) = self.mark(&mut state) {
                    state.failure = Some(error.clone());
                    return Err(error);
                }
                tracing::info!(path = %path.display(), end = ended.1, generation, "repaired the write-ahead log after its failure");
                Ok(generation)
            }
            Err(error) => {
                state.failure = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Creates the file of the next generation, whose header declares the durable part of the current file as its whole
    /// content, and makes it the current file. On failure nothing has changed, except that the file may exist; the next
    /// attempt replaces it.
    #[expect(clippy::disallowed_methods, reason = "no seed may repeat the salt of a WAL file")]
    fn next_file(&self, state: &mut State) -> Result<()> {
        let header = Header {
            salt: fastrand::u32(..),
            generation: state.generation + 1,
            identity: self.identity,
            previous_len: state.durable,
        };
        let file = create_file(self.disk.as_ref(), &self.dir, &header)
            .map_err(|error| self.naming("create", header.generation, error))?;
        state.older.push_back(OlderFile {
            generation: state.generation,
            bytes: state.durable,
            operations: state.durable_operations,
        });
        state.file = file;
        state.salt = header.salt;
        state.generation = header.generation;
        state.buffer = Vec::new();
        state.written = HEADER_BYTES;
        state.records_end = HEADER_BYTES;
        state.durable = HEADER_BYTES;
        state.operations = 0;
        state.durable_operations = 0;
        Ok(())
    }

    pub(super) fn trim(&self, keep_from: u64) -> Result<()> {
        loop {
            let generation = {
                let state = self.state.lock();
                if let (true, Some(error)) = (state.is_closed, &state.failure) {
                    return Err(error.clone());
                }
                match state.older.front() {
                    Some(oldest) if oldest.generation < keep_from => oldest.generation,
                    _ => return Ok(()),
                }
            };
            if !self.has_trimmed.load(Ordering::Acquire) {
                self.disk.sync_dir(&self.dir)?;
                self.has_trimmed.store(true, Ordering::Release);
            }
            remove_oldest(self.disk.as_ref(), &self.dir, generation)?;
            let mut state = self.state.lock();
            if state
                .older
                .front()
                .is_some_and(|oldest| oldest.generation == generation)
            {
                state.older.pop_front();
            }
        }
    }

    pub(super) fn size_bytes(&self) -> u64 {
        let state = self.state.lock();
        state.older.iter().map(|file| file.bytes).sum::<u64>() + state.end()
    }

    pub(super) fn operations(&self) -> u64 {
        let state = self.state.lock();
        state.older.iter().map(|file| file.operations).sum::<u64>() + state.operations
    }
}

/// Removes the oldest file durably. Only one file at a time: if a power loss removed a later name before an earlier
/// one, the gap would look like damage. Earlier removals must be durable.
pub(super) fn remove_oldest(disk: &dyn Disk, dir: &std::path::Path, generation: u64) -> Result<()> {
    for path in [durable_notes::path(dir, generation), file_path(dir, generation)] {
        match disk.remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(disk.sync_dir(dir)?)
}

/// Creates a file with its header, durable including its name, and opens it.
pub(super) fn create_file(
    disk: &dyn Disk,
    dir: &std::path::Path,
    header: &Header,
) -> std::io::Result<Arc<dyn AppendFile>> {
    let path = file_path(dir, header.generation);
    disk.write_atomic(&path, &header.encode())?;
    Ok(Arc::from(disk.open_append(&path)?))
}
