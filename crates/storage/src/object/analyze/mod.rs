//! `_analyze`: a benchmark of a repository's store that looks for broken promises on the way.
//!
//! Objects of many sizes are written, read whole and in ranges, replaced while they are read, listed and removed,
//! and many writers race for the same key. What is written where is drawn from a seed. Everything lies below
//! one prefix, which is emptied afterwards however the analysis ends.

mod blobs;
mod races;
mod report;

use std::time::Duration;

use firn_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::meter::Stopwatch;
use super::{ObjectError, Objects};
pub use report::{Analysis, Latencies};

/// Most bytes of objects that are held in memory at a time; larger objects are refused.
const BYTES_IN_MEMORY_MAX: u64 = 256 << 20;
/// More say nothing new.
const BLOBS_MAX: u32 = 100_000;
/// Past the number of requests that a store sees in earnest.
const CONCURRENCY_MAX: u32 = 1_000;

/// What is asked of an analysis, by Elasticsearch's names and with its defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnalyzeOptions {
    /// `blob_count`: objects to write.
    pub blob_count: u32,
    /// `concurrency`: objects at a time.
    pub concurrency: u32,
    /// `max_blob_size`: bytes of the largest.
    pub blob_bytes_max: u64,
    /// `max_total_data_size`: bytes of all of them.
    pub total_bytes_max: u64,
    /// `timeout`.
    pub timeout: Duration,
    /// `seed`.
    pub seed: u64,
    /// Names this run.
    pub token: String,
}

impl AnalyzeOptions {
    /// Elasticsearch's defaults.
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

/// One analysis while it runs.
struct Run<'a> {
    objects: &'a dyn Objects,
    options: &'a AnalyzeOptions,
    /// Ends on `/`.
    prefix: String,
    found: Mutex<Analysis>,
}

impl Run<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A promise that was broken.
    fn violation(&self, what: String) {
        self.found.lock().violations.push(what);
    }

    /// Times a request and keeps what it took where `into` says.
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

/// Analyzes the store of a repository. What it promises and does not keep is in the report;
/// [`ErrorKind::Repository`] if it fails to answer, [`ErrorKind::Timeout`] if the time does not suffice.
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
            format!("it is not done after [{}ms]", options.timeout.as_millis()),
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
