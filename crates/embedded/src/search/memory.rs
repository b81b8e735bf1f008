//! The memory budget of one search.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_model::{Error, ErrorKind, Result};

/// Counts bytes against a limit; clones share it. What is counted is what grows with the data
/// (buckets, candidates), in rough figures; it is given back when the search ends.
#[derive(Clone)]
pub(super) struct Memory(Arc<Inner>);

struct Inner {
    used: AtomicU64,
    limit: u64,
}

impl Memory {
    /// A budget of `limit` bytes.
    pub(super) fn new(limit: u64) -> Self {
        Self(Arc::new(Inner {
            used: AtomicU64::new(0),
            limit,
        }))
    }

    /// Takes `bytes`; [`ErrorKind::CircuitBreaking`] when that is more than there is.
    pub(super) fn take(&self, bytes: usize) -> Result<()> {
        let bytes = bytes as u64;
        let used = self.0.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if used <= self.0.limit {
            return Ok(());
        }
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
        Err(Error::new(
            ErrorKind::CircuitBreaking,
            format!(
                "[request] Data too large, data for [<search>] would be [{used}/{}], which is larger than the limit of [{}/{}]",
                readable(used),
                self.0.limit,
                readable(self.0.limit)
            ),
        ))
    }

    /// Gives `bytes` back.
    pub(super) fn give(&self, bytes: usize) {
        self.0.used.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}

/// Bytes as Elasticsearch prints them (`1.5mb`).
fn readable(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10)];
    for (name, size) in UNITS {
        if bytes >= size {
            let tenths = (u128::from(bytes) * 10 / u128::from(size)) as u64;
            return match tenths % 10 {
                0 => format!("{}{name}", tenths / 10),
                fraction => format!("{}.{fraction}{name}", tenths / 10),
            };
        }
    }
    format!("{bytes}b")
}
