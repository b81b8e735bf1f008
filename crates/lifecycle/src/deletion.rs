//! Record of the deletion of a tenant: recorded before it starts, continued after a restart, and at its end a statement
//! of what was removed.

use std::sync::Arc;

use firn_engine::Capability;
use firn_model::Result;
use firn_model::tenant::{TenantId, TenantSettings};
use serde::{Deserialize, Serialize};

use crate::erasure_statement::{RemainingSnapshot, SnapshotsRewritten};

/// Progress and results of the deletion of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Deletion {
    /// Time of the request, ms since epoch UTC; the other times have the same unit.
    pub requested_ms: i64,
    /// Time when writes for the tenant were refused and its events were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<i64>,
    /// Time when nothing of the tenant remained, except what [`Deletion::unknown`] names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_ms: Option<i64>,
    /// Number of invalidated API keys.
    pub api_keys: u64,
    /// Number of removed users.
    pub users: u64,
    /// While it runs: all indices that hold events by tenant. At the end: the indices that held data of this tenant.
    pub indices: Vec<IndexDeletion>,
    /// Snapshots with events of the tenant, as of the last check. Those that remain at the end are in repositories that
    /// are read-only on this node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<RemainingSnapshot>,
    /// Places where that check could not read snapshots, and the reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots_unread: Vec<(String, String)>,
    /// Results for the rewritten snapshots.
    #[serde(default, skip_serializing_if = "SnapshotsRewritten::is_empty")]
    pub snapshots_rewritten: SnapshotsRewritten,
    /// Repositories that may contain objects with such events that no snapshot references.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unswept: Vec<String>,
    /// Time when no index held such events for the first time: snapshots that start later hold none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_ms: Option<i64>,
    /// What the engine could not tell or remove: for each missing capability a sentence that names it. The deletion
    /// says nothing about these things.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Error of the last attempt; the deletion is retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Index that holds or held events of the tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexDeletion {
    /// Its name.
    pub index: String,
    /// Number of events found in it.
    pub documents: u64,
    /// Number of these events that were already removed when more were found.
    #[serde(default)]
    pub earlier: u64,
    /// Whether it was closed, so that its number of events is unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncounted: bool,
    /// Segments with such events, including deleted ones, that were rewritten or dropped.
    #[serde(default)]
    pub segments: u32,
    /// State of the events.
    pub state: IndexState,
}

/// State of a tenant's events in an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexState {
    /// The events are not removed yet.
    Waiting,
    /// The events were removed; other tenants' events remain.
    Purged,
    /// The index was deleted. It was private to the tenant, or the tenant's writes created it and it held nothing of
    /// other tenants.
    Dropped,
}

impl Deletion {
    /// Returns whether nothing of the tenant remains, except what [`Deletion::unknown`] names.
    pub fn is_done(&self) -> bool {
        self.finished_ms.is_some()
    }

    /// Returns the number of events in finished indices.
    pub fn documents_removed(&self) -> u64 {
        let done = self.indices.iter().filter(|index| index.state != IndexState::Waiting);
        done.map(|index| index.documents).sum()
    }

    /// Records the number of events in an index. Events removed from it before are added. Repeated calls for a waiting
    /// index keep the maximum.
    pub fn note_found(&mut self, name: &str, documents: u64) {
        let Some(index) = self.indices.iter_mut().find(|index| index.index == name) else {
            self.indices.push(IndexDeletion {
                index: name.to_owned(),
                documents,
                earlier: 0,
                uncounted: false,
                segments: 0,
                state: IndexState::Waiting,
            });
            return;
        };
        if index.state != IndexState::Waiting {
            index.earlier = index.documents;
            index.state = IndexState::Waiting;
        }
        index.documents = index.documents.max(index.earlier + documents);
    }

    /// Records that an index is private to the tenant and closed: it is deleted with all its content.
    pub fn note_uncounted(&mut self, name: &str) {
        let is_new = !self.indices.iter().any(|index| index.index == name);
        self.note_found(name, 0);
        for index in self.indices.iter_mut().filter(|index| is_new && index.index == name) {
            index.uncounted = true;
        }
    }

    /// Records that the engine lacks a capability, so that the deletion cannot tell what remains there.
    pub(crate) fn note_unknown(&mut self, capability: Capability) {
        let sentence = capability.missing().reason().to_owned();
        if !self.unknown.contains(&sentence) {
            self.unknown.push(sentence);
        }
    }

