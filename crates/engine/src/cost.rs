//! Cost estimate of a search: what it would fetch from snapshot repositories, computed before it runs.

use std::fmt;

use serde_json::{Map, Value, json};

/// Estimate of the reads of one search; cached data does not count. Reads that are certain are exact. Hits count with
/// the largest size that their documents can have. Postings of terms that first need a lookup are guessed. If very many
/// splits remain, the estimate extrapolates from a sample of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchCost {
    /// Shards of the target.
    pub shards: u32,
    /// Of them the shards that certainly hold no match, decided without a request.
    pub skipped: u32,
    /// Splits that a run would read, without those that have a full local copy.
    pub splits: u64,
    /// Of them the splits that were examined; the rest count as their mean.
    pub sampled: u64,
    /// Requests to object stores; adjacent ranges count as one.
    pub requests: u64,
    /// Bytes of the requests.
    pub bytes: u64,
    /// Sequential rounds: requests that wait for earlier ones.
    pub rounds: u64,
    /// Estimated time that a run would wait for the requests, ms.
    pub time_ms: u64,
    /// The same numbers by kind of file.
    pub kinds: Vec<(&'static str, KindCost)>,
    /// Bytes of all stored documents of the examined splits, cached or not, and their count.
    pub stored: (u64, u64),
}

/// Cost of one kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KindCost {
    /// Requests made for this kind first; a range that another kind's request fetches too counts there.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
}

impl SearchCost {
    /// Returns the estimate as answers and errors print it.
    pub fn print(&self) -> Map<String, Value> {
        let kinds: Map<String, Value> = self
            .kinds
            .iter()
            .filter(|(_, kind)| kind.bytes > 0)
            .map(|(name, kind)| {
                let printed = json!({"requests": kind.requests, "bytes": kind.bytes});
                ((*name).to_owned(), printed)
            })
            .collect();
        let printed = json!({
            "splits": {"remaining": self.splits, "sampled": self.sampled},
            "requests": self.requests,
            "bytes": self.bytes,
            "rounds": self.rounds,
            "estimated_time_in_millis": self.time_ms,
            "kinds": kinds,
        });
        match printed {
            Value::Object(printed) => printed,
            _ => Map::new(),
        }
    }
}

impl fmt::Display for SearchCost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            bytes,
            requests,
            splits,
            ..
        } = self;
        write!(
            formatter,
            "[{bytes}] bytes in [{requests}] requests, of [{splits}] splits"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fetched_kinds_are_printed() {
        let kind = |requests, bytes| KindCost { requests, bytes };
        let cost = SearchCost {
            splits: 4,
            sampled: 2,
            requests: 3,
            bytes: 70,
            kinds: vec![("terms", kind(3, 70)), ("store", kind(0, 0))],
            ..SearchCost::default()
        };
        let printed = Value::Object(cost.print());
        assert_eq!(printed["kinds"], json!({"terms": {"requests": 3, "bytes": 70}}));
        assert_eq!(printed["splits"], json!({"remaining": 4, "sampled": 2}));
        assert_eq!(cost.to_string(), "[70] bytes in [3] requests, of [4] splits");
    }
}
