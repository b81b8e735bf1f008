//! What an analysis found.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::AnalyzeOptions;

/// What an analysis found.
#[derive(Debug, Clone, Default)]
pub struct Analysis {
    /// Promises of an object store that this one broke; empty if all is well.
    pub violations: Vec<String>,
    /// What is unusual and does firn no harm.
    pub notes: Vec<String>,
    /// Whole writes.
    pub writes: Latencies,
    /// Whole reads.
    pub reads: Latencies,
    /// Reads of ranges.
    pub ranged_reads: Latencies,
    /// Writes over what is there.
    pub overwrites: Latencies,
    /// Writes that succeed only if they are the first, or if nothing has changed.
    pub conditional_writes: Latencies,
    /// Listings.
    pub listings: Latencies,
    /// Removals.
    pub deletes: Latencies,
    /// Where everything lay.
    pub path: String,
    /// From the first request to the last.
    pub elapsed: Duration,
}

/// What requests of one kind took.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    took: Vec<Duration>,
    bytes: u64,
}

impl Latencies {
    pub(super) fn add(&mut self, took: Duration, bytes: u64) {
        self.took.push(took);
        self.bytes += bytes;
    }

    /// How many there were.
    pub fn count(&self) -> usize {
        self.took.len()
    }

    /// Bytes that they moved.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn total(&self) -> Duration {
        self.took.iter().sum()
    }

    /// The time within which this many of a hundred were answered.
    pub fn percentile(&self, percent: f64) -> Duration {
        let mut sorted = self.took.clone();
        sorted.sort_unstable();
        let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
        let at = rank.clamp(1, sorted.len().max(1)) - 1;
        sorted.get(at).copied().unwrap_or_default()
    }

    fn to_json(&self) -> Value {
        let ms = |percent| (self.percentile(percent).as_secs_f64() * 1e6).round() / 1e3;
        let seconds = self.total().as_secs_f64();
        let bytes_per_second = if seconds > 0.0 {
            self.bytes as f64 / seconds
        } else {
            0.0
        };
        json!({
            "count": self.count(),
            "total_size_bytes": self.bytes,
            "bytes_per_second_each": bytes_per_second.round(),
            "latency_ms": {
                "50.0": ms(50.0), "90.0": ms(90.0), "99.0": ms(99.0), "100.0": ms(100.0),
            },
        })
    }
}

impl Analysis {
    /// The answer of `_analyze` for a repository: Elasticsearch's fields, and what took how long by kind of request.
    pub fn to_json(&self, repository: &str, options: &AnalyzeOptions) -> Map<String, Value> {
        let Value::Object(report) = json!({
            "repository": repository,
            "blob_count": options.blob_count,
            "concurrency": options.concurrency,
            "read_node_count": 1,
            "max_blob_size_bytes": options.blob_bytes_max,
            "max_total_data_size_bytes": options.total_bytes_max,
            "seed": options.seed,
            "blob_path": self.path,
            "issues_detected": self.violations,
            "notes": self.notes,
            "summary": {
                "write": summary(&[&self.writes, &self.overwrites]),
                "read": summary(&[&self.reads, &self.ranged_reads]),
            },
            "requests": {
                "write": self.writes.to_json(),
                "overwrite": self.overwrites.to_json(),
                "conditional_write": self.conditional_writes.to_json(),
                "read": self.reads.to_json(),
                "ranged_read": self.ranged_reads.to_json(),
                "list": self.listings.to_json(),
                "delete": self.deletes.to_json(),
            },
            "listing_elapsed_nanos": nanos(self.listings.total()),
            "delete_elapsed_nanos": nanos(self.deletes.total()),
            "elapsed_nanos": nanos(self.elapsed),
        }) else {
            return Map::new();
        };
        report
    }
}

fn summary(parts: &[&Latencies]) -> Value {
    let total: Duration = parts.iter().map(|part| part.total()).sum();
    json!({
        "count": parts.iter().map(|part| part.count()).sum::<usize>(),
        "total_size_bytes": parts.iter().map(|part| part.bytes()).sum::<u64>(),
        "total_elapsed_nanos": nanos(total),
    })
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_nearest_rank() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile(50.0), Duration::ZERO);
        for ms in (1..=100).rev() {
            latencies.add(Duration::from_millis(ms), 10);
        }
        for (percent, ms) in [(50.0, 50), (90.0, 90), (99.0, 99), (100.0, 100), (0.0, 1)] {
            assert_eq!(latencies.percentile(percent), Duration::from_millis(ms), "{percent}");
        }
        assert_eq!(latencies.bytes(), 1000);
    }
}
