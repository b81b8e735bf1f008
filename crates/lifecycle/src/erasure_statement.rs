//! Results for snapshots in the statement of a tenant's deletion.

use firn_engine::snapshot::RewrittenSnapshot;
use serde::{Deserialize, Serialize};

use crate::deletion::Deletion;

/// Maximum snapshots in a statement: it is part of the control file. An operator with more snapshots can delete them by
/// a pattern.
pub(crate) const SNAPSHOTS_NAMED_MAX: usize = 1000;

/// Snapshot that holds events of the tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemainingSnapshot {
    /// Its repository.
    pub repository: String,
    /// Its name.
    pub snapshot: String,
    /// Its indices with such events.
    pub indices: Vec<String>,
    /// Number of these events, as far as the snapshot states it.
    pub documents: u64,
    /// Whether this node may not change it.
    pub is_readonly: bool,
}

/// Results of the removal of the tenant's events from snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SnapshotsRewritten {
    /// Snapshots that held such events.
    pub snapshots: u64,
    /// Splits that were replaced by splits without such events; a split that snapshots share counts for each snapshot.
    pub splits_rewritten: u64,
    /// Splits that held only such events, counted in the same way.
    pub splits_dropped: u64,
    /// Documents of the tenant in them, including deleted ones, counted in the same way.
    pub documents: u64,
    /// Bytes of written splits.
    pub written_bytes: u64,
    /// Bytes of objects that were removed because no snapshot references them any more.
    pub removed_bytes: u64,
    /// The first of the rewritten snapshots.
    pub named: Vec<SnapshotRewritten>,
}

/// Snapshot that no longer holds events of the tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SnapshotRewritten {
    /// Its repository.
    pub repository: String,
    /// Its name.
    pub snapshot: String,
    /// Its indices that held such events.
    pub indices: Vec<String>,
    /// As in [`SnapshotsRewritten`]; the same for the next fields.
    pub splits_rewritten: u64,
    /// See above.
    pub splits_dropped: u64,
    /// See above.
    pub documents: u64,
}

impl SnapshotsRewritten {
    /// Returns whether no snapshot was rewritten.
    pub fn is_empty(&self) -> bool {
        self.snapshots == 0
    }
}

impl Deletion {
    /// Records that a repository may contain unreferenced objects from now on; false: already recorded.
    pub(crate) fn note_unswept(&mut self, repository: &str) -> bool {
        let is_new = !self.unswept.iter().any(|name| name == repository);
        if is_new {
            self.unswept.push(repository.to_owned());
        }
        is_new
    }

    /// Records that a snapshot holds nothing of the tenant any more.
    pub(crate) fn note_rewritten(&mut self, repository: &str, snapshot: &str, done: RewrittenSnapshot) {
        self.snapshots
            .retain(|left| (left.repository.as_str(), left.snapshot.as_str()) != (repository, snapshot));
        if done.indices.is_empty() {
            return;
        }
        let all = &mut self.snapshots_rewritten;
        all.snapshots += 1;
        all.splits_rewritten += done.splits_rewritten;
        all.splits_dropped += done.splits_dropped;
        all.documents += done.documents;
        all.written_bytes += done.written_bytes;
        all.removed_bytes += done.removed_bytes;
        if all.named.len() < SNAPSHOTS_NAMED_MAX {
            all.named.push(SnapshotRewritten {
                repository: repository.to_owned(),
                snapshot: snapshot.to_owned(),
                indices: done.indices,
                splits_rewritten: done.splits_rewritten,
                splits_dropped: done.splits_dropped,
                documents: done.documents,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_adds_up_what_was_rewritten() {
        let mut deletion = Deletion::default();
        for snapshot in ["a", "b", "c"] {
            deletion.snapshots.push(RemainingSnapshot {
                repository: "r".to_owned(),
                snapshot: snapshot.to_owned(),
                indices: vec!["logs".to_owned()],
                documents: 7,
                is_readonly: false,
            });
        }
        assert!(deletion.note_unswept("r") && !deletion.note_unswept("r"));
        let done = |documents| RewrittenSnapshot {
            indices: vec!["logs".to_owned()],
            splits_rewritten: 2,
            splits_dropped: 1,
            documents,
            written_bytes: 10,
            removed_bytes: 20,
        };
        deletion.note_rewritten("r", "a", done(7));
        deletion.note_rewritten("r", "b", done(5));
        // Another process was faster.
        deletion.note_rewritten("r", "c", RewrittenSnapshot::default());
        assert_eq!(deletion.snapshots, []);
        let all = &deletion.snapshots_rewritten;
        assert_eq!((all.snapshots, all.splits_rewritten, all.splits_dropped), (2, 4, 2));
        assert_eq!((all.documents, all.written_bytes, all.removed_bytes), (12, 20, 40));
        assert_eq!(all.named.len(), 2);
        let text = serde_json::to_string(&deletion).unwrap();
        assert_eq!(serde_json::from_str::<Deletion>(&text).unwrap(), deletion);
    }
}
