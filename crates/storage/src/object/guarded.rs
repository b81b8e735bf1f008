//! Object store with limit, throttling, metrics, circuit breaker and retries around each request.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use super::breaker::{Admission, Breaker};
use super::meter::Stopwatch;
use super::{
    Limit, LocalFile, Meter, ObjectError, ObjectErrorKind, ObjectInfo, Objects, Operation, PutMode, Requests,
    RetryPolicy, Throttle, Want,
};

/// Part size of a large upload: the unit of one request and of one retry.
const PART_LEN: u64 = 16 << 20;
/// S3's maximum number of parts.
const PARTS_MAX: u64 = 10_000;
/// Parts of one upload in flight at the same time; each holds its bytes in memory.
const PARTS_AT_A_TIME: usize = 4;

/// Limits, retries and metrics of one repository's requests.
#[derive(Debug)]
pub struct Guard {
    /// Shared by all repositories.
    pub limit: Limit,
    /// Retry policy.
    pub retry: RetryPolicy,
    /// Counts requests.
    pub meter: Arc<Meter>,
    /// Rate limit of writes.
    pub snapshot_pace: Option<Throttle>,
    /// Rate limit of reads of [`Guarded::for_restore`].
    pub restore_pace: Option<Throttle>,
    /// Refuses all writes, even if the store would allow them.
    pub is_readonly: bool,
    /// Part size of an upload in bytes; `None` for the default. An upload with too many parts gets larger parts.
    pub part_len: Option<u64>,
}

impl Guard {
    /// Creates a guard without rate limits.
    pub fn new(limit: Limit, retry: RetryPolicy) -> Self {
        Self {
            limit,
            retry,
            meter: Arc::new(Meter::new()),
            snapshot_pace: None,
            restore_pace: None,
            is_readonly: false,
            part_len: None,
        }
    }
}

/// Store behind its guard.
#[derive(Debug, Clone)]
pub struct Guarded {
    store: Arc<dyn Requests>,
    guard: Arc<Guard>,
    breaker: Arc<Breaker>,
    is_restore: bool,
}

/// Running request; if it is dropped, the breaker learns that it was cancelled.
struct TurnGuard<'a> {
    breaker: &'a Breaker,
    stopwatch: Stopwatch,
    admission: Admission,
    is_over: bool,
}

impl<'a> TurnGuard<'a> {
    fn begin(breaker: &'a Breaker) -> Self {
        let stopwatch = Stopwatch::start();
        Self {
            breaker,
            admission: breaker.admit(stopwatch.started()),
            stopwatch,
            is_over: false,
        }
    }

    /// Records the outcome.
    fn end(mut self, outcome: Result<(), ObjectErrorKind>) {
        let took = self.stopwatch.elapsed();
        let now = self.stopwatch.started() + took;
        self.breaker.note(self.admission, outcome, now, took);
        self.is_over = true;
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.breaker.abandon(self.admission);
        }
    }
}

impl Guarded {
    /// Wraps a store with a guard.
    pub fn new(store: Arc<dyn Requests>, guard: Guard) -> Self {
        Self {
            store,
            guard: Arc::new(guard),
            breaker: Arc::default(),
            is_restore: false,
        }
    }

    /// Returns the same objects, read at the rate of `max_restore_bytes_per_sec`. For restores and cache prefetch,
    /// never for reads that a caller waits for.
    pub fn for_restore(&self) -> Self {
        Self {
            is_restore: true,
            ..self.clone()
        }
    }

    /// Sets another part size; the guard must not be shared yet.
    #[cfg(test)]
    pub(super) fn with_part_len(mut self, part_len: u64) -> Self {
        let guard = Arc::get_mut(&mut self.guard).expect("the guard is not shared yet");
        guard.part_len = Some(part_len);
        self
    }

    /// Returns whether every write is refused.
    pub fn is_readonly(&self) -> bool {
        self.guard.is_readonly
    }

