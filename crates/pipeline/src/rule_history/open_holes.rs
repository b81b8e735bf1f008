//! Holes in the coverage of all rules that go on now, for a list of rules.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use firn_engine::Engine;
use firn_model::Result;
use serde::Deserialize;

use super::ledger;
use crate::runner::CoverageRecord;

/// Holes of a rule that go on: events that come are not evaluated there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenHoles {
    /// Number of partitions that have one.
    pub count: usize,
    /// Ids of their pipelines.
    pub pipelines: BTreeSet<String>,
    /// Arrival of the first event that was not evaluated, RFC 3339, of the hole that began first.
    pub since: String,
}

/// Rules of a set.
#[derive(Debug, Deserialize)]
pub(super) struct SetRules {
    pub(super) set: String,
    /// Ids, those of throttled rules included.
    #[serde(default)]
    ids: Vec<String>,
    #[serde(default)]
    throttled: BTreeMap<String, serde::de::IgnoredAny>,
}

/// Follows the ledger. Each record and set is read into it once. All methods may be called concurrently.
#[derive(Debug, Default)]
pub struct OpenHoleList(tokio::sync::Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Number of the last record that was read, by pipeline.
    orders: HashMap<String, u64>,
    /// By pipeline and partition.
    partitions: BTreeMap<(String, String), Partition>,
    /// Ids, each once.
    ids: HashSet<Arc<str>>,
}

#[derive(Debug, Default)]
struct Partition {
    /// Rules that are evaluated.
    evaluated: HashSet<Arc<str>>,
    /// Rules that were evaluated and are not, and from when on.
    open: HashMap<Arc<str>, String>,
}

impl OpenHoleList {
    /// Returns the holes that go on in the pipelines that `exists` knows, by the ids of the rules.
    ///
    /// # Errors
    /// The ledger cannot be read as a whole.
    pub async fn get(&self, engine: &dyn Engine, exists: impl Fn(&str) -> bool) -> Result<BTreeMap<String, OpenHoles>> {
        let mut state = self.0.lock().await;
        let records = ledger::records(engine).await?;
        let new = state.new_of(records);
        let named: BTreeSet<&str> = new.iter().map(|record| record.set.as_str()).collect();
        let named: Vec<&str> = named.into_iter().collect();
        let sets = ledger::sets(engine, &named).await?;
        let sets: HashMap<String, SetRules> = sets.into_iter().map(|set| (set.set.clone(), set)).collect();
        for record in &new {
            state.add(record, sets.get(&record.set));
        }
        Ok(state.open_holes(exists))
    }
}

impl State {
    /// Returns the records that were not read, in order. If the ledger was removed, it is read from its start.
    fn new_of(&mut self, mut records: Vec<CoverageRecord>) -> Vec<CoverageRecord> {
        let mut last: HashMap<&str, u64> = HashMap::new();
        for record in &records {
            let order = last.entry(&record.pipeline).or_default();
            *order = record.order.max(*order);
        }
        let is_gone = |(pipeline, order): (&String, &u64)| last.get(pipeline.as_str()).is_none_or(|last| last < order);
        if self.orders.iter().any(is_gone) {
            *self = Self::default();
        }
        records.retain(|record| {
            self.orders
                .get(&record.pipeline)
                .is_none_or(|order| record.order > *order)
        });
        records
    }

    fn add(&mut self, record: &CoverageRecord, set: Option<&SetRules>) {
        let order = self.orders.entry(record.pipeline.clone()).or_default();
        *order = record.order.max(*order);
        let Some(set) = set else { return };
        let (mut evaluated, mut throttled) = (HashSet::with_capacity(set.ids.len()), Vec::new());
        for id in &set.ids {
            let is_throttled = set.throttled.contains_key(id);
            let id = match self.ids.get(id.as_str()) {
                Some(known) => Arc::clone(known),
                None => {
                    let id: Arc<str> = id.as_str().into();
                    self.ids.insert(Arc::clone(&id));
                    id
                }
            };
            match is_throttled {
                true => throttled.push(id),
                false => drop(evaluated.insert(id)),
            }
        }
        let partition = (record.pipeline.clone(), record.partition.clone());
        let partition = self.partitions.entry(partition).or_default();
        partition.open.retain(|id, _| !evaluated.contains(id));
        // A rule that is throttled was evaluated before, maybe on a part of the same batch.
        for id in partition.evaluated.difference(&evaluated).chain(&throttled) {
            partition
                .open
                .entry(Arc::clone(id))
                .or_insert_with(|| record.received.clone());
        }
        partition.evaluated = evaluated;
    }

    fn open_holes(&self, exists: impl Fn(&str) -> bool) -> BTreeMap<String, OpenHoles> {
        let mut found: BTreeMap<String, OpenHoles> = BTreeMap::new();
        for ((pipeline, _), partition) in self.partitions.iter().filter(|((pipeline, _), _)| exists(pipeline)) {
            for (id, since) in &partition.open {
                let holes = found.entry(id.to_string()).or_insert_with(|| OpenHoles {
                    count: 0,
                    pipelines: BTreeSet::new(),
                    since: since.clone(),
                });
                holes.count += 1;
                holes.pipelines.insert(pipeline.clone());
                if *since < holes.since {
                    holes.since.clone_from(since);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_hole_that_goes_on_counts_in_each_partition() {
        let set = |name: &str, ids: serde_json::Value, throttled: serde_json::Value| {
            let set = json!({"set": name, "ids": ids, "throttled": throttled});
            (name.to_owned(), serde_json::from_value::<SetRules>(set).unwrap())
        };
        let sets = HashMap::from([
            set("ab", json!(["a", "b"]), json!({})),
            set("a", json!(["a"]), json!({})),
            set("a-", json!(["a", "b"]), json!({"b": "v"})),
            set("", json!([]), json!({})),
        ]);
        let mut order = 0;
        let mut record = |pipeline: &str, partition: &str, set: &str| {
            order += 1;
            CoverageRecord {
                pipeline: pipeline.to_owned(),
                partition: partition.to_owned(),
                order,
                offset: order,
                received: format!("t{order}"),
                set: set.to_owned(),
                times_before_ms: None,
            }
        };
        let records = [
            record("p", "0", "ab"),
            record("p", "1", "a"),
            record("p", "0", "a"),
            record("q", "", "a-"),
            record("q", "", ""),
            record("r", "", "a-"),
            record("r", "", "ab"),
        ];
        let mut state = State::default();
        for upto in [3, records.len()] {
            // Records that were read are not read again.
            for record in state.new_of(records[..upto].to_vec()) {
                state.add(&record, sets.get(&record.set));
            }
        }
        let found = state.open_holes(|_| true);
        let shown = |id: &str| {
            let holes = &found[id];
            let pipelines: Vec<&str> = holes.pipelines.iter().map(String::as_str).collect();
            (holes.count, pipelines.join(" "), holes.since.clone())
        };
        assert_eq!(found.len(), 2);
        assert_eq!(shown("a"), (1, "q".to_owned(), "t5".to_owned()));
        // In the partition 1 it was never evaluated.
        assert_eq!(shown("b"), (2, "p q".to_owned(), "t3".to_owned()));
        assert_eq!(state.open_holes(|pipeline| pipeline == "p").len(), 1);
        // Another ledger in its place.
        assert_eq!(state.new_of(records[..1].to_vec()).len(), 1);
    }
}