    /// Returns the number of events found in an index.
    pub(crate) fn found_in(&self, name: &str) -> u64 {
        let index = self.indices.iter().find(|index| index.index == name);
        index.map_or(0, |index| index.documents)
    }

    /// Records the new state of an index.
    pub fn note_done(&mut self, name: &str, state: IndexState, segments: u32) {
        for index in self.indices.iter_mut().filter(|index| index.index == name) {
            index.state = state;
            index.segments += segments;
        }
    }

    /// Finishes the statement: removes indices that held nothing of the tenant.
    pub fn finish(&mut self, now_ms: i64) {
        self.finished_ms = Some(now_ms);
        self.indices
            .retain(|index| index.documents > 0 || index.segments > 0 || index.state == IndexState::Dropped);
    }
}

/// The durable records of tenants and their deletions, as far as lifecycles read and write them.
pub trait DeletionRecords: Send + Sync {
    /// Returns the declared tenants that are not being deleted, with their effective settings.
    fn settings_of_tenants(&self) -> Vec<(TenantId, TenantSettings)>;
    /// Returns the unfinished deletions, oldest first.
    fn deletions_under_way(&self) -> Vec<TenantId>;
    /// Returns the deletion of a tenant, running or finished; [`ErrorKind::ResourceNotFound`](firn_model::ErrorKind) if
    /// there was none.
    fn deletion(&self, id: &TenantId) -> Result<Arc<Deletion>>;
    /// Stores the progress of a deletion.
    fn note_deletion(&self, id: &TenantId, deletion: Deletion) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_says_where_something_was() {
        let mut deletion = Deletion::default();
        for (index, documents) in [("a", 5), ("b", 0), ("c", 0), ("own", 0)] {
            deletion.note_found(index, documents);
        }
        assert_eq!(deletion.documents_removed(), 0);
        deletion.note_done("a", IndexState::Purged, 2);
        // A write that was running when the tenant was closed.
        deletion.note_found("a", 1);
        assert_eq!(deletion.documents_removed(), 0, "not all of it is gone");
        // Counted again while something blocks the removal.
        deletion.note_found("a", 1);
        deletion.note_found("a", 0);
        deletion.note_done("a", IndexState::Purged, 1);
        deletion.note_done("b", IndexState::Purged, 1);
        deletion.note_done("c", IndexState::Purged, 0);
        deletion.note_done("own", IndexState::Dropped, 0);
        deletion.finish(7);
        assert!(deletion.is_done());
        assert_eq!(deletion.documents_removed(), 6);
        let named: Vec<(&str, u32)> = deletion
            .indices
            .iter()
            .map(|index| (index.index.as_str(), index.segments))
            .collect();
        // Nothing was found in `b`, but its files held deleted events.
        assert_eq!(named, [("a", 3), ("b", 1), ("own", 0)]);
        let text = serde_json::to_string(&deletion).unwrap();
        assert_eq!(serde_json::from_str::<Deletion>(&text).unwrap(), deletion);
    }

    #[test]
    fn an_index_that_was_not_counted_says_so() {
        let mut deletion = Deletion::default();
        deletion.note_found("counted", 3);
        // Closed later.
        deletion.note_uncounted("counted");
        deletion.note_uncounted("closed");
        deletion.note_uncounted("closed");
        let uncounted: Vec<(u64, bool)> = deletion
            .indices
            .iter()
            .map(|index| (index.documents, index.uncounted))
            .collect();
        assert_eq!(uncounted, [(3, false), (0, true)]);
        let text = serde_json::to_string(&deletion).unwrap();
        assert_eq!(serde_json::from_str::<Deletion>(&text).unwrap(), deletion);
    }

    #[test]
    fn a_statement_names_what_the_engine_could_not_tell() {
        let mut deletion = Deletion::default();
        deletion.note_unknown(Capability::SnapshotErasure);
        deletion.note_unknown(Capability::SnapshotErasure);
        deletion.finish(7);
        assert_eq!(deletion.unknown.len(), 1);
        assert!(deletion.unknown[0].contains("[snapshot_erasure]"), "{deletion:?}");
        let text = serde_json::to_string(&deletion).unwrap();
        assert_eq!(serde_json::from_str::<Deletion>(&text).unwrap(), deletion);
    }
}