    /// Returns the request metrics of the store.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.guard.meter
    }

    /// Runs one request until it succeeds or its error is final. `request` gets the number of the attempt, `bytes_of`
    /// returns the transferred bytes.
    async fn attempt<T, F>(
        &self,
        operation: Operation,
        pays: u64,
        mut request: impl FnMut(u32) -> F + Send,
        bytes_of: impl Fn(&T) -> u64 + Send,
    ) -> Result<T, ObjectError>
    where
        T: Send,
        F: Future<Output = Result<T, ObjectError>> + Send,
    {
        let pace = match operation {
            Operation::Put | Operation::Part => self.guard.snapshot_pace.as_ref(),
            Operation::Get if self.is_restore => self.guard.restore_pace.as_ref(),
            _ => None,
        };
        let mut attempt = 0;
        loop {
            if let Some(pace) = pace {
                pace.pay(pays).await;
            }
            let (admission, outcome) = {
                let _turn = self.guard.limit.turn().await;
                // Admission is decided after the wait for a permit, so that queued requests fail at once when the
                // breaker opens.
                let asking = TurnGuard::begin(&self.breaker);
                let admission = asking.admission;
                if admission == Admission::Refused {
                    return Err(silent());
                }
                let running = self.guard.meter.start(operation, attempt);
                let outcome = request(attempt).await;
                let measured = outcome.as_ref().map(&bytes_of).map_err(|error| error.kind);
                running.end(measured);
                asking.end(measured.map(drop));
                (admission, outcome)
            };
            let error = match outcome {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let pause = self.guard.retry.pause(attempt, &error);
            let Some(pause) = pause.filter(|_| admission == Admission::Granted) else {
                return Err(error);
            };
            tracing::debug!(%error, attempt, ?pause, "retrying a request to an object store");
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    fn writable(&self, key: &str) -> Result<(), ObjectError> {
        if self.guard.is_readonly {
            let reason = "the repository is read-only";
            return Err(ObjectError::new(ObjectErrorKind::Unsupported, key, reason));
        }
        Ok(())
    }

    async fn get(&self, key: &str, want: Want) -> Result<(Bytes, ObjectInfo), ObjectError> {
        let pays = match &want {
            Want::Range(range) => range.end.saturating_sub(range.start),
            Want::End(len) | Want::All(len) => *len,
        };
        let request = |_| self.store.get(key, want.clone());
        self.attempt(Operation::Get, pays, request, |(bytes, _)| bytes.len() as u64)
            .await
    }

    /// Returns the object's metadata if its content is exactly `bytes`. A conditional write with an unknown outcome
    /// uses this to find out whether one of its attempts succeeded.
    async fn is_written(&self, key: &str, bytes: &Bytes) -> Result<Option<ObjectInfo>, ObjectError> {
        match self.get(key, Want::All(bytes.len() as u64)).await {
            Ok((stored, info)) => Ok((stored == *bytes).then_some(info)),
            // Another length means another content.
            Err(error) if matches!(error.kind, ObjectErrorKind::NotFound | ObjectErrorKind::Refused) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn upload_in_parts(
        &self,
        key: &str,
        file: &LocalFile,
        (len, part_len): (u64, u64),
        sent: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), ObjectError> {
        let begin = |_| self.store.begin_parts(key);
        let upload = self.attempt(Operation::Part, 0, begin, |_| 0).await?;
        let outcome = self.put_parts(key, &upload, file, (len, part_len), sent).await;
        if outcome.is_err() {
            // If the abort fails too, the store expires the parts; the first error is the one to report.
            let abort = |_| self.store.abort_parts(key, &upload);
            if let Err(error) = self.attempt(Operation::Part, 0, abort, |_| 0).await {
                tracing::warn!(%error, "the parts of a failed upload remain in the object store");
            }
        }
        outcome
    }

    async fn put_parts(
        &self,
        key: &str,
        upload: &str,
        file: &LocalFile,
        (len, part_len): (u64, u64),
        sent: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), ObjectError> {
        let numbers = 0..len.div_ceil(part_len);
        let parts: Vec<String> = stream::iter(numbers.map(|number| async move {
            let range = number * part_len..len.min((number + 1) * part_len);
            let bytes = read_file(key, file, range).await?;
            let pays = bytes.len() as u64;
            let put = |_| {
                self.store
                    .put_part(key, upload, number as usize, part_len, bytes.clone())
            };
            let part = self.attempt(Operation::Part, pays, put, |_| pays).await?;
            sent(pays);
            Ok(part)
        }))
        .buffered(PARTS_AT_A_TIME)
        .try_collect()
        .await?;
        let complete = |attempt| {
            let parts = parts.clone();
            async move {
                let outcome = self.store.complete_parts(key, upload, parts).await;
                match outcome {
                    // An earlier attempt succeeded, but its answer was lost: the object exists.
                    Err(error) if attempt > 0 && error.kind == ObjectErrorKind::NotFound => {
                        let info = self.store.head(key).await?;
                        if info.len == len { Ok(()) } else { Err(error) }
                    }
                    outcome => outcome,
                }
            }
        };
        self.attempt(Operation::Part, 0, complete, |()| 0).await
    }
}

/// Reads a range of a file on a thread that may block.
async fn read_file(key: &str, file: &LocalFile, range: Range<u64>) -> Result<Bytes, ObjectError> {
    let file = file.clone();
    let read = tokio::task::spawn_blocking(move || file.read(range));
    let bytes = read.await.map_err(|_| cancelled(key))?;
    bytes.map_err(|error| local(key, "read the file to upload", &error))
}

/// Returns the error of requests that the circuit breaker refuses.
fn silent() -> ObjectError {
    let reason = "the circuit breaker is open: the store does not answer requests";
    ObjectError::new(ObjectErrorKind::Unavailable, "*", reason)
}

fn cancelled(key: &str) -> ObjectError {
    ObjectError::new(ObjectErrorKind::Refused, key, "the process is ending")
}

fn local(key: &str, what: &str, error: &std::io::Error) -> ObjectError {
    ObjectError::new(ObjectErrorKind::Refused, key, format!("cannot {what}: {error}"))
}

#[async_trait]
impl Objects for Guarded {
    async fn read(&self, key: &str, range: Range<u64>) -> Result<Bytes, ObjectError> {
        let (bytes, _) = self.get(key, Want::Range(range)).await?;
        Ok(bytes)
    }

    async fn read_all(&self, key: &str, len_max: u64) -> Result<(Bytes, ObjectInfo), ObjectError> {
        self.get(key, Want::All(len_max)).await
    }

    async fn read_end(&self, key: &str, len: u64) -> Result<(Bytes, ObjectInfo), ObjectError> {
        self.get(key, Want::End(len)).await
    }

    async fn info(&self, key: &str) -> Result<ObjectInfo, ObjectError> {
        self.attempt(Operation::Head, 0, |_| self.store.head(key), |_| 0).await
    }

    async fn write(&self, key: &str, bytes: Bytes, mode: PutMode) -> Result<Option<String>, ObjectError> {
        self.writable(key)?;
        let len = bytes.len() as u64;
        let mut attempts = 0;
        let put = |attempt| {
            attempts = attempt;
            self.store.put(key, bytes.clone(), &mode)
        };
        let outcome = self.attempt(Operation::Put, len, put, |_| len).await;
        let Err(error) = outcome else { return outcome };
        let is_in_doubt = match error.kind {
            ObjectErrorKind::Exists | ObjectErrorKind::Changed => attempts > 0,
            ObjectErrorKind::Unavailable | ObjectErrorKind::Busy | ObjectErrorKind::Corrupt => true,
            _ => false,
        };
        if !is_in_doubt {
            return Err(error);
        }
        // A timeout may occur after the store executed the write. The stored content decides.
        match self.is_written(key, &bytes).await {
            Ok(Some(info)) => Ok(info.etag),
            Ok(None) | Err(_) => Err(error),
        }
    }

    async fn upload_reporting(
        &self,
        key: &str,
        file: &LocalFile,
        sent: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), ObjectError> {
        self.writable(key)?;
        let looked = file.clone();
        let looked = tokio::task::spawn_blocking(move || looked.len());
        let len = looked.await.map_err(|_| cancelled(key))?;
        let len = len.map_err(|error| local(key, "open the file to upload", &error))?;
        let part_len = self.guard.part_len.unwrap_or(PART_LEN).max(len.div_ceil(PARTS_MAX));
        if len > part_len {
            return self.upload_in_parts(key, file, (len, part_len), sent).await;
        }
        let bytes = read_file(key, file, 0..len).await?;
        self.write(key, bytes, PutMode::Overwrite).await?;
        sent(len);
        Ok(())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError> {
        self.attempt(Operation::List, 0, |_| self.store.list(prefix), |_| 0)
            .await
    }

    async fn delete(&self, key: &str) -> Result<(), ObjectError> {
        self.writable(key)?;
        self.attempt(Operation::Delete, 0, |_| self.store.delete(key), |()| 0)
            .await
    }
}
