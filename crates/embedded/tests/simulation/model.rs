//! Model of acknowledged changes, which the engine's answers must match.
//!
//! If a fault interrupts a change, it is neither acknowledged nor refused and may have happened: then a document
//! has several valid values, and an index may exist or not.

use std::collections::{BTreeMap, BTreeSet};

/// Documents by key, each with its valid values; `None`: it does not exist.
#[derive(Debug, Clone, Default)]
pub(crate) struct Docs(BTreeMap<String, BTreeSet<Option<u64>>>);

impl Docs {
    /// The change was acknowledged.
    pub(crate) fn set(&mut self, key: &str, value: Option<u64>) {
        self.0.insert(key.to_owned(), BTreeSet::from([value]));
    }

    /// The change may have happened.
    pub(crate) fn maybe(&mut self, key: &str, value: Option<u64>) {
        let values = self.0.entry(key.to_owned()).or_insert_with(|| BTreeSet::from([None]));
        values.insert(value);
    }

    /// Every document whose key has this prefix was removed, or may have been.
    pub(crate) fn remove(&mut self, prefix: &str, is_certain: bool) {
        for (_, values) in self.0.iter_mut().filter(|(key, _)| key.starts_with(prefix)) {
            if is_certain {
                values.clear();
            }
            values.insert(None);
        }
    }

    /// Compares found documents with the model; the error says what is wrong.
    pub(crate) fn check(&self, found: &BTreeMap<String, u64>) -> Result<(), String> {
        for (key, values) in &self.0 {
            let value = found.get(key).copied();
            if !values.contains(&value) {
                return Err(format!("[{key}] is {value:?} and should be one of {values:?}"));
            }
        }
        match found.keys().find(|key| !self.0.contains_key(*key)) {
            Some(key) => Err(format!("[{key}] was never written")),
            None => Ok(()),
        }
    }

    /// Makes the found values the only valid ones: they are durable.
    pub(crate) fn settle(&mut self, found: &BTreeMap<String, u64>) {
        for (key, values) in &mut self.0 {
            *values = BTreeSet::from([found.get(key).copied()]);
        }
    }
}

/// Whether an object exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Certain,
    /// A fault interrupted its creation or removal.
    Doubtful,
}

/// Storage of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Local files, takes writes.
    Written,
    /// Local files, takes no writes.
    Sealed,
    /// Mounted from a snapshot of this name.
    Mounted(String),
}

#[derive(Debug, Clone)]
pub(crate) struct Index {
    pub(crate) docs: Docs,
    pub(crate) presence: Presence,
    pub(crate) kind: Kind,
    /// Whether its events belong to tenants.
    pub(crate) is_shared: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) indices: BTreeMap<String, (Docs, bool)>,
    pub(crate) presence: Presence,
}

/// State of all objects.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) indices: BTreeMap<String, Index>,
    pub(crate) snapshots: BTreeMap<String, Snapshot>,
    /// Index templates and their versions.
    pub(crate) templates: Docs,
}

impl Model {
    /// Returns the names of indices that certainly exist and match.
    pub(crate) fn names(&self, fits: impl Fn(&Index) -> bool) -> Vec<String> {
        let certain = self
            .indices
            .iter()
            .filter(|(_, index)| index.presence == Presence::Certain && fits(index));
        certain.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the names of snapshots that certainly exist.
    pub(crate) fn snapshot_names(&self) -> Vec<String> {
        let certain = self
            .snapshots
            .iter()
            .filter(|(_, snapshot)| snapshot.presence == Presence::Certain);
        certain.map(|(name, _)| name.clone()).collect()
    }

    /// An index was removed, or may have been.
    pub(crate) fn drop_index(&mut self, name: &str, is_certain: bool) {
        match is_certain {
            true => drop(self.indices.remove(name)),
            false => {
                if let Some(index) = self.indices.get_mut(name) {
                    index.presence = Presence::Doubtful;
                }
            }
        }
    }

    /// A snapshot was removed, or may have been.
    pub(crate) fn drop_snapshot(&mut self, name: &str, is_certain: bool) {
        match is_certain {
            true => drop(self.snapshots.remove(name)),
            false => {
                if let Some(snapshot) = self.snapshots.get_mut(name) {
                    snapshot.presence = Presence::Doubtful;
                }
            }
        }
    }
}
