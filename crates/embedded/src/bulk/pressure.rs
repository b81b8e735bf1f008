//! Indexing pressure: limit of the bytes of documents in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_engine::document::{BulkItem, Operation};
use firn_engine::{FairPermit, FairSemaphore};
use firn_model::{Error, ErrorKind, Result};
use firn_scheduler::{Flow, FlowKey};

/// Counts the bytes of all bulks without a response, and refuses bulks above the limit: first those of the tenant
/// that uses most of it.
#[derive(Debug)]
pub(crate) struct Pressure {
    bytes: Arc<FairSemaphore<FlowKey>>,
    rejected: AtomicU64,
}

/// Admitted bytes; released when dropped.
pub(crate) type Permit = FairPermit<FlowKey>;

impl Pressure {
    /// Creates a limit of `bytes_max`.
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self {
            bytes: FairSemaphore::new(bytes_max),
            rejected: AtomicU64::new(0),
        })
    }

    /// Admits `bytes`, or fails with [`ErrorKind::Rejected`] in Elasticsearch's words.
    pub(crate) fn admit(&self, flow: &Flow, bytes: u64) -> Result<Permit> {
        self.bytes.take(flow.key().clone(), bytes).map_err(|before| {
            self.rejected.fetch_add(1, Ordering::Relaxed);
            Error::new(
                ErrorKind::Rejected,
                format!(
                    "rejected execution of coordinating operation [coordinating_and_primary_bytes={before}, \
                     replica_bytes=0, all_bytes={before}, coordinating_operation_bytes={bytes}, \
                     max_coordinating_and_primary_bytes={}]",
                    self.bytes.limit()
                ),
            )
        })
    }

    /// Returns the bytes in flight.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.held()
    }

    /// Returns the number of bulks refused since start.
    pub(crate) fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }
}

/// Estimates the memory of an item: its source, its names, and its internal records.
pub(crate) fn item_bytes(item: &BulkItem) -> u64 {
    const RECORDS: usize = 128;
    let source = match &item.operation {
        Operation::Index { source } | Operation::Create { source } => source.len(),
        // The trees of an update are already parsed; this is their order of magnitude.
        Operation::Update(update) => value_bytes(update.doc.as_ref()) + value_bytes(update.upsert.as_ref()),
        Operation::Delete => 0,
    };
    let names = item.index.len() + item.id.as_ref().map_or(0, String::len);
    (source + names + RECORDS) as u64
}

fn value_bytes(value: Option<&serde_json::Value>) -> usize {
    use serde_json::Value;
    match value {
        None => 0,
        Some(Value::String(text)) => 32 + text.len(),
        Some(Value::Array(values)) => 32 + values.iter().map(|value| value_bytes(Some(value))).sum::<usize>(),
        Some(Value::Object(fields)) => {
            32 + fields
                .iter()
                .map(|(name, value)| 32 + name.len() + value_bytes(Some(value)))
                .sum::<usize>()
        }
        Some(_) => 32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulks_above_the_limit_are_refused_until_bytes_are_released() {
        let (pressure, node) = (Pressure::new(100), Flow::node());
        let first = pressure.admit(&node, 70).unwrap();
        let error = pressure.admit(&node, 40).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(error.reason().contains("coordinating_operation_bytes=40"), "{error}");
        drop(first);
        pressure.admit(&node, 100).unwrap();
        assert_eq!((pressure.bytes(), pressure.rejected()), (0, 1));
    }
}
