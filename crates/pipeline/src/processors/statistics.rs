//! Statistics of a pipeline and its processors: `_nodes/stats/ingest`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a pipeline or a processor.
#[derive(Debug, Default)]
pub struct Statistics {
    count: AtomicU64,
    current: AtomicU64,
    failed: AtomicU64,
    nanos: AtomicU64,
}

/// Values of the counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Finished documents.
    pub count: u64,
    /// Documents that are being processed.
    pub current: u64,
    /// Documents that failed, among the finished ones.
    pub failed: u64,
    /// Time of the finished documents, nanoseconds.
    pub nanos: u64,
}

/// Values of the counters of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PipelineCounts {
    /// The pipeline.
    pub total: Counts,
    /// Its processors, in order: Elasticsearch's key (`set`, or `set:tag`), type (`conditional` if it has an `if`), counts.
    pub processors: Vec<(String, &'static str, Counts)>,
}

impl Statistics {
    /// Counts the start of a document.
    pub(crate) fn start(&self) {
        self.current.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a document.
    pub(crate) fn finish(&self, nanos: u64, failed: bool) {
        self.current.fetch_sub(1, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.failed.fetch_add(u64::from(failed), Ordering::Relaxed);
    }

    /// Returns the values.
    pub fn counts(&self) -> Counts {
        Counts {
            count: self.count.load(Ordering::Relaxed),
            current: self.current.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            nanos: self.nanos.load(Ordering::Relaxed),
        }
    }
}

/// Counters that a new version of a pipeline takes over from the old one.
pub(crate) type SharedStatistics = Arc<Statistics>;
