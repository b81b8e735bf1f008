//! Report of an analysis.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::AnalyzeOptions;

/// Report of an analysis.
#[derive(Debug, Clone, Default)]
pub struct Analysis {
    /// Guarantees of an object store that this one violated; empty for a correct store.
    pub violations: Vec<String>,
    /// Unusual behaviour that does not affect firn.
    pub notes: Vec<String>,
    /// Writes of new objects.
    pub writes: Latencies,
    /// Reads of whole objects.
    pub reads: Latencies,
    /// Reads of ranges.
    pub ranged_reads: Latencies,
    /// Writes that replace an object.
    pub overwrites: Latencies,
    /// Conditional writes.
    pub conditional_writes: Latencies,
    /// Listings.
    pub listings: Latencies,
    /// Removals.
    pub deletes: Latencies,
    /// Path of all objects.
    pub path: String,
    /// Time from the first request to the last.
    pub elapsed: Duration,
}

/// Latencies of requests of one kind.
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

    /// Returns the number of requests.
    pub fn count(&self) -> usize {
        self.took.len()
    }

    /// Returns the transferred bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn total(&self) -> Duration {
        self.took.iter().sum()
    }

    /// Returns the latency at a percentile, by nearest rank.
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
    /// Returns the response of `_analyze` for a repository: Elasticsearch's fields, and the latencies by kind of
    /// request.
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
