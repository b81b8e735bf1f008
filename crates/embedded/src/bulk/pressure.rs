//! Indexing pressure: how many bytes of documents may be on their way at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_engine::document::{BulkItem, Operation};
use firn_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use crate::pool::{Flow, FlowKey};

/// One part in so many of the limit is kept beyond it for those who hold little, shared equally among
/// all who hold any: a tenant that fills the limit is refused alone.
const BEYOND_PART: u64 = 8;

/// Counts the bytes of all bulks that are not answered yet, and refuses what is too much.
#[derive(Debug)]
pub(crate) struct Pressure {
    held: Mutex<Held>,
    bytes_max: u64,
    rejected: AtomicU64,
}

#[derive(Debug, Default)]
struct Held {
    bytes: u64,
    /// Never 0.
    by_flow: BTreeMap<FlowKey, u64>,
}

/// Bytes admitted; given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    pressure: Arc<Pressure>,
    flow: FlowKey,
    bytes: u64,
}

impl Pressure {
    /// At most `bytes_max` at once.
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self {
            held: Mutex::default(),
            bytes_max,
            rejected: AtomicU64::new(0),
        })
    }

    /// Room for `bytes`, or [`ErrorKind::Rejected`] in Elasticsearch's words.
    pub(crate) fn admit(self: &Arc<Self>, flow: &Flow, bytes: u64) -> Result<Permit> {
        let mut held = self.held.lock();
        let before = held.bytes;
        if !held.has_room(flow.key(), bytes, self.bytes_max) {
            self.rejected.fetch_add(1, Ordering::Relaxed);
            return Err(Error::new(
                ErrorKind::Rejected,
                format!(
                    "rejected execution of coordinating operation [coordinating_and_primary_bytes={before}, \
                     replica_bytes=0, all_bytes={before}, coordinating_operation_bytes={bytes}, \
                     max_coordinating_and_primary_bytes={}]",
                    self.bytes_max
                ),
            ));
        }
        if bytes > 0 {
            held.bytes += bytes;
            *held.by_flow.entry(flow.key().clone()).or_default() += bytes;
        }
        Ok(Permit {
            pressure: Arc::clone(self),
            flow: flow.key().clone(),
            bytes,
        })
    }

    /// Bytes on their way.
    pub(crate) fn bytes(&self) -> u64 {
        self.held.lock().bytes
    }

    /// Bulks refused since start.
    pub(crate) fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }
}

impl Held {
    fn has_room(&self, flow: &FlowKey, bytes: u64, bytes_max: u64) -> bool {
        let after = self.bytes.saturating_add(bytes);
        if after <= bytes_max {
            return true;
        }
        let beyond = bytes_max / BEYOND_PART;
        let own = self.by_flow.get(flow).copied().unwrap_or(0);
        let flows = self.by_flow.len() as u64 + u64::from(own == 0);
        flows > 1 && own.saturating_add(bytes) <= beyond / flows && after <= bytes_max + beyond
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut held = self.pressure.held.lock();
        held.bytes -= self.bytes;
        if let Some(own) = held.by_flow.get_mut(&self.flow) {
            *own -= self.bytes;
            if *own == 0 {
                held.by_flow.remove(&self.flow);
            }
        }
    }
}

/// What an item weighs: its source, its names, and about what its own records take.
pub(crate) fn item_bytes(item: &BulkItem) -> u64 {
    const RECORDS: usize = 128;
    let source = match &item.operation {
        Operation::Index { source } | Operation::Create { source } => source.len(),
        // The trees of an update were parsed from text already; this is their order of magnitude.
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
    use firn_engine::Scope;
    use firn_model::tenant::TenantId;

    use super::*;

    #[test]
    fn too_much_is_refused_and_room_comes_back() {
        let pressure = Pressure::new(100);
        let node = Flow::node();
        let first = pressure.admit(&node, 70).unwrap();
        let error = pressure.admit(&node, 40).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(error.reason().contains("coordinating_operation_bytes=40"), "{error}");
        drop(first);
        pressure.admit(&node, 100).unwrap();
        assert_eq!((pressure.bytes(), pressure.rejected()), (0, 1));
        assert!(pressure.held.lock().by_flow.is_empty());
    }

    #[test]
    fn who_holds_all_is_refused_alone() {
        let tenant = |name: &str| Flow::of(&Scope::tenant(TenantId::parse(name).unwrap()));
        let pressure = Pressure::new(1600);
        let _flood = pressure.admit(&tenant("flood"), 1600).unwrap();
        assert!(pressure.admit(&tenant("flood"), 1).is_err());
        let mut light: Vec<Permit> = vec![pressure.admit(&tenant("light"), 60).unwrap()];
        light.push(pressure.admit(&tenant("light"), 40).unwrap());
        assert!(
            pressure.admit(&tenant("light"), 1).is_err(),
            "an eighth of the limit for two"
        );
        let many: Vec<Permit> = (0..1000)
            .filter_map(|number| pressure.admit(&tenant(&format!("t{number}")), 5).ok())
            .collect();
        assert!((20..=200).contains(&many.len()), "{}", many.len());
        assert!(pressure.bytes() <= 1600 + 1600 / BEYOND_PART, "{}", pressure.bytes());
    }
}
