//! Metrics of a repository's store requests: counts, failures, retries, bytes and latencies.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::ObjectErrorKind;

/// Kind of request; the label of its metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Reads bytes.
    Get,
    /// Reads the metadata of an object.
    Head,
    /// Writes an object.
    Put,
    /// Requests of a multipart upload.
    Part,
    /// Lists objects; counted once even if it took several pages.
    List,
    /// Removes an object.
    Delete,
}

impl Operation {
    /// All kinds, in the order of metrics.
    pub const ALL: [Self; 6] = [Self::Get, Self::Head, Self::Put, Self::Part, Self::List, Self::Delete];

    /// Returns the label in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Head => "head",
            Self::Put => "put",
            Self::Part => "part",
            Self::List => "list",
            Self::Delete => "delete",
        }
    }
}

/// Upper bounds of the histogram's buckets in ms; one more bucket holds the rest. They range from a local gateway to a
/// client's timeout.
pub const LATENCY_BOUNDS_MS: [u64; 12] = [1, 3, 10, 20, 30, 50, 100, 200, 500, 1_000, 5_000, 30_000];

/// Counters of one operation since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperationStats {
    /// Requests; each attempt counts.
    pub requests: u64,
    /// Failed requests among them. A missing, existing or changed object is not a failure.
    pub failures: u64,
    /// Requests among them that retried a failed one.
    pub retries: u64,
    /// Bytes of objects sent or received.
    pub bytes: u64,
    /// Sum of request times, without the wait for a permit.
    pub time: Duration,
    /// Requests per latency bucket; the bounds are [`LATENCY_BOUNDS_MS`], not cumulative.
    pub latencies: [u64; LATENCY_BOUNDS_MS.len() + 1],
}

#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    failures: AtomicU64,
    retries: AtomicU64,
    bytes: AtomicU64,
    micros: AtomicU64,
    latencies: [AtomicU64; LATENCY_BOUNDS_MS.len() + 1],
}

/// Counters of a repository.
#[derive(Debug, Default)]
pub struct Meter {
    operations: [Counters; Operation::ALL.len()],
}

/// Measures one duration.
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn started(&self) -> Instant {
        self.0
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Request in progress, with its stopwatch.
pub(super) struct Running<'a> {
    counters: &'a Counters,
    stopwatch: Stopwatch,
}

impl Meter {
    /// Creates counters at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the counters of an operation.
    pub fn stats(&self, operation: Operation) -> OperationStats {
        let counters = &self.operations[operation as usize];
        OperationStats {
            requests: counters.requests.load(Relaxed),
            failures: counters.failures.load(Relaxed),
            retries: counters.retries.load(Relaxed),
            bytes: counters.bytes.load(Relaxed),
            time: Duration::from_micros(counters.micros.load(Relaxed)),
            latencies: std::array::from_fn(|at| counters.latencies[at].load(Relaxed)),
        }
    }

    /// Returns the number of requests of all operations.
    pub fn requests(&self) -> u64 {
        let counters = self.operations.iter();
        counters.map(|counters| counters.requests.load(Relaxed)).sum()
    }

    /// Returns the number of bytes read.
    pub fn bytes_read(&self) -> u64 {
        self.operations[Operation::Get as usize].bytes.load(Relaxed)
    }

    pub(super) fn start(&self, operation: Operation, attempt: u32) -> Running<'_> {
        let counters = &self.operations[operation as usize];
        counters.requests.fetch_add(1, Relaxed);
        if attempt > 0 {
            counters.retries.fetch_add(1, Relaxed);
        }
        Running {
            counters,
            stopwatch: Stopwatch::start(),
        }
    }
}

impl Running<'_> {
    /// Records the transferred bytes or the error. A dropped value is a cancelled request and is not recorded.
    pub(super) fn end(self, outcome: Result<u64, ObjectErrorKind>) {
        let took = self.stopwatch.elapsed();
        let ms = took.as_millis() as u64;
        let bucket = LATENCY_BOUNDS_MS.partition_point(|bound| *bound < ms);
        self.counters.latencies[bucket].fetch_add(1, Relaxed);
        self.counters.micros.fetch_add(took.as_micros() as u64, Relaxed);
        use ObjectErrorKind::{Changed, Exists, NotFound};
        match outcome {
            Ok(bytes) => {
                self.counters.bytes.fetch_add(bytes, Relaxed);
            }
            Err(NotFound | Exists | Changed) => {}
            Err(_) => {
                self.counters.failures.fetch_add(1, Relaxed);
            }
        }
    }
}
