//! `_analyze`: benchmark of a repository's store that also detects violated guarantees.
//!
//! It writes objects of many sizes, reads them as a whole and in ranges, replaces them during reads, lists and removes
//! them, and lets many writers race for the same key. A seed determines keys and contents. All objects are below one
//! prefix, which is emptied at the end, even after a failure.

mod blobs;
mod races;
mod report;

use std::time::Duration;

use firn_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::meter::Stopwatch;
use super::{ObjectError, Objects};
pub use report::{Analysis, Latencies};

/// Maximum bytes of objects in memory at the same time; larger objects are refused.
const BYTES_IN_MEMORY_MAX: u64 = 256 << 20;
/// More objects give no new information.
const BLOBS_MAX: u32 = 100_000;
/// Above the concurrency of real workloads.
const CONCURRENCY_MAX: u32 = 1_000;

/// Options of an analysis, with Elasticsearch's names and defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnalyzeOptions {
    /// `blob_count`: number of objects to write.
    pub blob_count: u32,
    /// `concurrency`: objects in progress at the same time.
    pub concurrency: u32,
    /// `max_blob_size`: size of the largest object in bytes.
    pub blob_bytes_max: u64,
    /// `max_total_data_size`: total size of all objects in bytes.
    pub total_bytes_max: u64,
    /// `timeout`.
    pub timeout: Duration,
    /// `seed`.
    pub seed: u64,
    /// Identifies this run.
    pub token: String,
}

impl AnalyzeOptions {
    /// Creates options with Elasticsearch's defaults.
    pub fn new(token: impl Into<String>, seed: u64) -> Self {
        Self {
            blob_count: 100,
            concurrency: 10,
            blob_bytes_max: 10 << 20,
            total_bytes_max: 1 << 30,
            timeout: Duration::from_secs(30),
            seed,
            token: token.into(),
        }
    }

    fn check(&self) -> Result<()> {
        let bounds = [
            ("blob_count", u64::from(self.blob_count), u64::from(BLOBS_MAX)),
            ("concurrency", u64::from(self.concurrency), u64::from(CONCURRENCY_MAX)),
            ("max_blob_size", self.blob_bytes_max, BYTES_IN_MEMORY_MAX),
            ("max_total_data_size", self.total_bytes_max, u64::MAX),
        ];
        for (name, value, max) in bounds {
            if value == 0 || value > max {
                return Err(Error::illegal_argument(format!(
                    "[{name}] must be between 1 and {max}, found [{value}]"
                )));
            }
        }
        Ok(())
    }
}

/// Running analysis.
struct Run<'a> {
    objects: &'a dyn Objects,
    options: &'a AnalyzeOptions,
    /// Ends with `/`.
    prefix: String,
    found: Mutex<Analysis>,
}

impl Run<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Records a violated guarantee.
    fn violation(&self, what: String) {
        self.found.lock().violations.push(what);
    }

    /// Times a request and records its latency in the list that `into` selects.
    async fn timed<T>(
        &self,
        into: fn(&mut Analysis) -> &mut Latencies,
        bytes: u64,
        request: impl Future<Output = Result<T, ObjectError>>,
    ) -> Result<T, ObjectError> {
        let stopwatch = Stopwatch::start();
        let outcome = request.await;
        if outcome.is_ok() {
            into(&mut self.found.lock()).add(stopwatch.elapsed(), bytes);
        }
        outcome
    }
}

/// Analyzes the store of a repository. The report lists violated guarantees. Fails with [`ErrorKind::Repository`] if
/// the store fails, and with [`ErrorKind::Timeout`] if the analysis exceeds its time limit.
pub async fn analyze(repository: &str, objects: &dyn Objects, options: &AnalyzeOptions) -> Result<Analysis> {
    options.check()?;
    let run = Run {
        objects,
        options,
        prefix: format!("temp-analysis-{}/", options.token),
        found: Mutex::new(Analysis::default()),
    };
    let stopwatch = Stopwatch::start();
    let outcome = tokio::time::timeout(options.timeout, work(&run)).await;
    let problem = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some((ErrorKind::Repository, error.to_string())),
        Err(_) => Some((
            ErrorKind::Timeout,
            format!("analysis timed out after [{}ms]", options.timeout.as_millis()),
        )),
    };
    if let Some((kind, reason)) = problem {
        let left = match blobs::remove_all(&run).await {
            Ok(_) => String::new(),
            Err(_) => format!(
                ", you may need to manually remove [{}]",
                run.prefix.trim_end_matches('/')
            ),
        };
        let reason = format!("[{repository}] analysis failed{left}: {reason}");
        return Err(Error::new(kind, reason));
    }
    let mut analysis = run.found.into_inner();
    analysis.elapsed = stopwatch.elapsed();
    analysis.path = run.prefix.trim_end_matches('/').to_owned();
    Ok(analysis)
}

async fn work(run: &Run<'_>) -> Result<(), ObjectError> {
    let written = blobs::write_and_read(run).await?;
    races::of_creations(run).await?;
    races::of_replacements(run).await?;
    blobs::list(run, &written).await?;
    blobs::remove(run).await
}

#[cfg(test)]
mod tests;
