//! What a search would fetch from snapshot repositories, told before it runs.

use std::fmt;

use serde_json::{Map, Value, json};

/// An estimate: what is in the cache is not counted. What is known to be read is, the documents that are shown count as
/// the most that they can take, postings of terms that have to be looked up first are guessed, and where very many splits
/// remain they are told from some of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchCost {
    /// Shards of the target.
    pub shards: u32,
    /// Of them those that hold no match for certain, told without a request.
    pub skipped: u32,
    /// Splits that a run would look at, but for those of which whole copies are here.
    pub splits: u64,
    /// Of them those that were looked into; the others count as their mean.
    pub sampled: u64,
    /// Requests to object stores, neighbours being one.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that wait for others, one after the other.
    pub rounds: u64,
    /// About how long a run would wait for all of that, ms.
    pub time_ms: u64,
    /// The same by kind of file.
    pub kinds: Vec<(&'static str, KindCost)>,
    /// Bytes of all stored documents of the splits that were looked into, cached or not, and how many these are.
    pub stored: (u64, u64),
}

/// Of one kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KindCost {
    /// Requests that bring it first of all; what comes along with others counts there.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
}

impl SearchCost {
    /// As answers and errors show it.
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
    fn only_what_is_fetched_is_shown() {
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
